// Ends opens, and other uses of an inode.
#pragma once

#include "inode_loader.h"

namespace penstock::client {

class HeldInodes;

// Thread safe; has no data of its own. Takes the inode's control lock, and may block on meta and
// the targets while it holds it.
class Closer {
 public:
  Closer(Core& core, HeldInodes& held, InodeLoader& loader)
      : core_(core), held_(held), loader_(loader) {}

  // Settles length and times if `file` was open for writing. The reference must be its last user's.
  Status close(FileRef file);
  // Undoes one InodeTable::acquire() by a writer that was counted in Inode::writers: records what
  // it has changed, and reports what went wrong since the last writer left. What could not be
  // recorded is tried again, as long as the session lasts in which it was changed.
  Status give_back_writer(const std::shared_ptr<Inode>& inode);
  // Undoes one InodeTable::acquire() by any other user.
  void give_back(const std::shared_ptr<Inode>& inode);
  // The opens that were dropped without close().
  void give_back_dropped();

 private:
  void give_back_later(const std::shared_ptr<Inode>& inode);

  Core& core_;
  HeldInodes& held_;
  InodeLoader& loader_;
};

}  // namespace penstock::client
