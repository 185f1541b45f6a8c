#include "penstock/connection/shared_memory.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace penstock::connection {

Outcome<SharedMemory> SharedMemory::make(const char* name, uint64_t size) {
  const auto failed = [size](const char* what) {
    const int error = errno;
    return Failure{Status::from_errno(error), fmt::format("shared memory of {} bytes: {}: {}", size,
                                                          what, std::strerror(error))};
  };
  constexpr uint64_t kPage = 4096;
  if (size == 0 || size > static_cast<uint64_t>(INT64_MAX) - kPage) {
    return Failure{Code::invalid_argument, "shared memory cannot have that size"};
  }
  size = align_up(size, kPage);
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return failed("cannot be made");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return failed("cannot be sized");
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return failed("cannot be sealed");
  }
  void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return failed("cannot be mapped");
  ASSERT(size % kPage == 0);
  SharedMemory memory(std::move(fd), MutableBytes(static_cast<std::byte*>(base), size));
  make_resident(memory.bytes());
  return memory;
}

void make_resident(MutableBytes memory) {
  constexpr uintptr_t kPage = 4096;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory.data()) & ~(kPage - 1);
  const uintptr_t end = reinterpret_cast<uintptr_t>(memory.data()) + memory.size();
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
}

SharedMemory::~SharedMemory() {
  if (bytes_.data() != nullptr) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace penstock::connection
