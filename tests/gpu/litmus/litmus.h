// What the host's part of the litmus tests (litmus.cc) and the kernels (litmus.cu) share.
#pragma once

#include "penstock_device/symm/state.h"

#include <cstdint>

namespace penstock::litmus {

// An instance is one block on each PE that takes part, with memory of its own at the same place in
// each heap. As many as fit on a GPU beside those of two other PEs.
constexpr uint32_t kInstances = 40;
constexpr uint64_t kInstanceBytes = 112 * 1024;
constexpr uint32_t kTeams = kInstances;  // one for each: a team's syncs are made one at a time

enum class Pattern : uint32_t { push, pull, store_buffering, chain, barrier, tickets, lock };
enum class Company : uint32_t { thread, warp, block };

// How what was put, and the word that tells of it, are kept in order.
enum Way : uint32_t {
  kPutFencePut,
  kPutFenceP,
  kPutQuietP,
  kPutFenceAdd,
  kPutFenceFetchAdd,
  kPutFenceSet,
  kPutFenceSwap,
  kPutFenceCompareSwap,
  kPutSignalSet,
  kPutSignalAdd,
  kIputFenceP,
  kWordsFenceP,  // p for each word
  kUnordered,    // nothing does: what may be seen then, so that it is known that this looks
};
enum PullWay : uint32_t { kPollG, kPollFetch, kPollOwnAndGet };
enum BufferingWay : uint32_t { kIntoOther, kIntoOwn, kByAtomics, kBufferingUnordered };

// What went wrong, in memory of the host that the GPU reaches.
struct Report {
  uint64_t wrong;      // how often
  uint64_t iteration;  // of one of them
  uint64_t seen;
  uint64_t wanted;
  uint64_t early;  // how often a reader saw what came before: what it must not keep
  uint64_t ended;  // instances
};

struct Work {
  Pattern pattern;
  Company writes;
  Company reads;
  uint32_t way;
  uint32_t role;        // of this PE
  uint64_t iterations;  // of each instance
  uint32_t words_max;   // of 8 bytes, in each put
  const int* teams;     // of the instances, by number; in the GPU's memory
  char* memory;         // symmetric: kInstances * kInstanceBytes
  uint32_t* marks;      // of tickets, in PE 0's heap
  Report* report;
  device::SymmState state;
};

// Errors are the runtime's, 0 for none. For the calling thread:
int use_device(uint32_t device);
int launch(const Work& work, void* stream);
bool has_ended(void* stream, int* error);
const char* text_of(int error);

}  // namespace penstock::litmus
