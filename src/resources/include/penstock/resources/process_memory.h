// What this process may use of its machine: memory, and mappings.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::resources {

struct ProcessLimit {
  uint64_t amount = 0;
  std::string by;  // the file that says so, or "the machine"
};

// The least of the machine's memory and of what the control groups say of which this process is a
// member, its own and each above it as far as they are mounted here, of version 1 and 2. Where a
// group is throttled before it is killed (memory.high) that is its limit. `root` stands before
// every path that is read.
ProcessLimit memory_of_process(const std::string& root = "");

// Mappings of memory that the kernel lets a process have.
ProcessLimit mappings_of_process(const std::string& root = "");

}  // namespace penstock::resources
