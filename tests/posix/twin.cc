#include "twin.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <map>
#include <string_view>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <vector>

#include "penstock/base.h"

namespace penstock::posix {
namespace {

std::string digest(const std::string& data) {
  return fmt::format("{} bytes, crc {:08x}", data.size(),
                     crc32c(Bytes(reinterpret_cast<const std::byte*>(data.data()), data.size())));
}

std::string words_of(struct stat stat) {
  // Set-group-id without group execution gives nobody anything. Newer kernels clear it when others
  // write, but not on behalf of a mount.
  if (S_ISREG(stat.st_mode) && !(stat.st_mode & S_IXGRP)) stat.st_mode &= ~mode_t{S_ISGID};
  std::string text = fmt::format("mode {:o} uid {} gid {} links {}", stat.st_mode, stat.st_uid,
                                 stat.st_gid, stat.st_nlink);
  if (!S_ISDIR(stat.st_mode)) text += fmt::format(" size {}", stat.st_size);
  if (S_ISCHR(stat.st_mode) || S_ISBLK(stat.st_mode)) text += fmt::format(" dev {}", stat.st_rdev);
  return text;
}

}  // namespace

std::string to_text(const Answer& answer) {
  std::string text = answer.error ? fmt::format("{}", std::strerror(answer.error))
                                  : fmt::format("{}", answer.value);
  if (!answer.data.empty()) {
    text += answer.data.size() < 400 ? " [" + answer.data + "]" : " [" + digest(answer.data) + "]";
  }
  return text;
}

Answer answer_of(int64_t result) {
  return {result, result < 0 ? errno : 0, {}};
}

Answer answer_of(int64_t result, std::string data) {
  const int error = result < 0 ? errno : 0;
  return {result, error, result < 0 ? std::string() : std::move(data)};
}

Answer stat_of(const std::string& path) {
  struct stat stat {};
  const int result = ::lstat(path.c_str(), &stat);
  return answer_of(result, result == 0 ? words_of(stat) : "");
}

Answer stat_of(int fd) {
  struct stat stat {};
  const int result = ::fstat(fd, &stat);
  return answer_of(result, result == 0 ? words_of(stat) : "");
}

Answer names_in(const std::string& path) {
  DIR* directory = ::opendir(path.c_str());
  if (!directory) return answer_of(-1);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory)) {
    names.push_back(fmt::format("{} type {}", entry->d_name, entry->d_type));
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  std::string all;
  for (const std::string& name : names) all += name + "\n";
  return {static_cast<int64_t>(names.size()), 0, all};
}

Answer read_all(int fd) {
  std::string all;
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const ssize_t got = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(all.size()));
    if (got < 0) return answer_of(-1);
    if (got == 0) break;
    all.append(buffer.data(), static_cast<size_t>(got));
  }
  const auto length = static_cast<int64_t>(all.size());
  return {length, 0, std::move(all)};
}

// Names of trusted.* are root's to see. The host also shows them to this thread while it acts for
// others, since it keeps root's capabilities; a FUSE file system is told of the user alone.
Answer xattrs_of(const std::string& path) {
  const bool root = ::setfsuid(static_cast<uid_t>(-1)) == 0;
  char names[65536];
  const ssize_t length = ::llistxattr(path.c_str(), names, sizeof(names));
  if (length < 0) return answer_of(-1);
  std::map<std::string, std::string> sorted;
  for (const char* name = names; name < names + length; name += std::strlen(name) + 1) {
    if (!root && std::string_view(name).starts_with("trusted.")) continue;
    char value[65536];
    const ssize_t size = ::lgetxattr(path.c_str(), name, value, sizeof(value));
    sorted[name] = size < 0 ? std::strerror(errno) : std::string(value, static_cast<size_t>(size));
  }
  std::string all;
  for (const auto& [name, value] : sorted) all += fmt::format("{}={};", name, digest(value));
  return {static_cast<int64_t>(sorted.size()), 0, all};
}

std::string picture_of(const std::string& path) {
  std::string picture = fmt::format("{} {}", to_text(stat_of(path)), to_text(xattrs_of(path)));
  struct stat stat {};
  if (::lstat(path.c_str(), &stat) != 0) return picture;
  if (S_ISLNK(stat.st_mode)) {
    char target[4096];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof(target));
    picture += length < 0 ? "?" : " -> " + std::string(target, static_cast<size_t>(length));
  } else if (S_ISREG(stat.st_mode)) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW));
    const Answer content = read_all(file.get());
    picture += content.error ? std::strerror(content.error) : " " + digest(content.data);
  }
  picture += "\n";
  if (!S_ISDIR(stat.st_mode)) return picture;
  DIR* directory = ::opendir(path.c_str());
  if (!directory) return picture + "not readable\n";
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) picture += name + ": " + picture_of(path + "/" + name);
  return picture;
}

}  // namespace penstock::posix
