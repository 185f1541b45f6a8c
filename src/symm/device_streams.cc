#include "penstock/symm/device_streams.h"

#include "image.h"
#include "kernel_arguments.h"
#include "kernels.h"
#include "stages.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace penstock::symm {
namespace {

// By their numbers in kernels (penstock_device/symm/signal.h).
constexpr int kSetInKernels = 9;
constexpr int kAddInKernels = 10;

constexpr uint32_t kWarp = 32;

// Of copies of elements: blocks whose threads have 8 elements each, until there are as many as fill
// a GPU; then more for each.
constexpr uint32_t kCopyThreads = 256;
constexpr uint64_t kElementsOfABlock = uint64_t{kCopyThreads} * 8;
constexpr uint64_t kBlocksMax = 512;

// Of a put with a signal that is one kernel, of one block: that moves 45 GB/s between GPUs, and a
// second kernel takes 4 us more. Beyond it up to what many blocks copy, as a kernel behind a copy
// engine begins some 8 us later.
constexpr uint64_t kOneKernelBytes = uint64_t{128} << 10;
constexpr uint64_t kBlocksBytes = uint64_t{4} << 20;
constexpr uint32_t kUnit = 16;
constexpr uint64_t kBytesOfAThread = 32;
constexpr uint64_t kPutThreadsMax = 512;

int number_of(SignalOp op) {
  return op == SignalOp::add ? kAddInKernels : kSetInKernels;
}

bool is_element(uint32_t bytes) {
  return bytes <= 16 && std::has_single_bit(bytes);
}

}  // namespace

uint64_t reach_of(int64_t stride, const StridedElements& strides) {
  if (strides.count == 0) return 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;
  const bool is_too_far =
      stride < 1 ||
      __builtin_mul_overflow(static_cast<uint64_t>(stride), strides.count - 1, &elements) ||
      __builtin_add_overflow(elements, 1, &elements) ||
      __builtin_mul_overflow(elements, uint64_t{strides.element_bytes}, &bytes);
  return is_too_far ? std::numeric_limits<uint64_t>::max() : bytes;
}

DeviceStreams::DeviceStreams(DeviceHeap& heap)
    : heap_(heap), stages_(std::make_unique<Stages>(heap.device())) {}
DeviceStreams::~DeviceStreams() = default;

Outcome<std::unique_ptr<DeviceStreams>> DeviceStreams::make(DeviceHeap& heap) {
  TRY(heap.device().load_kernels(kernel_image(), kKernels));
  std::unique_ptr<DeviceStreams> made(new DeviceStreams(heap));
  TRY_ASSIGN(made->collectives_, DeviceCollectives::make(heap, kKernels.size()));
  return made;
}

Outcome<void> DeviceStreams::prepare(const Team& team) {
  auto& prepared = barriers_.at(team.id());
  if (prepared != nullptr) return {};
  device::SymmState state = heap_.state();
  auto number = static_cast<int>(team.id());
  std::array<void*, 2> addresses = {&state, &number};
  TRY_ASSIGN(prepared, heap_.device().prepare({.kernel = static_cast<uint32_t>(Kernel::barrier),
                                               .blocks = 1,
                                               .threads = kWarp,
                                               .arguments = addresses,
                                               .stream = heap_.device().own_stream()}));
  return {};
}

Status DeviceStreams::barrier(const Team& team, Stream stream) {
  gpu::PreparedLaunch* const prepared =
      team.id() < barriers_.size() ? barriers_[team.id()].get() : nullptr;
  if (prepared != nullptr) {
    const Status launched = prepared->launch(stream);
    if (launched.code() != Code::not_supported) return launched;
  }
  return launch(heap_.device(), Kernel::barrier, {.threads = kWarp}, stream, heap_.state(),
                static_cast<int>(team.id()));
}

Status DeviceStreams::quiet(Stream stream) {
  if (!heap_.has_far()) return {};
  return launch(heap_.device(), Kernel::quiet_far, {}, stream, heap_.state());
}

Status DeviceStreams::put(void* dest, const void* source, uint64_t bytes, uint32_t pe,
                          Stream stream) {
  if (bytes == 0) return {};
  std::byte* const there = heap_.at(dest, bytes, pe);
  if (there != nullptr) return heap_.device().copy(there, source, bytes, stream);
  return heap_.is_far(dest, bytes, pe) ? put_far(dest, source, bytes, pe, stream)
                                       : Status(Code::invalid_argument);
}

Status DeviceStreams::get(void* dest, const void* source, uint64_t bytes, uint32_t pe,
                          Stream stream) {
  if (bytes == 0) return {};
  const std::byte* const there = heap_.at(source, bytes, pe);
  if (there != nullptr) return heap_.device().copy(dest, there, bytes, stream);
  return heap_.is_far(source, bytes, pe) ? get_far(dest, source, bytes, pe, stream)
                                         : Status(Code::invalid_argument);
}

Status DeviceStreams::iput(void* dest, const void* source, const StridedElements& strides,
                           uint32_t pe, Stream stream, By by) {
  if (strides.count == 0) return {};
  std::byte* const there = heap_.at(dest, reach_of(strides.dest, strides), pe);
  if (there == nullptr)
    return row_far({dest, source, strides.dest, strides.source}, strides, pe, stream);
  return copy_strided(there, source, strides, stream, by == By::kernels && is_reached(source));
}

Status DeviceStreams::iget(void* dest, const void* source, const StridedElements& strides,
                           uint32_t pe, Stream stream, By by) {
  if (strides.count == 0) return {};
  const std::byte* const there = heap_.at(source, reach_of(strides.source, strides), pe);
  if (there == nullptr)
    return row_far({source, dest, strides.source, strides.dest, true}, strides, pe, stream);
  return copy_strided(dest, there, strides, stream, by == By::kernels && is_reached(dest));
}

bool DeviceStreams::is_reached(const void* local) const {
  return heap_.at(local, 1, heap_.me()) != nullptr || heap_.device().reaches(local);
}

Status DeviceStreams::copy_strided(void* to, const void* from, const StridedElements& strides,
                                   Stream stream, bool by_kernels) {
  ASSERT(is_element(strides.element_bytes));
  if (strides.dest < 1 || strides.source < 1) return Code::invalid_argument;
  const uint64_t size = strides.element_bytes;
  if (strides.dest == 1 && strides.source == 1)
    return heap_.device().copy(to, from, strides.count * size, stream);
  const bool is_aligned =
      (reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % size == 0;
  if (!by_kernels || !is_aligned) {
    uint64_t to_step = 0;
    uint64_t from_step = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(strides.dest), size, &to_step) ||
        __builtin_mul_overflow(static_cast<uint64_t>(strides.source), size, &from_step)) {
      return Code::invalid_argument;
    }
    return heap_.device().copy_strided({.to = to,
                                        .from = from,
                                        .to_step = to_step,
                                        .from_step = from_step,
                                        .element_bytes = size,
                                        .count = strides.count},
                                       stream);
  }
  return launch_elements(to, from, strides, stream);
}

Status DeviceStreams::launch_elements(void* to, const void* from, const StridedElements& strides,
                                      Stream stream) {
  const uint64_t for_each = std::max(
      kElementsOfABlock, align_up((strides.count + kBlocksMax - 1) / kBlocksMax, kCopyThreads));
  // The heaps of a process are smaller than what 512 blocks of 4 billion elements would fill.
  if (for_each > std::numeric_limits<uint32_t>::max()) return Code::invalid_argument;
  const device::StridedElements all = {.to = to,
                                       .from = from,
                                       .to_stride = strides.dest,
                                       .from_stride = strides.source,
                                       .count = strides.count,
                                       .element_bytes = strides.element_bytes,
                                       .for_each_block = static_cast<uint32_t>(for_each)};
  const auto blocks = static_cast<uint32_t>((strides.count + for_each - 1) / for_each);
  return launch(heap_.device(), Kernel::strided, {.blocks = blocks, .threads = kCopyThreads},
                stream, all);
}

Status DeviceStreams::store(void* dest, uint64_t value, uint32_t bytes, uint32_t pe,
                            Stream stream) {
  ASSERT(bytes <= sizeof value && is_element(bytes));
  if (reinterpret_cast<uintptr_t>(dest) % bytes != 0) return Code::invalid_argument;
  if (heap_.is_far(dest, bytes, pe)) {
    return launch(heap_.device(), Kernel::store_far, {}, stream, heap_.state(), dest, value,
                  static_cast<int>(bytes), static_cast<int>(pe));
  }
  std::byte* const there = heap_.at(dest, bytes, pe);
  if (there == nullptr) return Code::invalid_argument;
  return launch(heap_.device(), Kernel::store, {}, stream, static_cast<void*>(there), value,
                static_cast<int>(bytes));
}

Status DeviceStreams::signal(uint64_t* signal, uint64_t value, SignalOp op, uint32_t pe,
                             Stream stream) {
  if (heap_.at(signal, sizeof *signal, pe) == nullptr &&
      !heap_.is_far(signal, sizeof *signal, pe)) {
    return Code::invalid_argument;
  }
  return launch(heap_.device(), Kernel::signal, {}, stream, heap_.state(), signal, value,
                number_of(op), static_cast<int>(pe));
}

Status DeviceStreams::put_signal(void* dest, const void* source, uint64_t bytes, uint64_t* signal,
                                 uint64_t value, SignalOp op, uint32_t pe, Stream stream) {
  if (heap_.is_far(signal, sizeof *signal, pe)) {
    TRY(put(dest, source, bytes, pe, stream));
    return this->signal(signal, value, op, pe, stream);
  }
  std::byte* const word = heap_.at(signal, sizeof *signal, pe);
  std::byte* const there = bytes != 0 ? heap_.at(dest, bytes, pe) : nullptr;
  if (word == nullptr || (bytes != 0 && there == nullptr)) return Code::invalid_argument;
  const uint64_t unaligned =
      reinterpret_cast<uintptr_t>(there) | reinterpret_cast<uintptr_t>(source) | bytes;
  const bool by_kernels = bytes != 0 && bytes <= kBlocksBytes && is_reached(source);
  if (!by_kernels || bytes > kOneKernelBytes) {
    const bool by_blocks = by_kernels && unaligned % kUnit == 0;
    TRY(by_blocks ? launch_elements(there, source, {1, 1, bytes / kUnit, kUnit}, stream)
                  : put(dest, source, bytes, pe, stream));
    return this->signal(signal, value, op, pe, stream);
  }
  const device::PutWithSignal both = {.to = there,
                                      .from = source,
                                      .bytes = bytes,
                                      .signal = reinterpret_cast<uint64_t*>(word),
                                      .value = value,
                                      .op = number_of(op),
                                      .reserved = 0};
  const auto threads = static_cast<uint32_t>(
      std::min(kPutThreadsMax, align_up((bytes + kBytesOfAThread - 1) / kBytesOfAThread, kWarp)));
  return launch(heap_.device(), Kernel::put_with_signal, {.threads = threads}, stream, both);
}

Status DeviceStreams::wait(const uint64_t* signal, int comparison, uint64_t value, Stream stream) {
  return wait({.at = signal,
               .count = 1,
               .bytes = sizeof *signal,
               .is_signed = false,
               .comparison = comparison,
               .value = value,
               .values = nullptr,
               .status = nullptr},
              stream);
}

Status DeviceStreams::wait(const WordsToWaitFor& words, Stream stream) {
  if (words.count == 0) return {};
  ASSERT(is_element(words.bytes) && words.bytes >= 2 && words.bytes <= 8);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(words.count, uint64_t{words.bytes}, &bytes) ||
      heap_.at(words.at, bytes, heap_.me()) == nullptr ||
      reinterpret_cast<uintptr_t>(words.at) % words.bytes != 0) {
    return Code::invalid_argument;
  }
  for (const void* const beside : {static_cast<const void*>(words.status), words.values}) {
    if (beside != nullptr && !is_reached(beside)) return Code::not_found;
  }
  const int width = std::countr_zero(words.bytes) - 1;
  const device::WaitForWords wanted = {
      .at = words.at,
      .count = words.count,
      .status = words.status,
      .values = words.values,
      .value = words.value,
      .comparison = words.comparison,
      .type = static_cast<device::WordType>(2 * width + (words.is_signed ? 0 : 1))};
  const auto threads = static_cast<uint32_t>(std::min<uint64_t>(words.count, kWarp));
  return launch(heap_.device(), Kernel::wait_for_words, {.threads = threads}, stream, heap_.state(),
                wanted);
}

device::SymmFailure DeviceStreams::failure() const {
  return static_cast<device::SymmFailure>(__atomic_load_n(heap_.state().failure, __ATOMIC_ACQUIRE));
}

device::SymmReport DeviceStreams::report() const {
  device::SymmReport seen{};
  // Pairs with the fence of give_up(): the rest was there before.
  seen.why = failure();
  if (seen.why == device::kSymmNothing) return seen;
  const auto* const report = reinterpret_cast<const device::SymmReport*>(heap_.state().failure);
  seen.pe = __atomic_load_n(&report->pe, __ATOMIC_RELAXED);
  seen.address = __atomic_load_n(&report->address, __ATOMIC_RELAXED);
  return seen;
}

}  // namespace penstock::symm
