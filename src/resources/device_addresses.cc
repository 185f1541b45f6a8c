#include "penstock/resources/device_addresses.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

#include "penstock/resources/foreign_memory.h"

namespace penstock::resources {

Outcome<std::unique_ptr<DeviceAddresses>> DeviceAddresses::reserve(
    const std::shared_ptr<Account>& account, uint64_t offset, uint64_t size) {
  constexpr uint64_t kPage = 4096;
  ASSERT(size > 0);
  Result<Charge> charge = Charge::take(account, Resource::mappings, 1);
  if (!charge) return Failure{charge.error(), kShareTaken};
  const uint64_t into_page = offset % kPage;
  void* const base = ::mmap(nullptr, into_page + size, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return Failure{Status::from_errno(errno),
                   std::string("no addresses are left for it: ") + std::strerror(errno)};
  }
  const MutableBytes reserved(static_cast<std::byte*>(base), into_page + size);
  return std::unique_ptr<DeviceAddresses>(
      new DeviceAddresses(std::move(*charge), reserved, reserved.subspan(into_page)));
}

DeviceAddresses::~DeviceAddresses() {
  ::munmap(reserved_.data(), reserved_.size());
}

}  // namespace penstock::resources
