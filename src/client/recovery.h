// What a dead process left: files whose length was not recorded, and removed files.
#pragma once

#include "core.h"

namespace penstock::client {

// Before anything else uses the file system; blocks. May be run again after it has failed.
class Recovery {
 public:
  explicit Recovery(Core& core) : core_(core) {}
  Outcome<void> run();
  // Files with a write session on record that no living agent has: all, or one.
  Outcome<void> settle_all();
  Status settle(InodeId id);

 private:
  Outcome<void> count_orphans();

  Core& core_;
};

}  // namespace penstock::client
