#include "penstock/testing/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace penstock::test {

SharedMemory::SharedMemory(uint64_t size, int seals, bool with_pages)
    : fd_(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  ASSERT(::ftruncate(fd_.get(), static_cast<off_t>(size)) == 0);
  ASSERT(::fcntl(fd_.get(), F_ADD_SEALS, seals) == 0);
  void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  ASSERT(mapped != MAP_FAILED);
  if (with_pages) ASSERT(::madvise(mapped, size, MADV_POPULATE_WRITE) == 0);
  bytes_ = {static_cast<std::byte*>(mapped), size};
}

SharedMemory::~SharedMemory() {
  ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace penstock::test
