#include "penstock/symm/device_streams.h"

#include "image.h"

#include <array>

namespace penstock::symm {
namespace {

// By their numbers in kernels (penstock_device/symm/signal.h).
constexpr int kSetInKernels = 9;
constexpr int kAddInKernels = 10;

// Of kernels.cu, by their places here.
enum Kernel : uint32_t { kBarrier, kSignal, kWait };
constexpr std::array<const char*, 3> kKernels = {"penstock_symm_barrier", "penstock_symm_signal",
                                                 "penstock_symm_wait"};
constexpr uint32_t kWarp = 32;

// Addresses of arguments, as a launch takes them.
template <class... Argument>
Status launch(gpu::SymmetricDevice& device, Kernel kernel, uint32_t threads,
              engine::DeviceStream stream, Argument... argument) {
  std::array<void*, sizeof...(Argument)> addresses{&argument...};
  return device.launch({.kernel = kernel,
                        .blocks = 1,
                        .threads = threads,
                        .arguments = addresses,
                        .stream = stream});
}

}  // namespace

Outcome<std::unique_ptr<DeviceStreams>> DeviceStreams::make(DeviceHeap& heap) {
  const void* const image = kernel_image();
  if (image == nullptr) return Failure{Code::not_supported, "this build has no CUDA parts"};
  TRY(heap.device().load_kernels(image, kKernels));
  return std::unique_ptr<DeviceStreams>(new DeviceStreams(heap));
}

Outcome<void> DeviceStreams::prepare(const Team& team) {
  auto& prepared = barriers_.at(team.id());
  if (prepared != nullptr) return {};
  device::SymmState state = heap_.state();
  auto number = static_cast<int>(team.id());
  std::array<void*, 2> addresses = {&state, &number};
  TRY_ASSIGN(prepared, heap_.device().prepare({.kernel = kBarrier,
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
  return launch(heap_.device(), kBarrier, kWarp, stream, heap_.state(),
                static_cast<int>(team.id()));
}

Status DeviceStreams::put(void* dest, const void* source, uint64_t bytes, uint32_t pe,
                          Stream stream) {
  if (bytes == 0) return {};
  std::byte* const there = heap_.at(dest, bytes, pe);
  return there != nullptr ? heap_.device().copy(there, source, bytes, stream)
                          : Status(Code::invalid_argument);
}

Status DeviceStreams::get(void* dest, const void* source, uint64_t bytes, uint32_t pe,
                          Stream stream) {
  if (bytes == 0) return {};
  const std::byte* const there = heap_.at(source, bytes, pe);
  return there != nullptr ? heap_.device().copy(dest, there, bytes, stream)
                          : Status(Code::invalid_argument);
}

Status DeviceStreams::signal(uint64_t* signal, uint64_t value, SignalOp op, uint32_t pe,
                             Stream stream) {
  if (heap_.at(signal, sizeof *signal, pe) == nullptr) return Code::invalid_argument;
  const int number = op == SignalOp::add ? kAddInKernels : kSetInKernels;
  return launch(heap_.device(), kSignal, 1, stream, heap_.state(), signal, value, number,
                static_cast<int>(pe));
}

Status DeviceStreams::wait(const uint64_t* signal, int comparison, uint64_t value, Stream stream) {
  if (heap_.at(signal, sizeof *signal, 0) == nullptr) return Code::invalid_argument;
  return launch(heap_.device(), kWait, 1, stream, heap_.state(), signal, comparison, value);
}

device::SymmFailure DeviceStreams::failure() const {
  return static_cast<device::SymmFailure>(__atomic_load_n(heap_.state().failure, __ATOMIC_ACQUIRE));
}

}  // namespace penstock::symm
