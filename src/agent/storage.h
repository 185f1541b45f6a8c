// What a node with disks has beneath its file system: the directory of its store, the databases,
// the targets and the namespace.
#pragma once

#include "node_shard.h"
#include "store_directory.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/agent.h"
#include "penstock/kv.h"
#include "penstock/meta.h"
#include "penstock/store.h"

namespace penstock::agent {

// Made and taken apart by the thread that starts the node. A target belongs to its shard's thread
// while that runs.
class Storage {
 public:
  // Takes the directory for this process, and opens the namespace's database.
  static Outcome<std::unique_ptr<Storage>> open(const AgentConfig& config);
  // The shards have stopped and call nothing any more, but still exist. What was made of a new
  // store that was not finished is removed.
  ~Storage();

  const StoreDirectory& directory() const { return *directory_; }
  uint32_t shard_count() const { return directory_->superblock().shards; }

  // The target of the next shard, which has a disk and does not run yet.
  Outcome<void> add_target(NodeShard& shard, bool defragment);
  // What answers the chunk calls of clients for it.
  engine::Service& service(uint32_t shard) {
    ASSERT(shard < targets_.size());
    return *targets_[shard].service;
  }
  store::Target& target(uint32_t shard) {
    ASSERT(shard < targets_.size());
    return *targets_[shard].target;
  }

  Outcome<void> open_meta(uint64_t cache_bytes, std::function<meta::Capacity()> capacity);
  meta::Meta& meta() {
    ASSERT(meta_ != nullptr);
    return *meta_;
  }
  // Records what the namespace keeps in memory. No call comes any more.
  void close_meta();

  // Everything is in place: from now on the directory is a store.
  Outcome<void> finish_making();

 private:
  struct Target {
    std::unique_ptr<engine::Kv> kv;
    std::unique_ptr<store::Target> target;
    std::unique_ptr<engine::Service> service;
  };

  Storage() = default;

  std::unique_ptr<StoreDirectory> directory_;
  std::unique_ptr<engine::Kv> meta_kv_;
  std::unique_ptr<meta::Meta> meta_;
  std::vector<Target> targets_;
};

}  // namespace penstock::agent
