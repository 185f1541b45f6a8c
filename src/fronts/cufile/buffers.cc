#include "buffers.h"

#include "limits.h"

#include <array>
#include <mutex>

namespace penstock::cufile {

namespace {

uint64_t next_version() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

// The last ranges that a thread has used.
struct Buffers::Memo {
  uint64_t version = 0;
  uint32_t next = 0;
  std::array<Range, limits::kRangesRemembered> ranges;

  const Range* find(const void* base, const std::byte* from, uint64_t length) const {
    for (const Range& range : ranges) {
      if (range.registered
              ? range.known == base
              : from >= range.known &&
                    range_within(static_cast<uint64_t>(from - range.known), length, range.length)) {
        return &range;
      }
    }
    return nullptr;
  }
  void add(const Range& range) { ranges[next++ % ranges.size()] = range; }
};

Buffers::Memo& Buffers::memo() {
  static thread_local Memo memo;
  return memo;
}

Memory Buffers::Range::part(const std::byte* from, uint64_t bytes) const {
  Memory memory;
  memory.data = const_cast<std::byte*>(from);
  memory.length = bytes;
  memory.buffer = registered ? const_cast<std::byte*>(known) : memory.data;
  memory.buffer_length = registered ? length : bytes;
  memory.on_device = on_device;
  if (on_device) memory.device = {device.device, memory.data, bytes, device.allocation};
  return memory;
}

Buffers::Buffers(engine::DeviceMemory& devices, uint64_t limit)
    : devices_(devices), limit_(limit), version_(next_version()) {}

void Buffers::forget() {
  version_.store(next_version(), std::memory_order_relaxed);
}

Result<Buffers::Range, CUfileOpError> Buffers::look_up(const std::byte* from,
                                                       uint64_t length) const {
  const Result<engine::DeviceSpan> span = devices_.find(from, length);
  if (span) return Range{from, length, false, true, *span};
  if (span.error() == Code::not_found) return Range{from, length, false, false, {}};
  return Unexpected<CUfileOpError>(span.error() == Code::invalid_argument
                                       ? CU_FILE_CUDA_POINTER_RANGE_ERROR
                                       : CU_FILE_CUDA_DRIVER_ERROR);
}

Buffers::Change Buffers::add(const void* base, uint64_t length) {
  Result<Range, CUfileOpError> found = look_up(static_cast<const std::byte*>(base), length);
  if (!found) return {found.error()};
  found->registered = true;
  const uint32_t device = found->on_device ? found->device.device.value : kNoDevice;
  const std::lock_guard lock(mutex_);
  const auto known = buffers_.find(base);
  if (known != buffers_.end()) {
    const bool is_same = known->second.on_device == found->on_device &&
                         known->second.device.allocation == found->device.allocation;
    if (is_same) return {CU_FILE_MEMORY_ALREADY_REGISTERED, device};
    // The program freed that memory, and has got other at the same address.
    erase(known);
  }
  if (buffers_.size() >= limits::kBuffersMax) return {CU_FILE_INTERNAL_BUF_REGISTER_ERROR, device};
  if (found->on_device) {
    uint64_t& bytes = registered_bytes_[device];
    if (!range_within(bytes, length, limit_.load(std::memory_order_relaxed))) {
      return {CU_FILE_INVALID_MAPPING_SIZE, device};
    }
    bytes += length;
  }
  buffers_[base] = *found;
  forget();
  return {CU_FILE_SUCCESS, device};
}

Buffers::Change Buffers::remove(const void* base) {
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(base);
  if (found == buffers_.end()) return {CU_FILE_MEMORY_NOT_REGISTERED};
  const Range& range = found->second;
  const uint32_t device = range.on_device ? range.device.device.value : kNoDevice;
  erase(found);
  return {CU_FILE_SUCCESS, device};
}

void Buffers::erase(Registered::iterator buffer) {
  const Range& range = buffer->second;
  if (range.on_device) registered_bytes_[range.device.device.value] -= range.length;
  buffers_.erase(buffer);
  forget();
}

Result<Memory, CUfileOpError> Buffers::resolve(const void* base, uint64_t offset, uint64_t length,
                                               bool afresh) {
  const std::byte* const from = static_cast<const std::byte*>(base) + offset;
  Memo& known = memo();
  const uint64_t version = version_.load(std::memory_order_relaxed);
  if (known.version != version || afresh) known = {version, 0, {}};
  const Range* range = known.find(base, from, length);
  if (range == nullptr) {
    Range found;
    {
      const std::shared_lock lock(mutex_);
      const auto buffer = buffers_.find(base);
      if (buffer != buffers_.end()) found = buffer->second;
    }
    if (!found.registered) {
      TRY_ASSIGN(found, look_up(from, length));
      // Host memory that is not registered may become another's any time.
      if (!found.on_device) return found.part(from, length);
    }
    known.add(found);
    range = known.find(base, from, length);
  }
  if (range->registered && !range_within(offset, length, range->length)) {
    return Unexpected<CUfileOpError>(CU_FILE_INVALID_MAPPING_RANGE);
  }
  return range->part(from, length);
}

}  // namespace penstock::cufile
