#include "mount_point.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <spawn.h>
#include <sstream>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/fuse.h"

namespace penstock::fuse {
namespace {

constexpr const char* kHelper = "fusermount3";

Failure failure(Code code, const std::string& path, const std::string& reason) {
  return {code, fmt::format("{}: {}", path, reason)};
}

std::optional<std::string> find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream directories(std::string(path ? path : "") + ":/usr/bin:/bin");
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string full = directory + "/" + name;
    if (!directory.empty() && ::access(full.c_str(), X_OK) == 0) return full;
  }
  return {};
}

bool user_allow_other() {
  std::ifstream file("/etc/fuse.conf");
  for (std::string line; std::getline(file, line);) {
    line.erase(0, line.find_first_not_of(" \t"));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line == "user_allow_other") return true;
  }
  return false;
}

Result<bool> is_empty_directory(const std::string& path) {
  DIR* directory = ::opendir(path.c_str());
  if (!directory) return Status::from_errno(errno);
  bool empty = true;
  while (const dirent* entry = ::readdir(directory)) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
      empty = false;
      break;
    }
  }
  ::closedir(directory);
  return empty;
}

Outcome<void> check_device(const std::string& path) {
  const UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (device) return {};
  const int error = errno;
  if (error == ENOENT || error == ENODEV || error == ENXIO) {
    return failure(Code::not_supported, path,
                   "there is no /dev/fuse: load the kernel's module (modprobe fuse), or start the "
                   "container with --device /dev/fuse");
  }
  return failure(Status::from_errno(error).code(), path,
                 fmt::format("/dev/fuse cannot be opened: {} ({})", std::strerror(error),
                             ::geteuid() == 0 ? "containers need --device /dev/fuse"
                                              : "as root: chmod 666 /dev/fuse"));
}

Outcome<void> check_user(const std::string& path, const MountOptions& options) {
  if (::geteuid() == 0) return check_device(path);
  if (options.set_ids || options.devices) {
    return failure(Code::not_permitted, path,
                   "only root may mount with suid or dev (leave them out, or mount as root)");
  }
  if (!find_program(kHelper)) {
    return failure(Code::not_supported, path,
                   "ordinary users mount with fusermount3, which is missing (install the package "
                   "fuse3, or mount as root)");
  }
  if (options.allow_other && !user_allow_other()) {
    return failure(Code::not_permitted, path,
                   "other users cannot be let in: /etc/fuse.conf has no line user_allow_other (add "
                   "it, mount as root, or leave --allow-other out)");
  }
  if (::access("/dev/fuse", R_OK | W_OK) != 0) TRY(check_device(path));
  if (::access(path.c_str(), W_OK) != 0) {
    return failure(Code::access_denied, path,
                   "you may not write there, so you may not mount there (choose a directory of "
                   "your own)");
  }
  return {};
}

Outcome<void> check_unused(const std::string& path) {
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* const there = mount_at(mounts, path);
  if (there == nullptr) return {};
  return failure(Code::in_use, path,
                 is_ours(*there)
                     ? fmt::format("already a mount point (try 'penstock unmount {}')", path)
                     : fmt::format("already a mount point, of type {} (choose another directory)",
                                   there->type));
}

Outcome<void> check_directory(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const int error = errno;
    if (error == ENOTCONN || error == ECONNABORTED) {
      return failure(Code::in_use, path,
                     fmt::format("a mount whose process has died is still there, and not one of "
                                 "this store (clean up with 'penstock unmount {}')",
                                 path));
    }
    if (error == ENOENT) {
      return failure(Code::not_found, path,
                     fmt::format("no such directory (make it first: mkdir -p {})", path));
    }
    return failure(Status::from_errno(error).code(), path, std::strerror(error));
  }
  if (!S_ISDIR(info.st_mode)) {
    return failure(Code::not_directory, path,
                   "not a directory (a mount point must be an empty one)");
  }
  return {};
}

// Those of `source` at the canonical path, one on top of the other.
ptrdiff_t count_mounts(const std::string& path, const std::string& source) {
  const std::vector<MountEntry> mounts = read_mounts();
  return std::ranges::count_if(mounts, [&](const MountEntry& mount) {
    return mount.point == path && mount.source == source && is_ours(mount);
  });
}

bool is_dead(const std::string& path, const std::string& source) {
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* const there = mount_at(mounts, path);
  if (there == nullptr || !is_ours(*there) || there->source != source) return false;
  // stat() might be answered from what the kernel knew; statvfs() asks the mount's process.
  struct statvfs space {};
  return ::statvfs(path.c_str(), &space) != 0 && (errno == ENOTCONN || errno == ECONNABORTED);
}

// All but the undermost `kept`.
DeadMount remove_dead(const std::string& path, const std::string& source, ptrdiff_t kept) {
  DeadMount dead = DeadMount::none;
  while (is_dead(path, source)) {
    if (count_mounts(path, source) <= kept) return DeadMount::stands;
    const Status removed = unmount_once(path, true);
    if (!removed.ok()) {
      log::warning("{}: a mount whose process has died cannot be removed: {}", path,
                   removed.name());
      return dead;
    }
    dead = DeadMount::removed;
  }
  return dead;
}

}  // namespace

bool is_ours(const MountEntry& mount) {
  return mount.type == kMountType ||
         (mount.type == kMountTypeOf3fs && mount.source.starts_with('/'));
}

std::string canonical(const std::string& path) {
  const auto resolved = [](const std::string& existing) -> std::string {
    char* real = ::realpath(existing.c_str(), nullptr);
    if (!real) return {};
    std::string out(real);
    std::free(real);
    return out;
  };
  if (std::string whole = resolved(path); !whole.empty()) return whole;
  // The last component cannot be looked at; what is above it can.
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const size_t slash = trimmed.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : trimmed.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? trimmed : trimmed.substr(slash + 1);
  std::string above = resolved(parent);
  if (above.empty()) return trimmed;
  if (above.back() != '/') above += '/';
  return above + name;
}

DeadMount remove_dead_mounts(const std::string& path, const std::string& source) {
  return remove_dead(canonical(path), source, 0);
}

DeadMount make_room(const std::string& path, const std::string& source) {
  return remove_dead(canonical(path), source, ::geteuid() == 0 ? 1 : 0);
}

Outcome<std::string> check_mount_point(const std::string& path, const MountOptions& options,
                                       DeadMount dead) {
  if (path.empty()) return failure(Code::invalid_argument, "''", "no mount point was given");
  std::string real = canonical(path);
  if (dead == DeadMount::stands) {
    TRY(check_user(real, options));
    return real;
  }
  TRY(check_directory(path));
  TRY(check_unused(real));
  TRY(check_user(real, options));
  const auto empty = is_empty_directory(real);
  if (!empty) {
    return failure(empty.error().code(), real,
                   fmt::format("cannot be listed: {}", std::strerror(empty.error().to_errno())));
  }
  if (!*empty && dead == DeadMount::removed) {
    // A program that went on writing in the bare directory; to refuse the mount would keep all
    // other programs waiting for ever.
    log::warning(
        "{}: something was written there while nothing was mounted; it is hidden now "
        "(unmount to find it)",
        real);
  } else if (!*empty) {
    return failure(Code::not_empty, real,
                   "not empty; what is in it would be hidden (choose an empty directory)");
  }
  return real;
}

Status unmount_once(const std::string& path, bool lazy) {
  if (::geteuid() == 0) {
    const int flags = UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0);
    return ::umount2(path.c_str(), flags) == 0 ? Status() : Status::from_errno(errno);
  }
  const auto helper = find_program(kHelper);
  if (!helper) return Code::not_supported;
  std::array<const char*, 6> arguments{kHelper, "-u", "-q", nullptr, nullptr, nullptr};
  size_t count = 3;
  if (lazy) arguments[count++] = "-z";
  arguments[count++] = path.c_str();
  pid_t child = 0;
  // The child only reads its arguments; the interface is older than const.
  const int error = ::posix_spawn(&child, helper->c_str(), nullptr, nullptr,
                                  const_cast<char* const*>(arguments.data()), environ);
  if (error != 0) return Status::from_errno(error);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return Status::from_errno(errno);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  // The helper does not say why: the mount is busy, or another user's, who did not allow other
  // users.
  struct stat facts {};
  const bool seen = ::stat(path.c_str(), &facts) == 0;
  const bool foreign = seen ? facts.st_uid != ::geteuid() : errno == EACCES;
  return foreign ? Code::not_permitted : Code::in_use;
}

Outcome<void> unmount(const std::string& path, bool lazy) {
  const std::string real = canonical(path);
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* const there = mount_at(mounts, real);
  if (!there || !is_ours(*there)) {
    return Failure{Code::not_found,
                   fmt::format("{}: no penstock mount is there (see 'penstock status')", real)};
  }
  const Status status = unmount_once(real, lazy);
  if (status.ok()) {
    static_cast<void>(remove_dead_mounts(real, there->source));
    return {};
  }
  if (status.code() == Code::in_use) {
    return Failure{status, fmt::format("{}: programs use files there (find them with 'fuser "
                                       "-m {}', or detach it with 'umount --lazy {}')",
                                       real, real, real)};
  }
  if (status.code() == Code::not_permitted) {
    return Failure{status, real + ": is another user's mount (as that user, or as root)"};
  }
  return Failure{status, fmt::format("{}: {}", real, std::strerror(status.to_errno()))};
}

}  // namespace penstock::fuse
