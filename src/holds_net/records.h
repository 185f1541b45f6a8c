// Sessions and lives in the key-value store (docs/formats/holds.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/engine.h"
#include "penstock/holds.h"

namespace penstock::holds_net {

inline constexpr char kKeyPrefix = 'H';

// A session of a node that has not gone: targets may have something of it, or its lease may run.
struct SessionRecord {
  uint64_t session = 0;
  bool has_ended = false;
  friend bool operator==(const SessionRecord&, const SessionRecord&) = default;
};
struct NodeRecord {
  uint64_t latest = 0;                  // that was begun; no other gets that number
  std::vector<SessionRecord> sessions;  // in the order of their numbers
  friend bool operator==(const NodeRecord&, const NodeRecord&) = default;
};

std::string key_of_life();
std::string key_of(NodeId node);
std::optional<NodeId> node_of(std::string_view key);

std::string encode_life(uint16_t life);
std::string encode(const NodeRecord& record);
Result<uint16_t> decode_life(std::string_view bytes);
Result<NodeRecord> decode_node(std::string_view bytes);

// ---- in a transaction ----

Result<NodeRecord> get(engine::KvTransaction& transaction, NodeId node);
// What a session that is to begin finds: stale, and the number that may; or it is recorded.
struct Begun {
  Status status;
  uint64_t next = 0;
};
Result<Begun> begin(engine::KvTransaction& transaction, holds::AgentId agent);
Status end(engine::KvTransaction& transaction, holds::AgentId agent);
Status forget(engine::KvTransaction& transaction, holds::AgentId agent);

// All that a new life begins with, and its number: wrong_version where there is none left.
using NodeRecords = std::vector<std::pair<NodeId, NodeRecord>>;
struct Records {
  uint16_t life = 0;
  NodeRecords nodes;
};
Result<Records> begin_life(engine::KvTransaction& transaction);
std::vector<holds::AgentId> sessions_of(const NodeRecords& nodes);

}  // namespace penstock::holds_net
