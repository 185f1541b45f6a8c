// What goes between streams and far PEs: kernels ask for it. Of pageable memory, which the proxy's
// copy engines are not given, and of pools, by way of the device's own.
#include "kernel_arguments.h"
#include "kernels.h"
#include "limits.h"
#include "stages.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "penstock/symm/device_streams.h"

namespace penstock::symm {
namespace {

constexpr bool is_element(uint32_t bytes) {
  return bytes <= 16 && std::has_single_bit(bytes);
}

const std::byte* further(const void* address, uint64_t bytes) {
  return static_cast<const std::byte*>(address) + bytes;
}
std::byte* further(void* address, uint64_t bytes) {
  return static_cast<std::byte*>(address) + bytes;
}

}  // namespace

bool DeviceStreams::goes_by_stage(const void* local) const {
  return heap_.at(local, 1, heap_.me()) == nullptr && !heap_.device().stays(local);
}

Status DeviceStreams::put_far(void* dest, const void* source, uint64_t bytes, uint32_t pe,
                              Stream stream) {
  const auto ask = [&](void* there, const void* here, uint64_t count) {
    return launch(heap_.device(), Kernel::put_far, {}, stream, heap_.state(), there, here, count,
                  static_cast<int>(pe));
  };
  if (!goes_by_stage(source)) return ask(dest, source, bytes);
  TRY_ASSIGN(const auto stage,
             Stages::Use::take(*stages_, std::min(bytes, limits::kFarStageBytes), stream));
  for (uint64_t begin = 0; begin < bytes; begin += limits::kFarStageBytes) {
    const uint64_t count = std::min(bytes - begin, limits::kFarStageBytes);
    TRY(heap_.device().copy(stage.memory(), further(source, begin), count, stream));
    TRY(ask(further(dest, begin), stage.memory(), count));
  }
  return {};
}

Status DeviceStreams::get_far(void* dest, const void* source, uint64_t bytes, uint32_t pe,
                              Stream stream) {
  const auto ask = [&](void* here, const void* there, uint64_t count) {
    return launch(heap_.device(), Kernel::get_far, {}, stream, heap_.state(), here, there, count,
                  static_cast<int>(pe));
  };
  if (!goes_by_stage(dest)) return ask(dest, source, bytes);
  TRY_ASSIGN(const auto stage,
             Stages::Use::take(*stages_, std::min(bytes, limits::kFarStageBytes), stream));
  for (uint64_t begin = 0; begin < bytes; begin += limits::kFarStageBytes) {
    const uint64_t count = std::min(bytes - begin, limits::kFarStageBytes);
    TRY(ask(stage.memory(), further(source, begin), count));
    TRY(heap_.device().copy(further(dest, begin), stage.memory(), count, stream));
  }
  return {};
}

Status DeviceStreams::row_far(const FarSides& sides, const StridedElements& strides, uint32_t pe,
                              Stream stream) {
  ASSERT(is_element(strides.element_bytes));
  if (sides.stride_there < 1 || sides.stride_here < 1 ||
      !heap_.is_far(sides.there, reach_of(sides.stride_there, strides), pe)) {
    return Code::invalid_argument;
  }
  if (goes_by_stage(sides.here)) return staged_row_far(sides, strides, pe, stream);
  return ask_for_row(sides, strides.count, strides.element_bytes, pe, stream);
}

Status DeviceStreams::ask_for_row(const FarSides& sides, uint64_t count, uint32_t element_bytes,
                                  uint32_t pe, Stream stream) {
  const device::RowFar row = {.there = sides.there,
                              .here = sides.here,
                              .count = count,
                              .stride_there = static_cast<uint64_t>(sides.stride_there),
                              .stride_here = static_cast<uint64_t>(sides.stride_here),
                              .element_bytes = element_bytes,
                              .is_get = sides.is_get ? 1 : 0};
  return launch(heap_.device(), Kernel::row_far, {}, stream, heap_.state(), row,
                static_cast<int>(pe));
}

Status DeviceStreams::staged_row_far(const FarSides& sides, const StridedElements& strides,
                                     uint32_t pe, Stream stream) {
  const uint64_t size = strides.element_bytes;
  uint64_t step_here = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(sides.stride_here), size, &step_here))
    return Code::invalid_argument;
  const uint64_t step_there = static_cast<uint64_t>(sides.stride_there) * size;
  const uint64_t at_once = std::min(strides.count, limits::kFarStageBytes / size);
  gpu::SymmetricDevice& device = heap_.device();
  TRY_ASSIGN(const auto stage, Stages::Use::take(*stages_, at_once * size, stream));
  for (uint64_t first = 0; first < strides.count; first += at_once) {
    const uint64_t count = std::min(at_once, strides.count - first);
    const void* const here = further(sides.here, first * step_here);
    const FarSides staged = {further(sides.there, first * step_there), stage.memory(),
                             sides.stride_there, 1, sides.is_get};
    gpu::StridedCopy copy = {.to = stage.memory(),
                             .from = here,
                             .to_step = size,
                             .from_step = step_here,
                             .element_bytes = size,
                             .count = count};
    if (!sides.is_get) TRY(device.copy_strided(copy, stream));
    TRY(ask_for_row(staged, count, strides.element_bytes, pe, stream));
    if (!sides.is_get) continue;
    std::swap(copy.to_step, copy.from_step);
    copy.to = const_cast<void*>(here);
    copy.from = stage.memory();
    TRY(device.copy_strided(copy, stream));
  }
  return {};
}

}  // namespace penstock::symm
