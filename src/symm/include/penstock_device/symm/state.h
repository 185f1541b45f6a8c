// What a kernel knows of its PE and of the others: written by the host before kernels run, read by
// both alike.
//
// Each translation unit that has kernels keeps a copy in constant memory, which the host fills
// (docs/decisions/0074); it names the version that it was compiled with, and is told nothing by a
// library that does not know that one.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace penstock::device {

constexpr uint32_t kSymmVersion = 2;
constexpr uint32_t kSymmTeamsMax = 128;
// PEs that reach each other's GPU memory: each has a word in every other one's, so that a barrier
// is one step.
constexpr uint32_t kSymmNearMax = 64;
constexpr uint32_t kSymmScratchWords = 16;

// A word with a cache line of its own, which one PE writes and another one reads.
struct alignas(64) SymmFlag {
  uint64_t value;
};

// A PE's part in one team, in its heap: written by the other PEs of the team.
struct SymmTeamControl {
  SymmFlag arrived[kSymmNearMax];       // by the writer's index: the last sync in which it has come
  uint64_t scratch[kSymmScratchWords];  // of its owner, which others read
  // The same for barriers on streams, which the writer counts up. At the own index: how many this
  // PE has been in.
  SymmFlag arrived_on_streams[kSymmNearMax];
};

// Two words, moved by one instruction, of which each one is whole, but not both together.
struct alignas(16) SymmPair {
  uint64_t word[2];
};

// What kernels of several blocks wait with (grid.h): a block waits for the others' block of the
// same number only.
constexpr uint32_t kSymmGridBlocks = 32;
// Blocks that exchange marked words, and pairs of words that come to each of them at a time.
constexpr uint32_t kSymmMarkedBlocks = 16;
constexpr uint32_t kSymmMarkedPairs = 512;

// A PE's part in what a team does by such kernels.
struct alignas(64) SymmGridControl {
  // By block and the writer's index, who counts it up: how far that one has come.
  uint64_t arrived[kSymmGridBlocks][kSymmNearMax];
  // Of its owner, by block: how far it has come itself; what it has exchanged by marked words.
  uint64_t steps[kSymmGridBlocks];
  uint64_t exchanges[kSymmMarkedBlocks];
  // Two, which take turns; written by the others, each of which has an equal part.
  SymmPair marked[kSymmMarkedBlocks][2][kSymmMarkedPairs];
};

// The beginning of each PE's heap on a GPU.
struct SymmControl {
  SymmTeamControl teams[kSymmTeamsMax];
  SymmGridControl grids[kSymmTeamsMax];
};

// A team as this PE sees it; in memory of its own, not in the heap. PE numbers are of the world.
struct SymmTeam {
  int32_t start;
  int32_t stride;
  int32_t size;            // 0: there is none of this number
  int32_t index;           // of this PE
  uint64_t syncs;          // made by kernels so far, by one thread at a time
  uint64_t small_reduces;  // made so far: which half of the scratch words is next
};

struct SymmFar;  // far_layout.h

// 128 bytes: kernels read it from constant memory. Nothing in it changes while kernels run.
struct SymmState {
  uint32_t version;  // 0: not filled yet
  uint32_t bytes;    // of what the host knows
  int32_t me;
  int32_t size;
  char* heap;  // this PE's own, with SymmControl at its beginning
  uint64_t heap_bytes;
  char* peers;  // PE 0's heap, as this GPU sees it; PE i's stands i * stride further
  uint64_t stride;
  uint64_t near_pes[2];  // bit i of 128: PE i is reached by loads and stores; beyond 128 none is
  SymmTeam* teams;       // kSymmTeamsMax, in this GPU's memory
  const uint32_t*
      trouble;  // of the host: not 0 when somebody has ended, or left a while ago; waits look at it
  uint32_t* failure;  // of the host: a kernel that gave up writes why (SymmFailure)
  SymmFar*
      far;  // in this GPU's memory: how PEs beyond loads and stores are reached; null: they are not
  void* reserved[4];
};
static_assert(sizeof(SymmTeam) == 32 && sizeof(SymmState) == 128,
              "read by kernels of other builds");
static_assert(offsetof(SymmState, heap) == 16 && offsetof(SymmState, teams) == 64);

// Why a kernel of the compatible front gave up; the host tells it and ends the job.
enum SymmFailure : uint32_t {
  kSymmNothing = 0,
  kSymmPeerGone = 1,      // a wait ended, as somebody it might have waited for had
  kSymmNotSymmetric = 2,  // an address that is not in the heap
  kSymmNoSuchPe = 3,
  kSymmNotReady =
      4,  // a call before the library was initialised, or by a module that it does not know
  kSymmAskedToEnd = 5,  // the kernel called for the end of the job
  kSymmNotReached = 6,  // the own side of what goes to a far PE: no memory that copy engines reach
};

// What state.failure points to: of the host, who reads it once `why` is not 0 (SymmFailure).
struct SymmReport {
  uint32_t why;
  int32_t pe;
  uint64_t address;
};
static_assert(sizeof(SymmReport) == 16, "the host's memory");

}  // namespace penstock::device
