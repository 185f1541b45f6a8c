// The ring by which kernels ask for memory of PEs that loads and stores do not reach, and the queue
// of changes that kernels make for such PEs. Described in docs/formats/far-ring.md (decision 0077).
// Host and device code read this alike.
#pragma once

#include "penstock_device/symm/state.h"

#if !defined(PENSTOCK_ANYWHERE)
#if defined(__CUDACC__)
#define PENSTOCK_ANYWHERE __host__ __device__
#else
#define PENSTOCK_ANYWHERE
#endif
#endif

namespace penstock::device {

constexpr uint32_t kFarMagic = 0x52414653;  // "SFAR"
constexpr uint32_t kFarVersion = 2;
constexpr uint32_t kFarEntriesMin = 128;  // a quiet takes one for each PE
constexpr uint32_t kFarEntriesMax = 32768;
constexpr uint32_t kFarPesMax = 128;
constexpr uint32_t kFarOffsetBits = 46;
constexpr uint32_t kFarShortBits = 48;  // of values and addresses

// What is asked for; never 0.
enum class Ask : uint32_t {
  put = 1,
  get = 2,
  put_row = 3,
  get_row = 4,
  change = 5,  // of a word
  flush = 6,   // tell when all before it is done at the PE
};

// How a word changes. Words of 1 and 2 bytes are only fetched and set.
enum class FarChange : uint32_t {
  fetch = 0,
  set = 1,
  swap = 2,
  compare_swap = 3,
  add = 4,
  bit_and = 5,
  bit_or = 6,
  bit_xor = 7,
  // Of what proxies post alone: a row of elements, between staging memory of the host and memory
  // of the GPU that their copy engines are not to touch.
  copy_in = 8,
  copy_out = 9,
};

// A request, as it is before it is put into words. Two's power of bytes: of a word, or of each
// element of a row. Strides are counted in elements.
struct FarAsk {
  Ask ask;
  bool answer;  // the asker waits for one
  uint32_t pe;
  uint32_t width_log2;
  FarChange change;
  uint64_t offset;    // in the PE's heap
  uint64_t value;     // of a change; else an address here
  uint64_t expected;  // of compare_swap
  uint64_t length;    // bytes; of a row elements
  uint64_t stride_there;
  uint64_t stride_here;
};

constexpr uint64_t kFarLengthMax = (uint64_t{1} << kFarShortBits) - 1;
constexpr uint64_t kFarRowMax = (uint64_t{1} << 31) - 1;
constexpr uint64_t kFarStrideMax = (uint64_t{1} << 32) - 1;
constexpr uint32_t kFarWidthLog2Max = 4;

// A descriptor, or the second half of one. Each word has the parity of its position's lap: bit 63.
struct alignas(16) FarEntry {
  uint64_t word[2];
};

struct FarEntries {
  FarEntry entry[2];
  uint32_t count;
};

constexpr uint64_t kFarParity = uint64_t{1} << 63;
constexpr uint64_t kFarSecond = uint64_t{1} << 62;
constexpr uint64_t kFarAnswer = uint64_t{1} << 61;

PENSTOCK_ANYWHERE inline uint64_t far_low(uint64_t value, uint32_t bits) {
  return value & ((uint64_t{1} << bits) - 1);
}

PENSTOCK_ANYWHERE inline uint32_t entries_of(const FarAsk& asked) {
  if (asked.ask == Ask::flush) return 1;
  if (asked.ask != Ask::change) return 2;
  return asked.change == FarChange::compare_swap || asked.value >> kFarShortBits != 0 ? 2 : 1;
}

PENSTOCK_ANYWHERE inline FarEntry flush_entry(uint32_t pe) {
  return {{static_cast<uint64_t>(Ask::flush) << 58 | uint64_t{pe} << 46, 0}};
}

// Without parities.
PENSTOCK_ANYWHERE inline FarEntries encode(const FarAsk& asked) {
  FarEntries out = {};
  out.count = entries_of(asked);
  out.entry[0].word[0] = static_cast<uint64_t>(asked.ask) << 58 | uint64_t{asked.pe} << 46 |
                         far_low(asked.offset, kFarOffsetBits);
  uint64_t second = far_low(asked.value, kFarShortBits) |
                    static_cast<uint64_t>(asked.change) << 55 | uint64_t{asked.width_log2} << 58;
  if (asked.answer) second |= kFarAnswer;
  uint64_t* const more = out.entry[1].word;
  if (asked.ask == Ask::change) {
    more[0] = far_low(asked.expected, kFarShortBits);
    more[1] = asked.expected >> kFarShortBits | asked.value >> kFarShortBits << 16;
  } else {
    more[0] = asked.ask == Ask::put || asked.ask == Ask::get
                  ? asked.length
                  : asked.length | asked.stride_there << 31;
    more[1] = asked.stride_here;
  }
  if (out.count == 2) second |= kFarSecond;
  out.entry[0].word[1] = second;
  return out;
}

// Whatever the words hold; the taker checks what comes out. `count`: 2 when the second bit is set.
PENSTOCK_ANYWHERE inline FarAsk decode(const FarEntries& from) {
  const uint64_t first = from.entry[0].word[0];
  const uint64_t second = from.entry[0].word[1];
  const uint64_t* const more = from.entry[1].word;
  FarAsk out = {};
  out.ask = static_cast<Ask>(first >> 58 & 31);
  out.pe = static_cast<uint32_t>(first >> 46 & 0xfff);
  out.offset = far_low(first, kFarOffsetBits);
  out.answer = (second & kFarAnswer) != 0;
  out.width_log2 = static_cast<uint32_t>(second >> 58 & 7);
  out.change = static_cast<FarChange>(second >> 55 & 7);
  out.value = far_low(second, kFarShortBits);
  if (from.count != 2) return out;
  if (out.ask == Ask::put || out.ask == Ask::get) {
    out.length = far_low(more[0], kFarShortBits);
  } else if (out.ask == Ask::put_row || out.ask == Ask::get_row) {
    out.length = far_low(more[0], 31);
    out.stride_there = far_low(more[0] >> 31, 32);
    out.stride_here = far_low(more[1], 32);
  } else {
    out.expected = far_low(more[0], kFarShortBits) | more[1] << kFarShortBits;
    out.value |= (more[1] >> 16 & 0xffff) << kFarShortBits;
  }
  return out;
}

PENSTOCK_ANYWHERE inline uint64_t far_parity(uint64_t lap) {
  return lap % 2 == 0 ? kFarParity : 0;
}

// An answer: 32 bits of the value in each word, under the lap's tag; of the first word also whether
// it failed, and then the value says why (SymmFailure). Each word counts by itself.
PENSTOCK_ANYWHERE inline uint64_t far_tag(uint64_t lap) {
  return ((lap + 1) & 0x7fffffff) << 32;
}
constexpr uint64_t kFarTagMask = uint64_t{0x7fffffff} << 32;
constexpr uint64_t kFarFailed = uint64_t{1} << 63;

// Of the host; the proxy writes it, but for `magic` to `entries` while kernels run.
struct FarHeader {
  uint32_t magic;
  uint32_t version;
  uint32_t entries;  // a power of two
  uint32_t pes;
  alignas(64) uint64_t taken;  // entries taken ever: the ring has room for as many more
  // By PE: the position up to which everything that was asked of it is done there, as far as a
  // flush was asked for.
  alignas(64) uint64_t completed[kFarPesMax];
};
static_assert(sizeof(FarHeader) <= 4096 && offsetof(FarHeader, completed) == 128);

// A change of a word in this PE's heap, for kernels to make; or a copy.
struct FarPosted {
  uint64_t address;
  uint64_t value;      // of a copy the host's address
  uint64_t expected;   // of a copy from one element to the next, in bytes of the GPU's memory
  uint8_t change;      // FarChange; never fetch nor set
  uint8_t width_log2;  // of a copy: of its elements
  uint16_t reserved;
  uint32_t bytes;  // 4 or 8; all that a copy moves
};
constexpr uint32_t kFarPosted = 128;

// Of the host. Counts of ever.
struct FarChanges {
  uint64_t posted;              // by the proxy
  alignas(64) uint64_t served;  // by kernels: those whose `before` is there
  // By the kernel launched for it, in the program's context and in the proxy's own: how often it
  // has ended.
  alignas(64) uint64_t launches[2];
  alignas(64) FarPosted entry[kFarPosted];  // by the proxy, at their count modulo kFarPosted
  uint64_t before[kFarPosted];              // by kernels
};

// Of the GPU, for its kernels.
struct FarControl {
  uint64_t tail;                      // positions given out ever
  alignas(64) uint64_t room;          // positions below it may be written, as far as is known
  alignas(64) uint32_t changes_lock;  // 1: a thread makes changes
  uint64_t changes_served;
  alignas(64) uint64_t asked[kFarPesMax];  // by PE: the position behind the last request to it
  uint64_t quiet[kFarPesMax];              // by PE: as FarHeader::completed, as far as is known
};

// A kernel's view, in the GPU's memory: not changed while kernels of the team run.
struct SymmFar {
  uint32_t version;
  uint32_t entries_log2;
  FarHeader* header;
  FarEntry* entries;
  FarEntry* answers;
  FarControl* control;
  uint32_t*
      waiting;  // by index, in the GPU's memory: 1 as long as an asker has not read its answer
  FarChanges* changes;
  char* scratch;           // of the GPU, for reductions with far members
  uint64_t scratch_bytes;  // for each team
  // Teams by bit, of which two members are not near to each other: what all of a team must find
  // alike is found here. Written when a team is made.
  uint64_t far_teams[kSymmTeamsMax / 64];
  void* reserved[5];
};
static_assert(sizeof(SymmFar) == 128, "read by kernels of other builds");

}  // namespace penstock::device
