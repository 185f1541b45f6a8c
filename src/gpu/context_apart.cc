#include "context_apart.h"

#include <map>
#include <mutex>

namespace penstock::gpu {

namespace {

// Its kernels are small: threads of them take this much of a stack, for which the device's memory
// is kept by the hundred thousand.
constexpr size_t kStackBytes = 512;

// Fewer bytes than these the driver sends to the device in the commands of the channel that kernels
// are launched by (below 32 KiB, driver 580). There contexts take turns of 2 ms.
constexpr uint64_t kInlineMax = 64 << 10;

CUresult create(const Driver& driver, CUcontext* context, CUdevice device) {
#if CUDA_VERSION >= 13000
  return driver.cuCtxCreate(context, nullptr, CU_CTX_SCHED_AUTO, device);
#else
  return driver.cuCtxCreate(context, CU_CTX_SCHED_AUTO, device);
#endif
}

// Rows go by a copy engine whatever their length.
CUresult copy_rows(const Driver& driver, CUdeviceptr to, CUdeviceptr from, uint64_t row,
                   CUstream stream) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = row;
  copy.WidthInBytes = row;
  copy.Height = 2;
  return driver.cuMemcpy2DAsync(&copy, stream);
}

}  // namespace

Outcome<std::shared_ptr<ContextApart>> ContextApart::get(CudaMemory& memory,
                                                         engine::DeviceId device) {
  static std::mutex mutex;
  static std::map<uint32_t, std::weak_ptr<ContextApart>> all;
  const std::lock_guard lock(mutex);
  if (auto there = all[device.value].lock()) return there;
  TRY_ASSIGN(auto made, make(memory.driver(), device));
  all[device.value] = made;
  return made;
}

Outcome<std::shared_ptr<ContextApart>> ContextApart::make(const Driver& driver,
                                                          engine::DeviceId device) {
  CUcontext context = nullptr;
  const CUresult result = create(driver, &context, static_cast<CUdevice>(device.value));
  if (result != CUDA_SUCCESS) {
    Failure why = failure_of(
        driver, fmt::format("GPU {}: make a second context (some 500 MiB)", device.value), result);
    why.message += " (a GPU whose compute mode is exclusive has one only: 'nvidia-smi -c DEFAULT')";
    return why;
  }
  driver.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, kStackBytes);
  CUcontext same = nullptr;
  driver.cuCtxPopCurrent(&same);
  return std::shared_ptr<ContextApart>(new ContextApart(driver, context));
}

ContextApart::~ContextApart() {
  const CUresult result = driver_.cuCtxDestroy(context_);
  if (result != CUDA_SUCCESS && !is_driver_gone(result)) {
    log::error("{}", failure_of(driver_, "give back the second context", result).message);
  }
}

CUresult copy_beside_kernels(const Driver& driver, CUdeviceptr to, CUdeviceptr from, uint64_t bytes,
                             CUstream stream) {
  constexpr uint64_t kWord = 8;
  if (bytes <= kWord || bytes >= kInlineMax) return driver.cuMemcpyAsync(to, from, bytes, stream);
  // Two rows of whole words, two of what is left, and one byte of an odd number, which is the only
  // one to take its turn.
  for (const uint64_t unit : {2 * kWord, uint64_t{2}}) {
    const uint64_t part = bytes - bytes % unit;
    if (part == 0) continue;
    const CUresult result = copy_rows(driver, to, from, part / 2, stream);
    if (result != CUDA_SUCCESS) return result;
    to += part;
    from += part;
    bytes -= part;
  }
  return bytes == 0 ? CUDA_SUCCESS : driver.cuMemcpyAsync(to, from, bytes, stream);
}

}  // namespace penstock::gpu
