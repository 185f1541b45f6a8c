#include "model.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <string_view>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace penstock::posix {
namespace {

constexpr size_t kOpenMax = 12;
constexpr uint64_t kFileMax = 300'000;  // several chunks of the test's node

// The name of the directories above the tree.
constexpr std::string_view kUp = "/up";

// Makes those directories: paths and links lead upwards, and this far up both sides look alike.
std::string below_top(const std::string& top) {
  std::string path;
  for (int i = 0; i < 10; i++) {
    path += kUp;
    ::mkdir((top + path).c_str(), 0777);
    ::chmod((top + path).c_str(), 0777);
  }
  return path;
}

// Who operates. Switched for this thread only; the kernel drops root's rights with it.
class Identity {
 public:
  explicit Identity(uint32_t id) {
    ::setfsgid(id);
    ::setfsuid(id);
  }
  ~Identity() {
    ::setfsuid(0);
    ::setfsgid(0);
  }
};

}  // namespace

Model::Model(const std::string& mount, const std::string& host, uint64_t seed, bool identities)
    : tops_{mount, host},
      roots_{mount + below_top(mount), host + below_top(host)},
      random_(seed),
      identities_(identities) {}

Model::~Model() {
  for (const Pair& pair : open_) close_pair(pair);
}

void Model::close_pair(const Pair& pair) {
  ::close(pair.mount);
  ::close(pair.host);
}

void Model::open_root() const {
  for (size_t side = 0; side < 2; side++) {
    for (size_t end = tops_[side].size(); end <= roots_[side].size(); end += kUp.size()) {
      ::chmod(roots_[side].substr(0, end).c_str(), 0777);
    }
  }
}

uint32_t Model::some_identity() {
  static constexpr std::array<uint32_t, 6> kIds{0, 0, 0, 0, 1001, 1002};
  return identities_ ? kIds[below(kIds.size())] : 0;
}

std::string Model::some_name() {
  static const std::array<std::string, 12> kNames{"a",
                                                  "b",
                                                  "c",
                                                  "d",
                                                  "e",
                                                  "a/",
                                                  "with space",
                                                  "h\xc3\xa4\xc3\xbf",
                                                  ".hidden",
                                                  std::string(255, 'x'),
                                                  std::string(256, 'y'),
                                                  ".."};
  // The odd ones less often than the plain.
  const uint64_t pick = below(24);
  return pick < 12 ? kNames[pick % 5] : kNames[pick - 12];
}

std::string Model::some_path() {
  std::string path = "/" + some_name();
  uint64_t depth = below(3);
  while (depth-- > 0) path += "/" + some_name();
  if (below(200) == 0) path += "/" + std::string(4090, 'p');
  return path;
}

std::string Model::some_bytes(uint64_t length) {
  std::string bytes(length, '\0');
  uint64_t word = random_.next();
  for (size_t i = 0; i < length; i++) {
    if (i % 8 == 0) word = word * 6364136223846793005ULL + 1442695040888963407ULL;
    bytes[i] = static_cast<char>(word >> (i % 8 * 8));
  }
  return bytes;
}

bool Model::agree(const std::string& what, const Answer& mount, const Answer& host) {
  if (trace_) fmt::print("{}{}: {}\n", who_, what, to_text(host));
  if (mount == host) {
    successes_ += host.error == 0;
    return true;
  }
  difference_ =
      fmt::format("{}{}\n  mount: {}\n  host:  {}", who_, what, to_text(mount), to_text(host));
  return false;
}

bool Model::on_path(const std::string& what, const std::string& path, const OnPath& run) {
  const Answer mount = run(roots_[0] + path);
  return agree(what + " " + path.substr(0, 300), mount, run(roots_[1] + path));
}

bool Model::on_paths(const std::string& what, const std::string& from, const std::string& to,
                     const OnPaths& run) {
  const Answer mount = run(roots_[0] + from, roots_[0] + to);
  return agree(what + " " + from.substr(0, 300) + " " + to.substr(0, 300), mount,
               run(roots_[1] + from, roots_[1] + to));
}

bool Model::on_file(const std::string& what, size_t index, const OnFile& run) {
  const Answer mount = run(open_[index].mount);
  return agree(fmt::format("{} on open file {}", what, index), mount, run(open_[index].host));
}

bool Model::open_file() {
  static constexpr std::array<int, 12> kFlags{O_RDONLY,
                                              O_RDWR,
                                              O_RDWR | O_CREAT,
                                              O_RDWR | O_CREAT | O_EXCL,
                                              O_RDWR | O_TRUNC,
                                              O_WRONLY | O_CREAT | O_TRUNC,
                                              O_WRONLY | O_APPEND | O_CREAT,
                                              O_RDWR | O_CREAT | O_APPEND,
                                              O_RDONLY | O_DIRECTORY,
                                              O_RDWR | O_NOFOLLOW,
                                              O_RDONLY | O_TRUNC,
                                              O_RDWR | O_CREAT | O_NOFOLLOW};
  const int flags = kFlags[below(kFlags.size())];
  const auto mode = static_cast<mode_t>(below(8) == 0 ? below(010000) : 0666);
  const std::string path = some_path();
  const auto open_in = [&](const std::string& root) {
    // A fifo of the tree must not block the test.
    return ::open((root + path).c_str(), flags | O_CLOEXEC | O_NONBLOCK, mode);
  };
  Pair pair;
  pair.mount = open_in(roots_[0]);
  const Answer mount = answer_of(pair.mount < 0 ? -1 : 0);
  pair.host = open_in(roots_[1]);
  const Answer host = answer_of(pair.host < 0 ? -1 : 0);
  const bool same = agree(
      fmt::format("open flags {:o} mode {:o} {}", flags, mode, path.substr(0, 300)), mount, host);
  if (pair.mount < 0 || pair.host < 0) return same;
  struct stat stat {};
  if (::fstat(pair.host, &stat) != 0 || !S_ISREG(stat.st_mode)) {
    // What is open but no file loses its attributes with its last name, in a mount.
    close_pair(pair);
    return same;
  }
  open_.push_back(pair);
  if (open_.size() <= kOpenMax) return same;
  close_pair(open_.front());
  open_.erase(open_.begin());
  return same;
}

bool Model::close_file() {
  if (open_.empty()) return true;
  const size_t index = below(open_.size());
  const bool same = on_file("close", index, [](int fd) { return answer_of(::close(fd)); });
  open_.erase(open_.begin() + static_cast<ptrdiff_t>(index));
  return same;
}

bool Model::write_some(size_t index) {
  const std::string bytes = some_bytes(below(4) == 0 ? below(200'000) : below(9000));
  const auto offset = static_cast<off_t>(below(kFileMax));
  const bool here = below(4) == 0;
  return on_file(fmt::format("write {} bytes at {}", bytes.size(), here ? -1 : offset), index,
                 [&](int fd) {
                   return answer_of(here ? ::write(fd, bytes.data(), bytes.size())
                                         : ::pwrite(fd, bytes.data(), bytes.size(), offset));
                 });
}

bool Model::allocate_some(size_t index) {
  static constexpr std::array<int, 4> kModes{
      0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE};
  const int mode = kModes[below(kModes.size())];
  const auto offset = static_cast<off_t>(below(kFileMax));
  const auto length = static_cast<off_t>(below(100'000));
  return on_file(fmt::format("fallocate mode {} at {} for {}", mode, offset, length), index,
                 [&](int fd) { return answer_of(::fallocate(fd, mode, offset, length)); });
}

bool Model::copy_some(size_t from, size_t to) {
  const auto source = static_cast<off64_t>(below(kFileMax));
  const auto target = static_cast<off64_t>(below(kFileMax));
  const size_t length = below(100'000);
  const auto copy = [&](int in, int out) {
    off64_t read_at = source;
    off64_t write_at = target;
    // How far one call gets is the kernel's choice; what arrives in the end is not.
    int64_t copied = 0;
    while (copied < static_cast<int64_t>(length)) {
      const ssize_t got =
          ::copy_file_range(in, &read_at, out, &write_at, length - static_cast<size_t>(copied), 0);
      if (got < 0) return answer_of(-1);
      if (got == 0) break;
      copied += got;
    }
    return answer_of(copied);
  };
  const Answer mount = copy(open_[from].mount, open_[to].mount);
  return agree(fmt::format("copy_file_range of {} from {} at {} to {} at {}", length, from, source,
                           to, target),
               mount, copy(open_[from].host, open_[to].host));
}

bool Model::file_operation(uint64_t which) {
  if (open_.empty()) return open_file();
  const size_t index = below(open_.size());
  const auto offset = static_cast<off_t>(below(kFileMax));
  const size_t length = below(100'000);
  switch (which) {
    case 0:
    case 1:
      return write_some(index);
    case 2:
      return on_file(fmt::format("read {} at {}", length, offset), index, [&](int fd) {
        std::string buffer(length, '\0');
        const ssize_t got = ::pread(fd, buffer.data(), length, offset);
        return answer_of(got, buffer.substr(0, got < 0 ? 0 : static_cast<size_t>(got)));
      });
    case 3:
      return on_file(fmt::format("ftruncate to {}", offset), index,
                     [&](int fd) { return answer_of(::ftruncate(fd, offset)); });
    case 4:
      return on_file("fstat", index, [](int fd) { return stat_of(fd); });
    case 5:
      return on_file("fsync", index, [](int fd) { return answer_of(::fsync(fd)); });
    case 6:
      return allocate_some(index);
    case 7:
      return copy_some(index, below(open_.size()));
    case 8:
      return on_file("fchmod", index, [&](int fd) {
        return answer_of(::fchmod(fd, static_cast<mode_t>(length % 010000)));
      });
    default:
      return close_file();
  }
}

bool Model::name_operation(uint64_t which) {
  const std::string path = some_path();
  const std::string other = some_path();
  const auto mode = static_cast<mode_t>(below(8) == 0 ? below(010000) : 0777);
  switch (which) {
    case 0:
    case 1:
      return on_path("mkdir", path,
                     [&](const std::string& p) { return answer_of(::mkdir(p.c_str(), mode)); });
    case 2:
      return on_path("rmdir", path,
                     [](const std::string& p) { return answer_of(::rmdir(p.c_str())); });
    case 3:
      return on_path("unlink", path,
                     [](const std::string& p) { return answer_of(::unlink(p.c_str())); });
    case 4:
    case 5:
      return on_paths("rename", path, other, [](const std::string& from, const std::string& to) {
        return answer_of(::rename(from.c_str(), to.c_str()));
      });
    case 6: {
      const unsigned flags = below(2) == 0 ? RENAME_NOREPLACE : RENAME_EXCHANGE;
      return on_paths(
          fmt::format("renameat2 flags {}", flags), path, other,
          [&](const std::string& from, const std::string& to) {
            return answer_of(::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags));
          });
    }
    case 7:
      return on_paths("link", path, other, [](const std::string& from, const std::string& to) {
        return answer_of(::link(from.c_str(), to.c_str()));
      });
    case 8: {
      const std::string target = below(3) == 0 ? "../" + some_name() : some_name();
      return on_path("symlink to " + target.substr(0, 40), path, [&](const std::string& p) {
        return answer_of(::symlink(target.c_str(), p.c_str()));
      });
    }
    case 9:
      return on_path("mknod fifo", path, [&](const std::string& p) {
        return answer_of(::mknod(p.c_str(), S_IFIFO | 0640, 0));
      });
    default:
      return on_path("list", path, [](const std::string& p) { return names_in(p); });
  }
}

bool Model::attribute_operation(uint64_t which) {
  const std::string path = some_path();
  const uint64_t number = random_.next();
  static const std::array<std::string, 5> kXattrs{"user.a", "user.b", "trusted.c", "odd",
                                                  "user." + std::string(300, 'n')};
  const std::string& xattr = kXattrs[below(kXattrs.size())];
  switch (which) {
    case 0:
      return on_path("stat", path, [](const std::string& p) { return stat_of(p); });
    case 1:
      return on_path(fmt::format("chmod {:o}", number % 010000), path, [&](const std::string& p) {
        return answer_of(::chmod(p.c_str(), static_cast<mode_t>(number % 010000)));
      });
    case 2: {
      const uid_t uid = number % 3 == 0 ? static_cast<uid_t>(-1) : 1000 + number % 4;
      // A change to nobody else asks only about set-id bits, and a mount's kernel leaves one of
      // them alone that others clear (docs/posix.md).
      const bool keeps_group = number % 5 == 0 && (number % 3 != 0 || !identities_);
      const gid_t gid = keeps_group ? static_cast<gid_t>(-1) : 1000 + number % 7 % 4;
      return on_path(fmt::format("lchown {} {}", uid, gid), path, [&](const std::string& p) {
        return answer_of(::lchown(p.c_str(), uid, gid));
      });
    }
    case 3: {
      const timespec times[2] = {{static_cast<time_t>(number % 4'000'000'000), 123'456'789},
                                 {static_cast<time_t>(number % 3'999'999'999), 987'654'321}};
      return on_path("utimensat", path, [&](const std::string& p) {
        const int result = ::utimensat(AT_FDCWD, p.c_str(), times, AT_SYMLINK_NOFOLLOW);
        struct stat stat {};
        if (result != 0 || ::lstat(p.c_str(), &stat) != 0) return answer_of(result);
        return answer_of(0, fmt::format("{}.{} {}.{}", stat.st_atim.tv_sec, stat.st_atim.tv_nsec,
                                        stat.st_mtim.tv_sec, stat.st_mtim.tv_nsec));
      });
    }
    case 4:
      return on_path("truncate", path, [&](const std::string& p) {
        return answer_of(::truncate(p.c_str(), static_cast<off_t>(number % kFileMax)));
      });
    case 5: {
      const std::string value = some_bytes(below(500));
      const int flags = static_cast<int>(below(3));
      return on_path(fmt::format("setxattr {} flags {}", xattr.substr(0, 20), flags), path,
                     [&](const std::string& p) {
                       return answer_of(::lsetxattr(p.c_str(), xattr.c_str(), value.data(),
                                                    value.size(), flags));
                     });
    }
    case 6:
      return on_path("getxattr " + xattr.substr(0, 20), path, [&](const std::string& p) {
        std::string value(number % 600, '\0');
        const ssize_t got = ::lgetxattr(p.c_str(), xattr.c_str(), value.data(), value.size());
        return answer_of(got, value.substr(0, got < 0 ? 0 : static_cast<size_t>(got)));
      });
    case 7:
      return on_path("removexattr " + xattr.substr(0, 20), path, [&](const std::string& p) {
        return answer_of(::lremovexattr(p.c_str(), xattr.c_str()));
      });
    case 8:
      return on_path("listxattr", path, [](const std::string& p) { return xattrs_of(p); });
    case 9:
      return on_path("readlink", path, [](const std::string& p) {
        char target[4096];
        const ssize_t got = ::readlink(p.c_str(), target, sizeof(target));
        return answer_of(got, std::string(target, got < 0 ? 0 : static_cast<size_t>(got)));
      });
    default:
      return on_path("access", path, [&](const std::string& p) {
        return answer_of(
            ::faccessat(AT_FDCWD, p.c_str(), static_cast<int>(number % 8), AT_EACCESS));
      });
  }
}

bool Model::step() {
  const uint32_t id = some_identity();
  who_ = id == 0 ? "" : fmt::format("as {}: ", id);
  const Identity identity(id);
  switch (below(8)) {
    case 0:
      return open_file();
    case 1:
    case 2:
    case 3:
      return file_operation(below(10));
    case 4:
    case 5:
      return name_operation(below(11));
    default:
      return attribute_operation(below(11));
  }
}

bool Model::compare() {
  who_.clear();
  for (size_t i = 0; i < open_.size(); i++) {
    if (!on_file("fstat", i, [](int fd) { return stat_of(fd); })) return false;
    if (!on_file("content", i, [](int fd) { return read_all(fd); })) return false;
  }
  const std::string mount = picture_of(tops_[0]);
  const std::string host = picture_of(tops_[1]);
  if (mount == host) return true;
  const auto [first, second] = std::mismatch(mount.begin(), mount.end(), host.begin(), host.end());
  const auto from = [](const std::string& text, std::string::const_iterator at) {
    const size_t place = static_cast<size_t>(at - text.begin());
    return text.substr(place < 200 ? 0 : place - 200, 400);
  };
  difference_ =
      "trees differ\n  mount: ..." + from(mount, first) + "\n  host:  ..." + from(host, second);
  return false;
}

}  // namespace penstock::posix
