#include "penstock/sim/device_memory.h"

#include "device_streams.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace penstock::sim {

using engine::CopyDirection;
using engine::CopyOp;
using engine::DeviceHandle;
using engine::DeviceId;
using engine::DeviceSpan;

namespace {

constexpr uint64_t kPage = 4096;

uint64_t round_up_to_page(uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// What travels, beside a descriptor of the device's memory.
struct SimHandle {
  uint64_t allocation = 0;
  uint64_t offset = 0;  // in it
  uint64_t length = 0;
};

bool is_same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

// The copies of one loop. What is due is found by looking at all, as there are few.
class SimDeviceMemory::Lanes final : public engine::CopyLanes {
 public:
  Lanes(SimDeviceMemory& memory, engine::Loop& loop) : memory_(memory), loop_(loop) {}
  ~Lanes() override { ASSERT(in_flight_.empty()); }

  void submit(CopyOp& op) override {
    ASSERT(op.pieces.size() <= engine::kCopyPiecesMax);
    ASSERT(op.checks.size() <= engine::kCopyChecksMax);
    const SimDeviceFaults& given = memory_.faults;
    const auto range = static_cast<uint64_t>((given.delay_max - given.delay_min).count());
    const std::lock_guard lock(memory_.mutex_);
    const engine::Duration delay =
        given.delay_min + engine::Duration(static_cast<int64_t>(memory_.random_.below(range + 1)));
    op.progress.due = loop_.clock().now() + delay + given.late;
    in_flight_.push_back(&op);
  }

  bool busy() const override { return !in_flight_.empty(); }
  engine::Time next_look() const override {
    engine::Time first = engine::kNever;
    for (const CopyOp* op : in_flight_) first = std::min(first, op->progress.due);
    return first - memory_.faults.late;
  }
  engine::Time latest_look() const override { return next_look(); }

  bool poll() override {
    if (memory_.is_blocked()) return false;
    const engine::Time now = loop_.clock().now();
    bool worked = false;
    for (size_t i = 0; i < in_flight_.size();) {
      CopyOp& op = *in_flight_[i];
      if (op.progress.due > now) {
        ++i;
        continue;
      }
      in_flight_[i] = in_flight_.back();
      in_flight_.pop_back();
      Status status;
      {
        const std::lock_guard lock(memory_.mutex_);
        status = memory_.perform(op);
      }
      loop_.complete(op, status);
      worked = true;
    }
    return worked;
  }

 private:
  SimDeviceMemory& memory_;
  engine::Loop& loop_;
  std::vector<CopyOp*> in_flight_;
};

SimDeviceMemory::SimDeviceMemory(engine::Random& random, SimDeviceOptions options)
    : random_(random), memory_bytes_(round_up_to_page(options.memory_bytes)) {
  ASSERT(options.devices <= engine::kDevicesMax);
  const uint64_t everyone = (uint64_t{1} << options.devices) - 1;
  for (uint32_t i = 0; i < options.devices; ++i) {
    Device device;
    device.memory.reset(::memfd_create("penstock-sim-device", MFD_CLOEXEC));
    const int fd = device.memory.get();
    ASSERT(fd >= 0 && ::ftruncate(fd, static_cast<off_t>(memory_bytes_)) == 0);
    void* const address = ::mmap(nullptr, memory_bytes_, PROT_NONE, MAP_SHARED, fd, 0);
    void* const bytes = ::mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT(address != MAP_FAILED && bytes != MAP_FAILED);
    device.address = static_cast<std::byte*>(address);
    device.bytes = static_cast<std::byte*>(bytes);
    devices_.push_back(std::move(device));
    facts_.push_back(
        {.name = "simulated GPU",
         .pci_address = fmt::format("0000:{:02x}:00.0", i + 1),
         .memory_bytes = memory_bytes_,
         .multiprocessors = 1,
         .numa_node = 0,
         .peers = i < options.peers.size() ? options.peers[i] : everyone & ~(uint64_t{1} << i),
         .uuid = {static_cast<char>(options.host), static_cast<char>(i + 1)}});
  }
}

SimDeviceMemory::~SimDeviceMemory() {
  streams_.clear();
  for (const Device& device : devices_) {
    ::munmap(device.address, memory_bytes_);
    ::munmap(device.bytes, memory_bytes_);
  }
}

SimDeviceMemory::Place SimDeviceMemory::place_of(const void* address, uint64_t length) {
  const auto* const at = static_cast<const std::byte*>(address);
  for (Device& device : devices_) {
    if (at < device.address || at >= device.address + memory_bytes_) continue;
    const auto offset = static_cast<uint64_t>(at - device.address);
    auto after = device.allocations.upper_bound(offset);
    if (after == device.allocations.begin()) return {&device, offset, nullptr};
    const auto& [start, allocation] = *--after;
    const bool within = range_within(offset - start, length, allocation.length);
    return {&device, offset, within ? &allocation : nullptr};
  }
  return {};
}

Result<DeviceSpan> SimDeviceMemory::find(const void* address, uint64_t length) {
  const std::lock_guard lock(mutex_);
  if (faults.driver_broken) return Code::peer_gone;
  const Place place = place_of(address, length);
  if (place_of(address, 0).allocation == nullptr) return Code::not_found;
  if (place.allocation == nullptr) return Code::invalid_argument;
  const DeviceId id(static_cast<uint32_t>(place.device - devices_.data()));
  return DeviceSpan{id, place.device->address + place.offset, length, place.allocation->id};
}

Outcome<DeviceSpan> SimDeviceMemory::allocate(DeviceId id, uint64_t length) {
  const std::lock_guard lock(mutex_);
  if (id.value >= devices_.size() || length == 0) {
    return Failure{Code::invalid_argument, fmt::format("allocate: no GPU {}", id.value)};
  }
  Device& device = devices_[id.value];
  if (device.lost) return Failure{Code::peer_gone, fmt::format("GPU {} is lost", id.value)};
  const uint64_t bytes = round_up_to_page(length);
  // Behind the last one first, then wherever there is room.
  for (const uint64_t start : {device.next, uint64_t{0}}) {
    uint64_t offset = start;
    for (const auto& [used, allocation] : device.allocations) {
      if (used + allocation.length <= offset) continue;
      if (used >= offset + bytes) break;
      offset = used + round_up_to_page(allocation.length);
    }
    if (!range_within(offset, bytes, memory_bytes_)) continue;
    const uint64_t number = next_allocation_++;
    device.allocations[offset] = {.length = length, .id = number};
    device.next = offset + bytes;
    return DeviceSpan{id, device.address + offset, length, number};
  }
  return Failure{Code::no_memory,
                 fmt::format("allocate {} bytes on GPU {}: its memory is full", length, id.value)};
}

std::unique_lock<std::mutex> SimDeviceMemory::lock_without_kernels() {
  std::unique_lock lock(mutex_);
  blocked_.fetch_add(1, std::memory_order_relaxed);
  kernels_ended_.wait(lock, [this] { return kernels_ == 0; });
  blocked_.fetch_sub(1, std::memory_order_relaxed);
  return lock;
}

void SimDeviceMemory::begin_kernel() {
  const std::lock_guard lock(mutex_);
  ++kernels_;
}

void SimDeviceMemory::end_kernel() {
  const std::lock_guard lock(mutex_);
  ASSERT(kernels_ > 0);
  if (--kernels_ == 0) kernels_ended_.notify_all();
}

Status SimDeviceMemory::release(const DeviceSpan& span) {
  const auto lock = lock_without_kernels();
  const Place place = place_of(span.data, span.length);
  if (place.allocation == nullptr || place.allocation->id != span.allocation) {
    return Code::invalid_argument;
  }
  auto found = --place.device->allocations.upper_bound(place.offset);
  if (--found->second.users == 0) place.device->allocations.erase(found);
  return Code::ok;
}

Outcome<DeviceHandle> SimDeviceMemory::export_handle(const DeviceSpan& span) {
  const std::lock_guard lock(mutex_);
  const Place place = place_of(span.data, span.length);
  if (place.allocation == nullptr || place.allocation->id != span.allocation) {
    return Failure{Code::invalid_argument, "export: no such device memory"};
  }
  if (!shareable) return Failure{Code::not_supported, "export: the memory cannot be shared"};
  DeviceHandle handle;
  const uint64_t start = std::prev(place.device->allocations.upper_bound(place.offset))->first;
  const SimHandle part{span.allocation, place.offset - start, span.length};
  handle.bytes.resize(sizeof part);
  std::memcpy(handle.bytes.data(), &part, sizeof part);
  handle.fd.reset(::fcntl(place.device->memory.get(), F_DUPFD_CLOEXEC, 0));
  handle.span = span;
  return handle;
}

Outcome<DeviceSpan> SimDeviceMemory::import_handle(const DeviceHandle& handle) {
  const std::lock_guard lock(mutex_);
  SimHandle part;
  if (handle.bytes.size() != sizeof part) {
    return Failure{Code::bad_message, "import: not a handle of device memory"};
  }
  std::memcpy(&part, handle.bytes.data(), sizeof part);
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    if (!is_same_file(handle.fd.get(), devices_[i].memory.get())) continue;
    for (auto& [start, allocation] : devices_[i].allocations) {
      if (allocation.id != part.allocation) continue;
      if (!range_within(part.offset, part.length, allocation.length)) break;
      ++allocation.users;
      std::byte* const address = devices_[i].address + start + part.offset;
      return DeviceSpan{DeviceId(i), address, part.length, allocation.id};
    }
  }
  return Failure{Code::stale, "import: the device memory behind this handle is gone"};
}

Outcome<engine::DmaBuf> SimDeviceMemory::export_dma_buf(const DeviceSpan& span) {
  const std::lock_guard lock(mutex_);
  const Place place = place_of(span.data, span.length);
  if (place.allocation == nullptr || place.allocation->id != span.allocation) {
    return Failure{Code::invalid_argument, "export: no such device memory"};
  }
  if (!shareable) return Failure{Code::not_supported, "export: the memory cannot be shared"};
  engine::DmaBuf exported;
  exported.fd.reset(::fcntl(place.device->memory.get(), F_DUPFD_CLOEXEC, 0));
  exported.offset = place.offset;
  return exported;
}

Outcome<void> SimDeviceMemory::pin(MutableBytes memory, bool read_only) {
  const std::lock_guard lock(mutex_);
  if (reinterpret_cast<uintptr_t>(memory.data()) % kPage != 0 || memory.empty()) {
    return Failure{Code::invalid_argument, "pin: the memory does not begin at a page"};
  }
  if (faults.pins_nothing) return Failure{Code::no_memory, "pin: no memory may be locked"};
  if (read_only && faults.refuse_read_only_pins) {
    return Failure{Code::not_supported, "pin: not memory that is mapped for reading only"};
  }
  if (pinned_.contains(memory.data())) return Failure{Code::in_use, "pin: it is pinned already"};
  pinned_[memory.data()] = {memory.size(), read_only};
  return {};
}

void SimDeviceMemory::unpin(MutableBytes memory) {
  const auto lock = lock_without_kernels();
  const auto found = pinned_.find(memory.data());
  ASSERT(found != pinned_.end() && found->second.length == memory.size());
  pinned_.erase(found);
  ++unpins_;
}

const SimDeviceMemory::Pinned* SimDeviceMemory::find_pinned(const std::byte* address,
                                                            uint64_t length) const {
  auto after = pinned_.upper_bound(address);
  if (after == pinned_.begin()) return nullptr;
  const auto& [start, pinned] = *--after;
  const auto offset = static_cast<uint64_t>(address - start);
  return range_within(offset, length, pinned.length) ? &pinned : nullptr;
}

// Memory that may only be read may be pages of a file. A device would copy what they were when they
// were pinned; where the file does not have them any more, what is copied here is no file's.
void SimDeviceMemory::copy_from_host(std::byte* to, const std::byte* from, uint64_t length) const {
  const Pinned* const pinned = find_pinned(from, length);
  if (pinned == nullptr || !pinned->read_only) {
    std::memcpy(to, from, length);
    return;
  }
  const iovec target{to, length};
  const iovec source{const_cast<std::byte*>(from), length};
  const ssize_t copied = ::process_vm_readv(::getpid(), &target, 1, &source, 1, 0);
  const auto there = copied > 0 ? static_cast<uint64_t>(copied) : 0;
  std::memset(to + there, 0xee, length - there);
}

std::unique_ptr<engine::CopyLanes> SimDeviceMemory::make_lanes(engine::Loop& loop) {
  return std::make_unique<Lanes>(*this, loop);
}

// One side of a piece as this object can touch it; null when it is not what the operation may use.
std::byte* SimDeviceMemory::reach(const CopyOp& op, const std::byte* address, uint64_t length,
                                  bool device_side) {
  const Place place = place_of(address, length);
  if (device_side) {
    if (place.allocation == nullptr || place.device != &devices_[op.device.value]) return nullptr;
    if (op.allocation != 0 && place.allocation->id != op.allocation) return nullptr;
    return place.device->bytes + place.offset;
  }
  if (op.direction == CopyDirection::device_to_device) {
    return place.allocation != nullptr ? place.device->bytes + place.offset : nullptr;
  }
  // A real device would fault: the code that asked for this has a bug.
  ASSERT(place.device == nullptr && find_pinned(address, length) != nullptr);
  return const_cast<std::byte*>(address);
}

Status SimDeviceMemory::perform(CopyOp& op) {
  ASSERT(op.device.value < devices_.size());
  Device& device = devices_[op.device.value];
  if (faults.lose_permille != 0 && random_.chance(faults.lose_permille, 1000)) device.lost = true;
  if (device.lost) return Code::peer_gone;
  ++copies_;
  if (op.direction == CopyDirection::device_to_device) note_detour(op);
  const bool from_device = op.direction == CopyDirection::from_device;
  const bool verified =
      !op.checks.empty() || (!op.pieces.empty() && op.pieces.front().checked != 0);
  const bool may_flip =
      op.direction != CopyDirection::device_to_device && (verified || !faults.flip_verified_alone);
  for (const engine::CopyPiece& piece : op.pieces) {
    std::byte* const source = reach(op, piece.source, piece.length, from_device);
    std::byte* const destination = reach(op, piece.destination, piece.length, !from_device);
    if (source == nullptr || destination == nullptr) return Code::invalid_argument;
    if (op.direction == CopyDirection::to_device) {
      copy_from_host(destination, source, piece.length);
    } else {
      std::memcpy(destination, source, piece.length);
    }
    if (may_flip && faults.flip_permille != 0 && random_.chance(faults.flip_permille, 1000)) {
      destination[random_.below(piece.length)] ^= std::byte{1};
    }
  }
  return check(op);
}

void SimDeviceMemory::note_detour(const CopyOp& op) {
  const auto is_detour = [&](const engine::CopyPiece& piece) {
    const Place source = place_of(piece.source, piece.length);
    if (source.device == nullptr) return false;
    const auto from = source.device - devices_.data();
    return (facts_[op.device.value].peers >> from & 1) == 0;
  };
  if (std::any_of(op.pieces.begin(), op.pieces.end(), is_detour)) ++detours_;
}

Status SimDeviceMemory::check(CopyOp& op) {
  ASSERT(op.checks.empty() || op.pieces.front().checked == 0);
  for (size_t i = 0; i < op.pieces.size() && op.pieces[i].checked != 0; ++i) {
    const engine::CopyPiece& piece = op.pieces[i];
    ASSERT(piece.length <= engine::kCheckBytesMax);
    const std::byte* const bytes = reach(op, piece.destination, piece.length, true);
    if (bytes == nullptr) return Code::invalid_argument;
    if (crc32c({bytes, piece.length}) == piece.crc32c) continue;
    op.first_bad = static_cast<uint32_t>(i);
    return Code::corrupt;
  }
  for (size_t i = 0; i < op.checks.size(); ++i) {
    const engine::BlockCheck& block = op.checks[i];
    ASSERT(block.length <= engine::kCheckBytesMax);
    const std::byte* const bytes = reach(op, block.data, block.length, true);
    if (bytes == nullptr) return Code::invalid_argument;
    if (crc32c({bytes, block.length}) == block.crc32c) continue;
    op.first_bad = static_cast<uint32_t>(i);
    return Code::corrupt;
  }
  return Code::ok;
}

void SimDeviceMemory::peek(const std::byte* address, MutableBytes out) {
  if (out.empty()) return;
  const std::lock_guard lock(mutex_);
  const Place place = place_of(address, out.size());
  ASSERT(place.allocation != nullptr);
  std::memcpy(out.data(), place.device->bytes + place.offset, out.size());
}

void SimDeviceMemory::poke(std::byte* address, Bytes bytes) {
  if (bytes.empty()) return;
  const std::lock_guard lock(mutex_);
  const Place place = place_of(address, bytes.size());
  ASSERT(place.allocation != nullptr);
  std::memcpy(place.device->bytes + place.offset, bytes.data(), bytes.size());
}

std::byte* SimDeviceMemory::as_kernels_see(const std::byte* address) {
  const std::lock_guard lock(mutex_);
  const Place place = place_of(address, 1);
  ASSERT(place.allocation != nullptr);
  return place.device->bytes + place.offset;
}

void SimDeviceMemory::lose(DeviceId device) {
  const std::lock_guard lock(mutex_);
  devices_[device.value].lost = true;
}

uint64_t SimDeviceMemory::copies() const {
  const std::lock_guard lock(mutex_);
  return copies_;
}

uint64_t SimDeviceMemory::detours() const {
  const std::lock_guard lock(mutex_);
  return detours_;
}

uint64_t SimDeviceMemory::unpins() const {
  const std::lock_guard lock(mutex_);
  return unpins_;
}

bool SimDeviceMemory::pinned(Bytes memory) const {
  const std::lock_guard lock(mutex_);
  return find_pinned(memory.data(), memory.size()) != nullptr;
}

}  // namespace penstock::sim
