#include "direct_probe.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <memory>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::disk {
namespace {

constexpr uint64_t kAlignmentMax = 4096;

UniqueFd open_probe_file(const std::string& directory) {
  UniqueFd fd(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
  if (fd || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  // A file system without nameless files.
  std::string name = directory + "/.direct-probe-XXXXXX";
  fd = UniqueFd(::mkostemp(name.data(), O_DIRECT | O_CLOEXEC));
  const int error = errno;
  if (fd) ::unlink(name.c_str());
  errno = error;
  return fd;
}

// What the file system states (Linux 6.1), or 0.
uint64_t stated_alignment(int fd) {
  struct statx info {};
  // The C library's wrapper knows the same struct, but not this mask everywhere.
  if (::syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0) return 0;
  if ((info.stx_mask & STATX_DIOALIGN) == 0) return 0;
  return std::max(info.stx_dio_mem_align, info.stx_dio_offset_align);
}

// Writes and reads one piece at an offset, length and address aligned to no more than `alignment`.
bool transfers(int fd, uint64_t alignment) {
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(kAlignmentMax, 4 * kAlignmentMax)), &std::free);
  if (memory == nullptr) return false;
  std::byte* piece = memory.get() + alignment;
  std::memset(piece, 0x5a, alignment);
  const auto offset = static_cast<off_t>(alignment);
  if (::pwrite(fd, piece, alignment, offset) != static_cast<ssize_t>(alignment)) return false;
  std::memset(piece, 0, alignment);
  if (::pread(fd, piece, alignment, offset) != static_cast<ssize_t>(alignment)) return false;
  return piece[0] == std::byte{0x5a} && piece[alignment - 1] == std::byte{0x5a};
}

}  // namespace

DirectProbe probe_direct(const std::string& directory) {
  DirectProbe result;
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) == 0 && info.f_type == TMPFS_MAGIC) {
    // Newer kernels accept the flag there, and copy all the same.
    result.reason = "tmpfs: the page cache is the storage";
    return result;
  }
  const UniqueFd fd = open_probe_file(directory);
  if (!fd) {
    result.reason = errno == EINVAL
                        ? "the file system refuses O_DIRECT"
                        : fmt::format("no file to try O_DIRECT with: {}", std::strerror(errno));
    return result;
  }
  const uint64_t stated = stated_alignment(fd.get());
  for (const uint64_t alignment : {uint64_t{512}, uint64_t{1024}, uint64_t{2048}, kAlignmentMax}) {
    if (alignment < stated || !transfers(fd.get(), alignment)) continue;
    result.works = true;
    result.alignment = alignment;
    return result;
  }
  result.reason = fmt::format("O_DIRECT needs an alignment of {} bytes here, more than {}", stated,
                              kAlignmentMax);
  if (stated <= kAlignmentMax) result.reason = "O_DIRECT transfers fail here";
  return result;
}

}  // namespace penstock::disk
