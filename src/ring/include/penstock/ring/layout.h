// What lies in the memory of a ring. Described in docs/formats/ring.md. This part is also read by
// device code: plain structs of fixed size, no library types.
//
// A ring has one header and `lanes` lanes. A lane is a submission queue and a completion queue
// between one thread of the application and the agent: each queue has one producer and one
// consumer. Head and tail are free-running 32-bit counts of entries ever taken and ever made; the
// entry of count n lies at n modulo `entries`. Every word has one writer (`agent_asleep` and
// `waiting` are set by the side that sleeps and cleared by either), and words of different writers
// never share a cache line.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace penstock::ring {

inline constexpr uint64_t kMagic = 0x30474e49524b5450ULL;  // "PTKRING0" in memory
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kCacheLine = 64;
inline constexpr uint32_t kHeaderBytes = 4096;

inline constexpr uint32_t kEntriesMax = 262144;  // per lane: what penstock.h promises
inline constexpr uint32_t kLanesMax = 64;

enum Operation : uint8_t {
  kOperationRead = 1,
  kOperationWrite = 2,
  kOperationSync = 3,
  kOperationNop = 4,
  kOperationFill = 5,  // bring bytes of a file into the node cache; no region
};

enum Flag : uint8_t {
  kFlagDurable = 1,      // writes: on stable storage when complete
  kFlagRefuseHoles = 2,  // reads: a hole ends the operation with -ENODATA
  kFlagLook = 4,         // fills: bring nothing in, only say what is there
  // Reads of whole blocks to a multiple of 4096 in a region: the CRC-32C of each block comes behind
  // the bytes, and the agent does not verify what is read in full. Of a GPU's memory, which has no
  // room for them, in another region.
  kFlagChecksums = 8,
};

inline constexpr uint32_t kChecksumPageBytes = 4096;

// One operation, as the application asks for it. Foreign input for the agent.
struct alignas(64) Submission {
  uint8_t operation;
  uint8_t flags;
  uint16_t checksum_region;  // of checksums of a GPU's memory: where they go; else 0
  uint32_t file;             // handle of the session
  uint64_t offset;           // in the file, bytes
  uint64_t length;           // bytes
  uint32_t region;           // id in the session
  uint32_t slot;             // the application's name for this operation in flight; echoed
  uint64_t region_offset;    // bytes
  uint64_t deadline;         // nanoseconds on CLOCK_MONOTONIC; 0: none
  uint64_t user_data;        // echoed
  uint32_t sequence;         // distinguishes operations that use one slot in turn; echoed
  uint32_t checksum_page;    // where there, in pages of kChecksumPageBytes; else 0
};

// How one operation ended.
struct alignas(32) Completion {
  uint64_t user_data;
  int64_t result;  // bytes, or a negative errno
  uint32_t slot;
  uint32_t sequence;
  uint8_t route;  // engine::Route
  uint8_t reserved[7];
};

struct alignas(64) Header {
  // Geometry. Written by the application that makes the ring, before the agent sees it; the agent
  // copies it once.
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint64_t total_bytes;
  uint32_t lanes;
  uint32_t entries;           // per lane and queue; a power of two
  uint32_t submission_bytes;  // sizeof(Submission)
  uint32_t completion_bytes;  // sizeof(Completion)
  uint64_t lane_bytes;        // from one lane to the next
  uint64_t reserved;          // 0

  // 1 while the agent sleeps: a thread that publishes submissions then writes the ring's eventfd
  // once.
  alignas(64) uint32_t agent_asleep;

  // Lanes 0 to lanes_used - 1 may have work; grows only. Spares the agent a look at the others.
  alignas(64) uint32_t lanes_used;
};

struct alignas(64) LaneControl {
  alignas(64) uint32_t submission_tail;  // by the application
  alignas(64) uint32_t submission_head;  // by the agent
  alignas(64) uint32_t completion_tail;  // by the agent
  alignas(64) uint32_t completion_head;  // by the application

  // The futex word of the application's thread: 1 while it sleeps. The agent wakes it once
  // completion_tail has reached wake_at.
  alignas(64) uint32_t waiting;
  uint32_t wake_at;  // by the application, before `waiting`
};

// A lane: LaneControl, then `entries` submissions, then `entries` completions.

static_assert(sizeof(Submission) == 64 && alignof(Submission) == 64);
static_assert(offsetof(Submission, file) == 4 && offsetof(Submission, offset) == 8);
static_assert(offsetof(Submission, length) == 16 && offsetof(Submission, region) == 24);
static_assert(offsetof(Submission, slot) == 28 && offsetof(Submission, region_offset) == 32);
static_assert(offsetof(Submission, deadline) == 40 && offsetof(Submission, user_data) == 48);
static_assert(offsetof(Submission, sequence) == 56 && offsetof(Submission, checksum_page) == 60);
static_assert(offsetof(Submission, checksum_region) == 2);
static_assert(sizeof(Completion) == 32);
static_assert(offsetof(Completion, result) == 8 && offsetof(Completion, slot) == 16);
static_assert(offsetof(Completion, sequence) == 20 && offsetof(Completion, route) == 24);
static_assert(sizeof(Header) == 192 && sizeof(Header) <= kHeaderBytes);
static_assert(offsetof(Header, total_bytes) == 16 && offsetof(Header, lanes) == 24);
static_assert(offsetof(Header, entries) == 28 && offsetof(Header, submission_bytes) == 32);
static_assert(offsetof(Header, lane_bytes) == 40);
static_assert(offsetof(Header, agent_asleep) == 64 && offsetof(Header, lanes_used) == 128);
static_assert(sizeof(LaneControl) == 320);
static_assert(offsetof(LaneControl, submission_head) == 64);
static_assert(offsetof(LaneControl, completion_tail) == 128);
static_assert(offsetof(LaneControl, completion_head) == 192);
static_assert(offsetof(LaneControl, waiting) == 256 && offsetof(LaneControl, wake_at) == 260);

}  // namespace penstock::ring
