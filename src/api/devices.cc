#include "devices.h"

#include "penstock/files.h"
#include "penstock/gpu.h"

namespace penstock::api {

Outcome<engine::DeviceMemory*> devices() {
  return gpu::devices();
}

Failure find_failure(const std::string& what, Status status) {
  if (status == Code::not_found) {
    return {Code::invalid_argument, what + ": the address is not one of GPU memory"};
  }
  if (status == Code::invalid_argument) {
    return {Code::invalid_argument, what + ": the range of GPU memory leaves its allocation"};
  }
  return {
      {Code::io_error, status.detail()},
      fmt::format("{}: CUDA does not tell whose memory it is: {} (after a fault on a GPU only a "
                  "new process can use it again)",
                  what, status.name())};
}

void replace_devices(engine::DeviceMemory* memory) {
  files::forget_local_links();
  gpu::replace_devices(memory);
}

}  // namespace penstock::api
