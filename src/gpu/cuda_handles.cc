// Allocating device memory, and passing it from process to process. Memory that we allocate is
// mapped from a physical allocation whose handle is a file descriptor; cudaMalloc's memory goes by
// CUDA's IPC handles, which are bytes.
#include "cuda_memory.h"

#include <cstring>
#include <type_traits>
#include <unistd.h>

namespace penstock::gpu {

using engine::DeviceHandle;
using engine::DeviceId;
using engine::DeviceSpan;

namespace {

// What travels: between processes of one node and one version of this library.
struct HandleBytes {
  CUuuid device;
  uint64_t offset = 0;  // of the span in the allocation
  uint64_t length = 0;  // of the span
  uint64_t mapped = 0;  // of the allocation, when it comes as a descriptor; else 0
  CUipcMemHandle ipc{};
};
static_assert(sizeof(HandleBytes) <= engine::kDeviceHandleBytesMax);
static_assert(std::is_trivially_copyable_v<HandleBytes>);

std::byte* address_of(CUdeviceptr pointer) {
  return reinterpret_cast<std::byte*>(pointer);
}

}  // namespace

CUmemLocation location_of(uint32_t device) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = static_cast<int>(device);
  return location;
}

// Memory that network cards may be shown has to be made so.
CUmemAllocationProp properties_of(const Driver& driver, DeviceId device) {
  int for_cards = 0;
  (void)driver.cuDeviceGetAttribute(&for_cards,
                                    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                                    static_cast<CUdevice>(device.value));
  CUmemAllocationProp properties{};
  properties.allocFlags.gpuDirectRDMACapable = for_cards != 0 ? 1 : 0;
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = location_of(device.value);
  return properties;
}

Outcome<DeviceSpan> CudaMemory::allocate(DeviceId device, uint64_t length) {
  TRY_ASSIGN(const Context context, this->context(device));
  const ContextScope scope(driver_, context.context);
  const auto what = [&] { return fmt::format("GPU {}: allocate {} bytes", device.value, length); };
  const CUmemAllocationProp properties = properties_of(driver_, device);
  size_t step = 0;
  CUresult result =
      driver_.cuMemGetAllocationGranularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS) return failure_of(driver_, what(), result);
  if (length == 0 || length > facts_[device.value].memory_bytes) {
    return Failure{length == 0 ? Code::invalid_argument : Code::no_memory,
                   fmt::format("{}: it has {}", what(), facts_[device.value].memory_bytes)};
  }
  const uint64_t mapped = (length + step - 1) / step * step;
  CUmemGenericAllocationHandle handle = 0;
  result = driver_.cuMemCreate(&handle, mapped, &properties, 0);
  if (result != CUDA_SUCCESS) return failure_of(driver_, what(), result);
  return map(device, handle, mapped, length);
}

// Takes the handle over, also when it fails. The device itself and its peers may access the memory.
Outcome<DeviceSpan> CudaMemory::map(DeviceId device, CUmemGenericAllocationHandle handle,
                                    uint64_t mapped_length, uint64_t length) {
  CUdeviceptr address = 0;
  CUresult result = driver_.cuMemAddressReserve(&address, mapped_length, 0, 0, 0);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuMemMap(address, mapped_length, 0, handle, 0);
    if (result == CUDA_SUCCESS) {
      std::vector<CUmemAccessDesc> access;
      for (uint32_t other = 0; other < facts_.size(); ++other) {
        if (other != device.value && (facts_[device.value].peers >> other & 1) == 0) continue;
        access.push_back({location_of(other), CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
      }
      result = driver_.cuMemSetAccess(address, mapped_length, access.data(), access.size());
      if (result != CUDA_SUCCESS) driver_.cuMemUnmap(address, mapped_length);
    }
    if (result != CUDA_SUCCESS) driver_.cuMemAddressFree(address, mapped_length);
  }
  if (result != CUDA_SUCCESS) {
    driver_.cuMemRelease(handle);
    return failure_of(driver_, fmt::format("GPU {}: map {} bytes", device.value, length), result);
  }
  {
    const std::lock_guard lock(mutex_);
    mapped_[address] = {.handle = handle, .length = mapped_length};
  }
  const Result<DeviceSpan> span = find(address_of(address), length);
  if (!span) return Failure{span.error(), "allocate: the driver does not know its own memory"};
  return *span;
}

Status CudaMemory::release(const DeviceSpan& span) {
  Mapping mapping;
  const auto address = reinterpret_cast<CUdeviceptr>(span.data);
  CUdeviceptr start = 0;
  {
    const std::lock_guard lock(mutex_);
    auto after = mapped_.upper_bound(address);
    if (after == mapped_.begin()) return Code::invalid_argument;
    const auto found = --after;
    if (!range_within(address - found->first, span.length, found->second.length)) {
      return Code::invalid_argument;
    }
    start = found->first;
    mapping = found->second;
    if (--found->second.opens == 0) mapped_.erase(found);
  }
  const Outcome<Context> context = this->context(span.device);
  if (!context) return context.error().status;
  const ContextScope scope(driver_, context->context);
  if (mapping.ipc) return status_of(driver_.cuIpcCloseMemHandle(start));
  const Status unmapped = status_of(driver_.cuMemUnmap(start, mapping.length));
  driver_.cuMemAddressFree(start, mapping.length);
  const Status released = status_of(driver_.cuMemRelease(mapping.handle));
  return unmapped.ok() ? released : unmapped;
}

Outcome<DeviceHandle> CudaMemory::export_handle(const DeviceSpan& span) {
  TRY_ASSIGN(const Context context, this->context(span.device));
  const ContextScope scope(driver_, context.context);
  const std::string what = fmt::format("GPU {}: share {} bytes", span.device.value, span.length);
  CUdeviceptr start = 0;
  size_t size = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(span.data);
  CUresult result = driver_.cuMemGetAddressRange(&start, &size, address);
  if (result != CUDA_SUCCESS) return failure_of(driver_, what, result);
  HandleBytes bytes{
      .device = uuids_[span.device.value], .offset = address - start, .length = span.length};
  DeviceHandle handle;
  CUmemGenericAllocationHandle physical = 0;
  if (driver_.cuMemRetainAllocationHandle(&physical, span.data) == CUDA_SUCCESS) {
    int fd = -1;
    result = driver_.cuMemExportToShareableHandle(&fd, physical,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    driver_.cuMemRelease(physical);
    handle.fd.reset(fd);
    bytes.mapped = size;
  } else {
    result = driver_.cuIpcGetMemHandle(&bytes.ipc, address);
  }
  if (result != CUDA_SUCCESS) {
    Failure failure = failure_of(driver_, what, result);
    failure.status = Code::not_supported;
    failure.message +=
        " (memory of stream-ordered pools cannot be shared: use cudaMalloc, or let Penstock "
        "allocate it)";
    return failure;
  }
  handle.bytes.resize(sizeof bytes);
  std::memcpy(handle.bytes.data(), &bytes, sizeof bytes);
  handle.span = span;
  return handle;
}

// The driver exports whole pages. What it may be asked for beside the span is the program's own.
Outcome<engine::DmaBuf> CudaMemory::export_dma_buf(const DeviceSpan& span) {
  TRY_ASSIGN(const Context context, this->context(span.device));
  const std::string what =
      fmt::format("GPU {}: show {} bytes to network cards", span.device.value, span.length);
  const std::string& reason = facts_[span.device.value].no_dma_buf;
  if (!reason.empty()) return Failure{Code::not_supported, what + ": " + reason};
  const ContextScope scope(driver_, context.context);
  constexpr uint64_t kPage = 4096;
  const auto address = reinterpret_cast<CUdeviceptr>(span.data);
  const CUdeviceptr start = align_down(address, kPage);
  engine::DmaBuf exported;
  exported.offset = address - start;
  int fd = -1;
  const CUresult result = driver_.cuMemGetHandleForAddressRange(
      &fd, start, align_up(exported.offset + span.length, kPage),
      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  if (result != CUDA_SUCCESS) return failure_of(driver_, what, result);
  exported.fd.reset(fd);
  return exported;
}

Status CudaMemory::settle_writes(DeviceId device) {
  ASSERT(device.value < keeps_order_.size());
  if (keeps_order_[device.value]) return Code::ok;
  const Outcome<Context> context = this->context(device);
  if (!context) return context.error().status;
  const ContextScope scope(driver_, context->context);
  return status_of(
      driver_.cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                         CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
}

Result<DeviceId> CudaMemory::device_of(const CUuuid& uuid) const {
  for (uint32_t i = 0; i < uuids_.size(); ++i) {
    if (std::memcmp(&uuids_[i], &uuid, sizeof uuid) == 0) return DeviceId(i);
  }
  return Code::not_found;
}

Outcome<DeviceSpan> CudaMemory::import_handle(const DeviceHandle& handle) {
  HandleBytes bytes;
  if (handle.bytes.size() != sizeof bytes) {
    return Failure{Code::bad_message, "import: not a handle of device memory"};
  }
  std::memcpy(&bytes, handle.bytes.data(), sizeof bytes);
  const Result<DeviceId> device = device_of(bytes.device);
  if (!device) return Failure{Code::not_found, "import: this process does not see that GPU"};
  TRY_ASSIGN(const Context context, this->context(*device));
  const ContextScope scope(driver_, context.context);
  if (bytes.mapped == 0) return open_ipc(*device, bytes.ipc, bytes.offset, bytes.length);
  if (!handle.fd || !range_within(bytes.offset, bytes.length, bytes.mapped)) {
    return Failure{Code::bad_message, "import: not a handle of device memory"};
  }
  CUmemGenericAllocationHandle physical = 0;
  void* const descriptor = reinterpret_cast<void*>(static_cast<intptr_t>(handle.fd.get()));
  const CUresult result = driver_.cuMemImportFromShareableHandle(
      &physical, descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) {
    return failure_of(driver_, fmt::format("GPU {}: import memory", device->value), result);
  }
  TRY_ASSIGN(DeviceSpan span, map(*device, physical, bytes.mapped, bytes.mapped));
  span.data += bytes.offset;
  span.length = bytes.length;
  return span;
}

Outcome<DeviceSpan> CudaMemory::open_ipc(DeviceId device, const CUipcMemHandle& handle,
                                         uint64_t offset, uint64_t length) {
  CUdeviceptr start = 0;
  const CUresult result =
      driver_.cuIpcOpenMemHandle(&start, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  if (result != CUDA_SUCCESS) {
    return failure_of(driver_, fmt::format("GPU {}: import memory", device.value), result);
  }
  const Result<DeviceSpan> span = find(address_of(start) + offset, length);
  if (!span) {
    driver_.cuIpcCloseMemHandle(start);
    return Failure{Code::bad_message, "import: the memory is smaller than its handle says"};
  }
  size_t size = 0;
  driver_.cuMemGetAddressRange(nullptr, &size, start);
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = mapped_.try_emplace(start, Mapping{.length = size, .ipc = true});
  if (!is_new) ++known->second.opens;
  return *span;
}

}  // namespace penstock::gpu
