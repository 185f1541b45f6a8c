// What a ring for kernels is made of: the words that a kernel and the proxy, a thread of the host,
// tell each other. Described in docs/formats/kernel-ring.md. Host and device code read this alike.
//
// Positions are 64-bit counts of requests ever made; the request of count n lies at n modulo
// `entries`, in lap n / `entries`. A descriptor is new when both of its words have the parity of
// its lap, so nothing else has to be written, and two 8-byte halves may arrive one by one. The
// answer stands at the same index; both of its words carry a tag of lap and attempt, so that the
// asker knows it for his own.
//
// Descriptors and what asks again are foreign input for the proxy.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__)
#define PENSTOCK_DEVICE_BOTH __host__ __device__ constexpr
#else
#define PENSTOCK_DEVICE_BOTH constexpr
#endif

namespace penstock::device {

inline constexpr uint32_t kMagic = 0x474e4952;  // "RING" in memory
inline constexpr uint32_t kVersion = 2;         // of all that host and kernels have in common
inline constexpr uint32_t kHeaderBytes = 4096;

// A power of two. Less than a batch of a warp would never be enough; more has no use, as 10 M
// requests a second that take 10 us each are 100 in flight, and each costs memory.
inline constexpr uint32_t kEntriesMin = 64;
inline constexpr uint32_t kEntriesMax = 32768;
// Files that a ring knows: the descriptor has 8 bits for them.
inline constexpr uint32_t kFilesMax = 256;
// One request: what the descriptor's 23 bits hold, as a round number.
inline constexpr uint32_t kRequestBytesMax = 4 * 1024 * 1024;
// The first and the last byte of a destination lie in the first terabyte of its region.
inline constexpr uint64_t kRegionBytesMax = uint64_t{1} << 40;
// Reads of up to so many bytes are answered with their address in the node cache; the asking warp
// copies longer ones no faster than a copy engine does.
inline constexpr uint32_t kAddressBytesMax = 64 * 1024;
// Addresses that kernels remember: of so many pieces of files.
inline constexpr uint32_t kHints = 16384;

// A read is asked for again when its bytes did not verify: so often by address (the agent evicts
// just what is being read), then by copy, then it ends with -EIO.
inline constexpr uint32_t kAddressAttempts = 3;
inline constexpr uint32_t kAttempts = 5;
static_assert(kAddressAttempts < kAttempts && kAttempts <= 8, "an attempt has 3 bits");

enum Operation : uint8_t { kRead = 1, kWrite = 2, kDurableWrite = 3 };

struct alignas(16) Pair {
  uint64_t first;
  uint64_t second;
};

// What a kernel asks for, as it travels:
//   first   63 parity | 62..61 operation | 60 by copy | 59..56 zero | 55..48 file | 47..0 offset
//   second  63 parity | 62..40 length | 39..0 destination
struct Descriptor {
  uint8_t operation;     // Operation
  bool by_copy;          // the answer may not be an address
  uint8_t file;          // index in the ring's table
  uint64_t offset;       // in the file, bytes, 48 bits
  uint32_t length;       // bytes, 23 bits
  uint64_t destination;  // in the ring's region, bytes, 40 bits; of a write: where its bytes are
  uint8_t spare;         // 0
};

PENSTOCK_DEVICE_BOTH uint64_t bits(uint64_t word, unsigned from, unsigned count) {
  return word >> from & ((uint64_t{1} << count) - 1);
}

PENSTOCK_DEVICE_BOTH Pair encode(const Descriptor& from, uint32_t lap) {
  const uint64_t parity = uint64_t{~lap & 1} << 63;  // memory of zeros holds nothing new
  return {parity | bits(from.operation, 0, 2) << 61 | uint64_t{from.by_copy} << 60 |
              bits(from.spare, 0, 4) << 56 | uint64_t{from.file} << 48 | bits(from.offset, 0, 48),
          parity | bits(from.length, 0, 23) << 40 | bits(from.destination, 0, 40)};
}

PENSTOCK_DEVICE_BOTH bool is_of_lap(uint64_t word, uint32_t lap) {
  return word >> 63 == (~lap & 1);
}

PENSTOCK_DEVICE_BOTH Descriptor decode_descriptor(const Pair& from) {
  return {static_cast<uint8_t>(bits(from.first, 61, 2)),    bits(from.first, 60, 1) != 0,
          static_cast<uint8_t>(bits(from.first, 48, 8)),    bits(from.first, 0, 48),
          static_cast<uint32_t>(bits(from.second, 40, 23)), bits(from.second, 0, 40),
          static_cast<uint8_t>(bits(from.first, 56, 4))};
}

// A position that asks again, in a queue of its own: its asker keeps the position, so there is
// always room.
//   63 parity | 62 by copy | 58..56 attempt | 31..0 index; all else zero
struct Again {
  bool by_copy;
  uint8_t attempt;
  uint32_t index;
};

PENSTOCK_DEVICE_BOTH uint64_t encode(const Again& from, uint32_t lap) {
  return uint64_t{~lap & 1} << 63 | uint64_t{from.by_copy} << 62 | bits(from.attempt, 0, 3) << 56 |
         from.index;
}

PENSTOCK_DEVICE_BOTH Again decode_again(uint64_t word) {
  return {bits(word, 62, 1) != 0, static_cast<uint8_t>(bits(word, 56, 3)),
          static_cast<uint32_t>(word)};
}

enum Kind : uint8_t {
  kFailed = 0,   // `value` is an errno
  kAddress = 1,  // the bytes lie at the address `value`, if they verify
  kLanded = 2,   // the bytes are in the destination, if they verify
  kDone = 3,     // a write, or a read behind the end of the file
};

// How a request went, as it travels:
//   first   63..56 tag | 55..54 kind | 53..48 span_log2 | 47..0 value
//   second  63..56 tag | 55..32 length | 31..0 remainder
struct Answer {
  uint8_t kind;
  uint64_t value;      // 48 bits
  uint32_t length;     // bytes, at most those asked for; fewer where the file ends
  uint32_t remainder;  // checksum.h, of these bytes
  // Of an address: it lies in 2^span_log2 bytes, aligned to as many, that kernels may read as long
  // as the ring is there.
  uint8_t span_log2 = 0;
};

// Never that of memory of zeros in lap 0, nor that of the lap before.
PENSTOCK_DEVICE_BOTH uint64_t tag_of(uint32_t lap, uint32_t attempt) {
  return ((uint64_t{lap} + 1) & 31) << 3 | (attempt & 7);
}

PENSTOCK_DEVICE_BOTH Pair encode(const Answer& from, uint64_t tag) {
  return {tag << 56 | bits(from.kind, 0, 2) << 54 | bits(from.span_log2, 0, 6) << 48 |
              bits(from.value, 0, 48),
          tag << 56 | bits(from.length, 0, 24) << 32 | from.remainder};
}

PENSTOCK_DEVICE_BOTH bool has_tag(const Pair& answer, uint64_t tag) {
  return answer.first >> 56 == tag && answer.second >> 56 == tag;
}

PENSTOCK_DEVICE_BOTH Answer decode_answer(const Pair& from) {
  return {static_cast<uint8_t>(bits(from.first, 54, 2)), bits(from.first, 0, 48),
          static_cast<uint32_t>(bits(from.second, 32, 24)), static_cast<uint32_t>(from.second),
          static_cast<uint8_t>(bits(from.first, 48, 6))};
}

// Where a byte of a file lay when it was read last, as kernels remember it for themselves:
//   first   63 there | 62 sure | 61..56 zero | 55..48 file | 47..0 offset
//   second  63..54 zero | 53..48 span_log2 | 47..0 address
// The halves may be of different hints, when two write at once: `span_log2` stands beside the
// address that it belongs to.
struct Hint {
  bool there;
  bool sure;  // two reads in a row said that the bytes around it lie as in the file
  uint8_t file;
  uint64_t offset;
  uint64_t address;
  uint8_t span_log2;  // as in Answer
};

PENSTOCK_DEVICE_BOTH Pair encode(const Hint& from) {
  return {uint64_t{from.there} << 63 | uint64_t{from.sure} << 62 | uint64_t{from.file} << 48 |
              bits(from.offset, 0, 48),
          bits(from.span_log2, 0, 6) << 48 | bits(from.address, 0, 48)};
}

PENSTOCK_DEVICE_BOTH Hint decode_hint(const Pair& from) {
  return {bits(from.first, 63, 1) != 0,
          bits(from.first, 62, 1) != 0,
          static_cast<uint8_t>(bits(from.first, 48, 8)),
          bits(from.first, 0, 48),
          bits(from.second, 0, 48),
          static_cast<uint8_t>(bits(from.second, 48, 6))};
}

// The beginning of the ring's host memory, pinned: this, `entries` descriptors, `entries` answers,
// `entries` words that ask again. Then an image of the GPU's part, for copies of it.
struct alignas(64) Header {
  uint32_t magic;
  uint32_t version;
  uint32_t entries;
  uint32_t reserved;
  // 1 when the proxy serves the ring no more. Written once, by the host.
  alignas(64) uint32_t closed;
};

// The beginning of the ring's GPU memory: this, Constants, then a word for each position: the lap
// that it is free for, then kHints hints.
struct alignas(128) Control {
  // Positions reserved ever, and the one up to which, without a gap, all are known to be free.
  Pair tail_and_free;
  alignas(64) uint32_t again_tail;  // positions that have asked again, ever
};

// Two compilers read these.
static_assert(sizeof(Pair) == 16 && offsetof(Pair, second) == 8);
static_assert(sizeof(Header) == 128 && offsetof(Header, version) == 4 &&
              offsetof(Header, entries) == 8 && offsetof(Header, closed) == 64);
static_assert(sizeof(Control) == 128 && offsetof(Control, tail_and_free) == 0 &&
              offsetof(Control, again_tail) == 64);
static_assert(kRequestBytesMax < 1u << 23 && kAddressBytesMax <= kRequestBytesMax);

}  // namespace penstock::device
