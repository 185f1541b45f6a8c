// Operations on the bytes and the state of open files.
#include "side.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

namespace penstock::differential {
namespace {

// What goes around the page cache must be aligned on some file systems (docs/posix.md), so it is.
constexpr int64_t kAligned = ~int64_t{4095};

int64_t aligned(const Side& side, const Operation& operation, int64_t number) {
  return side.direct(operation.slot) && number > 0 ? number & kAligned : number;
}

// The same for the place at which read() and write() go on.
void align_place(const Side& side, const Operation& operation) {
  if (!side.direct(operation.slot)) return;
  const int file = side.file(operation.slot);
  const off_t place = ::lseek(file, 0, SEEK_CUR);
  if (place > 0) ::lseek(file, place & kAligned, SEEK_SET);
}

// "place after an append" in intended.cc.
void place_after_append(const Side& side, int file, bool appends) {
  if (!side.beside_others() || !appends) return;
  struct stat stat {};
  ::fstat(file, &stat);  // The kernel may go to an old end without.
  ::lseek(file, 0, SEEK_END);
}

Answer read_some(Side& side, const Operation& operation, bool at_place) {
  const auto length = static_cast<size_t>(aligned(side, operation, operation.numbers[0]));
  char* bytes = side.memory(length + 8);
  const int file = side.file(operation.slot);
  if (at_place) {
    align_place(side, operation);
    return answer_of(::read(file, bytes, length), bytes);
  }
  const int64_t offset = aligned(side, operation, operation.numbers[1]);
  return answer_of(::pread(file, bytes, length, offset), bytes);
}

Answer write_here(Side& side, const Operation& operation) {
  auto length = static_cast<size_t>(aligned(side, operation, operation.numbers[0]));
  char* bytes = side.memory(length + 8);
  fill(bytes, length, operation.numbers[1]);
  const int file = side.file(operation.slot);
  align_place(side, operation);
  const bool lose = side.fault() == Fault::append_loses_a_byte && length > 0 &&
                    (::fcntl(file, F_GETFL) & (O_APPEND | O_ACCMODE)) > O_APPEND;
  const ssize_t written = ::write(file, bytes, lose ? length - 1 : length);
  const int error = errno;
  place_after_append(side, file, written > 0 && (::fcntl(file, F_GETFL) & O_APPEND) != 0);
  errno = error;
  return answer_of(lose && written > 0 ? written + 1 : written);
}

Answer write_at(Side& side, const Operation& operation) {
  const auto length = static_cast<size_t>(aligned(side, operation, operation.numbers[0]));
  const int64_t offset = aligned(side, operation, operation.numbers[1]);
  char* bytes = side.memory(length + 8);
  fill(bytes, length, operation.numbers[2]);
  const int file = side.file(operation.slot);
  if (operation.kind == Kind::pwrite) return answer_of(::pwrite(file, bytes, length, offset));
  if (side.direct(operation.slot)) return {};
  const iovec parts[2] = {{bytes, length / 3}, {bytes + length / 3, length - length / 3}};
  const auto flags = static_cast<int>(operation.numbers[3]);
  const Answer answer = answer_of(::pwritev2(file, parts, 2, offset, flags));
  const bool appends = (flags & RWF_APPEND) != 0 || (::fcntl(file, F_GETFL) & O_APPEND) != 0;
  place_after_append(side, file, offset == -1 && answer.value > 0 && appends);
  return answer;
}

Answer change_length(const Side& side, const Operation& operation) {
  const int file = side.file(operation.slot);
  struct stat before {};
  const bool known = ::fstat(file, &before) == 0;
  const Answer answer = answer_of(::ftruncate(file, operation.numbers[0]));
  if (side.fault() == Fault::old_bytes_after_growing && answer.error == 0 && known &&
      before.st_size > 0 && before.st_size < operation.numbers[0]) {
    const auto written = ::pwrite(file, "x", 1, before.st_size);
    if (written != 1) return answer_of(-1);
  }
  return answer;
}

// Asking where data is moves the place; where the answers may differ, what follows would too.
Answer seek(const Side& side, const Operation& operation) {
  const int file = side.file(operation.slot);
  const auto whence = static_cast<int>(operation.numbers[1]);
  const bool asks = whence == SEEK_DATA || whence == SEEK_HOLE;
  const off_t place = asks ? ::lseek(file, 0, SEEK_CUR) : 0;
  const Answer answer = answer_of(::lseek(file, operation.numbers[0], whence));
  if (asks && place >= 0) ::lseek(file, place, SEEK_SET);
  return answer;
}

// How far one call gets is the kernel's choice; what arrives in the end is not.
template <typename Step>
Answer repeat(int64_t length, Step step) {
  int64_t done = 0;
  do {
    const ssize_t got = step(static_cast<size_t>(length - done));
    if (got < 0) return done > 0 ? answer_of(done) : answer_of(-1);
    if (got == 0) break;
    done += got;
  } while (done < length);
  return answer_of(done);
}

Answer copy(const Side& side, const Operation& operation) {
  if (side.direct(operation.slot) || side.direct(operation.other)) return {};
  const int in = side.file(operation.slot), out = side.file(operation.other);
  // "sendfile() and copy_file_range() ..." in intended.cc; 'cp' asks for the length, too.
  struct stat stat {};
  for (const int each : {in, out}) {
    if (side.beside_others() && each >= 0) ::fstat(each, &stat);
  }
  if (operation.kind == Kind::copy_range) {
    off64_t from = operation.numbers[1], to = operation.numbers[2];
    return repeat(operation.numbers[0],
                  [&](size_t left) { return ::copy_file_range(in, &from, out, &to, left, 0); });
  }
  off_t from = operation.numbers[1];
  return repeat(operation.numbers[0], [&](size_t left) {
    return ::sendfile(out, in, operation.numbers[1] < 0 ? nullptr : &from, left);
  });
}

Answer open_path(Side& side, const Operation& operation) {
  const auto flags = static_cast<int>(operation.numbers[0]);
  // A fifo of the tree must not hold anybody up.
  const int file = ::open(operation.path.c_str(), flags | O_CLOEXEC | O_NONBLOCK,
                          static_cast<mode_t>(operation.numbers[1]));
  const Answer answer = answer_of(file < 0 ? -1 : 0);
  const bool path_only = (flags & O_PATH) != 0;
  if (file >= 0)
    side.put(operation.slot, file, (flags & O_DIRECT) != 0 && !path_only, side.mount());
  return answer;
}

Answer duplicate(Side& side, const Operation& operation) {
  const int file = side.file(operation.slot);
  const int made = ::fcntl(file, F_DUPFD_CLOEXEC, 0);
  const Answer answer = answer_of(made < 0 ? -1 : 0);
  if (made >= 0)
    side.put(operation.other, made, side.direct(operation.slot), side.mount_of(operation.slot));
  return answer;
}

Answer lock_range(const Side& side, const Operation& operation) {
  struct flock range {};
  range.l_type = static_cast<short>(operation.numbers[1]);
  range.l_whence = SEEK_SET;
  range.l_start = operation.numbers[2];
  range.l_len = operation.numbers[3];
  const auto command = static_cast<int>(operation.numbers[0]);
  Answer answer = answer_of(::fcntl(side.file(operation.slot), command, &range));
  if (answer.error == 0 && (command == F_GETLK || command == F_OFD_GETLK)) {
    answer.data = fmt::format("type {} start {} length {} owner {}", range.l_type, range.l_start,
                              range.l_len, range.l_pid);
  }
  return answer;
}

Answer set_status_flags(const Side& side, const Operation& operation) {
  const int file = side.file(operation.slot);
  const int now = ::fcntl(file, F_GETFL);
  if (now < 0) return answer_of(-1);
  auto flags = static_cast<int>(operation.numbers[0]) | O_NONBLOCK;
  if (side.direct(operation.slot)) flags = O_DIRECT | O_NONBLOCK;
  struct stat stat {};
  // "fcntl() that ..." in intended.cc.
  if (::fstat(file, &stat) == 0 && S_ISDIR(stat.st_mode)) flags &= ~O_APPEND;
  return answer_of(::fcntl(file, F_SETFL, flags));
}

Answer inode_flags(const Side& side, const Operation& operation) {
  // What is asked for beside what the file has for other reasons (ext4: extents).
  constexpr int kKnown = FS_IMMUTABLE_FL | FS_APPEND_FL | FS_NODUMP_FL | FS_NOATIME_FL;
  int flags = 0;
  const int file = side.file(operation.slot);
  if (::ioctl(file, FS_IOC_GETFLAGS, &flags) != 0) return answer_of(-1);
  if (operation.kind == Kind::get_flags) return answer_of(flags & kKnown);
  int wanted = static_cast<int>(operation.numbers[0]);
  struct stat stat {};
  // Open files go on as they were opened (docs/posix.md), and would differ for ever.
  const bool is_file = ::fstat(file, &stat) == 0 && S_ISREG(stat.st_mode);
  if (is_file) wanted &= ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
  flags = (flags & ~kKnown) | wanted;
  return answer_of(::ioctl(file, FS_IOC_SETFLAGS, &flags));
}

Answer set_file_times(const Side& side, const Operation& operation) {
  timespec times[2];
  for (size_t i = 0; i < 2; i++) {
    const int64_t seconds = operation.numbers[i];
    times[i] = {seconds, operation.numbers[2]};
    if (seconds == INT64_MAX) times[i] = {0, UTIME_NOW};
    if (seconds == INT64_MIN) times[i] = {0, UTIME_OMIT};
  }
  return answer_of(::futimens(side.file(operation.slot), times));
}

Answer link_file(const Side& side, const Operation& operation) {
  const std::string file = fmt::format("/proc/self/fd/{}", side.file(operation.slot));
  return answer_of(
      ::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, operation.path.c_str(), AT_SYMLINK_FOLLOW));
}

}  // namespace

Answer run_on_file(Side& side, const Operation& operation) {
  const int file = side.file(operation.slot);
  const auto& numbers = operation.numbers;
  switch (operation.kind) {
    case Kind::read:
    case Kind::pread:
      return read_some(side, operation, operation.kind == Kind::read);
    case Kind::write:
      return write_here(side, operation);
    case Kind::pwrite:
    case Kind::pwritev2:
      return write_at(side, operation);
    case Kind::ftruncate:
      return change_length(side, operation);
    case Kind::fallocate:
      return answer_of(::fallocate(file, static_cast<int>(numbers[0]), numbers[1], numbers[2]));
    case Kind::seek:
      return seek(side, operation);
    default:
      return copy(side, operation);
  }
}

Answer run_on_file_state(Side& side, const Operation& operation) {
  const int file = side.file(operation.slot);
  const auto& numbers = operation.numbers;
  switch (operation.kind) {
    case Kind::open:
      return open_path(side, operation);
    case Kind::link_file:
      return link_file(side, operation);
    case Kind::close:
      return file < 0 ? Answer{-1, EBADF, {}} : answer_of(side.put(operation.slot, -1, false, 0));
    case Kind::dup:
      return duplicate(side, operation);
    case Kind::fchmod:
      if ((numbers[0] & S_ISGID) != 0) ask_for_group(file, "");
      return answer_of(::fchmod(file, static_cast<mode_t>(numbers[0])));
    case Kind::fchown:
      return answer_of(
          ::fchown(file, static_cast<uid_t>(numbers[0]), static_cast<gid_t>(numbers[1])));
    case Kind::futimens:
      return set_file_times(side, operation);
    case Kind::fsync:
      return answer_of(numbers[0] != 0 ? ::fdatasync(file) : ::fsync(file));
    case Kind::flock:
      return answer_of(::flock(file, static_cast<int>(numbers[0])));
    case Kind::lock:
      return lock_range(side, operation);
    case Kind::get_flags:
    case Kind::set_flags:
      return inode_flags(side, operation);
    case Kind::get_fl:
      return answer_of(::fcntl(file, F_GETFL));
    case Kind::set_fl:
      return set_status_flags(side, operation);
    default: {
      const int error = ::posix_fadvise(file, numbers[0], numbers[1], POSIX_FADV_DONTNEED);
      return {error == 0 ? 0 : -1, error, {}};
    }
  }
}

}  // namespace penstock::differential
