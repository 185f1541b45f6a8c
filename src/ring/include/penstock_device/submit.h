// The asking side of a ring for kernels: reserving positions and writing descriptors.
#pragma once

#include "penstock_device/checksum.h"

#include <errno.h>
#include <stddef.h>

namespace penstock::device {

// A kernel's view of a ring: plain, and passed to kernels by value. penstock_device_ring_view()
// fills it in. Every thread keeps a copy of its own, which remembers what the thread has seen.
struct Ring {
  uint32_t version = kVersion;  // of this header; the library compares it
  uint16_t polls;               // that found nothing
  uint16_t refusals;            // since the last request that found room
  Header* header;
  Pair* descriptors;
  Pair* answers;
  uint64_t* again;
  Control* control;
  const Constants* constants;
  uint32_t* free_for;  // laps, by index
  Pair* hints;
  char* memory;  // of the region
  uint64_t memory_bytes;
  uint32_t entries;
  uint32_t entries_log2;
  uint64_t seen_tail;  // as Control's tail_and_free when it was last looked at
  uint64_t seen_free;
};
static_assert(sizeof(Ring) == 112 && offsetof(Ring, version) == 0 && offsetof(Ring, header) == 8 &&
                  offsetof(Ring, memory) == 72 && offsetof(Ring, entries) == 88,
              "filled in by one compiler's code, read by another's");

// What a thread asks for. A read's bytes go to, and a write's come from, the region's memory at
// `destination`.
struct Request {
  Operation operation = kRead;
  uint8_t file = 0;          // what penstock_device_ring_add_file() returned
  uint32_t length = 0;       // bytes, 1 to kRequestBytesMax
  uint64_t offset = 0;       // in the file, bytes
  uint64_t destination = 0;  // bytes
  bool by_copy = false;      // reads: not by the asking warp, but by a copy engine
};

// A request in flight; the caller's, for wait().
struct Ticket {
  uint64_t position = 0;
  uint64_t destination = 0;
  uint32_t length = 0;
  uint8_t attempt = 0;
  Kind kind = kFailed;   // how it went
  bool pending = false;  // submitted, and not ended by a wait
  bool guessed = false;  // its first bytes came before the answer, and were the right ones
};

inline constexpr uint64_t kNoPosition = ~uint64_t{0};

PENSTOCK_DEVICE uint32_t lap_of(const Ring& ring, uint64_t position) {
  return static_cast<uint32_t>(position >> ring.entries_log2);
}
PENSTOCK_DEVICE uint32_t index_of(const Ring& ring, uint64_t position) {
  return static_cast<uint32_t>(position) & (ring.entries - 1);
}

// Positions that a thread looks at beyond the free ones that are known.
inline constexpr uint32_t kLookAhead = 4;
// Others were faster so often: the ring is as good as full.
inline constexpr uint32_t kReserveTries = 64;

// Reads tail and free anew and, where that is not enough for `wanted` more, looks which further
// positions have become free. All lanes of `mask`.
PENSTOCK_DEVICE Pair look_for_room(const Ring& ring, uint32_t mask, uint32_t wanted) {
  const uint32_t leader = lowest_bit(mask);
  Pair seen = warp_lane() == leader ? load_own(&ring.control->tail_and_free) : Pair{0, 0};
  seen = {from_warp_lane(mask, seen.first, leader), from_warp_lane(mask, seen.second, leader)};
  if (seen.second >= seen.first + wanted) return seen;
  const uint32_t rank = count_bits(mask & ((uint32_t{1} << warp_lane()) - 1));
  uint32_t found = 0;  // of the positions that this lane looks at, those before the first in use
  for (uint32_t i = kLookAhead; i-- > 0;) {
    const uint64_t position = seen.second + rank * kLookAhead + i;
    const bool free = load_own(&ring.free_for[index_of(ring, position)]) == lap_of(ring, position);
    found = free ? found + 1 : 0;
  }
  const uint32_t stopped = ballot(mask, found < kLookAhead);
  const uint32_t last = stopped == 0 ? 0 : lowest_bit(stopped);
  const uint32_t at_last = from_warp_lane(mask, found, last);
  const uint32_t full =
      stopped == 0 ? count_bits(mask) : count_bits(mask & ((uint32_t{1} << last) - 1));
  const uint32_t more = full * kLookAhead + (stopped == 0 ? 0 : at_last);
  seen.second += more;
  if (more > 0 && warp_lane() == leader) raise(&ring.control->tail_and_free.second, seen.second);
  return seen;
}

// Reserves a position for each of `members`, some of `mask`, or for the first few of them that
// there is room for. All lanes of `mask` call it.
PENSTOCK_DEVICE uint64_t reserve(Ring& ring, uint32_t mask, uint32_t members) {
  const uint32_t leader = lowest_bit(mask);
  const uint32_t wanted = count_bits(members);
  const uint32_t rank = count_bits(members & ((uint32_t{1} << warp_lane()) - 1));
  Pair seen = {from_warp_lane(mask, ring.seen_tail, leader),
               from_warp_lane(mask, ring.seen_free, leader)};
  for (uint32_t i = 0; i < kReserveTries && wanted > 0; ++i) {
    if (seen.second < seen.first + wanted) seen = look_for_room(ring, mask, wanted);
    const uint64_t room = seen.second > seen.first ? seen.second - seen.first : 0;
    const uint64_t taken = room < wanted ? room : wanted;
    if (taken == 0) break;
    uint64_t tail = 0;
    if (warp_lane() == leader) {
      tail = exchange_if(&ring.control->tail_and_free.first, seen.first, seen.first + taken);
    }
    tail = from_warp_lane(mask, tail, leader);
    const bool reserved = tail == seen.first;
    seen.first = reserved ? tail + taken : tail;
    ring.seen_tail = seen.first;
    ring.seen_free = seen.second;
    if (!reserved) continue;
    const bool mine = (members >> warp_lane() & 1) != 0 && rank < taken;
    return mine ? tail + rank : kNoPosition;
  }
  return kNoPosition;
}

// The proxy answers no more.
PENSTOCK_DEVICE bool is_closed(const Ring& ring) {
  return load_shared(&ring.header->closed) != 0;
}

// Refusals of one thread between two looks at whether the ring is closed, which go over the link:
// thousands of warps that try again and again leave it to the bytes.
inline constexpr uint32_t kRefusalsPerClosedCheck = 256;

// Before each refusal after a thread's first, so that those that are served come to the ring's
// words between those that are not.
inline constexpr uint32_t kRefusalNap = 2'000;  // nanoseconds

// Why reserve() has given no position.
PENSTOCK_DEVICE int why_none(Ring& ring) {
  if (ring.refusals++ % kRefusalsPerClosedCheck == 0) {
    if (is_closed(ring)) return -ESHUTDOWN;
  } else {
    nap(kRefusalNap);
  }
  return -EAGAIN;
}

PENSTOCK_DEVICE bool fits(const Ring& ring, const Request& request) {
  return request.length > 0 && request.length <= kRequestBytesMax &&
         request.offset < uint64_t{1} << 48 && request.destination <= ring.memory_bytes &&
         request.length <= ring.memory_bytes - request.destination;
}

PENSTOCK_DEVICE void write_descriptor(Ring& ring, uint64_t position, const Request& request,
                                      Ticket* ticket) {
  ring.refusals = 0;
  *ticket = {position, request.destination, request.length, 0, kFailed, true, false};
  const Descriptor descriptor = {request.operation,
                                 request.by_copy,
                                 request.file,
                                 request.offset,
                                 request.length,
                                 request.destination,
                                 0};
  store_shared(&ring.descriptors[index_of(ring, position)],
               encode(descriptor, lap_of(ring, position)));
}

// Asks for one read or write; any threads of a kernel, also in divergent code. Those that come
// together share one reservation. 0, or a negative errno:
//   -EINVAL     it could not possibly succeed
//   -EAGAIN     the ring is full: wait for what the warp has in flight before trying again, as
//               others cannot pass it
//   -ESHUTDOWN  the ring is closed; one of a few hundred tries on a full ring notices, and while it
//               is not full that is for wait() to notice
//
// Bytes to be written, and accesses of others to the destination, come before the call by a
// __threadfence_system() in whatever thread made them.
PENSTOCK_DEVICE int submit(Ring& ring, const Request& request, Ticket* ticket) {
  if (!fits(ring, request)) return -EINVAL;
  const uint32_t mask = warp_lanes_with(reinterpret_cast<uint64_t>(ring.control));
  const uint64_t position = reserve(ring, mask, mask);
  if (position == kNoPosition) return why_none(ring);
  write_descriptor(ring, position, request, ticket);
  return 0;
}

// The same by all 32 lanes of a warp together, of which those that `want` submit their requests.
PENSTOCK_DEVICE int submit_by_warp(Ring& ring, bool want, const Request& request, Ticket* ticket) {
  const bool good = fits(ring, request);
  const uint32_t members = ballot(kWholeWarp, want && good);
  const uint64_t position = reserve(ring, kWholeWarp, members);
  if (!want) return 0;
  if (!good) return -EINVAL;
  if (position == kNoPosition) return why_none(ring);
  write_descriptor(ring, position, request, ticket);
  return 0;
}

}  // namespace penstock::device
