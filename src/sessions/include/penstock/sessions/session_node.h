// The node as its sessions see it, and what a session asks of its host.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/client.h"
#include "penstock/engine.h"
#include "penstock/node_cache.h"
#include "penstock/rails.h"
#include "penstock/resources.h"
#include "penstock/serving.h"
#include "penstock/sessions/handle_table.h"
#include "penstock/sessions/mount_table.h"
#include "penstock/sessions/region_links.h"
#include "penstock/sessions/token.h"
#include "penstock/wire.h"

namespace penstock::sessions {

// A shard, as sessions see it. All pointers outlive the sessions.
struct SessionShard {
  engine::Loop* loop = nullptr;
  client::Client* client = nullptr;
  engine::Parker* parker = nullptr;
  node_cache::ShardFills* fills = nullptr;  // null: there is no cache
  serving::RingServer rings;                // in the loop for as long as there are sessions
};

// What sessions share. Filled by the assembly before the first session; thread safe from then on,
// and outlives them.
struct SessionNode {
  client::FileSystem* files = nullptr;
  std::vector<std::unique_ptr<SessionShard>> shards;
  resources::RegisteredBuffers buffers;
  const rails::Announcements* network = nullptr;  // null: there are no cards that know memory
  std::shared_ptr<resources::Accounts> accounts;
  node_cache::NodeCache* cache = nullptr;  // null: there is none
  // What a user's sessions may have together. What it returns outlives the sessions.
  std::function<client::Terms&(uint32_t uid)> user_terms;
  // What the agent speaks.
  wire::Protocol protocol = wire::kProtocol;
  TokenMaker tokens{{0, 0}};
  MountTable mounts;
  NodeLinks links;
  HandleTable handles;
  engine::RepeatedLog log;
  // Rings go to the shards in turn; relaxed: any order will do.
  std::atomic<uint32_t> next_shard{0};
};

// What a session asks of the part that carries its packets. Any thread; must not block.
class SessionHost {
 public:
  virtual ~SessionHost() = default;
  // Begins the session's end.
  virtual void end_session(uint64_t id) = 0;
  // From now on a write to `eventfd` wakes that shard, whose own parker cannot wait for it. Until
  // forget(), after which it may be closed.
  virtual Status watch(int eventfd, uint32_t shard) = 0;
  virtual void forget(int eventfd) = 0;
};

}  // namespace penstock::sessions
