// Small files as they were just written.
#pragma once

#include <list>
#include <memory>
#include <unordered_map>

#include "penstock/inodes/inode.h"

namespace penstock::inodes {

// Copies of small files that a mount has just written to the targets, as whole files: the next that
// a program does with one is to read it, and a kernel asks us for that first read, as the time of
// access changes. Each is forgotten as soon as a change of the file's bytes begins, whoever makes
// it; so only where no other node changes them. The oldest go when there are too many.
//
// Thread safe; one lock, under which nothing waits. Of changes it learns by Observers::begin().
class RecentBytes {
 public:
  // How many changes of an inode's bytes have begun, where none is under way.
  static std::optional<uint64_t> quiet_changes(const Inode& inode);
  // What a write has brought to the targets, which was the only change since `quiet_before` was
  // asked for; else it is not kept. `bytes` are the file from its first on.
  void keep(Inode& inode, uint64_t quiet_before, std::span<const std::byte> bytes);
  // Copies what the file has from `offset` on, all of it or nothing. False: it is not here. What is
  // read to its end is forgotten: who reads keeps it.
  bool read(const Inode& inode, uint64_t offset, MutableBytes into);
  // A change of the inode has begun, and is counted.
  void changing(Inode& inode);

  uint64_t bytes() const;

 private:
  struct Kept {
    std::unique_ptr<std::byte[]> bytes;
    uint64_t length = 0;
    std::list<InodeId>::iterator place;
  };
  using Found = std::unordered_map<InodeId, Kept>::iterator;
  // With the lock.
  void drop(InodeId inode);
  void erase(Found found);

  // Relaxed: whether it is worth looking. A reader that misses one asks the targets.
  std::atomic<uint64_t> count_{0};
  mutable engine::Mutex mutex_;
  std::unordered_map<InodeId, Kept> kept_;
  std::list<InodeId> order_;  // the oldest first
  uint64_t bytes_ = 0;
};

}  // namespace penstock::inodes
