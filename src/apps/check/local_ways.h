// A file of the local file system and a GPU.
#pragma once

#include "gpu_check.h"

namespace penstock::apps {

// Its pages, pinned; and through pinned slots.
Outcome<std::vector<GpuWay>> local_ways(engine::DeviceMemory& devices, engine::DeviceId gpu,
                                        const std::string& file, uint64_t file_bytes,
                                        double seconds);

}  // namespace penstock::apps
