#include "device_ring.h"

#include "device_ring_slot.h"
#include "session.h"

#include <algorithm>
#include <thread>

namespace penstock::api {

DeviceRing::DeviceRing(Session& session, Region& region, DeviceRingMemories::Lease memory,
                       ring::KernelGeometry geometry)
    : session_(session),
      region_(region),
      memory_(std::move(memory)),
      queue_(memory_->host(), geometry),
      positions_(std::make_unique<Position[]>(geometry.entries)),
      slots_(std::make_unique<Slot[]>(geometry.entries)),
      batch_(std::make_unique<Batch>()) {
  for (auto& file : files_) file.store(-1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < geometry.entries; ++i) {
    slots_[i].ring = this;
    slots_[i].ended = transfer_ended;
  }
  region_.device_rings.fetch_add(1, std::memory_order_relaxed);
}

Outcome<std::unique_ptr<DeviceRing>> DeviceRing::make(Session& session, Region& region,
                                                      uint32_t entries,
                                                      DeviceRingMemories& memories,
                                                      engine::DeviceMemory& devices) {
  const Result<ring::KernelGeometry> geometry = ring::KernelGeometry::make(entries);
  if (!geometry) {
    return Failure{geometry.error(),
                   fmt::format("create device ring: 1 to {} entries", device::kEntriesMax)};
  }
  const engine::DeviceId device = region.device->device;
  TRY_ASSIGN(DeviceRingMemories::Lease memory, memories.take(devices, device, *geometry));
  std::unique_ptr<DeviceRing> ring(new DeviceRing(session, region, std::move(memory), *geometry));
  const Status copied = ring->copy_image(engine::CopyDirection::to_device);
  if (copied.ok()) return ring;
  return Failure{copied, fmt::format("create device ring: GPU {}: its memory cannot be filled: {}",
                                     device.value, copied.name())};
}

DeviceRing::~DeviceRing() {
  region_.device_rings.fetch_sub(1, std::memory_order_relaxed);
}

Status DeviceRing::copy_image(engine::CopyDirection direction) {
  const bool to_device = direction == engine::CopyDirection::to_device;
  // Nobody wants the kernels' hints back.
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
  session_.transfers()->run(copy);
  return copy.status;
}

Result<uint8_t> DeviceRing::add_file(int32_t file) {
  // Behind the last number given: one that was removed comes again as late as possible, since a
  // kernel that still uses it, or asks again for what did not verify, would get another file's
  // bytes.
  const uint32_t first = next_file_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < device::kFilesMax; ++i) {
    const uint32_t number = (first + i) % device::kFilesMax;
    int32_t none = -1;
    if (!files_[number].compare_exchange_strong(none, file, std::memory_order_relaxed)) continue;
    next_file_.store(number + 1, std::memory_order_relaxed);
    return static_cast<uint8_t>(number);
  }
  return Code::busy;
}

bool DeviceRing::remove_file(uint32_t number) {
  return number < files_.size() && files_[number].exchange(-1, std::memory_order_relaxed) >= 0;
}

device::Ring DeviceRing::view() const {
  const uint64_t bytes = std::min<uint64_t>(region_.size, device::kRegionBytesMax);
  return queue_.view(memory_->gpu().data, region_.base, bytes);
}

DeviceRingStats DeviceRing::stats() const {
  const auto of = [](const std::atomic<uint64_t>& count) {
    return count.load(std::memory_order_relaxed);
  };
  return {of(requests_), of(places_), of(copies_), of(writes_), of(again_), of(failed_)};
}

void DeviceRing::end() {
  for (uint32_t i = 0; i < queue_.geometry().entries; ++i) {
    if (positions_[i].busy.load(std::memory_order_acquire)) session_.transfers()->cancel(slots_[i]);
  }
  while (transfers_.load(std::memory_order_acquire) > 0) {
    session_.transfers()->help();
    std::this_thread::yield();
  }
  session_.transfers()->leave_alone();
  // Whoever drives may still be on its way out of the last one's end.
  session_.transfers()->settle();
}

uint32_t DeviceRing::outstanding() {
  const Status copied = copy_image(engine::CopyDirection::from_device);
  return copied.ok() ? queue_.outstanding() : 0;
}

}  // namespace penstock::api
