#include "memory.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::arena {

namespace {

constexpr uint64_t kSmallPage = 4 * kKiB;

// Makes one large page of the small pages in a range of its size. From Linux 6.1 on, and without
// any setting of the system; where it does not work the small pages remain.
void collapse(std::byte* begin) {
#ifdef MADV_COLLAPSE
  constexpr int kCollapse = MADV_COLLAPSE;
#else
  constexpr int kCollapse = 25;
#endif
  ::madvise(begin, kLargePage, kCollapse);
}

Status populate(std::byte* begin, uint64_t bytes) {
  if (::madvise(begin, bytes, MADV_POPULATE_WRITE) == 0) return Code::ok;
  // Without the call (before Linux 5.14) pages are made as they are touched.
  return errno == EINVAL ? Code::ok : Code::no_memory;
}

}  // namespace

std::byte* reserve_addresses(uint64_t bytes, uint64_t alignment) {
  bytes = align_up(bytes, kSmallPage);
  alignment = std::max(alignment, kLargePage);
  void* const got = ::mmap(nullptr, bytes + alignment, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(got);
  const uint64_t past = reinterpret_cast<uintptr_t>(begin) % alignment;
  const uint64_t before = past == 0 ? 0 : alignment - past;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + bytes, alignment - before);
  return begin + before;
}

Result<SealedMemory> SealedMemory::make(const char* name, uint64_t bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return Status::from_errno(errno);
  }
  std::byte* const base = reserve_addresses(bytes);
  if (base == nullptr) return Code::no_memory;
  SealedMemory memory(std::move(fd), {base, bytes});
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  if (::mmap(base, bytes, kProtection, MAP_SHARED | MAP_FIXED, memory.fd(), 0) == MAP_FAILED) {
    return Status::from_errno(errno);
  }
  // After our own mapping, which stays writable.
  constexpr int kSeals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (::fcntl(memory.fd(), F_ADD_SEALS, kSeals) != 0) return Status::from_errno(errno);
  return memory;
}

SealedMemory::~SealedMemory() {
  if (bytes_.data() != nullptr) ::munmap(bytes_.data(), bytes_.size());
}

Status SealedMemory::populate(uint64_t offset, uint64_t length) {
  const uint64_t begin = offset / kLargePage * kLargePage;
  const uint64_t end = std::min(align_up(offset + length, kLargePage), bytes_.size());
  for (uint64_t at = begin; at + kLargePage <= end; at += kLargePage) {
    // collapse() needs one small page to be there.
    TRY(arena::populate(bytes_.data() + at, 1));
    collapse(bytes_.data() + at);
  }
  return arena::populate(bytes_.data() + begin, end - begin);
}

Result<uint64_t> sealed_size(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  struct stat facts {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd, &facts) != 0) {
    return Code::bad_message;
  }
  return static_cast<uint64_t>(facts.st_size);
}

}  // namespace penstock::arena
