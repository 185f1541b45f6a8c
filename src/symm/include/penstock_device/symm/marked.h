// Small collective operations: every word that is sent carries four bytes and the number of the
// operation, so that who sees the number has the bytes. One way of a word is all that they wait
// for: no fence, and no sync before or after.
//
// Words go to memory that is there for them, in two halves that take turns, and each PE has sent to
// each one before it is through: so who sends for the next but one operation has heard from those
// to which it sends that they have taken this one's.
#pragma once

#include "penstock_device/symm/grid.h"

namespace penstock::device {

// Numbers of operations begin anew after so many, when both halves have been cleared: what an old
// operation has left is never taken for a new one's.
constexpr uint64_t kMarkPeriod = uint64_t{1} << 30;

constexpr int kMarkedAtOnce = 4;  // members whose words are asked for together

// One block's exchange: of pairs [first, first + count) of what each member sends.
struct Exchange {
  const GridBlock& at;
  uint64_t number;
  uint64_t first;
  uint64_t count;
  uint64_t room;  // pairs of each sender

  PENSTOCK_DEVICE uint32_t mark() const { return static_cast<uint32_t>(number % kMarkPeriod) + 1; }
  PENSTOCK_DEVICE SymmPair* half(int pe) const {
    return at.control(pe).marked[at.block][number % 2];
  }
  PENSTOCK_DEVICE uint64_t bytes_left(uint64_t pair) const {
    return at.work.bytes - (first + pair) * kPairBytes;
  }
  // How many pairs a member sends: of a broadcast all but the root only tell that they have come.
  PENSTOCK_DEVICE uint64_t sent_by(int member) const {
    return at.work.kind != GridKind::broadcast || member == at.work.root ? count : 1;
  }
};

PENSTOCK_DEVICE Exchange begin_exchange(const GridBlock& at) {
  const uint64_t all = divided_up(at.work.bytes, kPairBytes);
  const uint64_t first = at.block * at.work.pairs;
  return {at, load_system(&at.own().exchanges[at.block]), first,
          all - first < at.work.pairs ? all - first : at.work.pairs,
          kSymmMarkedPairs / static_cast<uint32_t>(at.members.size)};
}

// Up to 8 bytes of this PE's memory, of which `left` may be touched.
PENSTOCK_DEVICE uint64_t gathered(const char* from, uint64_t left) {
  if (left >= kPairBytes && reinterpret_cast<uintptr_t>(from) % 8 == 0) {
    return load_weak(reinterpret_cast<const uint64_t*>(from));
  }
  if (left >= kPairBytes && reinterpret_cast<uintptr_t>(from) % 4 == 0) {
    const uint64_t low = load_weak(reinterpret_cast<const uint32_t*>(from));
    return low | uint64_t{load_weak(reinterpret_cast<const uint32_t*>(from) + 1)} << 32;
  }
  uint64_t out = 0;
  PENSTOCK_UNROLL
  for (uint32_t i = 0; i < kPairBytes; ++i) {
    if (i < left) out |= uint64_t{load_weak(reinterpret_cast<const uint8_t*>(from) + i)} << (8 * i);
  }
  return out;
}
PENSTOCK_DEVICE void scatter(char* to, uint64_t value, uint64_t left) {
  if (left >= kPairBytes && reinterpret_cast<uintptr_t>(to) % 8 == 0) {
    store_weak(reinterpret_cast<uint64_t*>(to), value);
    return;
  }
  if (left >= kPairBytes && reinterpret_cast<uintptr_t>(to) % 4 == 0) {
    store_weak(reinterpret_cast<uint32_t*>(to), static_cast<uint32_t>(value));
    store_weak(reinterpret_cast<uint32_t*>(to) + 1, static_cast<uint32_t>(value >> 32));
    return;
  }
  PENSTOCK_UNROLL
  for (uint32_t i = 0; i < kPairBytes; ++i) {
    if (i < left)
      store_weak(reinterpret_cast<uint8_t*>(to) + i, static_cast<uint8_t>(value >> (8 * i)));
  }
}

PENSTOCK_DEVICE SymmPair marked(uint64_t value, uint32_t mark) {
  const uint64_t high = uint64_t{mark} << 32;
  return {{(value & 0xffffffff) | high, value >> 32 | high}};
}
PENSTOCK_DEVICE bool has_mark(const SymmPair& pair, uint32_t mark) {
  return pair.word[0] >> 32 == mark && pair.word[1] >> 32 == mark;
}
PENSTOCK_DEVICE uint64_t unmarked(const SymmPair& pair) {
  return (pair.word[0] & 0xffffffff) | pair.word[1] << 32;
}

// What this PE gives to a member.
PENSTOCK_DEVICE uint64_t given(const Exchange& exchange, int member, uint64_t pair) {
  const GridWork& work = exchange.at.work;
  const bool is_each_his = work.kind == GridKind::alltoall || work.kind == GridKind::reducescatter;
  const uint64_t begin = is_each_his ? work.bytes * static_cast<uint64_t>(member) : 0;
  return gathered(
      static_cast<const char*>(work.source) + begin + (exchange.first + pair) * kPairBytes,
      exchange.bytes_left(pair));
}

PENSTOCK_DEVICE void send_marked(const Exchange& exchange) {
  const Members& members = exchange.at.members;
  const uint64_t mine = exchange.sent_by(members.index);
  const uint64_t begin = static_cast<uint64_t>(members.index) * exchange.room;
  PENSTOCK_NOT_UNROLLED
  for (uint64_t pair = Block::rank(); pair < mine; pair += Block::size()) {
    PENSTOCK_NOT_UNROLLED
    for (int i = 1; i < members.size; ++i) {
      const int member = served(members, i);
      store_system(exchange.half(members.pe(member)) + begin + pair,
                   marked(given(exchange, member, pair), exchange.mark()));
    }
  }
}

// Gives `take(member, value)` a pair of each member, in their order, this PE's own too.
template <class Take>
PENSTOCK_DEVICE bool take_marked(const Exchange& exchange, uint64_t pair, Take&& take) {
  const Members& members = exchange.at.members;
  const SymmPair* const here = exchange.half(members.pe(members.index)) + pair;
  const uint32_t mark = exchange.mark();
  PENSTOCK_NOT_UNROLLED
  for (int begin = 0; begin < members.size; begin += kMarkedAtOnce) {
    SymmPair got[kMarkedAtOnce] = {};
    const bool come = wait(exchange.at.state, [&] {
      bool all = true;
      PENSTOCK_UNROLL
      for (int i = 0; i < kMarkedAtOnce; ++i) {
        const int member = begin + i;
        if (member >= members.size || member == members.index || pair >= exchange.sent_by(member)) {
          continue;
        }
        got[i] = load_system(here + static_cast<uint64_t>(member) * exchange.room);
        all = all && has_mark(got[i], mark);
      }
      return all;
    });
    if (!come) return false;
    PENSTOCK_UNROLL
    for (int i = 0; i < kMarkedAtOnce; ++i) {
      const int member = begin + i;
      if (member >= members.size) continue;
      take(member, member == members.index ? given(exchange, member, pair) : unmarked(got[i]));
    }
  }
  return true;
}

// To all of the block; they have taken what they wanted.
PENSTOCK_DEVICE bool end_exchange(const Exchange& exchange, bool come) {
  const GridBlock& at = exchange.at;
  come = Block::all(come);
  if (exchange.number % kMarkPeriod >= kMarkPeriod - 2) {
    // Nobody writes here before this PE has sent in the next operation.
    SymmPair* const half = exchange.half(at.members.pe(at.members.index));
    for (uint32_t i = Block::rank(); i < kSymmMarkedPairs; i += Block::size()) {
      store_system(half + i, SymmPair{{0, 0}});
    }
    fence_system();
  }
  if (Block::rank() == 0) store_system(&at.own().exchanges[at.block], exchange.number + 1);
  return come;
}

// A broadcast, fcollect or alltoall of few bytes. False: somebody has ended.
PENSTOCK_DEVICE bool marked_bytes(const GridBlock& at) {
  const Exchange exchange = begin_exchange(at);
  send_marked(exchange);
  const bool is_broadcast = at.work.kind == GridKind::broadcast;
  bool come = true;
  PENSTOCK_NOT_UNROLLED
  for (uint64_t pair = Block::rank(); pair < exchange.count && come; pair += Block::size()) {
    char* const to = static_cast<char*>(at.work.dest) + (exchange.first + pair) * kPairBytes;
    come = take_marked(exchange, pair, [&](int member, uint64_t value) {
      if (is_broadcast && member != at.work.root) return;
      const uint64_t slot = is_broadcast ? 0 : at.work.bytes * static_cast<uint64_t>(member);
      scatter(to + slot, value, exchange.bytes_left(pair));
    });
  }
  return end_exchange(exchange, come);
}

}  // namespace penstock::device
