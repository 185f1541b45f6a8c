// Reductions on streams, by one kernel of several blocks on each PE (grid.h), or by marked words
// (marked.h). Combined in the order of members everywhere, so that all PEs have the same bits.
//
// Large ones: each PE reads its slice of all sources and writes what comes out to all dests, or, of
// a reducescatter, to its own. Element by element one PE reads and writes, so that source and dest
// may be the same.
#pragma once

#include "penstock_device/symm/grid.h"
#include "penstock_device/symm/marked.h"
#include "penstock_device/symm/reduce.h"

namespace penstock::device {

// Units of one thread that are under way at once from each of two members: more of narrow elements
// would need more registers than a thread has.
template <class T>
constexpr PENSTOCK_DEVICE int grid_rows() {
  return sizeof(T) == 1 ? 2 : 4;
}

// Units [0, count) of all members' source into so many members' dest. The next member's are under
// way while one's are combined.
template <class Op, class T>
PENSTOCK_DEVICE void combine_rows(const Instances<const SymmUnit>& source,
                                  const Targets<SymmUnit>& targets, int members, uint64_t count) {
  constexpr int kRows = grid_rows<T>();
  const uint64_t size = Block::size();
  PENSTOCK_NOT_UNROLLED
  for (uint64_t begin = Block::rank(); begin < count; begin += size * kRows) {
    Combining<Op, T, SymmUnit> combining[kRows] = {};
    SymmUnit next[kRows] = {};
    PENSTOCK_UNROLL
    for (int k = 0; k < kRows; ++k) {
      if (begin + k * size < count) next[k] = load_system(source.of(0) + begin + k * size);
    }
    PENSTOCK_NOT_UNROLLED
    for (int member = 0; member < members; ++member) {
      SymmUnit now[kRows];
      PENSTOCK_UNROLL
      for (int k = 0; k < kRows; ++k) now[k] = next[k];
      if (member + 1 < members) {
        const SymmUnit* const from = source.of(member + 1) + begin;
        PENSTOCK_UNROLL
        for (int k = 0; k < kRows; ++k) {
          if (begin + k * size < count) next[k] = load_system(from + k * size);
        }
      }
      PENSTOCK_UNROLL
      for (int k = 0; k < kRows; ++k) {
        if (member == 0) {
          combining[k].begin(now[k]);
        } else {
          combining[k].add(now[k]);
        }
      }
    }
    PENSTOCK_UNROLL
    for (int k = 0; k < kRows; ++k) {
      if (begin + k * size < count) store_all(targets, begin + k * size, combining[k].end());
    }
  }
}

// Elements [0, count) of all members: in units where source and dest are aligned alike, the few
// before and behind them one by one.
template <class Op, class T>
PENSTOCK_DEVICE void combine_range(const Instances<const T>& source, const Instances<T>& dest,
                                   int dests, int members, uint64_t count) {
  const auto begin = reinterpret_cast<uintptr_t>(source.first);
  const uintptr_t apart = begin ^ reinterpret_cast<uintptr_t>(dest.first);
  uint64_t head = count;
  uint64_t units = 0;
  if (apart % sizeof(SymmUnit) == 0) {
    head = (0 - begin) % sizeof(SymmUnit) / sizeof(T);
    if (head > count) head = count;
    units = (count - head) * sizeof(T) / sizeof(SymmUnit);
  }
  if (units != 0) {
    const Instances<const T> from = {source.first + head, source.step};
    const Instances<T> to = {dest.first + head, dest.step};
    combine_rows<Op, T>(as_packs<const SymmUnit>(from), {as_packs<SymmUnit>(to), dests}, members,
                        units);
  }
  const uint64_t in_units = units * (sizeof(SymmUnit) / sizeof(T));
  const Targets<Word<T>> targets = {as_packs<Word<T>>(dest), dests};
  PENSTOCK_NOT_UNROLLED
  for (uint64_t i = Block::rank(); i < count - in_units; i += Block::size()) {
    const uint64_t index = i < head ? i : i + in_units;
    store_all(targets, index, pull_one<Op, T>(as_packs<const Word<T>>(source), index, members));
  }
}

// This block's part of a slice.
PENSTOCK_DEVICE Slice grid_part(const GridBlock& at, Slice slice) {
  const Slice part =
      slice_of(slice.bytes, static_cast<int>(at.work.blocks), static_cast<int>(at.block));
  return {slice.begin + part.begin, part.bytes};
}

// The slice of this member, from all to all.
template <class Op, class T>
PENSTOCK_DEVICE void grid_reduce_part(const GridBlock& at) {
  const Slice part = grid_part(at, slice_of(at.work.bytes, at.members.size, at.members.index));
  if (part.bytes == 0) return;
  const auto* const source = static_cast<const T*>(byte_offset(at.work.source, part.begin));
  auto* const dest = static_cast<T*>(byte_offset(at.work.dest, part.begin));
  combine_range<Op, T>(instances_of(at.state, at.members, source, part.bytes),
                       instances_of(at.state, at.members, dest, part.bytes), at.members.size,
                       at.members.size, part.bytes / sizeof(T));
}

// This member's share of all, to its own dest.
template <class Op, class T>
PENSTOCK_DEVICE void grid_reducescatter_part(const GridBlock& at) {
  const Slice part = grid_part(at, {0, at.work.bytes});
  if (part.bytes == 0) return;
  const uint64_t share = at.work.bytes * static_cast<uint64_t>(at.members.index);
  const auto* const source = static_cast<const T*>(byte_offset(at.work.source, share + part.begin));
  auto* const dest = static_cast<T*>(byte_offset(at.work.dest, part.begin));
  combine_range<Op, T>(instances_of(at.state, at.members, source, part.bytes), {dest, 0}, 1,
                       at.members.size, part.bytes / sizeof(T));
}

template <class Op, class T>
PENSTOCK_DEVICE bool marked_reduce(const GridBlock& at) {
  const Exchange exchange = begin_exchange(at);
  send_marked(exchange);
  bool come = true;
  PENSTOCK_NOT_UNROLLED
  for (uint64_t pair = Block::rank(); pair < exchange.count && come; pair += Block::size()) {
    Combining<Op, T, uint64_t> combining = {};
    come = take_marked(exchange, pair, [&](int member, uint64_t value) {
      if (member == 0) {
        combining.begin(value);
      } else {
        combining.add(value);
      }
    });
    if (come) {
      scatter(static_cast<char*>(at.work.dest) + (exchange.first + pair) * kPairBytes,
              combining.end(), exchange.bytes_left(pair));
    }
  }
  return end_exchange(exchange, come);
}

// A reduce or reducescatter, by one block of it. False: somebody has ended.
template <class Op, class T>
PENSTOCK_DEVICE bool grid_reduce(const GridBlock& at) {
  if (at.work.pairs != 0) return marked_reduce<Op, T>(at);
  uint64_t before = 0;
  if (!begin_steps(at, before)) return false;
  if (at.work.kind == GridKind::reduce) {
    grid_reduce_part<Op, T>(at);
  } else {
    grid_reducescatter_part<Op, T>(at);
  }
  tell_done(at, 1);
  const bool come = wait_for_steps(at, before + 2, kAllMembers);
  end_steps(at, before + 2);
  return come;
}

}  // namespace penstock::device
