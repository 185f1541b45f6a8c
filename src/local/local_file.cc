#include "local_file.h"

#include "limits.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace penstock::local {

namespace {

UniqueFd open_again(int fd, int flags) {
  const std::string name = fmt::format("/proc/self/fd/{}", fd);
  return UniqueFd(::open(name.c_str(), flags | O_CLOEXEC));
}

ssize_t read_at(int fd, std::byte* to, uint64_t length, uint64_t offset, int flags) {
  iovec piece{to, length};
  ssize_t got = 0;
  do {
    got = ::preadv2(fd, &piece, 1, static_cast<off_t>(offset), flags);
  } while (got < 0 && errno == EINTR);
  return got;
}

ssize_t write_at(int fd, const std::byte* from, uint64_t length, uint64_t offset, int flags) {
  iovec piece{const_cast<std::byte*>(from), length};
  ssize_t put = 0;
  do {
    put = ::pwritev2(fd, &piece, 1, static_cast<off_t>(offset), flags);
  } while (put < 0 && errno == EINTR);
  return put;
}

long file_system_of(int fd) {
  struct statfs facts {};
  return ::fstatfs(fd, &facts) == 0 ? static_cast<long>(facts.f_type) : 0;
}

engine::WallTime as_time(const timespec& time) {
  return {static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec};
}

}  // namespace

FileVersion FileVersion::of(int fd, uint64_t own_writes) {
  struct stat facts {};
  if (fd < 0 || ::fstat(fd, &facts) != 0) return {};
  return {true, static_cast<uint64_t>(facts.st_size), as_time(facts.st_mtim),
          as_time(facts.st_ctim), own_writes};
}

bool FileVersion::is_older_than(engine::Duration age) const {
  const int64_t now = engine::system_clock().wall().nanoseconds;
  return now - std::max(modified, changed).nanoseconds > age.count();
}

bool is_in_memory(int fd, uint64_t offset) {
  std::byte byte{};
  const int flags = file_system_of(fd) == TMPFS_MAGIC ? 0 : RWF_NOWAIT;
  return read_at(fd, &byte, 1, offset, flags) == 1;
}

Outcome<std::unique_ptr<LocalFile>> LocalFile::open(int fd) {
  struct stat facts {};
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fstat(fd, &facts) != 0) {
    return Failure{Code::invalid_argument, fmt::format("descriptor {}: {}", fd, strerror(errno))};
  }
  if (!S_ISREG(facts.st_mode) && !S_ISBLK(facts.st_mode)) {
    return Failure{Code::invalid_argument,
                   fmt::format("descriptor {}: neither a file nor a block device", fd)};
  }
  UniqueFd given(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!given) {
    return Failure{Status::from_errno(errno),
                   fmt::format("descriptor {}: duplicate it: {}", fd, strerror(errno))};
  }
  auto file = std::make_unique<LocalFile>();
  const int kept = flags & (O_ACCMODE | O_SYNC | O_DSYNC);
  file->asked_direct_ = (flags & O_DIRECT) != 0;
  file->readable_ = (flags & O_ACCMODE) != O_WRONLY && S_ISREG(facts.st_mode);
  file->in_memory_ = file_system_of(fd) == TMPFS_MAGIC;
  if (file->asked_direct_) {
    file->buffered_ = open_again(given.get(), kept);
    file->direct_ = std::move(given);
  } else {
    file->direct_ = open_again(given.get(), kept | O_DIRECT);
    file->buffered_ = std::move(given);
  }
  return file;
}

bool LocalFile::can_map() const {
  if (!readable_ || !buffered_) return false;
  switch (file_system_of(buffered_.get())) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
      return true;
    default:
      return false;
  }
}

UniqueFd LocalFile::duplicate() const {
  return UniqueFd(::fcntl(buffered_.get(), F_DUPFD_CLOEXEC, 0));
}

bool LocalFile::may_go_direct(uint64_t offset, const std::byte* memory, uint64_t length) const {
  if (!direct_ || !can_direct_.load(std::memory_order_relaxed)) return false;
  if (!buffered_) return true;
  return is_aligned(offset, route::kBlockBytes) && is_aligned(length, route::kBlockBytes) &&
         is_aligned(memory, route::kBlockBytes);
}

// What is there of the beginning, up to the first page that is not cached.
uint64_t LocalFile::read_cached(route::HostIo& io) {
  if (!buffered_ || !can_look_.load(std::memory_order_relaxed)) return 0;
  const ssize_t got = read_at(buffered_.get(), io.memory.data, io.memory.length, io.offset,
                              in_memory_ ? 0 : RWF_NOWAIT);
  if (got < 0 && errno == EOPNOTSUPP) can_look_.store(false, std::memory_order_relaxed);
  if (got <= 0) return 0;
  io.route = engine::Route::disk_page_cache;
  return static_cast<uint64_t>(got);
}

bool LocalFile::read_now(route::HostIo& io) {
  io.transferred = read_cached(io);
  return io.transferred == io.memory.length || ends_at(io.offset + io.transferred);
}

// Whether a read there gives nothing because the file has no more, and not because the page cache
// has not.
bool LocalFile::ends_at(uint64_t offset) {
  if (!buffered_ || !can_look_.load(std::memory_order_relaxed)) return false;
  std::byte one{};
  return read_at(buffered_.get(), &one, 1, offset, in_memory_ ? 0 : RWF_NOWAIT) == 0;
}

Status LocalFile::read(route::HostIo& io) {
  uint64_t done = read_cached(io);
  // Where it is not known what is cached, the cache comes first, unless the program wants it not.
  const bool prefers_direct = asked_direct_ || can_look_.load(std::memory_order_relaxed);
  while (done < io.memory.length) {
    std::byte* const to = io.memory.data + done;
    const uint64_t left = io.memory.length - done;
    const uint64_t at = io.offset + done;
    const bool direct = (prefers_direct || !buffered_) && may_go_direct(at, to, left);
    const ssize_t got = read_at(direct ? direct_.get() : buffered_.get(), to, left, at, 0);
    if (got < 0 && errno == EINVAL && direct && buffered_) {
      can_direct_.store(false, std::memory_order_relaxed);
      continue;
    }
    if (got < 0) {
      io.transferred = 0;
      return Status::from_errno(errno);
    }
    if (got == 0) break;
    done += static_cast<uint64_t>(got);
    const auto route = direct ? engine::Route::disk_direct : engine::Route::disk_page_cache;
    io.route = engine::worse(io.route, route);
  }
  ASSERT(done <= io.memory.length);
  io.transferred = done;
  return Code::ok;
}

Status LocalFile::write(route::HostIo& io) {
  const int flags = io.durable ? RWF_DSYNC : 0;
  io.transferred = 0;
  while (io.transferred < io.memory.length) {
    const std::byte* const from = io.memory.data + io.transferred;
    const uint64_t left = io.memory.length - io.transferred;
    const uint64_t at = io.offset + io.transferred;
    const bool direct = (asked_direct_ || !buffered_) && may_go_direct(at, from, left);
    const ssize_t put = write_at(direct ? direct_.get() : buffered_.get(), from, left, at, flags);
    if (put < 0 && errno == EINVAL && direct && buffered_) {
      can_direct_.store(false, std::memory_order_relaxed);
      continue;
    }
    if (direct) own_writes_.fetch_add(1, std::memory_order_release);
    if (put < 0) return Status::from_errno(errno);
    io.transferred += static_cast<uint64_t>(put);
    const auto route = direct ? engine::Route::disk_direct : engine::Route::disk_page_cache;
    io.route = engine::worse(io.route, route);
  }
  return Code::ok;
}

}  // namespace penstock::local
