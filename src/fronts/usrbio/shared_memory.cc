#include "shared_memory.h"

#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::usrbio {

namespace {

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::string path_of(const std::string& name) {
  return "/dev/shm/" + name;
}

// Takes all pages of the file now. A file system that cannot is left to take them when touched.
int allocate_pages(int fd, size_t size) {
  for (;;) {
    if (::fallocate(fd, 0, 0, static_cast<off_t>(size)) == 0) return 0;
    if (errno == EINTR) continue;
    return errno == EOPNOTSUPP ? 0 : errno;
  }
}

}  // namespace

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    unmap();
    base_ = std::exchange(other.base_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void Mapping::unmap() {
  if (base_ != nullptr) ::munmap(base_, size_);
  base_ = nullptr;
  size_ = 0;
}

Result<Mapping, int> map_shared_memory(int fd, size_t size) {
  void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return Unexpected(int{errno});
  return Mapping(base, size);
}

Result<SharedMemory, int> create_shared_memory(const std::string& name, size_t size, int numa) {
  const size_t page = page_bytes();
  if (size == 0 || size > static_cast<size_t>(PTRDIFF_MAX) - page) return Unexpected(int{EINVAL});
  const size_t rounded = align_up(size, page);
  SharedMemory memory;
  memory.name = name;
  const std::string path = path_of(name);
  memory.fd =
      UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!memory.fd) return Unexpected(int{errno});
  int error = 0;
  if (::ftruncate(memory.fd.get(), static_cast<off_t>(rounded)) != 0) error = errno;
  if (error == 0) {
    auto mapping = map_shared_memory(memory.fd.get(), rounded);
    if (mapping) {
      memory.mapping = std::move(*mapping);
      // Before the pages exist: afterwards they stay where they are.
      prefer_numa_node(memory.mapping.base(), rounded, numa);
      error = allocate_pages(memory.fd.get(), rounded);
    } else {
      error = mapping.error();
    }
  }
  if (error != 0) {
    ::unlink(path.c_str());
    return Unexpected(int{error});
  }
  return memory;
}

Result<UniqueFd, int> open_shared_memory(const std::string& name, size_t size) {
  UniqueFd fd(::open(path_of(name).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return Unexpected(errno == ELOOP ? EINVAL : errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return Unexpected(int{errno});
  const uid_t self = ::geteuid();
  if (status.st_uid != self && self != 0) return Unexpected(int{EACCES});
  if (!S_ISREG(status.st_mode) || size == 0 || static_cast<uint64_t>(status.st_size) < size) {
    return Unexpected(int{EINVAL});
  }
  return fd;
}

void unlink_shared_memory(const std::string& name) {
  ::unlink(path_of(name).c_str());
}

void prefer_numa_node(void* base, size_t size, int numa) {
  constexpr int kNodesMax = 1024;  // MAX_NUMNODES of the largest kernel configurations
  constexpr int kBits = sizeof(unsigned long) * CHAR_BIT;
  if (numa < 0 || numa >= kNodesMax) return;
  unsigned long nodes[kNodesMax / kBits] = {};
  nodes[numa / kBits] = 1UL << (numa % kBits);
  const uintptr_t begin = align_down(reinterpret_cast<uintptr_t>(base), page_bytes());
  const size_t length = reinterpret_cast<uintptr_t>(base) + size - begin;
  // A hint: kernels without NUMA refuse it, and so do machines without that node.
  ::syscall(SYS_mbind, begin, length, MPOL_PREFERRED, nodes, kNodesMax + 1, 0);
}

Result<Published, int> open_published(std::string_view mount, const Uuid& id, size_t size,
                                      size_t block_size, bool any_block_size) {
  for (LinkCandidate& candidate : link_candidates(mount, id, block_size, any_block_size)) {
    char target[PATH_MAX];
    const ssize_t n = ::readlink(candidate.path.c_str(), target, sizeof(target));
    if (n < 0 && errno == ENOENT) continue;
    if (n < 0) return Unexpected(int{errno});
    const auto name = shared_memory_name(std::string_view(target, static_cast<size_t>(n)));
    if (!name) return Unexpected(int{EINVAL});
    auto fd = open_shared_memory(*name, size);
    if (!fd) return Unexpected(int{fd.error()});
    return Published{std::move(candidate.path), candidate.block_size, std::move(*fd)};
  }
  return Unexpected(int{ENOENT});
}

}  // namespace penstock::usrbio
