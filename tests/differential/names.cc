// Operations on names and attributes.
#include "side.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <endian.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace penstock::differential {
namespace {

Answer read_link(const Operation& operation) {
  char target[8192];
  const auto size = static_cast<size_t>(operation.numbers[0]);
  return answer_of(::readlink(operation.path.c_str(), target, std::min(size, sizeof(target))),
                   target);
}

Answer make_node(const Operation& operation) {
  return answer_of(::mknod(operation.path.c_str(), static_cast<mode_t>(operation.numbers[0]),
                           static_cast<dev_t>(operation.numbers[1])));
}

timespec time_of(int64_t seconds, int64_t nanoseconds) {
  if (seconds == INT64_MAX) return {0, UTIME_NOW};
  if (seconds == INT64_MIN) return {0, UTIME_OMIT};
  return {seconds, nanoseconds};
}

Answer set_times(const Operation& operation) {
  const timespec times[2] = {time_of(operation.numbers[0], operation.numbers[2]),
                             time_of(operation.numbers[1], operation.numbers[2])};
  return answer_of(::utimensat(AT_FDCWD, operation.path.c_str(), times, AT_SYMLINK_NOFOLLOW));
}

// Names come in no order that is promised.
Answer list_xattrs(const Operation& operation) {
  char names[8192];
  const auto size = std::min(static_cast<size_t>(operation.numbers[0]), sizeof(names));
  const ssize_t length = ::llistxattr(operation.path.c_str(), names, size);
  Answer answer = answer_of(length);
  if (length <= 0 || size == 0) return answer;
  std::vector<std::string> sorted;
  for (const char* name = names; name < names + length; name += std::strlen(name) + 1) {
    sorted.emplace_back(name);
  }
  std::sort(sorted.begin(), sorted.end());
  for (const std::string& name : sorted) answer.data += name + ";";
  return answer;
}

// An access control list as the kernel takes it. Some are not valid.
std::string acl_of(int64_t seed) {
  char random[64];
  fill(random, sizeof(random), seed);
  std::string text;
  const auto put = [&](const void* bytes, size_t length) {
    text.append(static_cast<const char*>(bytes), length);
  };
  const posix_acl_xattr_header header{htole32(POSIX_ACL_XATTR_VERSION)};
  put(&header, sizeof(header));
  size_t at = 0;
  const auto entry = [&](uint16_t tag, uint32_t id) {
    const auto rights = static_cast<uint16_t>(random[at++] & 7);
    const posix_acl_xattr_entry made{htole16(tag), htole16(rights), htole32(id)};
    put(&made, sizeof(made));
  };
  const auto none = static_cast<uint32_t>(ACL_UNDEFINED_ID);
  const char shape = random[32];
  entry(ACL_USER_OBJ, none);
  if ((shape & 1) != 0) entry(ACL_USER, 1001);
  if ((shape & 2) != 0) entry(ACL_USER, 1002);
  entry(ACL_GROUP_OBJ, none);
  if ((shape & 4) != 0) entry(ACL_GROUP, 1003);
  // Without a mask where there are names the list is refused.
  if ((shape & 7) != 0 && (random[33] & 7) != 0) entry(ACL_MASK, none);
  entry(ACL_OTHER, none);
  if ((random[34] & 15) == 0) text.pop_back();
  return text;
}

Answer set_acl(const Operation& operation) {
  // The bit would stay on one side only ("set-group-id ..." in intended.cc).
  struct stat stat {};
  if (::geteuid() != 0 && ::stat(operation.path.c_str(), &stat) == 0 && (stat.st_mode & S_ISGID))
    return {};
  const std::string list = acl_of(operation.numbers[1]);
  const char* name =
      operation.numbers[0] != 0 ? "system.posix_acl_default" : "system.posix_acl_access";
  return answer_of(::setxattr(operation.path.c_str(), name, list.data(), list.size(), 0));
}

Answer stat_path(const Operation& operation) {
  struct statx stat {};
  const int result = ::statx(AT_FDCWD, operation.path.c_str(),
                             static_cast<int>(operation.numbers[0]), STATX_BASIC_STATS, &stat);
  Answer answer = answer_of(result);
  if (result != 0) return answer;
  answer.data = fmt::format("mode {:o} user {} group {} links {}", plain_mode(stat.stx_mode),
                            stat.stx_uid, stat.stx_gid, stat.stx_nlink);
  if (!S_ISDIR(stat.stx_mode)) answer.data += fmt::format(" size {}", stat.stx_size);
  return answer;
}

Answer list_names(const std::string& path) {
  DIR* listing = ::opendir(path.c_str());
  if (listing == nullptr) return answer_of(-1);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing)) {
    names.push_back(fmt::format("{} type {}", entry->d_name, entry->d_type));
  }
  ::closedir(listing);
  std::sort(names.begin(), names.end());
  Answer answer{static_cast<int64_t>(names.size()), 0, {}};
  for (const std::string& name : names) answer.data += name + ";";
  return answer;
}

Answer file_system(const Operation& operation) {
  struct statfs stat {};
  const int result = ::statfs(operation.path.c_str(), &stat);
  Answer answer = answer_of(result);
  if (result == 0) answer.data = fmt::format("names of {}", stat.f_namelen);
  return answer;
}

// "renaming a directory ..." in intended.cc; 'mv' looks first, too.
void look_at_both(const Operation& operation) {
  struct stat stat {};
  for (const std::string* path : {&operation.path, &operation.path2}) {
    ::lstat(path->c_str(), &stat);
  }
}

}  // namespace

std::string xattr_name(int which) {
  switch (which % 8) {
    case 0:
    case 1:
      return "user.a";
    case 2:
      return "user.b";
    case 3:
      return "trusted.c";
    case 4:
      return "security.d";
    case 5:
      return "odd";
    case 6:
      return "system.posix_acl_access";
    default:
      return "user." + std::string(251, 'n');
  }
}

Answer run_on_names(const Side& side, const Operation& operation) {
  const char* path = operation.path.c_str();
  const char* path2 = operation.path2.c_str();
  const auto mode = static_cast<mode_t>(operation.numbers[0]);
  switch (operation.kind) {
    case Kind::mkdir:
      return answer_of(::mkdir(path, mode));
    case Kind::rmdir:
      return answer_of(::rmdir(path));
    case Kind::unlink:
      return answer_of(::unlink(path));
    case Kind::rename:
      if (side.beside_others()) look_at_both(operation);
      return answer_of(::renameat2(AT_FDCWD, path, AT_FDCWD, path2,
                                   static_cast<unsigned>(operation.numbers[0])));
    case Kind::link:
      return answer_of(
          ::linkat(AT_FDCWD, path, AT_FDCWD, path2, static_cast<int>(operation.numbers[0])));
    case Kind::symlink:
      return answer_of(::symlink(path2, path));
    case Kind::readlink:
      return read_link(operation);
    default:
      return make_node(operation);
  }
}

Answer run_on_attributes(Side& side, const Operation& operation) {
  const char* path = operation.path.c_str();
  const auto& numbers = operation.numbers;
  const std::string xattr = xattr_name(operation.other);
  const auto size = static_cast<size_t>(numbers[0]);
  switch (operation.kind) {
    case Kind::truncate:
      return answer_of(::truncate(path, numbers[0]));
    case Kind::chmod:
      if ((numbers[0] & S_ISGID) != 0) ask_for_group(AT_FDCWD, path);
      return answer_of(::chmod(path, static_cast<mode_t>(numbers[0])));
    case Kind::chown:
      return answer_of(
          ::lchown(path, static_cast<uid_t>(numbers[0]), static_cast<gid_t>(numbers[1])));
    case Kind::utimens:
      return set_times(operation);
    case Kind::access:
      return answer_of(
          ::faccessat(AT_FDCWD, path, static_cast<int>(numbers[0]), static_cast<int>(numbers[1])));
    case Kind::set_xattr: {
      char* value = side.memory(size + 8);
      fill(value, size, numbers[2]);
      return answer_of(::lsetxattr(path, xattr.c_str(), value, size, static_cast<int>(numbers[1])));
    }
    case Kind::get_xattr: {
      char* value = side.memory(size + 8);
      const ssize_t got = ::lgetxattr(path, xattr.c_str(), value, size);
      return size == 0 ? answer_of(got) : answer_of(got, value);
    }
    case Kind::remove_xattr:
      return answer_of(::lremovexattr(path, xattr.c_str()));
    case Kind::list_xattr:
      return list_xattrs(operation);
    case Kind::set_acl:
      return set_acl(operation);
    case Kind::stat:
      return stat_path(operation);
    case Kind::list:
      return list_names(operation.path);
    default:
      return file_system(operation);
  }
}

}  // namespace penstock::differential
