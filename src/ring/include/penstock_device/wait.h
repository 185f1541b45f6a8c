// The asking side of a ring for kernels: answers, and what becomes of them.
#pragma once

#include "penstock_device/guess.h"

namespace penstock::device {

// Looks at once after a look that found nothing: as many as bridge a round trip. Then naps, each a
// part of what has been waited for, so that thousands of warps that wait leave the link to the
// bytes.
inline constexpr uint32_t kEagerLooks = 6;
inline constexpr uint32_t kNapMin = 500;  // nanoseconds
inline constexpr uint32_t kNapMax = 500'000;
inline constexpr uint32_t kNapShare = 8;
// Looks between two at whether the ring is closed.
inline constexpr uint32_t kLooksPerClosedCheck = 8;

// Whether the answer to the ticket is there.
PENSTOCK_DEVICE bool look(const Ring& ring, const Ticket& ticket, Answer* answer) {
  const Pair got = load_shared(&ring.answers[index_of(ring, ticket.position)]);
  *answer = decode_answer(got);
  return has_tag(got, tag_of(lap_of(ring, ticket.position), ticket.attempt));
}

// The same several times, one after the other.
PENSTOCK_DEVICE bool look_eagerly(const Ring& ring, const Ticket& ticket, Answer* answer) {
  for (uint32_t i = 0; i < kEagerLooks; ++i) {
    if (look(ring, ticket, answer)) return true;
  }
  return false;
}

// What a wait does between looks.
class Patience {
 public:
  PENSTOCK_DEVICE explicit Patience(uint64_t timeout) : start_(nanoseconds()), timeout_(timeout) {}

  // Naps. 0, or why to look no more.
  PENSTOCK_DEVICE int pause(const Ring& ring) {
    const uint64_t waited = nanoseconds() - start_;
    const bool is_over = waited >= timeout_;
    ++naps_;
    const bool asks = is_over || naps_ % kLooksPerClosedCheck == 0;
    // On its way while the thread naps.
    const uint32_t closed = asks ? load_shared(&ring.header->closed) : 0;
    if (!is_over) {
      const uint64_t part = (waited < timeout_ - waited ? waited : timeout_ - waited) / kNapShare;
      nap(part < kNapMin ? kNapMin : part < kNapMax ? static_cast<uint32_t>(part) : kNapMax);
    }
    if (closed != 0) return -ESHUTDOWN;
    return is_over ? -ETIMEDOUT : 0;
  }
  // Until the first nap.
  PENSTOCK_DEVICE bool is_eager() const { return naps_ == 0; }
  // Whether the next look should be one at everything.
  PENSTOCK_DEVICE bool is_turn_of_all() const { return naps_ % 4 == 0; }

 private:
  uint64_t start_;
  uint64_t timeout_;
  uint32_t naps_ = 0;
};

PENSTOCK_DEVICE void ask_again(const Ring& ring, Ticket& ticket) {
  ++ticket.attempt;
  const uint32_t count = count_up(&ring.control->again_tail);
  const Again again = {ticket.attempt >= kAddressAttempts, ticket.attempt,
                       index_of(ring, ticket.position)};
  store_shared(&ring.again[count & (ring.entries - 1)], encode(again, count >> ring.entries_log2));
}

// What a request with this answer has come to: bytes or a negative errno, or, with the ticket still
// pending, nothing yet.
PENSTOCK_DEVICE int64_t conclude(const Ring& ring, Ticket& ticket, const Answer& answer,
                                 bool verified) {
  const bool has_bytes = answer.kind == kAddress || answer.kind == kLanded;
  if (has_bytes && !verified && ticket.attempt + 1U < kAttempts) {
    ask_again(ring, ticket);
    return 0;
  }
  ticket.kind = static_cast<Kind>(answer.kind);
  ticket.pending = false;
  // Free for the next lap. Everything that was read on behalf of this one has been used.
  store_own(&ring.free_for[index_of(ring, ticket.position)], lap_of(ring, ticket.position) + 1);
  if (answer.kind == kFailed) return -static_cast<int64_t>(answer.value);
  return has_bytes && !verified ? -EIO : static_cast<int64_t>(answer.length);
}

// Of a ring that is closed: the proxy answers no more, and the host waits for this word before it
// takes the ring's memory away, so that it is the last that is touched. (What was loaded for a
// guess may still be under way. That is the node cache, which the driver unpins when no kernel
// runs.)
PENSTOCK_DEVICE void leave(const Ring& ring, Ticket& ticket) {
  ticket.pending = false;
  store_own(&ring.free_for[index_of(ring, ticket.position)], lap_of(ring, ticket.position) + 1);
}

// The bytes of an answer: where they lie, and where they must go.
struct Bytes {
  const char* from;
  char* to;  // null: they are there
};
PENSTOCK_DEVICE Bytes bytes_of(const Ring& ring, const Answer& answer, uint64_t destination) {
  char* const memory = ring.memory + destination;
  if (answer.kind == kLanded) return {memory, nullptr};
  return {reinterpret_cast<const char*>(answer.value), memory};
}

// True when wait() would find an answer at once, though it may still have to ask again, or when the
// ring is closed, which the thread's next few calls notice.
PENSTOCK_DEVICE bool poll(Ring& ring, const Ticket& ticket) {
  Answer answer;
  return look(ring, ticket, &answer) ||
         (++ring.polls % kLooksPerClosedCheck == 0 && is_closed(ring));
}

// Waits, by one thread, for the end of a request, copies what it brings and verifies it. Bytes,
// fewer where the file ends, or a negative errno:
//   -ETIMEDOUT  it is still in flight after `timeout` nanoseconds and a few naps at most: wait
//               again, the position is the ticket's until then
//   -ESHUTDOWN  the ring is closed; the destination is in use until penstock_device_ring_close()
//               returns
//   -EIO        the bytes do not verify, by whatever way they come
//   others as penstock.h has them
// A thread alone copies slowly: kilobytes are for warps.
PENSTOCK_DEVICE int64_t wait(const Ring& ring, Ticket& ticket, uint64_t timeout) {
  Patience patience(timeout);
  int64_t result = 0;
  while (ticket.pending) {
    Answer answer;
    const bool there =
        patience.is_eager() ? look_eagerly(ring, ticket, &answer) : look(ring, ticket, &answer);
    if (!there) {
      const int error = patience.pause(ring);
      if (error == -ESHUTDOWN) leave(ring, ticket);
      if (error != 0) return error;
      continue;
    }
    bool verified = false;
    if (answer.kind == kAddress || answer.kind == kLanded) {
      if (answer.kind == kLanded) fence_shared();
      const Bytes bytes = bytes_of(ring, answer, ticket.destination);
      verified =
          copy_by_thread(*ring.constants, bytes.from, bytes.to, answer.length, answer.remainder);
    }
    result = conclude(ring, ticket, answer, verified);
  }
  return result;
}

// Brings the bytes of the answer that lane `owner` has, with all lanes; true if they verify. With a
// guess that is of this answer its bytes come first, and say that they were right.
PENSTOCK_DEVICE bool bring_by_warp(const Ring& ring, const Answer& own, uint64_t own_destination,
                                   uint32_t owner, Guess* guess, bool* guessed) {
  Answer answer;
  answer.kind = static_cast<uint8_t>(from_warp_lane(kWholeWarp, uint32_t{own.kind}, owner));
  if (answer.kind != kAddress && answer.kind != kLanded) return false;
  answer.value = from_warp_lane(kWholeWarp, own.value, owner);
  answer.length = from_warp_lane(kWholeWarp, own.length, owner);
  answer.remainder = from_warp_lane(kWholeWarp, own.remainder, owner);
  if (answer.kind == kLanded) {
    fence_shared();
    together(kWholeWarp);  // what the owner's look has seen is so for all
  }
  const Bytes bytes = bytes_of(ring, answer, from_warp_lane(kWholeWarp, own_destination, owner));
  if (guess == nullptr) {
    return copy_by_warp(*ring.constants, bytes.from, bytes.to, answer.length, answer.remainder);
  }
  bool loaded =
      answer.kind == kAddress && answer.value == guess->address && answer.length == guess->length;
  guess->address = 0;
  // Once more where what was loaded was replaced since then.
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (;; loaded = false) {
    const bool verified = copy_by_warp(*ring.constants, bytes.from, bytes.to, answer.length,
                                       answer.remainder, loaded, guess->unit);
    *guessed = verified && loaded;
    if (verified || !loaded) return verified;
  }
}

// A single read that a warp has guessed; all lanes have the same.
struct GuessedRead {
  const Request& request;
  uint64_t submitted;  // in ticks
  Guess guess;
};

// Ticks from the submission to the first look. Sooner there is hardly ever an answer, and a look
// that finds none costs the time of another. It comes back behind the guess's bytes anyway, as a
// multiprocessor seems to return what it loads in order.
inline constexpr uint64_t kFirstLook = 1400;

// As wait_by_warp(). With `single` the first lane's ticket is the only one that is pending.
PENSTOCK_DEVICE int64_t wait_together(const Ring& ring, Ticket& ticket, uint64_t timeout,
                                      GuessedRead* single) {
  int64_t result = 0;
  uint32_t pending = ballot(kWholeWarp, ticket.pending);
  Patience patience(timeout);
  if (single != nullptr) {
    while (ticks() - single->submitted < kFirstLook) {
    }
  }
  // Answers come in order, mostly: while there are none one lane looks for all, to spare the link.
  bool all_look = count_bits(pending) > 1;
  while (pending != 0) {
    const bool looks = ticket.pending && (all_look || warp_lane() == lowest_bit(pending));
    Answer answer = {};
    bool there = false;
    if (looks) {
      there = !all_look && patience.is_eager() ? look_eagerly(ring, ticket, &answer)
                                               : look(ring, ticket, &answer);
    }
    const uint32_t ready = ballot(kWholeWarp, there);
    if (ready == 0 && all_look && patience.is_eager()) {
      all_look = false;
      continue;
    }
    all_look = ready != 0 || patience.is_turn_of_all();
    if (ready == 0) {
      const int error = static_cast<int>(
          from_warp_lane(kWholeWarp, static_cast<uint32_t>(patience.pause(ring)), uint32_t{0}));
      if (error == 0) continue;
      if (ticket.pending) result = error;
      if (ticket.pending && error == -ESHUTDOWN) leave(ring, ticket);
      break;
    }
    for (uint32_t left = ready; left != 0; left &= left - 1) {
      const uint32_t owner = lowest_bit(left);
      bool guessed = false;
      const bool verified = bring_by_warp(ring, answer, ticket.destination, owner,
                                          single != nullptr ? &single->guess : nullptr, &guessed);
      if (warp_lane() != owner) continue;
      if (single != nullptr && !guessed) remember(ring, single->request, answer, single->guess);
      ticket.guessed = guessed;
      result = conclude(ring, ticket, answer, verified);
    }
    pending = ballot(kWholeWarp, ticket.pending);
  }
  together(kWholeWarp);
  return result;
}

// Waits, by all 32 lanes of a warp together, for the requests of those whose tickets are pending;
// each gets the result of its own, as wait() has it. All lanes see all bytes afterwards.
PENSTOCK_DEVICE int64_t wait_by_warp(const Ring& ring, Ticket& ticket, uint64_t timeout) {
  return wait_together(ring, ticket, timeout, nullptr);
}

// One read or write from beginning to end, by all 32 lanes of a warp with the same request, for
// warps that can do nothing else meanwhile: the quickest way for a single one. All lanes get the
// result, as submit() and wait() have it. After -ETIMEDOUT the first lane's ticket is pending, to
// be waited for by wait_by_warp(); no other's ever is.
PENSTOCK_DEVICE int64_t run_by_warp(Ring& ring, const Request& request, Ticket* ticket,
                                    uint64_t timeout) {
  const bool first = warp_lane() == 0;
  *ticket = {};
  int64_t result = submit_by_warp(ring, first, request, ticket);
  if (ballot(kWholeWarp, ticket->pending) != 0) {
    GuessedRead read{request, ticks(), {}};
    guess_by_warp(ring, request, &read.guess);
    result = wait_together(ring, *ticket, timeout, &read);
  }
  return static_cast<int64_t>(
      from_warp_lane(kWholeWarp, static_cast<uint64_t>(result), uint32_t{0}));
}

}  // namespace penstock::device
