// Loading a read's bytes before its answer says where they are.
//
// A ring's GPU memory remembers where bytes of files lay when they were read last: one of each 64
// KiB and one of each 16 MiB, by hash. A warp that makes a single read loads the first 4 KiB of
// what lies where its bytes would be if nothing had moved, while the request is under way. The
// answer then decides: bytes that have its address and its remainder are the file's, whenever they
// were loaded. So a hint that is wrong costs a few bytes of the link and nothing else, and no
// thread has to keep hints true: kernels read and write them without order.
//
// The address must agree, too: bytes of somewhere else would pass for the right ones once in 2^32
// wrong guesses, and those are not rare where files lie scattered.
#pragma once

#include "penstock_device/copy.h"
#include "penstock_device/submit.h"

namespace penstock::device {

// The pieces of files that have hints, as logarithms of their bytes. The bytes of an extent of the
// node cache lie together; extents that were filled one after the other do, mostly, so that one of
// a larger piece is believed once two reads in a row agreed with it.
inline constexpr uint32_t kNearLog2 = 16;
inline constexpr uint32_t kFarLog2 = 24;

PENSTOCK_DEVICE Pair* hint_of(const Ring& ring, const Request& request, uint32_t log2) {
  const auto piece = static_cast<uint32_t>(request.offset >> log2);
  const uint32_t hash = piece * 0x9e3779b1U ^ (uint32_t{request.file} << 8 | log2) * 0x85ebca6bU;
  return &ring.hints[(hash ^ hash >> 15) & (kHints - 1)];
}

// Where the read's first byte lies if what is between it and the hint's lies as in the file; 0 when
// the hint is none for it, or that is memory of which no answer has spoken.
PENSTOCK_DEVICE uint64_t address_by(const Hint& hint, const Request& request, uint32_t log2) {
  if (!hint.there || hint.file != request.file || (hint.offset ^ request.offset) >> log2 != 0) {
    return 0;
  }
  const uint64_t address = hint.address + (request.offset - hint.offset);
  const uint64_t differs =
      (address ^ hint.address) | ((address + request.length - 1) ^ hint.address);
  return differs >> hint.span_log2 == 0 ? address : 0;
}

// What a warp has under way on behalf of its first lane.
struct Guess {
  Pair far = {0, 0};     // that lane's hint, as it was found
  uint64_t address = 0;  // of what follows; 0: none, or it was used
  uint32_t length = 0;
  Unit unit[kInFlight];  // each lane its own, of the first rows
};

// The first lane's guess, from hints that it loads; 0: none.
PENSTOCK_DEVICE uint64_t guess_address(const Ring& ring, const Request& request, Guess* guess) {
  // Others are never answered with addresses.
  if (request.operation != kRead || request.by_copy || request.length > kAddressBytesMax) return 0;
  const Pair near_hint = load_own(hint_of(ring, request, kNearLog2));
  guess->far = load_own(hint_of(ring, request, kFarLog2));
  const Hint far = decode_hint(guess->far);
  const uint64_t address = address_by(decode_hint(near_hint), request, kNearLog2);
  return address != 0 || !far.sure ? address : address_by(far, request, kFarLog2);
}

// By all lanes. The bytes are not used yet, so that looks for the answer may go on meanwhile;
// whether they do is for the compiler, which has few signals for what is under way.
PENSTOCK_DEVICE void guess_by_warp(const Ring& ring, const Request& request, Guess* guess) {
  const uint64_t address = warp_lane() == 0 ? guess_address(ring, request, guess) : 0;
  guess->address = from_warp_lane(kWholeWarp, address, uint32_t{0});
  guess->length = request.length;
  if (guess->address == 0) return;
  load_first_rows(reinterpret_cast<const char*>(guess->address), guess->length, guess->unit);
}

// Writes down what an answer, other than that to a right guess, says of where the file lies. By the
// first lane, while the ticket is pending: what it has touched last is for the host to see.
PENSTOCK_DEVICE void remember(const Ring& ring, const Request& request, const Answer& answer,
                              const Guess& guess) {
  Hint far = decode_hint(guess.far);
  if (answer.kind == kAddress) {
    const bool agrees = address_by(far, request, kFarLog2) == answer.value;
    const Hint hint = {true, agrees, request.file, request.offset, answer.value, answer.span_log2};
    store_own(hint_of(ring, request, kNearLog2), encode(hint));
    store_own(hint_of(ring, request, kFarLog2), encode(hint));
  } else if (answer.kind == kLanded && far.there) {
    // Not in the node cache, nor others beside it, perhaps.
    far.sure = false;
    store_own(hint_of(ring, request, kNearLog2), Pair{0, 0});
    store_own(hint_of(ring, request, kFarLog2), encode(far));
  }
}

}  // namespace penstock::device
