// Records of removed chunks: when they may go, and how.
#pragma once

#include "shared.h"

#include <deque>
#include <vector>

namespace penstock::chain {

// A removed chunk keeps its name, so that a late message about it is told apart from one about what
// comes after. The head lets a name go (decision 0044, "Tombstones")
// - by an update of its own, in a version that began after the removal was committed at it: no
//   message of this version tells of anything that came before the removal;
// - if no slot's last request was for the chunk: repair copies slots with their chunks;
// - and if none is syncing: a late copy of repair would bring the name back.
// It goes through all chunks once in each such version, slowly. Owned by the replica's loop.
class Tombstones {
 public:
  explicit Tombstones(Core& core) : core_(core) {}

  // A new version: nothing goes on of what was begun before.
  void part_changed();
  // The replica is active, and has this pending.
  void activated(const std::vector<wire::PendingEntry>& pending);

  // As the syncing one: in this version the chunk has lost its name, and repair, which has passed
  // it, sends nothing new of it.
  bool were_dropped(const store::ChainChunk& at) const { return dropped_.contains(at); }
  void note_dropped(const store::ChainChunk& at);

 private:
  void next_list();
  void take_list(const std::vector<store::ListEntry>& entries);
  bool may_go(const store::ListEntry& entry) const;
  void drop_some();

  Core& core_;
  std::set<ChunkId> inherited_;  // had something pending when the version began
  store::ChainChunk cursor_;
  bool is_last_ = false;  // there is nothing behind the cursor
  std::deque<store::ListEntry> due_;
  size_t under_way_ = 0;
  std::set<store::ChainChunk> dropped_;
};

}  // namespace penstock::chain
