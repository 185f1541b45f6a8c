// Which mounts are ours, as the kernel tells it in /proc/self/mountinfo (see proc(5)).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace penstock::usrbio {

struct MountEntry {
  std::string mount_point;  // unescaped
  std::string type;         // "fuse.penstock", "ext4", ...
  dev_t device = 0;
};

// Whether a mount of this type answers USRBIO.
bool is_our_type(std::string_view type);

// One line of mountinfo, without the newline; nothing if it is not one.
std::optional<MountEntry> parse_mount_line(std::string_view line);
// "\040" and the like become the bytes they stand for.
std::string unescape_octal(std::string_view text);

// The mount that serves the absolute, canonical `path`: the longest mount point that is a prefix of
// it by whole components, the latest of equal ones (it hides the others). Null if none does.
const MountEntry* mount_of_path(const std::vector<MountEntry>& mounts, std::string_view path);
// The latest mount with this device number.
const MountEntry* mount_of_device(const std::vector<MountEntry>& mounts, dev_t device);

// The calling process's mounts now; empty if the kernel does not tell.
std::vector<MountEntry> read_mounts();

// `path` without symbolic links, "." and "..", as far as it exists; what does not exist is appended
// as it stands. Empty for an empty path or when not even the working directory is known.
std::string canonical_path(std::string_view path);

// The mount point of ours that `path` lies in, or nothing.
std::optional<std::string> mount_point_of(std::string_view path);

// Whether `fd` is of a file in a mount of ours; its device number then.
std::optional<dev_t> device_of_descriptor(int fd);

}  // namespace penstock::usrbio
