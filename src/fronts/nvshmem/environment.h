// What NVSHMEM_… variables say.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/base.h"

namespace penstock::nvshmem {

struct Environment {
  // NVSHMEM_SYMMETRIC_SIZE; where it is 0 or not set, as much as NVSHMEM has.
  uint64_t heap_bytes = uint64_t{1} << 30;
  // What the heap grows to: NVSHMEM_MAX_MEMORY_PER_GPU, with NVSHMEM's default. 0: a size was set,
  // and no more.
  uint64_t heap_bytes_most = uint64_t{128} << 30;
  bool spans_nodes = true;                // PENSTOCK_GPUS_OF_NODES; 0: hosts carry nothing
  bool wants_version = false;             // NVSHMEM_VERSION, or NVSHMEM_DEBUG at any level
  bool wants_info = false;                // NVSHMEM_INFO
  log::Level told = log::Level::warning;  // NVSHMEM_DEBUG: what is told, and what is worse
  std::string told_to;    // NVSHMEM_DEBUG_FILE, with host and process put in; empty: standard error
  std::string interface;  // NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME; empty: all
};

// Fails with a message that names the variable.
Outcome<Environment> read_environment();

// Which variables there are, and those of NVSHMEM that are set and do nothing here.
std::string info_text();

}  // namespace penstock::nvshmem
