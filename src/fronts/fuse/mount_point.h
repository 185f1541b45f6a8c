// What can be known about a mount point before and after, and how to unmount.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/base.h"
#include "penstock/fuse.h"

namespace penstock::fuse {

// Absolute and without symbolic links, also when the last component is a mount whose process has
// died.
std::string canonical(const std::string& path);

// What there is of a mount of ours whose process has died.
enum class DeadMount : uint8_t {
  none,
  stands,   // what opens a file there gets ENOTCONN
  removed,  // what opens a file there gets one in the directory below
};

// Removes the mounts of `source` at `path` whose process has died, all of them.
DeadMount remove_dead_mounts(const std::string& path, const std::string& source);

// The same before a new mount, for the process that serves the source: where it may mount over the
// last of them, as root, that one stands until then.
DeadMount make_room(const std::string& path, const std::string& source);

// Whether a mount can be made there; the canonical path, or a Failure that says what to do. Where a
// dead one has been removed, a program may have written to the bare directory.
Outcome<std::string> check_mount_point(const std::string& path, const MountOptions& options,
                                       DeadMount dead);

// One attempt. in_use when files are open there.
Status unmount_once(const std::string& path, bool lazy);

}  // namespace penstock::fuse
