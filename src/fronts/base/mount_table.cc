#include "penstock/front/mount_table.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::front {

namespace {

// The path that the kernel knows `path` by, or empty when a component is missing.
std::string real_path(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return {};
  std::string result(resolved);
  ::free(resolved);
  return result;
}

// Appends one component to a canonical path, "." and ".." included.
void append_component(std::string& path, std::string_view component) {
  if (component.empty() || component == ".") return;
  if (component == "..") {
    const size_t slash = path.rfind('/');
    path.resize(slash == 0 ? 1 : slash);
    return;
  }
  if (path != "/") path += '/';
  path += component;
}

}  // namespace

bool is_our_type(std::string_view type) {
  return type == kMountType || type == "fuse.hf3fs";
}

std::string canonical_path(std::string_view path) {
  if (path.empty() || path.size() > PATH_MAX || path.find('\0') != std::string_view::npos) {
    return {};
  }
  // Shorten from the end until the kernel knows it, then put back what it does not.
  std::string known(path);
  std::string result;
  size_t cut = path.size();
  while (result.empty()) {
    result = real_path(known.empty() ? "." : known);
    if (!result.empty()) break;
    if (known.empty() || known == "/") return {};
    while (cut > 0 && path[cut - 1] == '/') --cut;
    while (cut > 0 && path[cut - 1] != '/') --cut;
    known = path.substr(0, cut);
  }
  std::string_view rest = path.substr(std::min(cut, path.size()));
  while (!rest.empty()) {
    const size_t slash = rest.find('/');
    append_component(result, rest.substr(0, slash));
    rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
  }
  return result;
}

std::optional<std::string> mount_point_of(std::string_view path) {
  const std::string canonical = canonical_path(path);
  if (canonical.empty()) return std::nullopt;
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* mount = mount_of_path(mounts, canonical);
  if (mount == nullptr || !is_our_type(mount->type)) return std::nullopt;
  return mount->point;
}

std::optional<std::string> mount_point_of(dev_t device) {
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* const mount = mount_of_device(mounts, device);
  if (mount == nullptr || !is_our_type(mount->type)) return std::nullopt;
  return mount->point;
}

namespace {

Result<MountNumbers, int> numbers_at(int directory, const char* path, int flags) {
  constexpr unsigned kUniqueNumber = 0x4000;  // STATX_MNT_ID_UNIQUE
  struct statx status {};
  // The numbers are the mount's, so the file server need not be asked.
  if (::statx(directory, path, flags | AT_STATX_DONT_SYNC, STATX_TYPE | kUniqueNumber, &status) !=
      0) {
    return Unexpected(int{errno});
  }
  MountNumbers numbers{makedev(status.stx_dev_major, status.stx_dev_minor)};
  if ((status.stx_mask & kUniqueNumber) != 0) numbers.unique = status.stx_mnt_id;
  return numbers;
}

}  // namespace

Result<MountNumbers, int> mount_numbers(int fd) {
  if (fd < 0) return Unexpected(int{EBADF});
  return numbers_at(fd, "", AT_EMPTY_PATH);
}

Result<MountNumbers, int> mount_numbers(const std::string& path) {
  return numbers_at(AT_FDCWD, path.c_str(), 0);
}

std::optional<MountNumbers> mount_of_descriptor(int fd) {
  const auto numbers = mount_numbers(fd);
  if (!numbers) return std::nullopt;
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* mount = mount_of_device(mounts, numbers->device);
  if (mount == nullptr || !is_our_type(mount->type)) return std::nullopt;
  return *numbers;
}

}  // namespace penstock::front
