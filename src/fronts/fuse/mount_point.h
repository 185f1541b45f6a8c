// What can be known about a mount point before and after, and how to unmount.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "penstock/base.h"

namespace penstock::fuse {

// One line of /proc/self/mountinfo.
struct MountedAt {
  std::string path;
  std::string type;
  std::string source;
  dev_t device = 0;
};

// All mounts of this process's namespace, in mount order.
std::vector<MountedAt> mounted();
// The topmost one at exactly `path`.
std::optional<MountedAt> mounted_at(const std::string& path);

// Absolute and without symbolic links, also when the last component is a mount whose process has
// died.
std::string canonical(const std::string& path);

// Whether a mount can be made there; the canonical path, or a Failure that says what to do.
Outcome<std::string> check_mount_point(const std::string& path, bool allow_other);

// One attempt. in_use when files are open there.
Status unmount_once(const std::string& path, bool lazy);

}  // namespace penstock::fuse
