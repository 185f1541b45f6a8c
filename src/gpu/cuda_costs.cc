// What copies cost on this machine, measured by events in a stream of its own.
#include "cuda_memory.h"
#include "limits.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace penstock::gpu {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr uint32_t kPieces = limits::kCostsBytes / kBlock;

// Its memory is never given back: the driver does so only when the program's own kernels have
// ended, and those may be waiting for this thread. Stream and events stay, too, when the device did
// not come to the end in time.
class Meter {
 public:
  Meter(CudaMemory& memory, const Context& context)
      : memory_(memory), driver_(memory.driver()), context_(context) {}
  ~Meter();
  Status prepare(engine::DeviceId device);

  // Seconds that the device took for what `work` puts into the stream.
  std::optional<double> time(const std::function<void()>& work);
  void copy(uint64_t bytes, uint32_t times);
  void gather();

 private:
  CudaMemory& memory_;
  const Driver& driver_;
  const Context& context_;
  MutableBytes host_;
  CUdeviceptr device_ = 0;
  CUstream stream_ = nullptr;
  CUevent began_ = nullptr;
  CUevent ended_ = nullptr;
  bool given_up_ = false;
};

Status Meter::prepare(engine::DeviceId device) {
  Outcome<MutableBytes> host =
      memory_.pinned_memory(device, limits::kCostsBytes + kPieces * sizeof(GatherPiece));
  if (!host) return host.error().status;
  host_ = *host;
  CUresult result = driver_.cuMemAlloc(&device_, limits::kCostsBytes);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0);
  }
  if (result == CUDA_SUCCESS) result = driver_.cuEventCreate(&began_, CU_EVENT_DEFAULT);
  if (result == CUDA_SUCCESS) result = driver_.cuEventCreate(&ended_, CU_EVENT_DEFAULT);
  auto* const pieces = reinterpret_cast<GatherPiece*>(host_.data() + limits::kCostsBytes);
  for (uint32_t i = 0; i < kPieces; ++i) {
    // Any order but the one in memory.
    const uint64_t from = uint64_t{i} * 641 % kPieces * kBlock;
    pieces[i] = {host_.data() + from, reinterpret_cast<void*>(device_ + i * kBlock), kBlock, 0, 0};
  }
  return status_of(result);
}

Meter::~Meter() {
  if (given_up_) return;
  if (began_ != nullptr) driver_.cuEventDestroy(began_);
  if (ended_ != nullptr) driver_.cuEventDestroy(ended_);
  if (stream_ != nullptr) driver_.cuStreamDestroy(stream_);
}

std::optional<double> Meter::time(const std::function<void()>& work) {
  if (given_up_) return std::nullopt;
  driver_.cuEventRecord(began_, stream_);
  work();
  driver_.cuEventRecord(ended_, stream_);
  const engine::Clock& clock = engine::system_clock();
  const engine::Time until = clock.now() + limits::kCostsPatience;
  CUresult result = driver_.cuEventQuery(ended_);
  while (result == CUDA_ERROR_NOT_READY && clock.now() < until) {
    result = driver_.cuEventQuery(ended_);
  }
  given_up_ = result != CUDA_SUCCESS;
  float milliseconds = 0;
  if (given_up_ || driver_.cuEventElapsedTime(&milliseconds, began_, ended_) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  return milliseconds > 0 ? std::optional<double>(milliseconds * 1e-3) : std::nullopt;
}

void Meter::copy(uint64_t bytes, uint32_t times) {
  for (uint32_t i = 0; i < times; ++i) {
    const uint64_t at = i * bytes % limits::kCostsBytes;
    driver_.cuMemcpyAsync(device_ + at, reinterpret_cast<CUdeviceptr>(host_.data() + at), bytes,
                          stream_);
  }
}

void Meter::gather() {
  auto* pieces = reinterpret_cast<GatherPiece*>(host_.data() + limits::kCostsBytes);
  uint32_t count = kPieces;
  void* arguments[] = {&pieces, &count};
  driver_.cuLaunchKernel(context_.gather, limits::kGatherBlocksMax, 1, 1, limits::kThreadsPerBlock,
                         1, 1, 0, stream_, arguments, nullptr);
}

// The best of some rounds: what disturbs a measurement makes it longer.
engine::CopyCosts measure(Meter& meter) {
  engine::CopyCosts costs;
  // The first of each kind loads what it needs.
  meter.time([&] {
    meter.copy(limits::kCostsCopyBytes, 1);
    meter.gather();
  });
  std::optional<double> large;
  std::optional<double> small;
  std::optional<double> gathered;
  constexpr uint32_t kLarge = 4;
  const auto note = [&](std::optional<double>* least, const std::function<void()>& work) {
    const std::optional<double> seconds = meter.time(work);
    if (seconds) *least = std::min(least->value_or(*seconds), *seconds);
  };
  for (uint32_t round = 0; round < limits::kCostsRounds; ++round) {
    note(&large, [&] { meter.copy(limits::kCostsBytes, kLarge); });
    note(&small, [&] { meter.copy(limits::kCostsCopyBytes, limits::kCostsCopies); });
    note(&gathered, [&] { meter.gather(); });
  }
  if (large) costs.engine_bytes_per_second = kLarge * limits::kCostsBytes / *large;
  if (gathered) costs.gather_bytes_per_second = limits::kCostsBytes / *gathered;
  if (small) {
    const double bytes_take = limits::kCostsCopyBytes / costs.engine_bytes_per_second;
    costs.engine_seconds_per_copy = std::max(0.0, *small / limits::kCostsCopies - bytes_take);
  }
  return costs;
}

}  // namespace

engine::CopyCosts CudaMemory::costs(engine::DeviceId device) {
  const std::lock_guard lock(costs_mutex_);
  const auto known = costs_.find(device.value);
  if (known != costs_.end()) return known->second;
  const Outcome<Context> context = this->context(device);
  if (!context) return {};
  const ContextScope scope(driver_, context->context);
  Meter meter(*this, *context);
  engine::CopyCosts costs;
  if (meter.prepare(device).ok()) costs = measure(meter);
  log::debug("GPU {}: copies at {:.1f} GB/s and {:.1f} us each, gathers at {:.1f} GB/s",
             device.value, costs.engine_bytes_per_second * 1e-9,
             costs.engine_seconds_per_copy * 1e6, costs.gather_bytes_per_second * 1e-9);
  return costs_[device.value] = costs;
}

}  // namespace penstock::gpu
