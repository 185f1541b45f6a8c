#include "foreign_memory.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::agent {

Outcome<std::unique_ptr<ForeignMemory>> ForeignMemory::map(int fd, uint64_t offset, uint64_t size,
                                                           bool must_be_sealed) {
  // Only shared memory has seals, and asking for them never calls into a file system: this comes
  // before anything that could.
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) {
    return Failure{Code::invalid_argument,
                   "the descriptor is not shared memory (use a memfd or a file in /dev/shm)"};
  }
  if (must_be_sealed && (seals & F_SEAL_SHRINK) == 0) {
    return Failure{Code::invalid_argument, "the memory is not sealed against shrinking"};
  }
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return Failure{Status::from_errno(errno), "fstat failed"};
  if (!range_within(offset, size, static_cast<uint64_t>(facts.st_size))) {
    return Failure{Code::invalid_argument, "the memory is smaller than the region"};
  }
  void* base =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (base == MAP_FAILED) {
    return Failure{Status::from_errno(errno),
                   std::string("the memory cannot be mapped: ") + std::strerror(errno)};
  }
  const MutableBytes bytes(static_cast<std::byte*>(base), size);
  Result<BusGuard> guard = BusGuard::over(bytes);
  if (!guard) {
    ::munmap(base, size);
    return Failure{guard.error(), "too many regions on this node"};
  }
  return std::unique_ptr<ForeignMemory>(new ForeignMemory(bytes, std::move(*guard)));
}

ForeignMemory::~ForeignMemory() {
  guard_ = BusGuard();
  ::munmap(bytes_.data(), bytes_.size());
}

namespace {

// What the kernel calls the file, cut to the beginning. Never calls into its file system.
std::string kernel_name_of(int fd) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  char target[64];
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  return {target, length > 0 ? static_cast<size_t>(length) : 0};
}

}  // namespace

bool is_eventfd(int fd) {
  return kernel_name_of(fd) == "anon_inode:[eventfd]";
}

bool is_named_file(int fd) {
  return kernel_name_of(fd).starts_with('/');
}

}  // namespace penstock::agent
