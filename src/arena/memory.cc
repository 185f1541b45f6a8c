#include "memory.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::arena {

Result<SealedMemory> SealedMemory::make(const char* name, uint64_t bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return Status::from_errno(errno);
  }
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return Status::from_errno(errno);
  SealedMemory memory(std::move(fd), {static_cast<std::byte*>(base), bytes});
  // After our own mapping, which stays writable.
  constexpr int kSeals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (::fcntl(memory.fd(), F_ADD_SEALS, kSeals) != 0) return Status::from_errno(errno);
  return memory;
}

SealedMemory::~SealedMemory() {
  if (bytes_.data() != nullptr) ::munmap(bytes_.data(), bytes_.size());
}

Status SealedMemory::populate() {
  // Advice only: most systems have none for shared memory.
  ::madvise(bytes_.data(), bytes_.size(), MADV_HUGEPAGE);
  if (::madvise(bytes_.data(), bytes_.size(), MADV_POPULATE_WRITE) == 0) return Code::ok;
  // Without the call (before Linux 5.14) pages are made as they are touched.
  return errno == EINVAL ? Code::ok : Code::no_memory;
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
