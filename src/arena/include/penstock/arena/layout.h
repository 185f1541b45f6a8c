// What lies in the shared memory of a segment. Described in docs/formats/arena.md. This part is
// also read by device code: plain structs of fixed size, no library types.
//
// A segment is one index and a row of slabs, each a memfd of its own. The index has a header, a
// hash table of entries (open addressing, linear probing) and the checksums of every slot; a slab
// is an array of slots, and slot n of the segment lies in slab n / slots per slab. A slot holds one
// extent, an aligned piece of a file. Only the agent writes; an application can map no page for
// writing.
//
// An entry's `sequence` is even while the entry stands still and odd while it changes; it never
// returns to an earlier value. A reader that copied out of a slot looks at the entry's sequence
// again: if it is as it was found, the bytes are those of the extent.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace penstock::arena {

inline constexpr uint64_t kMagic = 0x414e4552414b5450ULL;  // "PTKARENA" in memory
inline constexpr uint32_t kVersion = 2;
inline constexpr uint32_t kHeaderBytes = 4096;

// The unit of caching: large enough for a DMA at the speed of the link, small enough for random
// reads of 4 KiB not to read in much that was not asked for.
inline constexpr uint32_t kExtentBytes = 65536;
// The unit of checksum.
inline constexpr uint32_t kBlockBytes = 4096;
inline constexpr uint32_t kBlocks = kExtentBytes / kBlockBytes;

// An entry lies at most so far behind the one that its hash names.
inline constexpr uint32_t kProbesMax = 64;

// What the agent writes once, before any application sees the index, and two words that change.
struct alignas(64) Header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint64_t total_bytes;  // of the index
  uint64_t slab_bytes;
  uint32_t slots_max;  // a multiple of a slab's slots
  uint32_t entries;    // a power of two, at least twice slots_max
  uint64_t checksums_offset;
  uint64_t reserved[2];  // 0

  // Slabs there are; grows only.
  alignas(64) uint32_t slabs;

  // Nanoseconds on CLOCK_MONOTONIC: a copy made by then is as the agent says. It moves this on
  // while it lives, and no successor of it changes a file before that time has come.
  alignas(64) uint64_t valid_until;
};

struct alignas(32) Entry {
  uint64_t sequence;
  uint64_t inode;  // 0: no entry
  uint32_t extent;
  uint32_t slot;
  uint32_t valid;  // bytes; less than kExtentBytes only where the file ends
  uint32_t reserved;
};

// CRC-32C of each block of a slot; of the last block up to `valid`.
struct alignas(64) Checksums {
  uint32_t block[kBlocks];
};

// Which slots an application has hit: memory of the application's making, which it writes and the
// agent reads now and then. Lossy on both sides.
inline constexpr uint32_t kTouchesMax = 4096;
struct alignas(64) TouchLogMemory {
  uint64_t hits;  // ever
  uint64_t head;  // touches ever written; touch n lies at n modulo kTouchesMax
  uint64_t reserved[6];
  uint32_t slot[kTouchesMax];
};

static_assert(sizeof(Header) == 192 && sizeof(Header) <= kHeaderBytes);
static_assert(offsetof(Header, version) == 8 && offsetof(Header, header_bytes) == 12);
static_assert(offsetof(Header, total_bytes) == 16 && offsetof(Header, slab_bytes) == 24);
static_assert(offsetof(Header, slots_max) == 32 && offsetof(Header, entries) == 36);
static_assert(offsetof(Header, checksums_offset) == 40 && offsetof(Header, slabs) == 64);
static_assert(offsetof(Header, valid_until) == 128);
static_assert(sizeof(Entry) == 32);
static_assert(offsetof(Entry, inode) == 8 && offsetof(Entry, extent) == 16);
static_assert(offsetof(Entry, slot) == 20 && offsetof(Entry, valid) == 24);
static_assert(sizeof(Checksums) == 64);
static_assert(sizeof(TouchLogMemory) == 64 + 4 * kTouchesMax);
static_assert(offsetof(TouchLogMemory, head) == 8 && offsetof(TouchLogMemory, slot) == 64);
static_assert((kTouchesMax & (kTouchesMax - 1)) == 0);

}  // namespace penstock::arena
