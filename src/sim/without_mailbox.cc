// A build in which mailboxes are left out.
#include "penstock/sim/device_memory.h"

namespace penstock::sim {

Outcome<std::unique_ptr<engine::CopyMailbox>> SimDeviceMemory::make_mailbox(engine::DeviceId) {
  return Failure{Code::not_supported, "make a mailbox: this build has none"};
}

uint64_t SimDeviceMemory::mailed() const {
  return 0;
}

uint64_t SimDeviceMemory::mailed_pinned() const {
  return 0;
}

}  // namespace penstock::sim
