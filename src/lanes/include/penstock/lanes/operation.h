// What an application puts into a lane, and what it gets out.
//
// The structs are laid out as those of penstock.h, which the C border asserts: it passes pointers
// to those on as pointers to these, hence may_alias.
#pragma once

#include <cstdint>

#include "penstock/connection.h"
#include "penstock/ring.h"
#include "penstock/route.h"

namespace penstock::lanes {

struct [[gnu::may_alias]] Io {
  uint8_t operation = 0;  // ring::Operation
  uint8_t flags = 0;      // ring::Flag
  uint8_t route = 0;      // engine::Route, for GPU memory: this one or none; 0: the best
  uint8_t reserved = 0;   // 0
  int32_t file = 0;       // of the session
  uint64_t offset = 0;    // in the file, bytes
  uint64_t length = 0;    // bytes
  connection::Region* region = nullptr;
  uint64_t region_offset = 0;  // bytes
  uint64_t deadline = 0;       // nanoseconds on CLOCK_MONOTONIC; 0: none
  uint64_t user_data = 0;      // comes back with the completion; names the operation for cancel
};

// Where checksums of what is read into a GPU's memory go, that is in a region for_cards: in a
// region of host memory, from a page of ring::kChecksumPageBytes on.
struct ChecksumPlace {
  connection::Region* region = nullptr;
  uint64_t offset = 0;  // bytes
};

// Many reads of one file into one region of GPU memory, as one operation.
struct [[gnu::may_alias]] Gather {
  int32_t file = 0;
  uint32_t count = 0;
  route::ListEntry* pieces = nullptr;  // the caller's, until the completion
  connection::Region* region = nullptr;
  uint64_t deadline = 0;  // as of Io
  uint64_t user_data = 0;
};

struct [[gnu::may_alias]] Completion {
  uint64_t user_data;
  int64_t result;  // bytes, or a negative errno
  uint8_t route;   // engine::Route
  uint8_t reserved[7];
};

}  // namespace penstock::lanes
