#include "penstock/resources/foreign_memory.h"

#include "limits.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "penstock/resources/page_fence.h"

namespace penstock::resources {
namespace {

constexpr uint64_t kSmallPageBytes = 4096;

// What the kernel maps and unmaps at once. Lengths that are no multiple of it are refused for huge
// pages by munmap, and by whatever is to be mapped at their address.
Result<uint64_t> page_bytes_of(int fd) {
  struct statfs facts {};
  if (::fstatfs(fd, &facts) != 0) return Status::from_errno(errno);
  if (facts.f_type != HUGETLBFS_MAGIC) return kSmallPageBytes;
  return std::max(kSmallPageBytes, static_cast<uint64_t>(facts.f_bsize));
}

}  // namespace

const char* const kNoSharedMemory =
    "the descriptor is not shared memory (use a memfd or a file in /dev/shm)";

bool is_shared_memory(int fd) {
  // Only that has seals.
  return ::fcntl(fd, F_GET_SEALS) >= 0;
}

const char* const kShareTaken =
    "this session or its user has its whole share of what this node has (release regions or rings; "
    "'penstock status' tells of what there is too little)";

Result<ForeignMemory::Charges> ForeignMemory::charge(const std::shared_ptr<Account>& account,
                                                     uint64_t bytes) {
  ASSERT(account != nullptr && bytes > 0);
  Charges charges;
  TRY_ASSIGN(charges.guard, Charge::take(account, Resource::guards, 1));
  TRY_ASSIGN(charges.mapping, Charge::take(account, Resource::mappings, 1));
  const uint64_t page_tables = bytes / limits::kBytesPerPageTableByte;
  TRY_ASSIGN(charges.heap,
             Charge::take(account, Resource::heap_bytes, limits::kMappedHeapBytes + page_tables));
  return charges;
}

Outcome<std::unique_ptr<ForeignMemory>> ForeignMemory::map(const std::shared_ptr<Account>& account,
                                                           int fd, uint64_t offset, uint64_t size,
                                                           bool must_be_sealed) {
  // Before anything that could call into a file system.
  if (!is_shared_memory(fd)) return Failure{Code::invalid_argument, kNoSharedMemory};
  if (must_be_sealed && (::fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) == 0) {
    return Failure{Code::invalid_argument, "the memory is not sealed against shrinking"};
  }
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return Failure{Status::from_errno(errno), "fstat failed"};
  if (size == 0 || offset % kSmallPageBytes != 0) {
    return Failure{Code::invalid_argument, "a region begins at a page and is not empty"};
  }
  if (!range_within(offset, size, static_cast<uint64_t>(facts.st_size))) {
    return Failure{Code::invalid_argument, "the memory is smaller than the region"};
  }
  const Result<uint64_t> page = page_bytes_of(fd);
  if (!page) return Failure{page.error(), "fstatfs failed"};
  const uint64_t begin = align_down(offset, *page);
  const uint64_t length = align_up(offset + size, *page) - begin;
  Result<Charges> charges = charge(account, length);
  if (!charges) return Failure{charges.error(), kShareTaken};
  // Huge pages are not reserved for a mapping: that would take them from others unused.
  void* base = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                      static_cast<off_t>(begin));
  if (base == MAP_FAILED) {
    return Failure{Status::from_errno(errno),
                   std::string("the memory cannot be mapped: ") + std::strerror(errno)};
  }
  const MutableBytes mapping(static_cast<std::byte*>(base), length);
  ASSERT(begin <= offset && range_within(offset - begin, size, length));
  Result<BusGuard> guard = BusGuard::over(mapping);
  if (!guard) {
    ::munmap(base, length);
    return Failure{guard.error(), "too many regions on this node"};
  }
  const bool fenced = PageFence::enclose(mapping);
  return std::unique_ptr<ForeignMemory>(new ForeignMemory(std::move(*charges), fenced, mapping,
                                                          mapping.subspan(offset - begin, size),
                                                          std::move(*guard)));
}

ForeignMemory::~ForeignMemory() {
  guard_ = BusGuard();
  if (::munmap(mapping_.data(), mapping_.size()) != 0) {
    log::error("memory of an application stays mapped: {}", std::strerror(errno));
  }
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

}  // namespace penstock::resources
