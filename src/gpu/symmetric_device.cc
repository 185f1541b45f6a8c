// Streams, copies and launches on the CUDA driver.
#include "context_apart.h"
#include "cuda_window.h"
#include "real_devices.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "penstock/gpu.h"

namespace penstock::gpu {

using engine::DeviceId;
using engine::DeviceStream;

namespace {

// Longer steps than this the driver takes for a mistake.
constexpr uint64_t kStepMax = 0x7fffffff;
// Rows of one copy.
constexpr uint64_t kRowsMax = uint64_t{1} << 30;

CUstream cuda_stream(DeviceStream stream) {
  return static_cast<CUstream>(stream);
}

// The context alone: what is launched on a stream that is being captured belongs to its graph. A
// program mostly has this context already, as its runtime chose it.
class ScopeOfLaunch {
 public:
  ScopeOfLaunch(const Driver& driver, CUcontext context) : driver_(driver) {
    CUcontext current = nullptr;
    const bool is_there = driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context;
    pushed_ = !is_there && driver_.cuCtxPushCurrent(context) == CUDA_SUCCESS;
  }
  ~ScopeOfLaunch() {
    CUcontext mine = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent(&mine);
  }
  ScopeOfLaunch(const ScopeOfLaunch&) = delete;
  ScopeOfLaunch& operator=(const ScopeOfLaunch&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

CUresult copy_plainly(const Driver& driver, CUdeviceptr to, CUdeviceptr from, uint64_t bytes,
                      CUstream stream) {
  return driver.cuMemcpyAsync(to, from, bytes, stream);
}

CUresult launch_kernel(const Driver& driver, CUfunction kernel, const Launch& launch) {
  return driver.cuLaunchKernel(kernel, launch.blocks, 1, 1, launch.threads, 1, 1, 0,
                               cuda_stream(launch.stream), launch.arguments.data(), nullptr);
}

// A graph of one kernel. Its launch costs the host 1.3 us where that of a kernel costs 3.3 (H200,
// driver 580): what a launch is made of was worked out when the graph was instantiated.
class CudaPreparedLaunch final : public PreparedLaunch {
 public:
  explicit CudaPreparedLaunch(const SymmetricContext& device) : device_(device) {}
  ~CudaPreparedLaunch() override {
    const ContextScope scope(device_.driver(), device_.context);
    if (ready_ != nullptr) device_.driver().cuGraphExecDestroy(ready_);
    if (graph_ != nullptr) device_.driver().cuGraphDestroy(graph_);
  }

  Outcome<void> make(CUfunction kernel, const Launch& launch) {
    const ContextScope scope(device_.driver(), device_.context);
    CUDA_KERNEL_NODE_PARAMS what{};
    what.func = kernel;
    what.gridDimX = launch.blocks;
    what.gridDimY = what.gridDimZ = 1;
    what.blockDimX = launch.threads;
    what.blockDimY = what.blockDimZ = 1;
    what.kernelParams = launch.arguments.data();
    CUgraphNode node = nullptr;
    CUresult result = device_.driver().cuGraphCreate(&graph_, 0);
    if (result == CUDA_SUCCESS)
      result = device_.driver().cuGraphAddKernelNode(&node, graph_, nullptr, 0, &what);
    if (result == CUDA_SUCCESS) result = device_.driver().cuGraphInstantiate(&ready_, graph_, 0);
    // Now: at its first launch that might wait for kernels that wait for it.
    if (result == CUDA_SUCCESS)
      result = device_.driver().cuGraphUpload(ready_, cuda_stream(launch.stream));
    if (result == CUDA_SUCCESS)
      result = device_.driver().cuStreamSynchronize(cuda_stream(launch.stream));
    if (result != CUDA_SUCCESS)
      return failure_of(device_.driver(), "prepare a kernel of symmetric memory", result);
    return {};
  }

  Status launch(DeviceStream stream) override {
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult asked = device_.driver().cuStreamIsCapturing(cuda_stream(stream), &capture);
    if (asked != CUDA_SUCCESS) return status_of(asked);
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE) return Code::not_supported;
    const std::lock_guard lock(mutex_);
    return status_of(device_.driver().cuGraphLaunch(ready_, cuda_stream(stream)));
  }

 private:
  const SymmetricContext device_;
  std::mutex mutex_;  // the driver launches a graph for one thread at a time
  CUgraph graph_ = nullptr;
  CUgraphExec ready_ = nullptr;
};

class CudaSymmetricDevice final : public SymmetricDevice {
 public:
  // `apart`: its context, if that is not the program's.
  CudaSymmetricDevice(const SymmetricContext& device, std::shared_ptr<ContextApart> apart)
      : apart_(std::move(apart)),
        device_(device),
        reaches_all_(has(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)),
        has_words_of_64_bits_(has(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)) {}

  ~CudaSymmetricDevice() override {
    const ContextScope scope(device_.driver(), device_.context);
    device_.driver().cuStreamDestroy(device_.stream);
  }

  DeviceId id() const override { return device_.id; }
  uint64_t memory_bytes() const override {
    return device_.memory.devices()[device_.id.value].memory_bytes;
  }

  Outcome<std::unique_ptr<Window>> reserve(uint64_t bytes) override {
    return make_window(device_, bytes);
  }

  Outcome<void> load_kernels(const void* image, std::span<const char* const> names) override {
    ASSERT(image != nullptr);  // A build with CUDA has compiled them.
    const ContextScope scope(device_.driver(), device_.context);
    CUlibrary library = nullptr;
    CUresult result = device_.driver().cuLibraryLoadData(&library, image, nullptr, nullptr, 0,
                                                         nullptr, nullptr, 0);
    if (result != CUDA_SUCCESS)
      return failure_of(device_.driver(), "load the kernels of symmetric memory", result);
    for (const char* const name : names) {
      CUkernel kernel = nullptr;
      CUfunction function = nullptr;
      int registers = 0;
      result = device_.driver().cuLibraryGetKernel(&kernel, library, name);
      if (result == CUDA_SUCCESS) result = device_.driver().cuKernelGetFunction(&function, kernel);
      // Loads it now: at its first launch that might wait for kernels that wait for it.
      if (result == CUDA_SUCCESS) {
        result =
            device_.driver().cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
      }
      if (result != CUDA_SUCCESS)
        return failure_of(device_.driver(), std::string("load ") + name, result);
      kernels_.push_back(function);
    }
    return {};
  }

  Outcome<std::unique_ptr<PreparedLaunch>> prepare(const Launch& launch) override {
    if (launch.kernel >= kernels_.size()) return Failure{Code::not_found, "no such kernel"};
    auto prepared = std::make_unique<CudaPreparedLaunch>(device_);
    TRY(prepared->make(kernels_[launch.kernel], launch));
    return std::unique_ptr<PreparedLaunch>(std::move(prepared));
  }

  DeviceStream own_stream() const override { return device_.stream; }

  Status launch(const Launch& launch) override {
    if (launch.kernel >= kernels_.size()) return Code::not_found;
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    return status_of(launch_kernel(device_.driver(), kernels_[launch.kernel], launch));
  }

  Status copy(void* to, const void* from, uint64_t bytes, DeviceStream stream) override {
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    const auto copy = apart_ != nullptr ? copy_beside_kernels : copy_plainly;
    return status_of(copy(device_.driver(), device_address(to), device_address(from), bytes,
                          cuda_stream(stream)));
  }

  Status copy_strided(const StridedCopy& copy, DeviceStream stream) override {
    ASSERT(copy.to_step >= copy.element_bytes && copy.from_step >= copy.element_bytes);
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    const bool has_rows = copy.to_step <= kStepMax && copy.from_step <= kStepMax;
    const uint64_t rows_max = has_rows ? kRowsMax : 1;
    for (uint64_t first = 0; first < copy.count; first += rows_max) {
      const uint64_t rows = std::min(rows_max, copy.count - first);
      CUDA_MEMCPY2D part{};
      part.srcMemoryType = part.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
      part.srcDevice = device_address(copy.from) + first * copy.from_step;
      part.dstDevice = device_address(copy.to) + first * copy.to_step;
      part.srcPitch = has_rows ? copy.from_step : copy.element_bytes;
      part.dstPitch = has_rows ? copy.to_step : copy.element_bytes;
      part.WidthInBytes = copy.element_bytes;
      part.Height = rows;
      TRY(status_of(device_.driver().cuMemcpy2DAsync(&part, cuda_stream(stream))));
    }
    return {};
  }

  Status fill_zeros(void* to, uint64_t bytes, DeviceStream stream) override {
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    return status_of(
        device_.driver().cuMemsetD8Async(device_address(to), 0, bytes, cuda_stream(stream)));
  }

  Status store(uint32_t* word, uint32_t value, DeviceStream stream) override {
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    return status_of(device_.driver().cuStreamWriteValue32(
        cuda_stream(stream), device_address(word), value, CU_STREAM_WRITE_VALUE_DEFAULT));
  }

  Status store(uint64_t* word, uint64_t value, DeviceStream stream) override {
    if (!has_words_of_64_bits_) return Code::not_supported;
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    return status_of(device_.driver().cuStreamWriteValue64(
        cuda_stream(stream), device_address(word), value, CU_STREAM_WRITE_VALUE_DEFAULT));
  }

  Status synchronize(DeviceStream stream) override {
    const BesideCaptures captures(device_.driver());
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    return status_of(device_.driver().cuStreamSynchronize(cuda_stream(stream)));
  }

  Status synchronize_all() override {
    const BesideCaptures captures(device_.driver());
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    return status_of(device_.driver().cuCtxSynchronize());
  }

  bool is_capturing(DeviceStream stream) const override {
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = device_.driver().cuStreamIsCapturing(cuda_stream(stream), &status);
    return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
  }

  bool reaches(const void* address) const override { return reaches_all_ || knows(address); }

  bool knows(const void* address) const override {
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    CUdeviceptr at = 0;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    void* values[] = {&at};
    const CUresult result =
        device_.driver().cuPointerGetAttributes(1, which, values, device_address(address));
    // What the driver does not know is no failure of the call, and has no address in the device.
    return result == CUDA_SUCCESS && at == device_address(address);
  }

  bool stays(const void* address) const override {
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    CUdeviceptr at = 0;
    CUmemoryPool pool = nullptr;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    void* values[] = {&at, &pool};
    const CUresult result =
        device_.driver().cuPointerGetAttributes(2, which, values, device_address(address));
    return result == CUDA_SUCCESS && at == device_address(address) && pool == nullptr;
  }

  uint64_t number_of(DeviceStream stream) const override {
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    unsigned long long number = 0;
    const CUresult result = device_.driver().cuStreamGetId(cuda_stream(stream), &number);
    return result == CUDA_SUCCESS ? number : 0;
  }

  bool is_programs(const void* address) const override {
    const ScopeOfLaunch scope(device_.driver(), device_.context);
    CUcontext context = nullptr;
    CUmemorytype type{};
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    void* values[] = {&context, &type};
    const CUresult result =
        device_.driver().cuPointerGetAttributes(2, which, values, device_address(address));
    return result == CUDA_SUCCESS && context != nullptr && type != CU_MEMORYTYPE_HOST;
  }

  // Of the pool of the device, which has none.
  Result<void*> allocate(uint64_t bytes) override {
    const ContextScope scope(device_.driver(), device_.context);
    CUdeviceptr at = 0;
    TRY(status_of(device_.driver().cuMemAllocAsync(&at, bytes, device_.stream)));
    TRY(status_of(device_.driver().cuStreamSynchronize(device_.stream)));
    return reinterpret_cast<void*>(at);
  }

  void release(void* memory) override {
    const ContextScope scope(device_.driver(), device_.context);
    device_.driver().cuMemFreeAsync(device_address(memory), device_.stream);
  }

  Outcome<MutableBytes> host_words(uint64_t bytes) override {
    // Memory of the process, and not of the driver: it stays when the program resets its device,
    // and threads of the host look at it still.
    const uint64_t length = align_up(bytes, uint64_t{4096});
    void* const memory =
        ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Failure{Code::no_memory, "no memory for words of the host"};
    const ContextScope scope(device_.driver(), device_.context);
    const CUresult result = device_.driver().cuMemHostRegister(
        memory, length, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result == CUDA_SUCCESS) return MutableBytes(static_cast<std::byte*>(memory), bytes);
    ::munmap(memory, length);
    return failure_of(device_.driver(), fmt::format("pin {} bytes of the host", length), result);
  }

 private:
  bool has(CUdevice_attribute attribute) const {
    int value = 0;
    const CUresult result = device_.driver().cuDeviceGetAttribute(
        &value, attribute, static_cast<CUdevice>(device_.id.value));
    return result == CUDA_SUCCESS && value != 0;
  }

  const std::shared_ptr<ContextApart> apart_;  // given back behind all that is in it
  const SymmetricContext device_;
  const bool reaches_all_;           // also what the driver was never told of
  const bool has_words_of_64_bits_;  // in cuStreamWriteValue64()
  std::vector<CUfunction> kernels_;  // not changed after load_kernels()
};

// The process's own; without it the reason.
Outcome<CudaMemory*> cuda() {
  TRY_ASSIGN(engine::DeviceMemory* const memory, real_devices());
  return static_cast<CudaMemory*>(memory);
}

}  // namespace

Outcome<DeviceId> real_current_device() {
  TRY_ASSIGN(CudaMemory* const memory, cuda());
  CUdevice device = 0;
  if (memory->driver().cuCtxGetDevice(&device) != CUDA_SUCCESS) device = 0;
  return DeviceId(static_cast<uint32_t>(device));
}

bool has_real_current_device() {
  const Outcome<CudaMemory*> memory = cuda();
  CUcontext current = nullptr;
  return memory && (*memory)->driver().cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
         current != nullptr;
}

Result<void, Failure> make_real_current(DeviceId device) {
  TRY_ASSIGN(CudaMemory* const memory, cuda());
  TRY_ASSIGN(const Context context, memory->context(device));
  const CUresult result = memory->driver().cuCtxSetCurrent(context.context);
  if (result == CUDA_SUCCESS) return {};
  return failure_of(memory->driver(), fmt::format("choose GPU {}", device.value), result);
}

namespace {

Outcome<std::unique_ptr<SymmetricDevice>> open_in(CudaMemory& memory, DeviceId device,
                                                  CUcontext context,
                                                  std::shared_ptr<ContextApart> apart) {
  const ContextScope scope(memory.driver(), context);
  int least = 0;
  int greatest = 0;
  memory.driver().cuCtxGetStreamPriorityRange(&least, &greatest);
  CUstream stream = nullptr;
  const CUresult made =
      memory.driver().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest);
  if (made != CUDA_SUCCESS) {
    return failure_of(memory.driver(), fmt::format("GPU {}: make a stream", device.value), made);
  }
  return std::unique_ptr<SymmetricDevice>(
      new CudaSymmetricDevice({memory, device, context, stream}, std::move(apart)));
}

}  // namespace

Outcome<std::unique_ptr<SymmetricDevice>> open_real_device(DeviceId device) {
  TRY_ASSIGN(CudaMemory* const memory, cuda());
  TRY_ASSIGN(const Context context, memory->context(device));
  return open_in(*memory, device, context.context, nullptr);
}

Outcome<std::unique_ptr<SymmetricDevice>> open_real_device_apart(DeviceId device) {
  TRY_ASSIGN(CudaMemory* const memory, cuda());
  TRY(memory->context(device));  // the program's, and the device is there
  TRY_ASSIGN(auto apart, ContextApart::get(*memory, device));
  CUcontext const context = apart->context();
  return open_in(*memory, device, context, std::move(apart));
}

Outcome<MutableBytes> variable_of(const LoadedCode& code, const char* name, DeviceId device) {
  TRY_ASSIGN(CudaMemory* const memory, cuda());
  TRY_ASSIGN(const Context context, memory->context(device));
  const Driver& driver = memory->driver();
  const ContextScope scope(driver, context.context);
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const CUresult found =
      code.kind == LoadedCode::Kind::module
          ? driver.cuModuleGetGlobal(&address, &bytes, static_cast<CUmodule>(code.handle), name)
          : driver.cuLibraryGetGlobal(&address, &bytes, static_cast<CUlibrary>(code.handle), name);
  if (found != CUDA_SUCCESS)
    return failure_of(driver, fmt::format("GPU {}: find {}", device.value, name), found);
  return MutableBytes(reinterpret_cast<std::byte*>(address), bytes);
}

}  // namespace penstock::gpu
