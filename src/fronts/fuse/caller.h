// What a process that calls may do besides what its user may.
#pragma once

#include <sys/types.h>

namespace penstock::fuse {

// Whether the kernel lets it change files of that owner and group as if they were its own: it has
// a capability for that, in a user namespace that knows both. False if it cannot be looked at (it
// has ended, or is in another process namespace). Thread safe.
bool may_act_as_owner(pid_t caller, uid_t owner, gid_t group);

}  // namespace penstock::fuse
