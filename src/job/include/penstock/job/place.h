// Where a process stands in its job, and how one of a job may end.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::job {

// Ranks and nodes are numbered from 0. A node is what shares memory and passes descriptors.
struct Place {
  uint32_t rank = 0;
  uint32_t size = 1;
  uint32_t node = 0;
  uint32_t nodes = 1;
  uint32_t node_rank = 0;  // among the ranks of the own node
  uint32_t node_size = 1;
};

enum class How : uint8_t {
  exited = 1,   // by itself, before it left the job; `code` is its exit code, 0 perhaps
  killed = 2,   // by the signal `code`
  lost = 3,     // its connection to the job ended or it broke the rules of it; the process may live
  aborted = 4,  // it asked for the end of the whole job; `code` is the exit code it wants
};

// The end of a rank that had not left.
struct End {
  uint32_t rank = 0;
  How how = How::exited;
  int32_t code = 0;
  std::string text;  // for people: "rank 3 was killed by signal 9 (Killed)"
};

// The exit code of a job that ends because of it, as a shell has it: 128 + N for signal N.
inline int exit_code_of(const End& end) {
  return end.how == How::killed ? 128 + end.code : end.code & 0xff;
}

}  // namespace penstock::job
