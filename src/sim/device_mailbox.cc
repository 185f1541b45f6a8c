// Mailboxes of simulated devices.
#include <cstring>

#include "penstock/sim/device_memory.h"

namespace penstock::sim {

using engine::DeviceId;
using engine::DeviceSpan;

class SimDeviceMemory::Mailbox final : public engine::CopyMailbox {
 public:
  Mailbox(SimDeviceMemory& memory, DeviceId device)
      : memory_(memory), device_(device), buffer_(engine::kMailboxBytesMax) {}

  MutableBytes space_for(const DeviceSpan& destination) override {
    ASSERT(destination.length > 0 && destination.length <= buffer_.size());
    return {buffer_.data(), destination.length};
  }

  Status send(const DeviceSpan& destination, const std::byte* source) override {
    const bool is_own = source == buffer_.data();
    ASSERT(is_own || engine::is_mailable(destination, source));
    const std::lock_guard lock(memory_.mutex_);
    Device& device = memory_.devices_[device_.value];
    const SimDeviceFaults& faults = memory_.faults;
    engine::Random& random = memory_.random_;
    if (faults.lose_permille != 0 && random.chance(faults.lose_permille, 1000)) device.lost = true;
    if (device.lost) return Code::peer_gone;
    if (faults.full_permille != 0 && random.chance(faults.full_permille, 1000)) return Code::busy;
    const Place place = memory_.place_of(destination.data, destination.length);
    if (place.allocation == nullptr || place.device != &device ||
        place.allocation->id != destination.allocation) {
      return Code::invalid_argument;
    }
    ASSERT(is_own || memory_.find_pinned(source, destination.length) != nullptr);
    ++memory_.mailed_;
    memory_.mailed_pinned_ += is_own ? 0 : 1;
    memory_.copy_from_host(place.device->bytes + place.offset, source, destination.length);
    return Code::ok;
  }

 private:
  SimDeviceMemory& memory_;
  const DeviceId device_;
  std::vector<std::byte> buffer_;
};

Outcome<std::unique_ptr<engine::CopyMailbox>> SimDeviceMemory::make_mailbox(DeviceId device) {
  if (device.value >= devices_.size()) {
    return Failure{Code::invalid_argument, fmt::format("make a mailbox: no GPU {}", device.value)};
  }
  return std::unique_ptr<engine::CopyMailbox>(std::make_unique<Mailbox>(*this, device));
}

uint64_t SimDeviceMemory::mailed() const {
  const std::lock_guard lock(mutex_);
  return mailed_;
}

uint64_t SimDeviceMemory::mailed_pinned() const {
  const std::lock_guard lock(mutex_);
  return mailed_pinned_;
}

}  // namespace penstock::sim
