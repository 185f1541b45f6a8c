// Windows on the CUDA driver.
#include "cuda_window.h"

#include <map>
#include <string>

namespace penstock::gpu {

namespace {

class CudaWindow final : public Window {
 public:
  CudaWindow(const SymmetricContext& device, CUdeviceptr begin, uint64_t bytes, uint64_t granule)
      : device_(device), begin_(begin), bytes_(bytes), granule_(granule) {}
  ~CudaWindow() override {
    const ContextScope scope(device_.driver(), device_.context);
    for (const auto& [offset, part] : parts_) {
      device_.driver().cuMemUnmap(begin_ + offset, part.length);
      device_.driver().cuMemRelease(part.handle);
    }
    device_.driver().cuMemAddressFree(begin_, bytes_);
  }

  std::byte* begin() const override { return reinterpret_cast<std::byte*>(begin_); }
  uint64_t granule() const override { return granule_; }

  Outcome<UniqueFd> allocate(uint64_t offset, uint64_t length) override {
    const ContextScope scope(device_.driver(), device_.context);
    const std::string what = fmt::format("GPU {}: allocate {} bytes", device_.id.value, length);
    const CUmemAllocationProp properties = properties_of(device_.driver(), device_.id);
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = device_.driver().cuMemCreate(&handle, length, &properties, 0);
    if (result != CUDA_SUCCESS) return failure_of(device_.driver(), what, result);
    TRY(place(offset, length, handle, what));
    result = device_.driver().cuMemsetD8Async(begin_ + offset, 0, length, device_.stream);
    if (result == CUDA_SUCCESS) result = device_.driver().cuStreamSynchronize(device_.stream);
    int fd = -1;
    if (result == CUDA_SUCCESS) {
      result = device_.driver().cuMemExportToShareableHandle(
          &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    }
    if (result == CUDA_SUCCESS) return UniqueFd(fd);
    unmap(offset);
    return failure_of(device_.driver(), what, result);
  }

  Outcome<void> map(uint64_t offset, uint64_t length, int descriptor) override {
    const ContextScope scope(device_.driver(), device_.context);
    const std::string what =
        fmt::format("GPU {}: map {} bytes of another process", device_.id.value, length);
    CUmemGenericAllocationHandle handle = 0;
    // The driver takes the number in the place of an address.
    void* const number = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
    const CUresult result = device_.driver().cuMemImportFromShareableHandle(
        &handle, number, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS) return failure_of(device_.driver(), what, result);
    return place(offset, length, handle, what);
  }

  Outcome<UniqueFd> adopt(uint64_t offset, uint64_t length, const void* memory) override {
    const ContextScope scope(device_.driver(), device_.context);
    const std::string what = fmt::format("GPU {}: map {} bytes of the program's own at {}",
                                         device_.id.value, length, memory);
    TRY(begins_at(memory, length, what));
    CUmemGenericAllocationHandle handle = 0;
    CUresult result =
        device_.driver().cuMemRetainAllocationHandle(&handle, const_cast<void*>(memory));
    if (result != CUDA_SUCCESS) {
      Failure why = failure_of(device_.driver(), what, result);
      why.message += " (only memory of cuMemCreate() can be)";
      return why;
    }
    int fd = -1;
    result = device_.driver().cuMemExportToShareableHandle(
        &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result != CUDA_SUCCESS) {
      device_.driver().cuMemRelease(handle);
      Failure why = failure_of(device_.driver(), what, result);
      why.message += " (it has to be made with requestedHandleTypes of descriptors)";
      return why;
    }
    UniqueFd exported(fd);
    TRY(place(offset, length, handle, what));
    return exported;
  }

  void unmap(uint64_t offset) override {
    const auto part = parts_.find(offset);
    ASSERT(part != parts_.end());
    const ContextScope scope(device_.driver(), device_.context);
    device_.driver().cuMemUnmap(begin_ + offset, part->second.length);
    device_.driver().cuMemRelease(part->second.handle);
    parts_.erase(part);
  }

 private:
  // Of one allocation, from its first byte on: mapped elsewhere it begins there.
  Outcome<void> begins_at(const void* memory, uint64_t length, const std::string& what) {
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    const CUresult result =
        device_.driver().cuMemGetAddressRange(&begin, &bytes, device_address(memory));
    if (result != CUDA_SUCCESS) return failure_of(device_.driver(), what, result);
    if (begin == device_address(memory) && length <= bytes) return {};
    return Failure{
        Code::invalid_argument,
        fmt::format("{}: the allocation there has {} bytes from {:#x} on", what, bytes, begin)};
  }

  struct Part {
    uint64_t length;
    CUmemGenericAllocationHandle handle;
  };

  // Takes the handle over, also when it fails.
  Outcome<void> place(uint64_t offset, uint64_t length, CUmemGenericAllocationHandle handle,
                      const std::string& what) {
    ASSERT(range_within(offset, length, bytes_) && offset % granule_ == 0 &&
           length % granule_ == 0);
    CUresult result = device_.driver().cuMemMap(begin_ + offset, length, 0, handle, 0);
    if (result == CUDA_SUCCESS) {
      parts_[offset] = {length, handle};
      const CUmemAccessDesc access = {location_of(device_.id.value),
                                      CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      result = device_.driver().cuMemSetAccess(begin_ + offset, length, &access, 1);
      // Memory of another device, which has no way there.
      if (result == CUDA_ERROR_INVALID_DEVICE) result = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    } else {
      device_.driver().cuMemRelease(handle);
    }
    if (result == CUDA_SUCCESS) return {};
    if (parts_.contains(offset)) unmap(offset);
    return failure_of(device_.driver(), what, result);
  }

  const SymmetricContext device_;
  const CUdeviceptr begin_;
  const uint64_t bytes_;
  const uint64_t granule_;
  std::map<uint64_t, Part> parts_;  // by offset
};

}  // namespace

Outcome<std::unique_ptr<Window>> make_window(const SymmetricContext& device, uint64_t bytes) {
  const ContextScope scope(device.driver(), device.context);
  const CUmemAllocationProp properties = properties_of(device.driver(), device.id);
  size_t granule = 0;
  CUdeviceptr begin = 0;
  CUresult result = device.driver().cuMemGetAllocationGranularity(
      &granule, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result == CUDA_SUCCESS)
    result = device.driver().cuMemAddressReserve(&begin, align_up(bytes, granule), 0, 0, 0);
  if (result != CUDA_SUCCESS) {
    return failure_of(device.driver(),
                      fmt::format("GPU {}: reserve {} bytes of addresses", device.id.value, bytes),
                      result);
  }
  return std::unique_ptr<Window>(new CudaWindow(device, begin, align_up(bytes, granule), granule));
}

}  // namespace penstock::gpu
