// What NVSHMEM_… variables say.
#pragma once

#include <cstdint>

#include "penstock/base.h"

namespace penstock::nvshmem {

struct Environment {
  uint64_t heap_bytes = uint64_t{1} << 30;  // NVSHMEM_SYMMETRIC_SIZE; as much as NVSHMEM has
  bool wants_version = false;               // NVSHMEM_VERSION
  bool wants_info = false;                  // NVSHMEM_INFO
};

Outcome<Environment> read_environment();

}  // namespace penstock::nvshmem
