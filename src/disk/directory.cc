#include "directory.h"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::disk {
namespace {

constexpr uint64_t kReadFileMax = kMiB;

class FlockedDirectory final : public engine::DirectoryLock {
 public:
  explicit FlockedDirectory(UniqueFd fd) : fd_(std::move(fd)) {}

 private:
  UniqueFd fd_;  // the lock ends with the open file description
};

std::string parent_of(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return "/";
  const size_t slash = path.rfind('/', end);
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status write_all(int fd, const std::string& content) {
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = ::write(fd, content.data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return last_error();
    done += static_cast<size_t>(count);
  }
  return Code::ok;
}

}  // namespace

Status last_error() {
  return Status::from_errno(errno);
}

Status sync_parent(const std::string& path) {
  const UniqueFd fd(::open(parent_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return last_error();
  return ::fsync(fd.get()) == 0 ? Status() : last_error();
}

Status make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) {
    if (errno != EEXIST) return last_error();
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return last_error();
    if (!S_ISDIR(info.st_mode)) return Code::not_directory;
  }
  // Also when it exists: an earlier life may have died between the two.
  return sync_parent(path);
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(path.c_str()), &::closedir);
  if (stream == nullptr) return last_error();
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return last_error();
  std::sort(names.begin(), names.end());
  return names;
}

Status remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0) return last_error();
  return sync_parent(path);
}

Result<std::string> read_small_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return last_error();
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return last_error();
  if (S_ISDIR(info.st_mode)) return Code::is_directory;
  std::string content;
  char piece[4096];
  while (true) {
    const ssize_t count = ::read(fd.get(), piece, sizeof piece);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return last_error();
    if (count == 0) return content;
    content.append(piece, static_cast<size_t>(count));
    if (content.size() > kReadFileMax) return Code::too_large;
  }
}

Status replace_file(const std::string& path, const std::string& content) {
  const std::string draft = path + ".new";
  const UniqueFd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return last_error();
  Status status = write_all(fd.get(), content);
  if (status.ok() && ::fsync(fd.get()) != 0) status = last_error();
  if (status.ok() && ::rename(draft.c_str(), path.c_str()) != 0) status = last_error();
  if (!status.ok()) {
    ::unlink(draft.c_str());
    return status;
  }
  return sync_parent(path);
}

Result<std::unique_ptr<engine::DirectoryLock>> lock_directory(const std::string& path) {
  // The directory itself is locked, so nothing has to be written to find out that it is in use.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return last_error();
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? Status(Code::in_use) : last_error();
  }
  return std::unique_ptr<engine::DirectoryLock>(std::make_unique<FlockedDirectory>(std::move(fd)));
}

Result<engine::DiskSpace> space_of(const std::string& path) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) return last_error();
  // Without the reserve that root may use: it is there for emergencies, and df does not count it
  // either.
  return engine::DiskSpace{info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize};
}

}  // namespace penstock::disk
