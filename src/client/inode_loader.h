// Brings the shared state of an inode to what meta and the targets know.
#pragma once

#include "core.h"

namespace penstock::client {

// Only regular files are opened here; the kernel serves pipes and devices itself.
Status check_regular(meta::FileType type);

// Closes the inode's write gate and returns when no writer is inside any more; WriteGate::open()
// ends it. Blocks. With the control lock held, which makes the caller the only one that closes.
void close_gate(Core& core, Inode& inode);

// Thread safe for different inodes; has no data of its own. Everything wants the inode's control
// lock held, and may block on the targets.
class InodeLoader {
 public:
  explicit InodeLoader(Core& core) : core_(core) {}

  // Takes over what meta has recorded: once in the life of an Inode, before its first use.
  // `unnamed`: it has no link yet, and that is as it should be.
  Status load(Inode& inode, const Attributes& attributes, bool unnamed);
  // Takes it over again, as other agents may have changed it since: nobody runs under a hold of it.
  // What concerns this process stays: users, watchers, losses, and all that only counts up.
  Status reload(Inode& inode, const Attributes& attributes);
  // Time of access only, which may be set later, too.
  void load_accessed(Inode& inode, const Attributes& attributes);

  // Before a file grows: bytes that an earlier life of the process left behind the end would appear
  // in it. They are gone for good before a write session may trust the targets for the length.
  Status know_tail(Inode& inode);
  // After the last writer: writes that overtook each other left no hole, if it finds none. What was
  // sparse before is not looked at again.
  void know_density(Inode& inode);

 private:
  void take_over(Inode& inode, const Attributes& attributes);

  Core& core_;
};

}  // namespace penstock::client
