// The mounts of this process, as the kernel tells them in /proc/self/mountinfo (proc(5)).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace penstock {

// The type of our own mounts.
inline constexpr const char* kMountType = "fuse.penstock";

struct MountEntry {
  std::string point;   // absolute
  std::string type;    // kMountType, "ext4", ...
  std::string source;  // of a mount of ours: the store's directory
  dev_t device = 0;
};

// One line, without its newline; nothing if it is not one. Escapes have become the bytes that they
// stand for.
std::optional<MountEntry> parse_mount(std::string_view line);
std::vector<MountEntry> parse_mounts(std::string_view text);
// Those there are now, in the order in which they were made; empty if the kernel does not tell.
std::vector<MountEntry> read_mounts();

// The mount that serves the absolute, canonical `path`: the longest mount point that is a prefix of
// it by whole components, the latest of equal ones (it hides the others). Null if none does.
const MountEntry* mount_of_path(const std::vector<MountEntry>& mounts, std::string_view path);
// The latest mount with this device number; null if there is none.
const MountEntry* mount_of_device(const std::vector<MountEntry>& mounts, dev_t device);
// The latest mount at just this path; null if there is none.
const MountEntry* mount_at(const std::vector<MountEntry>& mounts, std::string_view point);

}  // namespace penstock
