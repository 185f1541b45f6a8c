// What the files that define NVSHMEM's calls have in common.
#pragma once

#include "nvshmem_host.h"
#include "process.h"
#include "teams.h"

#include <cstdio>
#include <fmt/core.h>

#define NVSHMEM_DEFINE extern "C" __attribute__((visibility("default")))

namespace penstock::nvshmem {

// Of the calls by the host: it waits for none of the program's streams.
inline engine::DeviceStream host_stream() {
  const OnDevice* const there = current_device.load(std::memory_order_acquire);
  return there == nullptr ? nullptr : there->device->own_stream();
}

}  // namespace penstock::nvshmem
