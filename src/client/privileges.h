// Set-id bits and security.capability, which writes take from a file (decision 0030).
#pragma once

#include "closer.h"

#include <functional>

namespace penstock::client {

// Thread safe; has no data of its own: see Inode::privilege_changes. No bytes of a file change
// while it is given some, and every write that comes later takes them.
class Privileges {
 public:
  Privileges(Core& core, Closer& closer) : core_(core), closer_(closer) {}

  // Does what gives a file some. Holds the inode's control lock meanwhile.
  Status giving(InodeId id, const std::function<Status()>& apply);
  // With the control lock held. Before what gives a file some; WriteGate::open() ends it.
  void begin_giving(Inode& inode);
  // With the control lock held. Takes what a write takes, before the bytes of a file change.
  // `writer` as IoOp::writer.
  Status take_for(const OpenFile& file, const FileWriter* writer);

 private:
  Core& core_;
  Closer& closer_;
};

}  // namespace penstock::client
