// What can be known about a mount point before and after, and how to unmount.
#pragma once

#include <string>

#include "penstock/base.h"
#include "penstock/fuse.h"

namespace penstock::fuse {

// Absolute and without symbolic links, also when the last component is a mount whose process has
// died.
std::string canonical(const std::string& path);

// Removes the mounts of `source` at `path` whose process has died. The caller serves the source, so
// that no other process does. Whether there were any.
bool remove_dead_mounts(const std::string& path, const std::string& source);

// Whether a mount can be made there; the canonical path, or a Failure that says what to do. Where
// one of ours has just been removed (`was_ours`), a program may have written to the bare directory.
Outcome<std::string> check_mount_point(const std::string& path, const MountOptions& options,
                                       bool was_ours);

// One attempt. in_use when files are open there.
Status unmount_once(const std::string& path, bool lazy);

}  // namespace penstock::fuse
