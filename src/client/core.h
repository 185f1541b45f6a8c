// What the objects behind a FileSystem share.
#pragma once

#include <atomic>
#include <memory>

#include "penstock/client.h"
#include "penstock/inodes.h"

namespace penstock::client {

using inodes::AccessTimesNoted;
using inodes::DropQueue;
using inodes::Gathered;
using inodes::Inode;
using inodes::InodeTable;
using inodes::Lengths;
using inodes::Observers;
using inodes::Placement;
using inodes::RoomRequest;
using inodes::TargetCalls;
using inodes::WriteBehind;
using inodes::WriteGate;
using inodes::WrittenIds;

// Also for attributes that are at hand.
using inodes::access_is_due;
using inodes::kSetIdBits;

// Each part is thread safe and locks for itself. Order of locks: an inode's `control`, then
// `behind.mutex` of the same inode, then any lock within a part. What is done with several parts,
// and in which order, is the business of the objects that are given a Core: each of these has one
// purpose, and holds only the data of that purpose.
struct Core {
  Core(meta::Meta& to_meta, FileSystemConfig with, WriteBehind::Put put, WriteBehind::Lost lost)
      : meta(to_meta),
        config(std::move(with)),
        table(config.holding),
        lengths(meta),
        accesses(meta),
        targets(config),
        written_ids(meta, targets, config.written_ids_step),
        behind(config, std::move(put), std::move(lost)) {}

  const engine::Clock& clock() const { return config.shards.front().loop->clock(); }
  meta::FileTime now() const { return clock().wall(); }
  bool is_good(const meta::Layout& layout) const {
    return Placement::is_good(layout, *config.chains);
  }
  bool is_limited() const { return config.is_limited && config.is_limited(); }
  // Whoever has the names is told, where it wants to hear of it, that a file is used so (a sum of
  // meta::Access). May block.
  Status begin_use(const meta::Credentials& who, InodeId inode, uint32_t wanted) const {
    return wanted != 0 && is_limited() ? config.access(who, inode, wanted) : Status();
  }
  // The lease of its session is over: nobody answers, as far as is known, who has the names.
  bool is_alone() const {
    return config.holding != nullptr && config.holding->lease_left() <= engine::Duration::zero();
  }
  Status check_open() const {
    return closed.load(std::memory_order_relaxed) ? Code::closed : Code::ok;
  }

  meta::Meta& meta;
  const FileSystemConfig config;
  // References to open files may outlive the file system, and end here.
  const std::shared_ptr<DropQueue> drops = std::make_shared<DropQueue>();
  InodeTable table;
  Observers observers;
  Lengths lengths;
  AccessTimesNoted accesses;
  TargetCalls targets;
  WrittenIds written_ids;
  WriteBehind behind;
  // Relaxed: calls that overtake close() are as good as earlier ones.
  std::atomic<bool> closed{false};
};

}  // namespace penstock::client
