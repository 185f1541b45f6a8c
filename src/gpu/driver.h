// The CUDA driver's calls, looked up at run time.
#pragma once

#include <cuda.h>
#include <string>

#include "penstock/base.h"

namespace penstock::gpu {

// Names as in cuda.h, whose macros choose the version of each.
#define PENSTOCK_CUDA_CALLS(CALL)         \
  CALL(cuInit)                            \
  CALL(cuDriverGetVersion)                \
  CALL(cuGetErrorString)                  \
  CALL(cuDeviceGetCount)                  \
  CALL(cuDeviceGet)                       \
  CALL(cuDeviceGetName)                   \
  CALL(cuDeviceGetUuid)                   \
  CALL(cuDeviceTotalMem)                  \
  CALL(cuDeviceGetAttribute)              \
  CALL(cuDeviceGetPCIBusId)               \
  CALL(cuDeviceCanAccessPeer)             \
  CALL(cuDeviceGetP2PAttribute)           \
  CALL(cuDevicePrimaryCtxRetain)          \
  CALL(cuDevicePrimaryCtxRelease)         \
  CALL(cuDevicePrimaryCtxGetState)        \
  CALL(cuCtxCreate)                       \
  CALL(cuCtxDestroy)                      \
  CALL(cuCtxSetLimit)                     \
  CALL(cuCtxPushCurrent)                  \
  CALL(cuCtxPopCurrent)                   \
  CALL(cuCtxGetCurrent)                   \
  CALL(cuCtxSetCurrent)                   \
  CALL(cuCtxGetDevice)                    \
  CALL(cuCtxSynchronize)                  \
  CALL(cuCtxEnablePeerAccess)             \
  CALL(cuCtxGetStreamPriorityRange)       \
  CALL(cuPointerGetAttributes)            \
  CALL(cuMemGetAddressRange)              \
  CALL(cuMemHostRegister)                 \
  CALL(cuMemHostUnregister)               \
  CALL(cuMemHostAlloc)                    \
  CALL(cuMemAlloc)                        \
  CALL(cuMemFree)                         \
  CALL(cuMemAllocAsync)                   \
  CALL(cuMemFreeAsync)                    \
  CALL(cuMemcpyHtoD)                      \
  CALL(cuMemcpyAsync)                     \
  CALL(cuMemcpy2DAsync)                   \
  CALL(cuMemsetD8Async)                   \
  CALL(cuMemCreate)                       \
  CALL(cuMemRelease)                      \
  CALL(cuMemAddressReserve)               \
  CALL(cuMemAddressFree)                  \
  CALL(cuMemMap)                          \
  CALL(cuMemUnmap)                        \
  CALL(cuMemSetAccess)                    \
  CALL(cuMemGetAllocationGranularity)     \
  CALL(cuMemRetainAllocationHandle)       \
  CALL(cuMemExportToShareableHandle)      \
  CALL(cuMemImportFromShareableHandle)    \
  CALL(cuMemGetHandleForAddressRange)     \
  CALL(cuFlushGPUDirectRDMAWrites)        \
  CALL(cuIpcGetMemHandle)                 \
  CALL(cuIpcOpenMemHandle)                \
  CALL(cuIpcCloseMemHandle)               \
  CALL(cuStreamCreateWithPriority)        \
  CALL(cuStreamDestroy)                   \
  CALL(cuStreamQuery)                     \
  CALL(cuStreamSynchronize)               \
  CALL(cuStreamWriteValue32)              \
  CALL(cuStreamWriteValue64)              \
  CALL(cuStreamWaitValue32)               \
  CALL(cuStreamIsCapturing)               \
  CALL(cuStreamGetId)                     \
  CALL(cuThreadExchangeStreamCaptureMode) \
  CALL(cuEventCreate)                     \
  CALL(cuEventDestroy)                    \
  CALL(cuEventRecord)                     \
  CALL(cuEventQuery)                      \
  CALL(cuEventElapsedTime)                \
  CALL(cuLaunchHostFunc)                  \
  CALL(cuLibraryLoadData)                 \
  CALL(cuLibraryGetKernel)                \
  CALL(cuLibraryGetGlobal)                \
  CALL(cuModuleGetGlobal)                 \
  CALL(cuKernelGetFunction)               \
  CALL(cuFuncGetAttribute)                \
  CALL(cuLaunchKernel)                    \
  CALL(cuGraphCreate)                     \
  CALL(cuGraphAddKernelNode)              \
  CALL(cuGraphInstantiate)                \
  CALL(cuGraphUpload)                     \
  CALL(cuGraphLaunch)                     \
  CALL(cuGraphExecDestroy)                \
  CALL(cuGraphDestroy)

struct Driver {
#define PENSTOCK_CUDA_DECLARE(name) decltype(&::name) name = nullptr;
  PENSTOCK_CUDA_CALLS(PENSTOCK_CUDA_DECLARE)
#undef PENSTOCK_CUDA_DECLARE
};

// Loads and initialises the driver; not_found with the reason and what to do.
Outcome<Driver> load_driver();

// invalid_argument, no_memory, not_supported, in_use, not_found: the call had no effect, and others
// work on. Anything else means that the context or the device is broken: peer_gone.
Status status_of(CUresult result);
// At the end of a process the driver is unloaded before the code that uses it, and takes all memory
// and streams with it: a call that gives something back fails with this, and there is nothing more
// to do.
bool is_driver_gone(CUresult result);
// "what: out of memory"
Failure failure_of(const Driver& driver, const std::string& what, CUresult result);

// A graph that the program captures meanwhile, by whichever thread and in whatever mode, is not
// disturbed by calls that the calling thread makes in the scope, nor they by it: what we do has
// nothing to do with its streams. Else waits and allocations would fail, and end the capture.
class BesideCaptures {
 public:
  explicit BesideCaptures(const Driver& driver) : driver_(driver) {
    exchanged_ = driver_.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
  }
  ~BesideCaptures() {
    if (exchanged_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // then the thread's own
  bool exchanged_ = false;
};

// Makes a device's context the calling thread's, for the length of a scope, beside whatever the
// program captures. The caller's own comes back after.
class ContextScope {
 public:
  ContextScope(const Driver& driver, CUcontext context) : driver_(driver), captures_(driver) {
    pushed_ = driver_.cuCtxPushCurrent(context) == CUDA_SUCCESS;
  }
  ~ContextScope() {
    CUcontext mine = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent(&mine);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Driver& driver_;
  const BesideCaptures captures_;
  bool pushed_ = false;
};

}  // namespace penstock::gpu
