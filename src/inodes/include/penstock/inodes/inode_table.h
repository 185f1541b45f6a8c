// The inodes that are open or watched.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "penstock/inodes/inode.h"
#include "penstock/inodes/limits.h"

namespace penstock::inodes {

// Thread safe.
class InodeTable {
 public:
  // `holding`: who has to know what is in use; null: nobody.
  explicit InodeTable(holds::Holding* holding) : holding_(holding) {}

  // The inode's shared state, counted as one user until release().
  std::shared_ptr<Inode> acquire(InodeId id);
  void release(const std::shared_ptr<Inode>& inode);
  // The state of an inode in use, for a look at it; else null.
  std::shared_ptr<Inode> peek(InodeId id) const;
  // Counts inodes that went out of use. A caller that read a record from meta and then finds no
  // user of the inode must read again if this has changed: the last user may have settled in
  // between.
  uint64_t drops() const { return drops_.load(std::memory_order_acquire); }

  bool is_open(InodeId id) const;
  // Marks an inode whose last name is gone. True if it has users.
  bool mark_unlinked(InodeId id);
  uint64_t open_count() const;
  // What is in use, or watched.
  std::vector<InodeId> all() const;
  // All inodes in use, each counted as by acquire().
  std::vector<std::shared_ptr<Inode>> acquire_all();

  void watch(InodeId id, uint32_t observer_bit);
  void unwatch(InodeId id, uint32_t observer_bit);
  void unwatch_all(uint32_t observer_bit);
  uint32_t watchers(InodeId id) const;

 private:
  struct Entry {
    std::shared_ptr<Inode> inode;
    uint64_t users = 0;
    uint32_t watchers = 0;
    bool is_needed() const { return users > 0 || watchers != 0; }
  };
  struct Shard {
    mutable engine::Mutex mutex;
    std::unordered_map<InodeId, Entry> entries;
  };

  Shard& shard_of(InodeId id) { return shards_[mix64(id.value) % shards_.size()]; }
  const Shard& shard_of(InodeId id) const { return shards_[mix64(id.value) % shards_.size()]; }

  holds::Holding* const holding_;
  std::array<Shard, limits::kTableShards> shards_;
  std::atomic<uint64_t> drops_{0};  // release, under the shard's mutex, pairs with drops()
};

}  // namespace penstock::inodes
