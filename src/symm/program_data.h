// The program's global and static variables, moved onto memory that other processes can map.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::symm {

struct ProgramData {
  std::byte* begin = nullptr;  // of a page
  uint64_t bytes = 0;          // whole pages; 0: the program has none that it may change
  int descriptor = -1;         // of the memory; stays open as long as the process lives
};

// The writable part of the program's own image (libraries' variables are not symmetric), from now
// on shared memory with the same content. The first call moves it: no other thread of the process
// may run then. Further calls answer the same. A child that is forked later gets a copy of its own,
// as it is used to.
Outcome<ProgramData> move_program_data();

}  // namespace penstock::symm
