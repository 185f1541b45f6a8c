// What a node with disks has beneath its file system: the directory of its store, the databases,
// the targets and the namespace.
#pragma once

#include "names_home.h"
#include "node_shard.h"
#include "store_directory.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/agent.h"
#include "penstock/kv.h"
#include "penstock/meta.h"
#include "penstock/store.h"

namespace penstock::agent {

struct StoredTarget {
  std::unique_ptr<engine::Kv> kv;
  std::unique_ptr<store::Target> target;
};
// Where the store of a target lies.
struct TargetPlace {
  TargetId id;  // what its store is called by
  std::string directory;
  std::string data;
  std::string kv;
  bool create = false;
  uint64_t capacity_bytes = 0;
};
// Of a target in the store's own directory.
TargetPlace place_of(const StoreDirectory& directory, uint32_t target);
// The target of a shard, which has a disk and does not run yet.
Outcome<StoredTarget> open_target(const TargetPlace& place, NodeShard& shard, bool defragment);

// Made and taken apart by the thread that starts the node. A target belongs to its shard's thread
// while that runs.
class Storage {
 public:
  // Takes the directory for this process, and opens the database of what the roles keep, if they
  // keep anything. No roles: of a store that is alone.
  static Outcome<std::unique_ptr<Storage>> open(const AgentConfig& config, uint8_t roles);
  // The shards have stopped and call nothing any more, but still exist. What was made of a new
  // store that was not finished is removed.
  ~Storage();

  const StoreDirectory& directory() const { return *directory_; }
  // Targets in the directory itself, which have the numbers from 0 on.
  uint32_t own_targets() const { return directory_->superblock().shards; }

  // The target of the next shard, which has a disk and does not run yet.
  Outcome<void> add_target(NodeShard& shard, const TargetPlace& place, bool defragment);
  // The next shard has none.
  void add_no_target(const NodeShard& shard);
  // What answers the chunk calls of clients for it; of a shard that has a target.
  engine::Service& service(uint32_t shard) {
    ASSERT(shard < targets_.size() && targets_[shard].service != nullptr);
    return *targets_[shard].service;
  }
  // The same for agents of other nodes, of a target in the directory itself; ends before this.
  std::unique_ptr<engine::Service> make_service_for_others(uint32_t shard);
  // Null: the shard has none.
  store::Target* target(uint32_t shard) {
    ASSERT(shard < targets_.size());
    return targets_[shard].target.get();
  }
  const std::string& target_directory(uint32_t shard) const {
    ASSERT(shard < targets_.size());
    return targets_[shard].directory;
  }

  // The database of names, and of the controller's records.
  engine::Kv& meta_kv() {
    ASSERT(names_ != nullptr);
    return names_->kv();
  }
  Outcome<void> open_meta(uint64_t cache_bytes, std::function<meta::Capacity()> capacity,
                          std::function<bool(const meta::Layout&)> reaches);
  bool has_meta() const { return meta_ != nullptr; }
  meta::Meta& meta() {
    ASSERT(meta_ != nullptr);
    return *meta_;
  }
  // Null: it has neither. Its calls are thread safe.
  NamesHome* names() { return names_.get(); }
  // As Agent::checkpoint_meta(). Thread safe.
  Outcome<void> checkpoint_meta();
  // Records what the namespace keeps in memory. No call comes any more.
  void close_meta();

  // Everything is in place: from now on the directory is a store.
  Outcome<void> finish_making();

 private:
  struct Target : StoredTarget {
    std::unique_ptr<engine::Service> service;
    std::string directory;
  };

  Storage() = default;

  std::unique_ptr<StoreDirectory> directory_;
  std::unique_ptr<NamesHome> names_;
  std::unique_ptr<meta::Meta> meta_;
  std::vector<Target> targets_;
  std::mutex checkpoint_mutex_;
};

}  // namespace penstock::agent
