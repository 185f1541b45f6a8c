// What a controller keeps in the Kv, as bytes. Format: docs/formats/controller.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "penstock/controller/step.h"

namespace penstock::controller {

inline constexpr uint8_t kRecordVersion = 1;

// All keys of a controller begin with this byte, and end before the next.
inline constexpr char kKeyPrefix = 'M';

enum class RecordKind : char {
  lease = 'L',
  root = 'R',
  node = 'N',
  target = 'T',
  table = 'B',
  chain = 'C',
  key = 'I',          // of a node
  token = 'K',        // numbers of those that have gone are missing
  fence = 'F',        // of a node of which a session was fenced
  restriction = 'X',  // of a node that is, or was, limited
  signing_key = 'S',  // those that count no more have gone
};

// `id` is 0 for the lease and the root, of which there is one each.
std::string key_of(RecordKind kind, uint32_t id = 0);

// Who may commit, and since when: each renewal counts `renewals` up.
struct LeaseRecord {
  uint64_t epoch = 0;  // grows with each controller that takes over
  Uuid holder;         // a process; all zeros after an orderly end
  uint64_t renewals = 0;

  friend bool operator==(const LeaseRecord&, const LeaseRecord&) = default;
};

// How many of the others there are, so that none can be missing unnoticed.
struct RootRecord {
  Uuid cluster;
  MapVersion version;
  uint32_t nodes = 0;
  uint32_t targets = 0;
  uint32_t tables = 0;
  uint32_t chains = 0;

  friend bool operator==(const RootRecord&, const RootRecord&) = default;
};
RootRecord root_of(const State& state);

// Records have the limits of limits.h: who puts facts of others into a state sees to that first.
bool is_storable(const NodeFacts& facts);

std::string encode(const LeaseRecord& lease);
std::string encode(const RootRecord& root);
std::string encode(const Node& node);
std::string encode(const Target& target);
std::string encode(const Table& table);
std::string encode(const Chain& chain);
std::string encode(const KeyPrint& key);
std::string encode(const Token& token);
std::string encode(const Fenced& fenced);
std::string encode(const Restricted& restricted);
std::string encode(const SigningKey& key);

// wrong_version for a record of a later version, corrupt for anything else that encode() does not
// make, to the last byte. The id of a record is in its key.
Result<LeaseRecord> decode_lease(std::string_view bytes);
Result<RootRecord> decode_root(std::string_view bytes);
Result<Node> decode_node(NodeId id, std::string_view bytes);
Result<Target> decode_target(TargetId id, std::string_view bytes);
Result<Table> decode_table(TableId id, std::string_view bytes);
Result<Chain> decode_chain(ChainId id, std::string_view bytes);
Result<KeyPrint> decode_key(std::string_view bytes);
Result<Token> decode_token(TokenId id, std::string_view bytes);
Result<Fenced> decode_fenced(NodeId id, std::string_view bytes);
Result<Restricted> decode_restricted(NodeId id, std::string_view bytes);
Result<SigningKey> decode_signing_key(SigningKeyId id, std::string_view bytes);

// All records of a controller in the order of their keys, put together to a state. `begin()` comes
// after finish().
class StateLoader {
 public:
  // Whether the record was taken; else what is wrong with it.
  Status add(std::string_view key, std::string_view bytes);
  // corrupt if something is missing, or does not fit the rest.
  Result<State> finish();

 private:
  Status add(RecordKind kind, uint32_t id, std::string_view bytes);

  std::map<NodeId, KeyPrint> keys_;
  State state_;
  RootRecord root_;
  bool has_root_ = false;
};

}  // namespace penstock::controller
