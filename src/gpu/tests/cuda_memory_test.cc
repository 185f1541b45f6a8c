// CudaMemory on a driver that is played.
#include "cuda_memory.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

#include "penstock/testing.h"

namespace penstock::gpu {
namespace {

CUresult unregistered = CUDA_SUCCESS;  // what unpinning ends with

// One GPU, whose memory is the host's. What is not here is not called.
Driver played_driver() {
  Driver driver;
  driver.cuGetErrorString = [](CUresult, const char**) { return CUDA_ERROR_INVALID_VALUE; };
  driver.cuDeviceGetCount = [](int* count) {
    *count = 1;
    return CUDA_SUCCESS;
  };
  driver.cuDeviceGetName = [](char*, int, CUdevice) { return CUDA_SUCCESS; };
  driver.cuDeviceGetPCIBusId = [](char*, int, CUdevice) { return CUDA_SUCCESS; };
  driver.cuDeviceTotalMem = [](size_t*, CUdevice) { return CUDA_SUCCESS; };
  driver.cuDeviceGetUuid = [](CUuuid*, CUdevice) { return CUDA_SUCCESS; };
  driver.cuDeviceGetAttribute = [](int*, CUdevice_attribute, CUdevice) {
    return CUDA_ERROR_INVALID_VALUE;
  };
  driver.cuDeviceCanAccessPeer = [](int*, CUdevice, CUdevice) { return CUDA_SUCCESS; };
  driver.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) {
    static int one = 0;
    *context = reinterpret_cast<CUcontext>(&one);
    return CUDA_SUCCESS;
  };
  driver.cuDevicePrimaryCtxGetState = [](CUdevice, unsigned*, int* active) {
    *active = 1;
    return CUDA_SUCCESS;
  };
  driver.cuCtxPushCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  driver.cuCtxPopCurrent = [](CUcontext*) { return CUDA_SUCCESS; };
  driver.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
  driver.cuLibraryLoadData = [](CUlibrary*, const void*, CUjit_option*, void**, unsigned,
                                CUlibraryOption*, void**, unsigned) { return CUDA_SUCCESS; };
  driver.cuLibraryGetKernel = [](CUkernel*, CUlibrary, const char*) { return CUDA_SUCCESS; };
  driver.cuKernelGetFunction = [](CUfunction*, CUkernel) { return CUDA_SUCCESS; };
  driver.cuFuncGetAttribute = [](int*, CUfunction_attribute, CUfunction) { return CUDA_SUCCESS; };
  driver.cuMemAlloc = [](CUdeviceptr*, size_t) { return CUDA_SUCCESS; };
  driver.cuMemcpyHtoD = [](CUdeviceptr, const void*, size_t) { return CUDA_SUCCESS; };
  driver.cuMemHostRegister = [](void*, size_t, unsigned) { return CUDA_SUCCESS; };
  driver.cuMemHostUnregister = [](void*) { return unregistered; };
  return driver;
}

// What is said to the operator when memory is unpinned with this result.
std::string said(CUresult result) {
  const test::ScratchDirectory scratch;
  EXPECT_TRUE(log::set_file(scratch / "said"));
  const Outcome<std::unique_ptr<CudaMemory>> memory = CudaMemory::open(played_driver());
  EXPECT_TRUE(memory);
  std::array<std::byte, 64> bytes{};
  EXPECT_TRUE((*memory)->pin(bytes, true));
  unregistered = result;
  (*memory)->unpin(bytes);
  return test::read_file(scratch / "said");
}

TEST(CudaMemoryTest, nothing_is_said_when_the_driver_has_gone_before) {
  EXPECT_EQ(said(CUDA_SUCCESS), "");
  EXPECT_EQ(said(CUDA_ERROR_DEINITIALIZED), "");
  EXPECT_EQ(said(CUDA_ERROR_CONTEXT_IS_DESTROYED), "");
}

TEST(CudaMemoryTest, memory_that_cannot_be_unpinned_is_told) {
  EXPECT_NE(said(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED).find("unpin host memory"),
            std::string::npos);
}

}  // namespace
}  // namespace penstock::gpu
