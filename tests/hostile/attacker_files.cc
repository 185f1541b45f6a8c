// The same files as by rings, by way of the mount.
#include "attacker.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace penstock::test {

void Attacker::use_open_file(int fd) {
  const auto at = static_cast<off_t>(below(512 * kKiB));
  const std::string some(1 + below(20'000), 'm');
  switch (below(9)) {
    case 0:
    case 1: {
      const ssize_t written = ::pwrite(fd, some.data(), some.size(), at);
      if (written > 0) tally_.add(Feat::mounted_bytes, static_cast<uint64_t>(written));
      return;
    }
    case 2:
    case 3: {
      const ssize_t length = ::pread(fd, buffer_.data(), buffer_.size(), at);
      if (length > 0) tally_.add(Feat::mounted_bytes, static_cast<uint64_t>(length));
      return;
    }
    case 4:
      (void)!::ftruncate(fd, chance(90) ? at : static_cast<off_t>(some_number()));
      return;
    case 5:
      (void)!::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
                         static_cast<off_t>(1 + below(100'000)));
      return;
    case 6:
      (void)::lseek(fd, at, chance(50) ? SEEK_HOLE : SEEK_DATA);
      return;
    case 7:
      (void)::flock(fd, (chance(50) ? LOCK_EX : LOCK_SH) | LOCK_NB);
      return;
    default:
      (void)!::fdatasync(fd);
  }
}

void Attacker::use_file_names(const std::string& path) {
  struct stat facts {};
  switch (below(6)) {
    case 0:
      (void)::unlink(path.c_str());
      return;
    case 1:
      (void)::rename(path.c_str(), (victim_.mount + "/public/c").c_str());
      return;
    case 2:
      (void)::mkdir((victim_.mount + "/public/dir").c_str(), 0777);
      return;
    case 3: {
      const std::string list = some_bytes(below(100));
      (void)::setxattr(path.c_str(), chance(50) ? "system.posix_acl_access" : "user.hostile",
                       list.data(), list.size(), 0);
      return;
    }
    case 4:
      (void)::link(path.c_str(), (victim_.mount + "/public/link").c_str());
      return;
    default:
      (void)::lstat(path.c_str(), &facts);
  }
}

void Attacker::use_files() {
  if (victim_.mount.empty()) return;
  static const char* const kNames[] = {"/public/a", "/public/b", "/public/c", "/public/dir/a"};
  const std::string path = victim_.mount + kNames[below(std::size(kNames))];
  if (chance(20)) return use_file_names(path);
  const int flags = (chance(80) ? O_RDWR | O_CREAT : O_RDONLY) | (chance(10) ? O_DIRECT : 0);
  const UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666));
  for (uint64_t i = 1 + below(6); fd && i > 0; --i) use_open_file(fd.get());
}

}  // namespace penstock::test
