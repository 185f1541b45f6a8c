#include "cuda_memory.h"

#include "cuda_lanes.h"
#include "image.h"

#include <algorithm>
#include <cstring>

namespace penstock::gpu {

using engine::DeviceId;
using engine::DeviceSpan;

namespace {

CUdeviceptr pointer_of(const void* address) {
  return reinterpret_cast<CUdeviceptr>(address);
}

}  // namespace

Outcome<std::unique_ptr<CudaMemory>> CudaMemory::open() {
  TRY_ASSIGN(const Driver driver, load_driver());
  return open(driver);
}

Outcome<std::unique_ptr<CudaMemory>> CudaMemory::open(const Driver& driver) {
  std::unique_ptr<CudaMemory> memory(new CudaMemory(driver));
  TRY(memory->look_at_devices());
  return memory;
}

Outcome<void> CudaMemory::look_at_devices() {
  int count = 0;
  const CUresult counted = driver_.cuDeviceGetCount(&count);
  if (counted != CUDA_SUCCESS) return failure_of(driver_, "CUDA: count GPUs", counted);
  count = std::min(count, static_cast<int>(engine::kDevicesMax));
  for (CUdevice device = 0; device < count; ++device) {
    engine::DeviceFacts facts;
    char name[128] = {};
    char address[32] = {};
    size_t bytes = 0;
    CUuuid uuid{};
    driver_.cuDeviceGetName(name, sizeof name, device);
    driver_.cuDeviceGetPCIBusId(address, sizeof address, device);
    driver_.cuDeviceTotalMem(&bytes, device);
    driver_.cuDeviceGetUuid(&uuid, device);
    const auto attribute = [&](CUdevice_attribute which, int unknown) {
      int value = unknown;
      return driver_.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : unknown;
    };
    facts.name = name;
    facts.pci_address = address;
    facts.memory_bytes = bytes;
    facts.multiprocessors =
        static_cast<uint32_t>(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1));
    facts.numa_node = attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
    for (CUdevice other = 0; other < count; ++other) {
      int reaches = 0;
      driver_.cuDeviceCanAccessPeer(&reaches, device, other);
      if (reaches != 0 && other != device) facts.peers |= uint64_t{1} << other;
    }
    std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), facts.uuid.begin());
    const int ordering = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
                                   CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
    const int flushes = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 0);
    const bool keeps_order = ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    if (attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0) == 0) {
      facts.no_dma_buf =
          "its driver exports no dma-buf (that takes NVIDIA's open kernel modules, and a kernel of "
          "5.12 or later)";
    } else if (!keeps_order && (flushes & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) == 0) {
      facts.no_dma_buf = "it does not tell when it has what network cards have written";
    }
    keeps_order_.push_back(keeps_order);
    facts_.push_back(std::move(facts));
    uuids_.push_back(uuid);
  }
  contexts_.resize(facts_.size());
  return {};
}

Outcome<Context> CudaMemory::context(DeviceId device) {
  if (device.value >= facts_.size()) {
    return Failure{Code::invalid_argument,
                   fmt::format("GPU {}: this process sees {}", device.value, facts_.size())};
  }
  const std::lock_guard lock(mutex_);
  Context& context = contexts_[device.value];
  if (context.context == nullptr) {
    TRY_ASSIGN(context, make_context(device.value));
    enable_peers(device.value);
  }
  return context;
}

Outcome<Context> CudaMemory::make_context(uint32_t device) {
  const auto number = static_cast<CUdevice>(device);
  Context made;
  const CUresult result = driver_.cuDevicePrimaryCtxRetain(&made.context, number);
  const std::string what = fmt::format("GPU {}: make its context", device);
  if (result != CUDA_SUCCESS) return failure_of(driver_, what, result);
  if (Outcome<void> ready = prepare(&made); !ready) {
    driver_.cuDevicePrimaryCtxRelease(number);
    return Failure{ready.error().status, fmt::format("{}: {}", what, ready.error().message)};
  }
  return made;
}

Outcome<void> CudaMemory::prepare(Context* context) {
  const ContextScope scope(driver_, context->context);
  if (library_ == nullptr) {
    const CUresult result = driver_.cuLibraryLoadData(&library_, kernel_image(), nullptr, nullptr,
                                                      0, nullptr, nullptr, 0);
    if (result != CUDA_SUCCESS) return failure_of(driver_, "load the kernels", result);
  }
  TRY_ASSIGN(context->gather, kernel("penstock_gather"));
  TRY_ASSIGN(context->gather_checked, kernel("penstock_gather_checked"));
  TRY_ASSIGN(context->check, kernel("penstock_check"));
  if (const char* const name = mailbox_kernel_name()) {
    TRY_ASSIGN(context->serve_mailbox, kernel(name));
  }
  TRY_ASSIGN(context->constants, copy_constants());
  return {};
}

// For the context that is current. Loading a kernel may wait until all kernels that run have ended,
// so it must not happen at the first launch: asking for an attribute of it loads it now.
Outcome<CUfunction> CudaMemory::kernel(const char* name) {
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  int registers = 0;
  CUresult result = driver_.cuLibraryGetKernel(&kernel, library_, name);
  if (result == CUDA_SUCCESS) result = driver_.cuKernelGetFunction(&function, kernel);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
  }
  if (result != CUDA_SUCCESS) return failure_of(driver_, std::string("load ") + name, result);
  return function;
}

Outcome<const device::Constants*> CudaMemory::copy_constants() {
  device::Constants constants;
  ring::fill(constants);
  CUdeviceptr copied = 0;
  CUresult result = driver_.cuMemAlloc(&copied, sizeof constants);
  if (result != CUDA_SUCCESS) {
    return failure_of(driver_, "allocate 6 KiB for checksums", result);
  }
  result = driver_.cuMemcpyHtoD(copied, &constants, sizeof constants);
  if (result != CUDA_SUCCESS) {
    driver_.cuMemFree(copied);
    return failure_of(driver_, "copy what checksums need", result);
  }
  return reinterpret_cast<const device::Constants*>(copied);
}

// Contexts come one by one: each new one and those that are there are told of one another. Without
// it copies between devices go through host memory; the facts, which others read at any time, stay
// what they are.
void CudaMemory::enable_peers(uint32_t device) {
  for (uint32_t other = 0; other < contexts_.size(); ++other) {
    if ((facts_[device].peers >> other & 1) == 0 || contexts_[other].context == nullptr) continue;
    for (const auto& [from, to] : {std::pair(device, other), std::pair(other, device)}) {
      const ContextScope scope(driver_, contexts_[from].context);
      const CUresult result = driver_.cuCtxEnablePeerAccess(contexts_[to].context, 0);
      if (result == CUDA_SUCCESS || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) continue;
      log::warning("GPU {}: no direct way to GPU {}: {}", from, to, static_cast<int>(result));
    }
  }
}

Result<DeviceSpan> CudaMemory::find(const void* address, uint64_t length) {
  CUmemorytype type{};
  int ordinal = -1;
  unsigned long long buffer = 0;
  CUdeviceptr start = 0;
  size_t size = 0;
  unsigned managed = 0;
  CUpointer_attribute which[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_BUFFER_ID,   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
      CU_POINTER_ATTRIBUTE_RANGE_SIZE,  CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* values[] = {&type, &ordinal, &buffer, &start, &size, &managed};
  const CUdeviceptr at = pointer_of(address);
  const CUresult result = driver_.cuPointerGetAttributes(std::size(which), which, values, at);
  // After a fault on a device the driver fails for all memory: that does not make this host memory.
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE) return status_of(result);
  const bool is_ours = result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE && managed == 0;
  if (!is_ours || ordinal < 0) return Code::not_found;
  if (at < start || !range_within(at - start, length, size)) return Code::invalid_argument;
  return DeviceSpan{DeviceId(static_cast<uint32_t>(ordinal)),
                    const_cast<std::byte*>(static_cast<const std::byte*>(address)), length, buffer};
}

// A device with a context in this process already: one of its own costs hundreds of megabytes of a
// GPU that the program perhaps never uses.
DeviceId CudaMemory::device_in_use() {
  {
    const std::lock_guard lock(mutex_);
    for (uint32_t device = 0; device < contexts_.size(); ++device) {
      if (contexts_[device].context != nullptr) return DeviceId(device);
    }
  }
  for (uint32_t device = 0; device < facts_.size(); ++device) {
    unsigned flags = 0;
    int active = 0;
    const CUresult result =
        driver_.cuDevicePrimaryCtxGetState(static_cast<CUdevice>(device), &flags, &active);
    if (result == CUDA_SUCCESS && active != 0) return DeviceId(device);
  }
  return DeviceId(0);
}

Outcome<void> CudaMemory::pin(MutableBytes memory, bool read_only) {
  if (facts_.empty()) return Failure{Code::not_found, "pin: there is no GPU"};
  const DeviceId device = device_in_use();
  TRY_ASSIGN(const Context context, this->context(device));
  const ContextScope scope(driver_, context.context);
  unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  if (read_only) flags |= CU_MEMHOSTREGISTER_READ_ONLY;
  const CUresult result = driver_.cuMemHostRegister(memory.data(), memory.size(), flags);
  if (result != CUDA_SUCCESS) {
    return failure_of(driver_, fmt::format("pin {} bytes of host memory", memory.size()), result);
  }
  const std::lock_guard lock(mutex_);
  pinned_[memory.data()] = device;
  return {};
}

void CudaMemory::unpin(MutableBytes memory) {
  DeviceId device(0);
  {
    const std::lock_guard lock(mutex_);
    const auto found = pinned_.find(memory.data());
    if (found == pinned_.end()) return log::error("unpin host memory: it is not pinned");
    device = found->second;
    pinned_.erase(found);
  }
  const Outcome<Context> context = this->context(device);
  if (!context) return;
  const ContextScope scope(driver_, context->context);
  const CUresult result = driver_.cuMemHostUnregister(memory.data());
  if (result != CUDA_SUCCESS && !is_driver_gone(result)) {
    log::error("{}", failure_of(driver_, "unpin host memory", result).message);
  }
}

Outcome<MutableBytes> CudaMemory::pinned_memory(DeviceId device, size_t length) {
  TRY_ASSIGN(const Context context, this->context(device));
  const ContextScope scope(driver_, context.context);
  void* memory = nullptr;
  const CUresult result =
      driver_.cuMemHostAlloc(&memory, length, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  if (result != CUDA_SUCCESS) {
    return failure_of(driver_, fmt::format("allocate {} bytes of pinned memory", length), result);
  }
  std::memset(memory, 0, length);
  return MutableBytes(static_cast<std::byte*>(memory), length);
}

Outcome<LaneParts> CudaMemory::take_lane_parts(DeviceId device, size_t memory_bytes) {
  {
    const std::lock_guard lock(parts_mutex_);
    const auto found = free_parts_.find(device.value);
    if (found != free_parts_.end()) {
      LaneParts parts = found->second;
      free_parts_.erase(found);
      std::memset(parts.memory.data(), 0, parts.memory.size());
      return parts;
    }
  }
  TRY_ASSIGN(const Context context, this->context(device));
  const ContextScope scope(driver_, context.context);
  LaneParts parts;
  Outcome<void> made = make_streams(&parts);
  if (made) {
    Outcome<MutableBytes> memory = pinned_memory(device, memory_bytes);
    if (memory) {
      parts.memory = *memory;
      return parts;
    }
    made = memory.error();
  }
  for (CUstream const stream : parts.streams) {
    if (stream != nullptr) driver_.cuStreamDestroy(stream);
  }
  return made.error();
}

// In the current context. After a failure some of the streams were made.
Outcome<void> CudaMemory::make_streams(LaneParts* parts) {
  int least = 0;
  int greatest = 0;
  driver_.cuCtxGetStreamPriorityRange(&least, &greatest);
  for (CUstream& stream : parts->streams) {
    const int priority = &stream == &parts->streams.back() ? greatest : least;
    const CUresult result =
        driver_.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority);
    if (result != CUDA_SUCCESS) {
      stream = nullptr;
      return failure_of(driver_, "make a stream", result);
    }
  }
  return {};
}

void CudaMemory::give_back(DeviceId device, LaneParts parts) {
  const std::lock_guard lock(parts_mutex_);
  free_parts_.emplace(device.value, parts);
}

std::unique_ptr<engine::CopyLanes> CudaMemory::make_lanes(engine::Loop& loop) {
  return std::make_unique<CudaLanes>(*this, loop);
}

}  // namespace penstock::gpu
