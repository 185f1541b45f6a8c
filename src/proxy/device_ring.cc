#include "penstock/proxy/device_ring.h"

#include <algorithm>

#include "penstock/proxy/device_rings.h"

namespace penstock::proxy {

DeviceRing::DeviceRing(DeviceRings& of, connection::Region& region,
                       DeviceRingMemories::Lease memory, ring::KernelGeometry geometry)
    : of_(of), region_(region), memory_(std::move(memory)), queue_(memory_->host(), geometry) {
  ASSERT(region_.device.has_value());
  region_.device_rings.fetch_add(1, std::memory_order_relaxed);
}

Outcome<std::unique_ptr<DeviceRing>> DeviceRing::make(DeviceRings& of, connection::Region& region,
                                                      uint32_t entries,
                                                      DeviceRingMemories& memories,
                                                      engine::DeviceMemory& devices,
                                                      const MakeService& make_service) {
  const Result<ring::KernelGeometry> geometry = ring::KernelGeometry::make(entries);
  if (!geometry) {
    return Failure{geometry.error(),
                   fmt::format("create device ring: 1 to {} entries", device::kEntriesMax)};
  }
  const engine::DeviceId device = region.device->device;
  TRY_ASSIGN(DeviceRingMemories::Lease memory, memories.take(devices, device, *geometry));
  std::unique_ptr<DeviceRing> ring(new DeviceRing(of, region, std::move(memory), *geometry));
  ring->service_ = make_service(*ring);
  ASSERT(ring->service_ != nullptr);
  const Status copied = ring->copy_image(engine::CopyDirection::to_device);
  if (copied.ok()) return ring;
  return Failure{copied, fmt::format("create device ring: GPU {}: its memory cannot be filled: {}",
                                     device.value, copied.name())};
}

DeviceRing::~DeviceRing() {
  const uint32_t before = region_.device_rings.fetch_sub(1, std::memory_order_relaxed);
  ASSERT(before > 0);
}

Status DeviceRing::copy_image(engine::CopyDirection direction) {
  const bool to_device = direction == engine::CopyDirection::to_device;
  // Without the kernels' hints, which the host does not need.
  const MutableBytes all = queue_.image();
  const MutableBytes image = to_device ? all : all.first(queue_.geometry().hints_offset());
  const engine::DeviceSpan& gpu = memory_->gpu();
  const engine::CopyPiece piece{to_device ? image.data() : gpu.data,
                                to_device ? gpu.data : image.data(), image.size()};
  engine::CopyOp copy;
  copy.device = gpu.device;
  copy.direction = direction;
  copy.pieces = {&piece, 1};
  copy.allocation = gpu.allocation;
  of_.transfers().run(copy);
  return copy.status;
}

device::Ring DeviceRing::view() const {
  const uint64_t bytes = std::min<uint64_t>(region_.size, device::kRegionBytesMax);
  return queue_.view(memory_->gpu().data, region_.base, bytes);
}

bool DeviceRing::serve() {
  const uint32_t count = queue_.take(batch_);
  ASSERT(count <= batch_.size());
  if (count > 0) {
    requests_.fetch_add(count, std::memory_order_relaxed);
    uint32_t again = 0;
    for (uint32_t i = 0; i < count; ++i) again += batch_[i].attempt > 0 ? 1 : 0;
    if (again > 0) again_.fetch_add(again, std::memory_order_relaxed);
  }
  service_->serve({batch_.data(), count});
  return count > 0;
}

uint32_t DeviceRing::outstanding() {
  const Status copied = copy_image(engine::CopyDirection::from_device);
  return copied.ok() ? queue_.outstanding() : 0;
}

}  // namespace penstock::proxy
