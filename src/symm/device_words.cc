#include "penstock/symm/device_words.h"

#include "kernel_arguments.h"
#include "kernels.h"

#include <bit>
#include <cstring>
#include <sched.h>

namespace penstock::symm {
namespace {

static_assert(static_cast<int>(ChangeBy::bit_xor) == static_cast<int>(device::ChangeBy::bit_xor) &&
                  static_cast<int>(ChangeBy::add) == static_cast<int>(device::ChangeBy::add),
              "one list, in two places");

// Looks at a word before the driver is asked what became of the work: some hundred microseconds,
// where an answer takes six.
constexpr uint32_t kLooks = 4096;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Outcome<std::unique_ptr<DeviceWords>> DeviceWords::make(DeviceHeap& heap) {
  TRY_ASSIGN(const MutableBytes words, heap.device().host_words(kPlaces * sizeof(Place)));
  ASSERT(reinterpret_cast<uintptr_t>(words.data()) % alignof(Place) == 0);
  return std::unique_ptr<DeviceWords>(
      new DeviceWords(heap, reinterpret_cast<Place*>(words.data())));
}

DeviceWords::Claim::Claim(DeviceWords& words) : words_(words) {
  uint64_t taken = words_.taken_.load(std::memory_order_relaxed);
  while (true) {
    if (taken == ~uint64_t{0}) {
      ::sched_yield();
      taken = words_.taken_.load(std::memory_order_relaxed);
      continue;
    }
    index_ = static_cast<uint32_t>(std::countr_one(taken));
    // Pairs with the release of whoever had the place before.
    if (words_.taken_.compare_exchange_weak(taken, taken | uint64_t{1} << index_,
                                            std::memory_order_acquire, std::memory_order_relaxed)) {
      return;
    }
  }
}

DeviceWords::Claim::~Claim() {
  if (is_kept_) return;
  const uint64_t before =
      words_.taken_.fetch_and(~(uint64_t{1} << index_), std::memory_order_release);
  ASSERT((before >> index_ & 1) != 0);
}

Status DeviceWords::put(void* dest, const void* value, uint32_t bytes, uint32_t pe) {
  std::byte* const there = heap_.at(dest, bytes, pe);
  if (there == nullptr && !heap_.is_far(dest, bytes, pe)) return Code::invalid_argument;
  Claim claim(*this);
  Place& place = claim.place();
  ASSERT(bytes <= sizeof place.value);
  std::memcpy(place.value, value, bytes);
  gpu::SymmetricDevice& device = heap_.device();
  Status done = there != nullptr ? device.copy(there, place.value, bytes, device.own_stream())
                                 : put_far(dest, place.value, bytes, pe);
  if (done.ok()) done = device.synchronize(device.own_stream());
  if (!done.ok()) claim.keep();
  return done;
}

// By kernels, and there when the own stream is done.
Status DeviceWords::put_far(void* dest, const void* value, uint32_t bytes, uint32_t pe) {
  gpu::SymmetricDevice& device = heap_.device();
  TRY(launch(device, Kernel::put_far, {}, device.own_stream(), heap_.state(), dest, value,
             uint64_t{bytes}, static_cast<int>(pe)));
  return launch(device, Kernel::quiet_far, {}, device.own_stream(), heap_.state());
}

Status DeviceWords::get(void* value, const void* source, uint32_t bytes, uint32_t pe) {
  return get(value, source, bytes, pe, heap_.device().own_stream());
}

Status DeviceWords::get(void* value, const void* source, uint32_t bytes, uint32_t pe,
                        engine::DeviceStream stream) {
  const std::byte* const there = heap_.at(source, bytes, pe);
  if (there == nullptr && !heap_.is_far(source, bytes, pe)) return Code::invalid_argument;
  gpu::SymmetricDevice& device = heap_.device();
  if (stream != device.own_stream() && device.is_capturing(stream)) return Code::not_supported;
  Claim claim(*this);
  Place& place = claim.place();
  ASSERT(bytes <= sizeof place.value);
  Status done = there != nullptr ? device.copy(place.value, there, bytes, stream)
                                 : launch(device, Kernel::get_far, {}, stream, heap_.state(),
                                          static_cast<void*>(place.value), source, uint64_t{bytes},
                                          static_cast<int>(pe));
  if (done.ok()) done = finish(place, stream);
  if (!done.ok()) {
    claim.keep();
    return done;
  }
  std::memcpy(value, place.value, bytes);
  return {};
}

Status DeviceWords::launch_change(void* dest, const ChangeOfWord& change, uint32_t pe,
                                  Place* answer) {
  ASSERT(change.bytes == 4 || change.bytes == 8);
  const bool is_far = heap_.is_far(dest, change.bytes, pe);
  void* const there = is_far ? dest : heap_.at(dest, change.bytes, pe);
  if (there == nullptr || reinterpret_cast<uintptr_t>(there) % change.bytes != 0)
    return Code::invalid_argument;
  device::ChangeWord word = {.at = there,
                             .value = change.value,
                             .expected = change.expected,
                             .by = static_cast<device::ChangeBy>(change.by),
                             .bytes = static_cast<int32_t>(change.bytes),
                             .seen = nullptr,
                             .done = nullptr,
                             .number = 0};
  if (answer != nullptr) {
    word.seen = reinterpret_cast<uint64_t*>(answer->value);
    word.done = &answer->done;
    word.number = answer->number;
  }
  gpu::SymmetricDevice& device = heap_.device();
  if (is_far) {
    return launch(device, Kernel::change_far, {}, device.own_stream(), heap_.state(), word,
                  static_cast<int>(pe));
  }
  return launch(device, Kernel::change, {}, device.own_stream(), word);
}

Status DeviceWords::change(void* dest, const ChangeOfWord& change, uint32_t pe) {
  return launch_change(dest, change, pe, nullptr);
}

// What never comes is the driver's to tell.
Status DeviceWords::wait_for(const Place& place, engine::DeviceStream stream) {
  const auto is_there = [&] {
    return __atomic_load_n(&place.done, __ATOMIC_ACQUIRE) == place.number;
  };
  for (uint32_t i = 0; i < kLooks; ++i) {
    if (is_there()) return {};
    relax();
  }
  TRY(heap_.device().synchronize(stream));
  return is_there() ? Status() : Status(Code::io_error);
}

// Behind a copy to the host, who looks at a word learns of it half a microsecond before the driver
// says that the stream has done its work; behind one from the host that is not so.
Status DeviceWords::finish(Place& place, engine::DeviceStream stream) {
  ++place.number;
  const Status told = heap_.device().store(&place.done, place.number, stream);
  if (told.code() == Code::not_supported) return heap_.device().synchronize(stream);
  TRY(told);
  return wait_for(place, stream);
}

Result<uint64_t> DeviceWords::fetch(void* dest, const ChangeOfWord& change, uint32_t pe) {
  Claim claim(*this);
  Place& place = claim.place();
  ++place.number;
  TRY(launch_change(dest, change, pe, &place));
  if (const Status come = wait_for(place, heap_.device().own_stream()); !come.ok()) {
    claim.keep();
    return come;
  }
  uint64_t before = 0;
  std::memcpy(&before, place.value, sizeof before);
  return before;
}

}  // namespace penstock::symm
