#include "look.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::differential {
namespace {

constexpr int64_t kBlock = 4096;
constexpr int64_t kBytesWhole = 1'500'000;  // longer files are compared at both ends
constexpr int64_t kBytesEnd = 500'000;

Stamp stamp_of(const struct statx_timestamp& time) {
  return {time.tv_sec, time.tv_nsec};
}

Times times_of(const struct statx& stat) {
  return {stamp_of(stat.stx_atime), stamp_of(stat.stx_mtime), stamp_of(stat.stx_ctime)};
}

std::string to_text(Stamp stamp) {
  return fmt::format("{}.{:09}", stamp.seconds, stamp.nanoseconds);
}

// Numbers of inodes are used again, even within a tick of the clock; where the file system tells a
// generation (ext4: in handles of type 1), that belongs to it.
uint64_t identity_of(int directory, const char* name, int flags, uint64_t inode) {
  struct {
    file_handle header;
    std::array<uint32_t, 32> words;
  } handle{};
  handle.header.handle_bytes = sizeof(handle.words);
  int mount = 0;
  int how = flags & AT_EMPTY_PATH;
  if ((flags & (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) == 0) how |= AT_SYMLINK_FOLLOW;
  if (::name_to_handle_at(directory, name, &handle.header, &mount, how) != 0) return inode;
  return handle.header.handle_type == 1 ? inode | uint64_t{handle.words[1]} << 32 : inode;
}

// Where the bytes of a file are, in blocks: "0-8 12-13".
std::string data_ranges(int file) {
  std::string text;
  for (off_t at = 0; text.size() < 300;) {
    const off_t data = ::lseek(file, at, SEEK_DATA);
    const off_t hole = data < 0 ? -1 : ::lseek(file, data, SEEK_HOLE);
    if (hole < 0) break;
    text += fmt::format(" {}-{}", data / kBlock, (hole + kBlock - 1) / kBlock);
    at = hole;
  }
  return text;
}

// How many blocks of a file of the host hold bytes; -1 if it does not tell.
int64_t data_blocks(int file) {
  int64_t blocks = 0, at = 0;
  for (;;) {
    const off_t data = ::lseek(file, at, SEEK_DATA);
    if (data < 0) return errno == ENXIO ? blocks : -1;
    const off_t hole = ::lseek(file, data, SEEK_HOLE);
    if (hole < 0) return -1;
    blocks += (hole + kBlock - 1) / kBlock - data / kBlock;
    at = (hole + kBlock - 1) / kBlock * kBlock;
  }
}

bool read_exactly(int file, int64_t from, int64_t length, std::string& bytes) {
  bytes.resize(static_cast<size_t>(length));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(file, bytes.data() + done, bytes.size() - done, from + static_cast<int64_t>(done));
    if (got < 0) return false;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return true;
}

std::string xattrs_of(const std::string& path) {
  char names[65536], value[65536];
  const ssize_t length = ::llistxattr(path.c_str(), names, sizeof(names));
  if (length < 0) return std::strerror(errno);
  std::vector<std::string> each;
  for (const char* name = names; name < names + length; name += std::strlen(name) + 1) {
    const ssize_t size = ::lgetxattr(path.c_str(), name, value, sizeof(value));
    const auto bytes = static_cast<size_t>(std::max<ssize_t>(size, 0));
    each.push_back(fmt::format("{}={} bytes, crc {:08x};", name, size,
                               crc32c(Bytes(reinterpret_cast<std::byte*>(value), bytes))));
  }
  std::sort(each.begin(), each.end());
  std::string all;
  for (const std::string& one : each) all += one;
  return all;
}

// Whether a descriptor holds what has no name any more, and is no file or not open.
bool is_gone(int file) {
  struct stat stat {};
  if (file < 0 || ::fstat(file, &stat) != 0 || stat.st_nlink != 0) return false;
  return !S_ISREG(stat.st_mode) || (::fcntl(file, F_GETFL) & O_PATH) != 0;
}

// "names: a, type 8; ..." of a directory, sorted; or why not.
std::vector<std::string> names_in(int directory, std::string& error) {
  std::vector<std::string> names;
  const int again = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC);
  DIR* listing = again < 0 ? nullptr : ::fdopendir(again);
  if (listing == nullptr) {
    error = std::strerror(errno);
    if (again >= 0) ::close(again);
    return names;
  }
  while (const dirent* entry = ::readdir(listing)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(listing);
  std::sort(names.begin(), names.end());
  return names;
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += name.substr(0, 40) + "; ";
  return all;
}

}  // namespace

Found Look::differ(Case seen, std::string text) {
  seen.copies = shared_.has_copies;
  const auto rule = intended(seen);
  if (!rule) return Finding{std::string(seen.field), std::move(text)};
  shared_.intended[*rule]++;
  return std::nullopt;
}

Found Look::at_answers(const Operation& operation, int from, int file, const Answer& mount,
                       const Answer& host) {
  shared_.answers[static_cast<size_t>(operation.kind)][host.error != 0]++;
  if (mount == host) return std::nullopt;
  uint32_t mode = 0;
  const Note* note = note_of(file, mode);
  const bool gone = is_gone(from) || is_gone(file);
  const Case seen{operation, "answer", note, mode, gone, false, &mount, &host};
  std::string text = fmt::format("  mount: {}\n  host:  {}", differential::to_text(mount),
                                 differential::to_text(host));
  if (mount.error == 0 && host.error == 0) {
    const auto [first, second] =
        std::mismatch(mount.data.begin(), mount.data.end(), host.data.begin(), host.data.end());
    if (first != mount.data.end() || second != host.data.end())
      text += fmt::format("\n  the first different byte is {}", first - mount.data.begin());
  }
  return differ(seen, text);
}

Note* Look::note_of(int host_file, uint32_t& mode) {
  struct statx stat {};
  if (host_file < 0 ||
      ::statx(host_file, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &stat) != 0)
    return nullptr;
  mode = stat.stx_mode;
  bool fresh = false;
  Note* note = shared_.notes.find(identity_of(host_file, "", AT_EMPTY_PATH, stat.stx_ino), fresh);
  return note != nullptr && note->listed ? note : nullptr;
}

Found Look::one(const Operation& operation, Pair directories, const char* name, int flags,
                const std::string& what) {
  struct statx stats[2] = {};
  int errors[2] = {};
  // Now and then what the file system itself says, and not what the kernel remembers of it.
  if (one_in(operation, 4)) flags |= AT_STATX_FORCE_SYNC;
  for (size_t side = 0; side < 2; side++) {
    const int result =
        ::statx(directories[side], name, flags, STATX_BASIC_STATS | STATX_BTIME, &stats[side]);
    errors[side] = result == 0 ? 0 : errno;
  }
  if (errors[0] != errors[1]) {
    Case seen{operation, "lookup"};
    seen.gone = is_gone(directories[1]);
    return differ(seen, fmt::format("{}\n  mount: {}\n  host:  {}", what, std::strerror(errors[0]),
                                    std::strerror(errors[1])));
  }
  if (errors[0] != 0 || (stats[1].stx_nlink == 0 && !S_ISREG(stats[1].stx_mode)))
    return std::nullopt;
  for (struct statx& stat : stats) stat.stx_mode = static_cast<uint16_t>(plain_mode(stat.stx_mode));
  for (size_t side = 0; side < 2; side++) {
    stats[side].stx_ino = identity_of(directories[side], name, flags, stats[side].stx_ino);
  }
  return compare(operation, what, stats[0], stats[1], directories, name);
}

Found Look::compare(const Operation& operation, const std::string& what, const struct statx& mount,
                    const struct statx& host, Pair directories, const char* name) {
  bool fresh = false;
  Note* note = shared_.notes.find(host.stx_ino, fresh);
  const bool directory = S_ISDIR(host.stx_mode);
  const auto field = [&](std::string_view called, uint64_t one, uint64_t other,
                         bool octal = false) {
    if (one == other) return Found();
    const auto text = [&](uint64_t number) {
      return octal ? fmt::format("{:o}", number) : std::to_string(number);
    };
    return differ(
        {operation, called, note, host.stx_mode},
        fmt::format("{}: {}\n  mount: {}\n  host:  {}", what, called, text(one), text(other)));
  };
  if (Found found = field("mode", mount.stx_mode, host.stx_mode, true)) return found;
  if (Found found = field("user", mount.stx_uid, host.stx_uid)) return found;
  if (Found found = field("group", mount.stx_gid, host.stx_gid)) return found;
  if (Found found = field("links", mount.stx_nlink, host.stx_nlink)) return found;
  if (!directory) {
    if (Found found = field("size", mount.stx_size, host.stx_size)) return found;
  }
  if (Found found = field("device", mount.stx_rdev_minor, host.stx_rdev_minor)) return found;
  if (note == nullptr) return std::nullopt;
  if (fresh) note->mount_inode = mount.stx_ino;
  if (Found found = field("inode", mount.stx_ino, note->mount_inode)) return found;
  const uint64_t partner = shared_.notes.partner(mount.stx_ino, host.stx_ino);
  if (partner != 0) {
    if (Found found = field("inode", partner, host.stx_ino)) return found;
  }
  if (Found found = times(operation, what, *note, fresh, mount, host)) return found;
  return blocks(operation, what, *note, mount, host, directories, name);
}

// A time that was set is the same on both sides. One at which something happened is not: it must
// lie in the time of the run, and change where the other one does.
Found Look::times(const Operation& operation, const std::string& what, Note& note, bool fresh,
                  const struct statx& mount, const struct statx& host) {
  const Times now[2] = {times_of(mount), times_of(host)};
  const Times before[2] = {note.mount_times, note.host_times};
  const bool known = !fresh && note.listed;
  note.mount_times = now[0];
  note.host_times = now[1];
  note.listed = true;
  const auto of_this_run = [&](Stamp stamp) {
    return stamp.seconds >= shared_.started - 2 && stamp.seconds < shared_.started + 86'400;
  };
  const auto check = [&](std::string_view called, Stamp Times::*member) {
    const Stamp one = now[0].*member, other = now[1].*member;
    const bool one_changed = one != before[0].*member, other_changed = other != before[1].*member;
    const bool happened = of_this_run(one) && of_this_run(other);
    if (happened ? !known || one_changed == other_changed : one == other) return Found();
    return differ({operation, called, &note, host.stx_mode},
                  fmt::format("{}: {}\n  mount: {} ({})\n  host:  {} ({})", what, called,
                              to_text(one), one_changed ? "changed" : "as before", to_text(other),
                              other_changed ? "changed" : "as before"));
  };
  if (Found found = check("mtime", &Times::modified)) return found;
  if (Found found = check("ctime", &Times::changed)) return found;
  if (Found found = check("atime", &Times::accessed)) return found;
  const bool birth_told = (mount.stx_mask & STATX_BTIME) != 0;
  if (birth_told && !of_this_run(stamp_of(mount.stx_btime))) {
    return differ({operation, "btime", &note, host.stx_mode},
                  what + ": the time of birth is " + to_text(stamp_of(mount.stx_btime)));
  }
  return std::nullopt;
}

Found Look::blocks(const Operation& operation, const std::string& what, const Note& note,
                   const struct statx& mount, const struct statx& host, Pair directories,
                   const char* name) {
  if (!shared_.compare_blocks || !S_ISREG(host.stx_mode) || note.reserved) return std::nullopt;
  const auto opened = [&](size_t side) {
    const bool open_file = name[0] == '\0';
    const std::string path =
        open_file ? fmt::format("/proc/self/fd/{}", directories[side]) : std::string(name);
    return UniqueFd(::openat(open_file ? AT_FDCWD : directories[side], path.c_str(),
                             O_RDONLY | O_NOATIME | O_NONBLOCK | O_CLOEXEC));
  };
  const UniqueFd file = opened(1);
  const UniqueFd beside = has_locks_ ? opened(0) : UniqueFd();
  if (!file) return std::nullopt;
  const int64_t expected = data_blocks(file.get());
  if (expected < 0 || mount.stx_blocks == static_cast<uint64_t>(expected * kBlock / 512))
    return std::nullopt;
  const bool gone = name[0] == '\0' && is_gone(directories[1]);
  return differ(
      {operation, "blocks", &note, host.stx_mode, gone},
      fmt::format("{}: blocks of 512 bytes\n  mount: {}\n  host has data in: {}, of blocks of "
                  "4,096:{}\n  mount has data in:{}",
                  what, mount.stx_blocks, expected * kBlock / 512, data_ranges(file.get()),
                  data_ranges(opened(0).get())));
}

Found Look::at_name(const Operation& operation, Pair directories, const std::string& path) {
  if (path.empty()) return std::nullopt;
  const std::string what = "'" + path.substr(0, 300) + "'";
  if (Found found = one(operation, directories, path.c_str(), AT_SYMLINK_NOFOLLOW, what))
    return found;
  if (Found found = one(operation, directories, path.c_str(), 0, what + " followed")) return found;
  const size_t slash = path.find_last_not_of('/') == std::string::npos
                           ? std::string::npos
                           : path.rfind('/', path.find_last_not_of('/'));
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return one(operation, directories, parent.c_str(), 0, "the directory '" + parent + "'");
}

Found Look::at_file(const Operation& operation, Pair files) {
  if (files[0] < 0 || files[1] < 0) return std::nullopt;
  if (Found found = one(operation, files, "", AT_EMPTY_PATH, "the open file")) return found;
  struct stat stat {};
  if (::fstat(files[1], &stat) != 0 || !S_ISREG(stat.st_mode)) return std::nullopt;
  const off_t places[2] = {::lseek(files[0], 0, SEEK_CUR), ::lseek(files[1], 0, SEEK_CUR)};
  if (places[0] == places[1]) return std::nullopt;
  return differ(
      {operation, "place", nullptr, stat.st_mode},
      fmt::format("place in the open file\n  mount: {}\n  host:  {}", places[0], places[1]));
}

Found Look::at_bytes(const Operation& operation, Pair files) {
  struct stat stat {};
  if (files[0] < 0 || ::fstat(files[1], &stat) != 0 || !S_ISREG(stat.st_mode)) return std::nullopt;
  if (is_gone(files[1])) return std::nullopt;
  UniqueFd open[2];
  for (size_t side = 0; side < 2; side++) {
    const std::string path = fmt::format("/proc/self/fd/{}", files[side]);
    open[side] = UniqueFd(::open(path.c_str(), O_RDONLY | O_NOATIME | O_CLOEXEC));
    if (!open[side])
      return Finding{"bytes", fmt::format("cannot be opened on the {}: {}",
                                          side == 0 ? "mount" : "host", std::strerror(errno))};
  }
  const bool whole = stat.st_size <= kBytesWhole;
  const std::array<int64_t, 2> starts{0, whole ? 0 : stat.st_size - kBytesEnd};
  for (const int64_t start : starts) {
    const int64_t length = whole ? stat.st_size : kBytesEnd;
    for (size_t side = 0; side < 2; side++) {
      if (!read_exactly(open[side].get(), start, length, bytes_[side]))
        return Finding{"bytes", fmt::format("reading on the {}: {}", side == 0 ? "mount" : "host",
                                            std::strerror(errno))};
    }
    if (bytes_[0] == bytes_[1]) continue;
    const auto [first, second] =
        std::mismatch(bytes_[0].begin(), bytes_[0].end(), bytes_[1].begin(), bytes_[1].end());
    return differ(
        {operation, "bytes", nullptr, stat.st_mode},
        fmt::format("content of {} bytes ({} and {} read): byte {} is the first that differs",
                    stat.st_size, bytes_[0].size(), bytes_[1].size(),
                    start + (first - bytes_[0].begin())));
  }
  return std::nullopt;
}

Found Look::at_tree(const Operation& operation, Pair directories, const std::string& name) {
  const std::string what = "'" + name.substr(0, 300) + "'";
  if (Found found = one(operation, directories, name.c_str(), AT_SYMLINK_NOFOLLOW, what))
    return found;
  struct stat stat {};
  if (::fstatat(directories[1], name.c_str(), &stat, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  std::string words[2];
  UniqueFd files[2];
  for (size_t side = 0; side < 2; side++) {
    words[side] = xattrs_of(fmt::format("/proc/self/fd/{}/{}", directories[side], name));
    if (S_ISLNK(stat.st_mode)) {
      char target[8192];
      const ssize_t got = ::readlinkat(directories[side], name.c_str(), target, sizeof(target));
      words[side] += " -> " + std::string(target, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    }
    if (S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode))
      files[side] =
          UniqueFd(::openat(directories[side], name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  }
  if (words[0] != words[1])
    return differ({operation, "xattrs", nullptr, stat.st_mode},
                  fmt::format("{}\n  mount: {}\n  host:  {}", what, words[0], words[1]));
  const Pair both{files[0].get(), files[1].get()};
  if (S_ISREG(stat.st_mode)) {
    Found found = at_bytes(operation, both);
    if (found) found->text = what + ": " + found->text;
    return found;
  }
  return S_ISDIR(stat.st_mode) ? children(operation, both, what) : std::nullopt;
}

Found Look::children(const Operation& operation, Pair directories, const std::string& what) {
  std::string errors[2];
  const std::vector<std::string> names[2] = {names_in(directories[0], errors[0]),
                                             names_in(directories[1], errors[1])};
  if (names[0] != names[1] || errors[0] != errors[1])
    return differ({operation, "names", nullptr, S_IFDIR},
                  fmt::format("{}\n  mount: {}{}\n  host:  {}{}", what, errors[0], joined(names[0]),
                              errors[1], joined(names[1])));
  for (const std::string& name : names[0]) {
    if (Found found = at_tree(operation, directories, name)) return found;
  }
  return std::nullopt;
}

}  // namespace penstock::differential
