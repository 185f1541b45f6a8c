#include "shared_memory.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace penstock::usrbio {

namespace {

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

constexpr const char* kDirectory = "/dev/shm";

std::string path_of(const std::string& name) {
  return fmt::format("{}/{}", kDirectory, name);
}

// Holds the shared lock until the file's last descriptor is closed, here and in the agent. It is
// refused only to a process that comes while an abandoned file is being removed. 0 or a positive
// errno.
int mark_used(int fd) {
  while (::flock(fd, LOCK_SH | LOCK_NB) != 0) {
    if (errno != EINTR) return errno == EWOULDBLOCK ? ENOENT : errno;
  }
  return 0;
}

// Calls `visit` with the name of each entry.
template <class Visit>
void for_each_entry(const std::string& directory, Visit&& visit) {
  DIR* entries = ::opendir(directory.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries)) visit(std::string(entry->d_name));
  ::closedir(entries);
}

// Whether /dev/shm has so much left now. The pages are made when they are used: zeroing them takes
// longer than all the rest, and much memory is never used. 0 or a positive errno.
int check_room(int fd, size_t size) {
  struct statvfs facts {};
  if (::fstatvfs(fd, &facts) != 0) return errno;
  // A tmpfs without a limit has no blocks to count.
  if (facts.f_blocks == 0) return 0;
  return facts.f_bavail < size / facts.f_frsize ? ENOSPC : 0;
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
  // Without a name until it is locked: what has one and no lock is abandoned.
  memory.fd = UniqueFd(::open(kDirectory, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (!memory.fd) return Unexpected(int{errno});
  int error = mark_used(memory.fd.get());
  if (error != 0) return Unexpected(int{error});
  error = check_room(memory.fd.get(), rounded);
  if (error != 0) return Unexpected(int{error});
  if (::ftruncate(memory.fd.get(), static_cast<off_t>(rounded)) != 0) {
    error = errno;
  } else {
    auto mapping = map_shared_memory(memory.fd.get(), rounded);
    if (mapping) {
      memory.mapping = std::move(*mapping);
      // Before the pages exist: afterwards they stay where they are.
      prefer_numa_node(memory.mapping.base(), rounded, numa);
    } else {
      error = mapping.error();
    }
  }
  if (error != 0) return Unexpected(int{error});
  // The way to name a file without privileges, see open(2) on O_TMPFILE.
  const std::string self = fmt::format("/proc/self/fd/{}", memory.fd.get());
  if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return Unexpected(int{errno});
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
  const int error = name.starts_with(kMemoryPrefix) ? mark_used(fd.get()) : 0;
  if (error != 0) return Unexpected(int{error});
  return fd;
}

std::string path_of_memory(const std::string& name) {
  return path_of(name);
}

void unlink_shared_memory(const std::string& name) {
  ::unlink(path_of(name).c_str());
}

size_t remove_abandoned_memory(const std::string& link_directory) {
  std::vector<std::string> removed;
  for_each_entry(kDirectory, [&](const std::string& name) {
    if (!name.starts_with(kMemoryPrefix)) return;
    const std::string path = path_of(name);
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0 || status.st_uid != ::geteuid()) return;
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return;
    if (::unlink(path.c_str()) == 0) removed.push_back(name);
  });
  if (removed.empty()) return 0;
  // Only links to these: what another dangling link means is known where its /dev/shm is, which may
  // be another container's.
  for_each_entry(link_directory, [&](const std::string& name) {
    const std::string link = fmt::format("{}/{}", link_directory, name);
    char link_target[PATH_MAX];
    const ssize_t n = ::readlink(link.c_str(), link_target, sizeof(link_target));
    if (n <= 0) return;
    const auto memory = shared_memory_name(std::string_view(link_target, static_cast<size_t>(n)));
    if (memory && std::find(removed.begin(), removed.end(), *memory) != removed.end()) {
      ::unlink(link.c_str());
    }
  });
  return removed.size();
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
    char link_target[PATH_MAX];
    const ssize_t n = ::readlink(candidate.path.c_str(), link_target, sizeof(link_target));
    if (n < 0 && errno == ENOENT) continue;
    if (n < 0) return Unexpected(int{errno});
    const auto name = shared_memory_name(std::string_view(link_target, static_cast<size_t>(n)));
    if (!name) return Unexpected(int{EINVAL});
    auto fd = open_shared_memory(*name, size);
    if (!fd) return Unexpected(int{fd.error()});
    return Published{std::move(candidate.path), candidate.block_size, std::move(*fd)};
  }
  return Unexpected(int{ENOENT});
}

}  // namespace penstock::usrbio
