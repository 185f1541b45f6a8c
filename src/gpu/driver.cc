#include "driver.h"

#include <dlfcn.h>

#include "penstock/gpu.h"

namespace penstock::gpu {

namespace {

Failure no_driver(const std::string& why) {
  return {Code::not_found,
          fmt::format("CUDA: {} (install NVIDIA's driver, 535 or newer; in a container, start it "
                      "with its GPUs)",
                      why)};
}

}  // namespace

Outcome<Driver> load_driver() {
  // Never closed: the driver does not work in this process after that.
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return no_driver("there is no driver on this machine");
  Driver driver;
  const char* missing = nullptr;
#define PENSTOCK_CUDA_TEXT(name) #name
#define PENSTOCK_CUDA_LOAD(name)                                                           \
  driver.name =                                                                            \
      reinterpret_cast<decltype(driver.name)>(::dlsym(library, PENSTOCK_CUDA_TEXT(name))); \
  if (driver.name == nullptr && missing == nullptr) missing = PENSTOCK_CUDA_TEXT(name);
  PENSTOCK_CUDA_CALLS(PENSTOCK_CUDA_LOAD)
#undef PENSTOCK_CUDA_LOAD
#undef PENSTOCK_CUDA_TEXT
  int version = 0;
  if (driver.cuDriverGetVersion != nullptr) driver.cuDriverGetVersion(&version);
  if (missing != nullptr || version < kDriverVersionMin) {
    return no_driver(fmt::format("the driver is too old: it knows CUDA {}.{}, needed is {}.{}",
                                 version / 1000, version % 1000 / 10, kDriverVersionMin / 1000,
                                 kDriverVersionMin % 1000 / 10));
  }
  const CUresult begun = driver.cuInit(0);
  if (begun == CUDA_ERROR_NO_DEVICE) return no_driver("this process sees no GPU");
  if (begun != CUDA_SUCCESS) return failure_of(driver, "CUDA: the driver does not start", begun);
  return driver;
}

Status status_of(CUresult result) {
  const auto detail = static_cast<uint32_t>(result);
  switch (result) {
    case CUDA_SUCCESS:
      return Code::ok;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
      return {Code::invalid_argument, detail};
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
      return {Code::no_memory, detail};
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    // Refused because of a graph that is being captured.
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_CAPTURED_EVENT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
      return {Code::not_supported, detail};
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
      return {Code::in_use, detail};
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_NOT_FOUND:
      return {Code::not_found, detail};
    default:
      return {Code::peer_gone, detail};
  }
}

bool is_driver_gone(CUresult result) {
  return result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_NOT_INITIALIZED ||
         result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

Failure failure_of(const Driver& driver, const std::string& what, CUresult result) {
  const char* text = nullptr;
  if (driver.cuGetErrorString(result, &text) != CUDA_SUCCESS) text = "an unknown error";
  return {status_of(result), fmt::format("{}: {}", what, text)};
}

}  // namespace penstock::gpu
