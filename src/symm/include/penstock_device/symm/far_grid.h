// Collective operations on streams where some members are far to each other: by a kernel of one
// block on each PE. What goes to far members is asked for in the ring, by a thread for each of them
// at once; what limits it is the host and the network behind that, not the block.
//
// Small ones: each sends its part to each, behind it the number of the sync, and looks at what has
// come to it. Large ones begin with a sync, as those among near members do, so that nobody writes a
// dest whose PE has not come. Then each byte crosses to an island once, but those of an alltoall
// and the sources of a reducescatter, of which each PE needs its own:
// - broadcast: of each other island every member gets a part, and passes it on.
// - fcollect: each gives its part to its mates and to one of each other island, who passes it on.
// - reduce: each fetches its slice of all sources, combines it, and gives it to all in that way.
// Elements are combined in the order of members everywhere, as near ones are.
#pragma once

#include "penstock_device/symm/far_work.h"
#include "penstock_device/symm/grid.h"
#include "penstock_device/symm/reduce.h"

namespace penstock::device {

struct FarBlock {
  const SymmState& state;
  const GridWork& work;
  const FarPlan& plan;
  Members members;
  bool is_small;
  uint64_t landing_bytes;

  PENSTOCK_DEVICE SymmGridControl& own() const {
    return reinterpret_cast<SymmControl*>(state.heap)->grids[work.team];
  }
  PENSTOCK_DEVICE SymmGridControl& control(int pe) const { return *instance_of(state, &own(), pe); }
  PENSTOCK_DEVICE char* landing() const { return reinterpret_cast<char*>(own().marked); }
  PENSTOCK_DEVICE bool is_near(int member) const {
    return member == members.index || has_member(plan.mates, member);
  }
  PENSTOCK_DEVICE MemberBits others() const {
    return all_members(members.size) & ~bit_of(members.index);
  }
};

PENSTOCK_DEVICE FarBlock far_block(const SymmState& state, const FarWork& all) {
  const GridWork& work = all.work;
  return {state,
          work,
          all.plan,
          {work.start, work.stride, work.size, work.index},
          all.is_small != 0,
          all.landing_bytes};
}

// ---- how PEs wait for each other ----

// What this block has done is told to these members, behind what it has put there, and waits for
// theirs. Words are counts, so that one that is told less often is not left behind. False, to all:
// somebody has ended.
PENSTOCK_DEVICE_CALL bool far_sync(const FarBlock& at, MemberBits with) {
  Block::meet();
  const uint64_t number = load_system(&at.own().steps[0]) + 1;
  const auto first = static_cast<int>(Block::rank());
  const auto step = static_cast<int>(Block::size());
  // By each that tells, as in sync().
  if (first < at.members.size) fence_system();
  PENSTOCK_NOT_UNROLLED
  for (int i = first; i < at.members.size; i += step) {
    if (!has_member(with, i)) continue;
    const int pe = at.members.pe(i);
    if (at.is_near(i)) {
      store_system(&at.control(pe).arrived[0][at.members.index], number);
    } else {
      tell_far(at.state, &at.own().arrived[0][at.members.index], FarChange::set, number, pe);
    }
  }
  bool come = true;
  PENSTOCK_NOT_UNROLLED
  for (int i = first; i < at.members.size && come; i += step) {
    if (!has_member(with, i)) continue;
    const uint64_t* const word = &at.own().arrived[0][i];
    come = wait(at.state, [&] { return load_acquire(word) >= number; });
  }
  come = Block::all(come);
  if (Block::rank() == 0) store_system(&at.own().steps[0], number);
  return come;
}

// ---- what goes to other members ----

// The same for each of several members, or, by steps, one behind the other in source or dest.
struct FarSend {
  MemberBits to;
  void* dest;  // symmetric
  const void* source;
  uint64_t bytes;
  uint64_t source_step;
};

PENSTOCK_DEVICE const void* source_for(const FarSend& send, int member) {
  return byte_offset(send.source, send.source_step * static_cast<uint64_t>(member));
}

// To near ones by the block, to far ones by a thread for each. All sources may change after it.
// False, to all: somebody has ended.
PENSTOCK_DEVICE_CALL bool far_send(const FarBlock& at, const FarSend& send) {
  Block::meet();  // the source is written
  PENSTOCK_NOT_UNROLLED
  for (int i = 0; i < at.members.size && send.bytes != 0; ++i) {
    const int member = served(at.members, i);
    if (!has_member(send.to, member) || !at.is_near(member)) continue;
    void* const there = instance_of(at.state, send.dest, at.members.pe(member));
    if (there != source_for(send, member))
      grid_move(there, source_for(send, member), send.bytes, {0, 1});
  }
  bool sent = true;
  PENSTOCK_NOT_UNROLLED
  for (auto i = static_cast<int>(Block::rank()); i < at.members.size && sent && send.bytes != 0;
       i += static_cast<int>(Block::size())) {
    if (!has_member(send.to, i) || at.is_near(i)) continue;
    sent = try_put_far(at.state, send.dest, source_for(send, i), send.bytes, at.members.pe(i));
  }
  return Block::all(sent);
}

// What this PE has for all, which they get at the same place: its mates, and one of each island,
// who passes it on. False: somebody has ended.
PENSTOCK_DEVICE bool far_give(const FarBlock& at, void* dest, const void* source, uint64_t bytes) {
  const MemberBits to = at.plan.mates | at.plan.give_to | bit_of(at.members.index);
  return far_send(at, {to, dest, source, bytes, 0});
}

// After all have given: `part` tells what of dest a member has given.
template <class Part>
PENSTOCK_DEVICE bool far_pass_on(const FarBlock& at, Part&& part) {
  if (at.plan.passes == 0) return true;
  PENSTOCK_NOT_UNROLLED
  for (int i = 0; i < at.members.size; ++i) {
    if (!has_member(at.plan.gifts, i)) continue;
    const Slice slice = part(i);
    void* const place = byte_offset(at.work.dest, slice.begin);
    far_send(at, {at.plan.mates, place, place, slice.bytes, 0});
  }
  return far_sync(at, at.plan.mates);
}

// ---- bytes ----

// One behind the other, each with so much room.
struct Landed {
  char* first;
  uint64_t room;
};

// Sends to each what is for it, and gets from each what is for this PE: in the half of the landing
// place whose turn it is. Who uses it again has seen that all have come to the operation between,
// and so are through with this one. False, to all: somebody has ended.
PENSTOCK_DEVICE_CALL bool far_exchange(const FarBlock& at, Landed& landed) {
  const bool is_broadcast = at.work.kind == GridKind::broadcast;
  const bool has_parts =
      at.work.kind == GridKind::alltoall || at.work.kind == GridKind::reducescatter;
  const uint64_t use = load_system(&at.own().exchanges[0]);
  landed.room = far_room(at.landing_bytes / 2, at.members.size);
  landed.first = at.landing() + use % 2 * (at.landing_bytes / 2);
  char* const place = landed.first + landed.room * static_cast<uint64_t>(at.members.index);
  if (!is_broadcast || at.members.index == at.work.root) {
    const MemberBits to = at.others() | bit_of(at.members.index);
    if (!far_send(at, {to, place, at.work.source, at.work.bytes, has_parts ? at.work.bytes : 0}))
      return false;
  }
  if (!far_sync(at, at.others())) return false;  // after which all have read `use`
  if (Block::rank() == 0) store_system(&at.own().exchanges[0], use + 1);
  return true;
}

PENSTOCK_DEVICE bool small_far_bytes(const FarBlock& at) {
  Landed landed = {};
  if (!far_exchange(at, landed)) return false;
  if (at.work.kind == GridKind::broadcast) {
    grid_move(at.work.dest, landed.first + landed.room * static_cast<uint64_t>(at.work.root),
              at.work.bytes, {0, 1});
    return true;
  }
  PENSTOCK_NOT_UNROLLED
  for (int i = 0; i < at.members.size; ++i) {
    const auto member = static_cast<uint64_t>(i);
    grid_move(byte_offset(at.work.dest, at.work.bytes * member),
              landed.first + landed.room * member, at.work.bytes, {0, 1});
  }
  return true;
}

// What the root puts to a far member: its part among those of its island.
PENSTOCK_DEVICE Slice far_broadcast_part(const FarBlock& at, int member) {
  return slice_of(at.work.bytes, at.plan.mates_of[member], at.plan.place[member]);
}

PENSTOCK_DEVICE_CALL bool far_broadcast_root(const FarBlock& at) {
  const MemberBits near = at.plan.mates | bit_of(at.members.index);
  if (!far_send(at, {near, at.work.dest, at.work.source, at.work.bytes, 0})) return false;
  bool sent = true;
  PENSTOCK_NOT_UNROLLED
  for (auto i = static_cast<int>(Block::rank()); i < at.members.size && sent;
       i += static_cast<int>(Block::size())) {
    if (at.is_near(i)) continue;
    const Slice part = far_broadcast_part(at, i);
    if (part.bytes == 0) continue;
    sent = try_put_far(at.state, byte_offset(at.work.dest, part.begin),
                       byte_offset(at.work.source, part.begin), part.bytes, at.members.pe(i));
  }
  return Block::all(sent);
}

PENSTOCK_DEVICE bool far_broadcast(const FarBlock& at) {
  if (!far_sync(at, at.others())) return false;
  if (at.members.index == at.work.root && !far_broadcast_root(at)) return false;
  if (!far_sync(at, at.others())) return false;
  if (at.plan.passes == 0) return true;
  if (!at.is_near(at.work.root)) {
    const Slice part = far_broadcast_part(at, at.members.index);
    void* const place = byte_offset(at.work.dest, part.begin);
    far_send(at, {at.plan.mates, place, place, part.bytes, 0});
  }
  return far_sync(at, at.plan.mates);
}

PENSTOCK_DEVICE bool far_fcollect(const FarBlock& at) {
  const uint64_t bytes = at.work.bytes;
  void* const place = byte_offset(at.work.dest, bytes * static_cast<uint64_t>(at.members.index));
  if (!far_sync(at, at.others()) || !far_give(at, place, at.work.source, bytes) ||
      !far_sync(at, at.others())) {
    return false;
  }
  return far_pass_on(at, [&](int member) {
    return Slice{bytes * static_cast<uint64_t>(member), bytes};
  });
}

PENSTOCK_DEVICE bool far_alltoall(const FarBlock& at) {
  const uint64_t bytes = at.work.bytes;
  void* const place = byte_offset(at.work.dest, bytes * static_cast<uint64_t>(at.members.index));
  const MemberBits to = at.others() | bit_of(at.members.index);
  return far_sync(at, at.others()) && far_send(at, {to, place, at.work.source, bytes, bytes}) &&
         far_sync(at, at.others());
}

// A broadcast, fcollect or alltoall. False, to all of the block: somebody has ended.
PENSTOCK_DEVICE bool far_bytes(const FarBlock& at) {
  if (at.is_small) return small_far_bytes(at);
  if (at.work.kind == GridKind::broadcast) return far_broadcast(at);
  return at.work.kind == GridKind::fcollect ? far_fcollect(at) : far_alltoall(at);
}

// ---- reductions ----

// Bytes of each member, and where what comes out of them goes, in this PE's memory.
struct FarPieces {
  Landed from;
  int members;
  void* dest;
  uint64_t bytes;
};

template <class Op, class T>
PENSTOCK_DEVICE_CALL void combine_landed(const FarPieces& pieces) {
  const Instances<const T> source = {reinterpret_cast<const T*>(pieces.from.first),
                                     pieces.from.room};
  T* const dest = static_cast<T*>(pieces.dest);
  uint64_t in_units = 0;
  if (is_unit_aligned(dest)) {
    const uint64_t units = pieces.bytes / sizeof(SymmUnit);
    PENSTOCK_NOT_UNROLLED
    for (uint64_t i = Block::rank(); i < units; i += Block::size()) {
      store_weak(reinterpret_cast<SymmUnit*>(dest) + i,
                 pull_one<Op, T>(as_packs<const SymmUnit>(source), i, pieces.members));
    }
    in_units = units * (sizeof(SymmUnit) / sizeof(T));
  }
  PENSTOCK_NOT_UNROLLED
  for (uint64_t i = in_units + Block::rank(); i < pieces.bytes / sizeof(T); i += Block::size()) {
    store_weak(reinterpret_cast<Word<T>*>(dest) + i,
               pull_one<Op, T>(as_packs<const Word<T>>(source), i, pieces.members));
  }
}

// A piece of each member's source into this PE's memory. False, to all: somebody has ended.
PENSTOCK_DEVICE_CALL bool far_fetch(const FarBlock& at, const Landed& to, const void* source,
                                    uint64_t bytes) {
  Block::meet();  // nobody looks at the pieces before any more
  PENSTOCK_NOT_UNROLLED
  for (int i = 0; i < at.members.size; ++i) {
    if (!at.is_near(i)) continue;
    grid_move(to.first + to.room * static_cast<uint64_t>(i),
              instance_of(at.state, source, at.members.pe(i)), bytes, {0, 1});
  }
  bool came = true;
  PENSTOCK_NOT_UNROLLED
  for (auto i = static_cast<int>(Block::rank()); i < at.members.size && came;
       i += static_cast<int>(Block::size())) {
    if (at.is_near(i)) continue;
    came = try_get_far(at.state, to.first + to.room * static_cast<uint64_t>(i), source, bytes,
                       at.members.pe(i));
  }
  return Block::all(came);
}

// Of all sources into this PE's dest, as much at once as there is room for.
template <class Combine>
PENSTOCK_DEVICE bool far_combine(const FarBlock& at, void* dest, const void* source, uint64_t bytes,
                                 Combine&& combine) {
  const Landed to = {at.landing(), far_room(at.landing_bytes, at.members.size)};
  PENSTOCK_NOT_UNROLLED
  for (uint64_t begin = 0; begin < bytes; begin += to.room) {
    const uint64_t count = bytes - begin < to.room ? bytes - begin : to.room;
    if (!far_fetch(at, to, byte_offset(source, begin), count)) return false;
    combine(FarPieces{to, at.members.size, byte_offset(dest, begin), count});
  }
  return true;
}

// A reduce or reducescatter; `combine` does what combine_landed() does. Element by element one PE
// reads all sources and then writes, so that source and dest may be the same. False, to all of the
// block: somebody has ended.
template <class Combine>
PENSTOCK_DEVICE bool far_reduce(const FarBlock& at, Combine&& combine) {
  if (at.is_small) {
    Landed landed = {};
    if (!far_exchange(at, landed)) return false;
    combine(FarPieces{landed, at.members.size, at.work.dest, at.work.bytes});
    return true;
  }
  const int me = at.members.index;
  const bool is_reduce = at.work.kind == GridKind::reduce;
  const Slice own = is_reduce ? slice_of(at.work.bytes, at.members.size, me)
                              : Slice{at.work.bytes * static_cast<uint64_t>(me), at.work.bytes};
  void* const dest = is_reduce ? byte_offset(at.work.dest, own.begin) : at.work.dest;
  if (!far_sync(at, at.others()) ||
      !far_combine(at, dest, byte_offset(at.work.source, own.begin), own.bytes, combine)) {
    return false;
  }
  if (!is_reduce) return far_sync(at, at.others());
  if (!far_give(at, dest, dest, own.bytes) || !far_sync(at, at.others())) return false;
  return far_pass_on(at,
                     [&](int member) { return slice_of(at.work.bytes, at.members.size, member); });
}

}  // namespace penstock::device
