// Lengths that are set: only here does a file become shorter.
#pragma once

#include "inode_loader.h"
#include "live_attributes.h"

namespace penstock::client {

// A cut of a file of which anything may be on stable storage is durable itself. First the new
// length, recorded without a write session: a power cut before leaves the old file, and after it
// the recorded length counts and not the end of the data. Then the removal in the targets, before
// any longer length can be recorded: bytes that were cut never come back. What is left behind by a
// crash in between is removed when the file is next opened for writing (InodeLoader::know_tail).
// Where chunks on other chains may go, the record says all the while that blocks may lie beyond the
// end: if the file is removed after a crash in between, all its chains are asked (decision 0047).
//
// Thread safe for different inodes; has no data of its own. Wants the inode's control lock held,
// closes its write gate meanwhile, and blocks on meta and the targets.
class Cuts {
 public:
  Cuts(Core& core, InodeLoader& loader, LiveAttributes& live)
      : core_(core), loader_(loader), live_(live) {}

  // `changes` have a length. Returns the attributes as they are then.
  Result<Attributes> set_length(Inode& inode, const Credentials&,
                                const meta::SetAttributes& changes);

 private:
  struct Cut {
    uint64_t length = 0;
    uint64_t before = 0;
    bool promised = false;  // something of the file may be on stable storage
    bool spread = false;    // other chains than the first chunk's may have some of it
    bool shrinks() const { return length < before; }
  };
  Result<Attributes> record(Inode& inode, const Credentials&, const meta::SetAttributes& changes,
                            const Cut& cut);
  Status sync(Inode& inode);
  bool knows_chunks(const Inode& inode);
  Status remove_beyond(Inode& inode, const Cut& cut);
  Status note_removed(Inode& inode, const Cut& cut, const Attributes& set);

  Core& core_;
  InodeLoader& loader_;
  LiveAttributes& live_;
};

}  // namespace penstock::client
