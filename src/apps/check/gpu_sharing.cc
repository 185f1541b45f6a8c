// How the GPUs of this machine are reached and shared, without measuring anything.
#include "check/host_check.h"

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "penstock/gpu.h"

namespace penstock::apps {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Whether one of the GPUs is cut into instances: each then has a capability of its own.
bool has_mig(const std::string& root) {
  std::error_code error;
  for (const auto& gpu : fs::directory_iterator(root + "proc/driver/nvidia/capabilities", error)) {
    if (!gpu.path().filename().string().starts_with("gpu")) continue;
    for (const auto& part : fs::directory_iterator(gpu.path() / "mig", error)) {
      if (part.path().filename().string().starts_with("gi")) return true;
    }
  }
  return false;
}

// Whether a control daemon of MPS has its pipe where programs of this environment look for it.
bool has_mps(const std::string& root) {
  const char* const path = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return is_there(path != nullptr ? fs::path(path) / "control"
                                  : fs::path(root + "tmp/nvidia-mps/control"));
}

Finding sharing_of(const std::string& root) {
  if (has_mig(root)) {
    return {"gpu", "sharing", Verdict::good,
            "MIG: each instance has memory and processors of its own, and is a GPU of its own here",
            ""};
  }
  if (has_mps(root)) {
    return {"gpu", "sharing", Verdict::good, "MPS: kernels of several processes run side by side",
            ""};
  }
  return {"gpu", "sharing", Verdict::note,
          "time slices: kernels of two processes take turns of 2.4 ms, so that one that waits for "
          "another's data waits for its turn",
          "nvidia-cuda-mps-control -d (before the programs start; nothing to mend where each GPU "
          "has one "
          "process)"};
}

Finding straight_of(const std::string& root) {
  const bool has_driver = is_there(root + "proc/driver/nvidia-fs");
  return {"gpu", "straight from disk", Verdict::good,
          has_driver ? "nvidia-fs is loaded; Penstock goes through pinned memory beside it"
                     : "no nvidia-fs: reads go through pinned memory",
          ""};
}

}  // namespace

std::vector<Finding> check_gpu_sharing(const HostCheckOptions& options) {
  if (!is_there(options.root + "proc/driver/nvidia")) {
    return {{"gpu", "driver", Verdict::good, "no NVIDIA driver: nothing of GPUs can be used", ""}};
  }
  std::vector<Finding> out;
  if (options.ask_gpus) {
    const Outcome<engine::DeviceMemory*> devices = gpu::devices();
    if (!devices) {
      out.push_back(
          {"gpu", "driver", Verdict::bad, devices.error().message,
           "nvidia-smi (tells what the driver misses; in a container: docker run --gpus all ...)"});
      return out;
    }
    for (const engine::DeviceFacts& facts : (*devices)->devices()) {
      out.push_back({"gpu", "GPU at " + facts.pci_address, Verdict::good,
                     facts.name + " ('penstock check gpu' measures every way to it)", ""});
    }
  }
  out.push_back(sharing_of(options.root));
  out.push_back(straight_of(options.root));
  return out;
}

}  // namespace penstock::apps
