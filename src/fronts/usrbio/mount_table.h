// Which mounts are ours, and where in them a path lies.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace penstock::usrbio {

// Whether a mount of this type answers USRBIO.
bool is_our_type(std::string_view type);

// `path` without symbolic links, "." and "..", as far as it exists; what does not exist is appended
// as it stands. Empty for an empty path or when not even the working directory is known.
std::string canonical_path(std::string_view path);

// The mount point of ours that `path` lies in, or nothing.
std::optional<std::string> mount_point_of(std::string_view path);

// Of the mount that the file is on. Nobody's server is asked.
std::optional<dev_t> device_number(int fd);

// Whether `fd` is of a file in a mount of ours; its device number then.
std::optional<dev_t> device_of_descriptor(int fd);

}  // namespace penstock::usrbio
