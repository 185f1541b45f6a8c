// Attributes as they are at this moment: what meta has recorded, with what only this process knows.
#pragma once

#include "core.h"
#include "held.h"

namespace penstock::client {

// Thread safe; has no data of its own. May block on meta and targets; takes no inode's control
// lock, so that a stat never waits for a cut or a sync of the file.
class LiveAttributes {
 public:
  LiveAttributes(Core& core, HeldInodes& held) : core_(core), held_(held) {}

  // Of one inode.
  Result<Attributes> of(InodeId inode);
  // The same for a record that was read from meta already, after `drops_before` was read from
  // InodeTable::drops().
  Result<Attributes> merged(Result<Attributes> found, uint64_t drops_before);

  // Length and times of an inode in use.
  void merge(Attributes& attributes, const Inode& inode) const;
  // Finds out what a file takes up; asks the targets if it may have holes.
  void fill_allocated(Attributes& attributes);

 private:
  bool is_true_of_all(const Attributes& found, uint64_t drops_before) const;
  Result<Attributes> merged_locally(Result<Attributes> found, uint64_t drops_before);

  Core& core_;
  HeldInodes& held_;
};

}  // namespace penstock::client
