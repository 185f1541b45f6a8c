// What a machine's GPUs can be reached by, measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/engine.h"

namespace penstock::apps {

// One way between a source and a GPU's memory.
struct GpuWay {
  uint32_t gpu = 0;
  std::string source;                      // "node cache"
  std::string way;                         // "copy engine"
  std::optional<double> bytes_per_second;  // nothing: it cannot be taken
  std::string note;                        // why not, or why nothing better is there
};

struct GpuCheckOptions {
  std::string directory;  // scratch space on the disk to measure
  uint64_t file_bytes = 512 * kMiB;
  double seconds = 0.4;  // for each way
};

// Every way to and from every GPU, each forced: a node with a node cache, made for the check, its
// disk, a file of the local file system, and the other GPUs.
Outcome<std::vector<GpuWay>> check_gpus(engine::DeviceMemory& devices,
                                        const GpuCheckOptions& options);

}  // namespace penstock::apps
