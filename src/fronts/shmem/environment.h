// What the environment says: SHMEM_VERSION, SHMEM_INFO, SHMEM_SYMMETRIC_SIZE, SHMEM_DEBUG, or
// SMA_... of these names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/base.h"
#include "penstock/symm.h"

namespace penstock::shmem {

struct Environment {
  bool wants_version = false;
  bool wants_info = false;
  bool is_debugging = false;
  std::string interface;    // by which other nodes reach this one; empty: all
  symm::RdmaChoice rdma;    // whether they do by RDMA
  uint64_t heap_bytes = 0;  // 0: not said
};

// It fails for a size or a choice that is none.
Outcome<Environment> read_environment();

// What SHMEM_INFO prints.
std::string info_text();

}  // namespace penstock::shmem
