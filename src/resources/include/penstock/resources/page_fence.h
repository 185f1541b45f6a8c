// Keeps this process from making pages of memory that belongs to others. The process that
// touches a page of shared memory first makes it, and pays for it: an application that shared
// memory without pages would have the agent pay, for as long as the application keeps that memory.
// Behind a fence the kernel answers such a touch as it answers one of truncated memory: SIGBUS
// (bus_guard.h), or EFAULT where the kernel itself touches it.
#pragma once

#include "penstock/base.h"

namespace penstock::resources {

// Thread safe.
class PageFence {
 public:
  // Makes the process's fence if the kernel lets it (userfaultfd), once. Without it, enclose() does
  // nothing.
  static void install();
  static bool is_up();
  // From now until it is unmapped, no page of the mapping is made here. It begins and ends with
  // pages of the mapping. False: it is not fenced.
  static bool enclose(MutableBytes mapping);
};

}  // namespace penstock::resources
