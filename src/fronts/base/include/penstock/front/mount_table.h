// Which mounts are ours, and where in them a path lies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "penstock/base.h"

namespace penstock::front {

// Whether a mount of this type is one of ours: also one that was made to look like 3FS's.
bool is_our_type(std::string_view type);

// `path` without symbolic links, "." and "..", as far as it exists; what does not exist is appended
// as it stands. Empty for an empty path or when not even the working directory is known.
std::string canonical_path(std::string_view path);

// The mount point of ours that `path` lies in, or nothing.
std::optional<std::string> mount_point_of(std::string_view path);

// The mount point of our mount with this device number, or nothing.
std::optional<std::string> mount_point_of(dev_t device);

// What a file's mount is known by. The next mount may get the same device number; the other number
// is never given again, but older kernels (before Linux 6.8) have none: 0.
struct MountNumbers {
  dev_t device = 0;
  uint64_t unique = 0;
};

// Of the mount that the file, or what is at `path`, is on. No file server is asked. A positive
// errno.
Result<MountNumbers, int> mount_numbers(int fd);
Result<MountNumbers, int> mount_numbers(const std::string& path);

// Whether `fd` is of a file in a mount of ours; the mount's numbers then.
std::optional<MountNumbers> mount_of_descriptor(int fd);

}  // namespace penstock::front
