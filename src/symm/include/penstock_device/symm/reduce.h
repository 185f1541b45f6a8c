// Reductions over a team: element by element, in the order of members, so that all get the same
// bits.
//
// They pull: what is combined has to be where it is combined, and there is no memory to push it to.
// Up to 64 bytes go through scratch words: a sync and a way there and back. What fits a register
// of each thread is read whole by everybody: two syncs and a way there and back. More is shared
// out: each member reads its slice of all, and writes what comes out to all; so (n - 1) / n of the
// bytes cross each link once in either direction as reads and once as writes, which is the least
// that there is. source and dest may be the same.
#pragma once

#include "penstock_device/symm/collectives.h"

namespace penstock::device {

struct Sum {
  template <class T>
  static PENSTOCK_DEVICE T combine(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Prod {
  template <class T>
  static PENSTOCK_DEVICE T combine(T a, T b) {
    return static_cast<T>(a * b);
  }
};
struct Min {
  template <class T>
  static PENSTOCK_DEVICE T combine(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static PENSTOCK_DEVICE T combine(T a, T b) {
    return a < b ? b : a;
  }
};
// Of what has a value x and what belongs to it: the first one with the greatest value.
struct MaxLoc {
  template <class T>
  static PENSTOCK_DEVICE T combine(T a, T b) {
    return a.x < b.x ? b : a;
  }
};
struct And {
  template <class T>
  static PENSTOCK_DEVICE T combine(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static PENSTOCK_DEVICE T combine(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static PENSTOCK_DEVICE T combine(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

// What a type is combined in: narrow floating-point types in a wider one, rounded once.
template <class T>
struct Combined {
  using type = T;
  static PENSTOCK_DEVICE type widen(T value) { return value; }
  static PENSTOCK_DEVICE T narrow(type value) { return value; }
};

// The elements of one word or unit, one after the other of several members.
template <class Op, class T, class Pack>
struct Combining {
  static constexpr int kCount = sizeof(Pack) / sizeof(T);
  using Wide = typename Combined<T>::type;
  Wide value[kCount];

  static PENSTOCK_DEVICE T element(const Pack& pack, int index) {
    T out;
    memcpy(&out, reinterpret_cast<const char*>(&pack) + index * sizeof(T), sizeof out);
    return out;
  }
  PENSTOCK_DEVICE void begin(const Pack& pack) {
    PENSTOCK_UNROLL
    for (int i = 0; i < kCount; ++i) value[i] = Combined<T>::widen(element(pack, i));
  }
  PENSTOCK_DEVICE void add(const Pack& pack) {
    PENSTOCK_UNROLL
    for (int i = 0; i < kCount; ++i) {
      value[i] = Op::template combine<Wide>(value[i], Combined<T>::widen(element(pack, i)));
    }
  }
  PENSTOCK_DEVICE Pack end() const {
    Pack out;
    PENSTOCK_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const T one = Combined<T>::narrow(value[i]);
      memcpy(reinterpret_cast<char*>(&out) + i * sizeof(T), &one, sizeof one);
    }
    return out;
  }
};

// An address of the first member's, and how far those of the next ones are.
template <class T>
struct Instances {
  T* first;
  uint64_t step;

  PENSTOCK_DEVICE T* of(int member) const {
    return byte_offset(first, static_cast<uint64_t>(member) * step);
  }
};

template <class T>
PENSTOCK_DEVICE Instances<T> instances_of(const SymmState& state, const Members& members,
                                          T* symmetric, uint64_t bytes) {
  at(state, symmetric, bytes, members.pe(members.size - 1));
  return {at(state, symmetric, bytes, members.start),
          static_cast<uint64_t>(static_cast<int64_t>(members.stride)) * state.stride};
}

constexpr int kMembersAtOnce =
    4;  // loads in flight of a thread: more would need more than 64 registers

// One word or unit of all members.
template <class Op, class T, class Pack>
PENSTOCK_DEVICE Pack pull_one(const Instances<const Pack>& source, uint64_t index, int members) {
  Combining<Op, T, Pack> combining = {};
  PENSTOCK_NOT_UNROLLED
  for (int begin = 0; begin < members; begin += kMembersAtOnce) {
    Pack pack[kMembersAtOnce] = {};
    PENSTOCK_UNROLL
    for (int i = 0; i < kMembersAtOnce; ++i) {
      if (begin + i < members) pack[i] = load_system(source.of(begin + i) + index);
    }
    PENSTOCK_UNROLL
    for (int i = 0; i < kMembersAtOnce; ++i) {
      if (begin + i == 0) {
        combining.begin(pack[i]);
      } else if (begin + i < members) {
        combining.add(pack[i]);
      }
    }
  }
  return combining.end();
}

// Where results go: to so many members' instances.
template <class Pack>
struct Targets {
  Instances<Pack> dest;
  int count;
};

template <class Pack>
PENSTOCK_DEVICE void store_all(const Targets<Pack>& targets, uint64_t index, const Pack& pack) {
  PENSTOCK_NOT_UNROLLED
  for (int i = 0; i < targets.count; ++i) store_weak(targets.dest.of(i) + index, pack);
}

// Of few members several words or units are in flight at once.
template <class Op, class T, int kMembers, class Pack>
PENSTOCK_DEVICE void combine_few(const Instances<const Pack>& source, const Targets<Pack>& targets,
                                 uint64_t count, uint64_t rank, uint64_t size) {
  constexpr int kAtOnce = kMembersAtOnce / kMembers;
  PENSTOCK_NOT_UNROLLED
  for (uint64_t index = rank; index < count; index += size * kAtOnce) {
    Pack pack[kAtOnce][kMembers] = {};
    PENSTOCK_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      PENSTOCK_UNROLL
      for (int i = 0; i < kMembers; ++i) {
        const uint64_t at = index + k * size;
        if (at < count) pack[k][i] = load_system(source.of(i) + at);
      }
    }
    PENSTOCK_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      const uint64_t at = index + k * size;
      if (at >= count) continue;
      Combining<Op, T, Pack> combining;
      combining.begin(pack[k][0]);
      PENSTOCK_UNROLL
      for (int i = 1; i < kMembers; ++i) combining.add(pack[k][i]);
      store_all(targets, at, combining.end());
    }
  }
}

template <class Op, class T, class Pack>
PENSTOCK_DEVICE void combine_packs(const Instances<const Pack>& source,
                                   const Targets<Pack>& targets, int members, uint64_t count,
                                   uint64_t rank, uint64_t size) {
  if (members == 2) {
    combine_few<Op, T, 2>(source, targets, count, rank, size);
  } else if (members == 4) {
    combine_few<Op, T, 4>(source, targets, count, rank, size);
  } else {
    PENSTOCK_NOT_UNROLLED
    for (uint64_t index = rank; index < count; index += size) {
      store_all(targets, index, pull_one<Op, T>(source, index, members));
    }
  }
}

template <class Pack, class T>
PENSTOCK_DEVICE Instances<Pack> as_packs(const Instances<T>& from) {
  return {reinterpret_cast<Pack*>(from.first), from.step};
}

template <class T>
PENSTOCK_DEVICE bool is_unit_aligned(const T* address) {
  return reinterpret_cast<uintptr_t>(address) % sizeof(SymmUnit) == 0;
}

// Elements [0, count) of all members' source into so many members' dest: in units where both sides
// are aligned, in elements else. Instances of one address are aligned alike.
template <Scope kScope, class Op, class T>
PENSTOCK_DEVICE void combine_part(const Instances<const T>& source, const Instances<T>& dest,
                                  int dests, int members, uint64_t count, PartOf whole) {
  const uint64_t rank = uint64_t{whole.part} * Company<kScope>::size() + Company<kScope>::rank();
  const uint64_t size = uint64_t{whole.parts} * Company<kScope>::size();
  uint64_t in_units = 0;
  if (is_unit_aligned(source.first) && is_unit_aligned(dest.first)) {
    const uint64_t units = count * sizeof(T) / sizeof(SymmUnit);
    combine_packs<Op, T, SymmUnit>(as_packs<const SymmUnit>(source),
                                   {as_packs<SymmUnit>(dest), dests}, members, units, rank, size);
    in_units = units * sizeof(SymmUnit) / sizeof(T);
  }
  if (in_units == count) return;
  const Instances<const T> source_rest = {source.first + in_units, source.step};
  const Instances<T> dest_rest = {dest.first + in_units, dest.step};
  combine_packs<Op, T, Word<T>>(as_packs<const Word<T>>(source_rest),
                                {as_packs<Word<T>>(dest_rest), dests}, members, count - in_units,
                                rank, size);
}

// ---- the parts that several companies of a PE may share, between two syncs ----

// This member's slice of all, to all.
template <Scope kScope, class Op, class T>
PENSTOCK_DEVICE void reduce_part(const SymmState& state, const Members& members, T* dest,
                                 const T* source, uint64_t count, PartOf whole) {
  const Slice slice = slice_of(count * sizeof(T), members.size, members.index);
  if (slice.bytes == 0) return;
  combine_part<kScope, Op, T>(
      instances_of(state, members, byte_offset(source, slice.begin), slice.bytes),
      instances_of(state, members, byte_offset(dest, slice.begin), slice.bytes), members.size,
      members.size, slice.bytes / sizeof(T), whole);
}

// This member's `count` elements of all, to its own dest.
template <Scope kScope, class Op, class T>
PENSTOCK_DEVICE void reducescatter_part(const SymmState& state, const Members& members, T* dest,
                                        const T* source, uint64_t count, PartOf whole) {
  if (count == 0) return;
  const T* const share = source + count * static_cast<uint64_t>(members.index);
  combine_part<kScope, Op, T>(instances_of(state, members, share, count * sizeof(T)), {dest, 0}, 1,
                              members.size, count, whole);
}

// ---- the whole, by one company ----

constexpr uint64_t kScratchBytes = kSymmScratchWords / 2 * sizeof(uint64_t);

// Through scratch words, of which the halves take turns: who is in the next but one has passed the
// sync of the next, to which all came after they had read this one's.
template <Scope kScope, class Op, class T>
PENSTOCK_DEVICE bool reduce_small(const SymmState& state, int team, const Members& members, T* dest,
                                  const T* source, uint64_t count) {
  const uint32_t rank = Company<kScope>::rank();
  const uint32_t size = Company<kScope>::size();
  uint64_t* const uses = &state.teams[team].small_reduces;
  const uint64_t use = load_system(uses);
  uint64_t* const own = control_of(state, team).scratch + use % 2 * (kSymmScratchWords / 2);
  for (uint64_t i = rank; i < count; i += size) {
    store_weak(reinterpret_cast<Word<T>*>(own) + i,
               load_weak(reinterpret_cast<const Word<T>*>(source) + i));
  }
  if (!sync<kScope>(state, team)) return false;  // after which all have read `uses`
  if (rank == 0) store_system(uses, use + 1);
  const Instances<const Word<T>> all = as_packs<const Word<T>>(
      instances_of(state, members, static_cast<const uint64_t*>(own), kScratchBytes));
  for (uint64_t i = rank; i < count; i += size) {
    store_weak(reinterpret_cast<Word<T>*>(dest) + i, pull_one<Op, T>(all, i, members.size));
  }
  Company<kScope>::meet();
  return true;
}

// A word or unit of each thread: read by all before anybody writes.
template <Scope kScope, class Op, class T, class Pack>
PENSTOCK_DEVICE bool reduce_held(const SymmState& state, int team, const Members& members, T* dest,
                                 const T* source, uint64_t packs) {
  if (!sync<kScope>(state, team)) return false;
  const uint32_t rank = Company<kScope>::rank();
  Pack result = {};
  if (rank < packs) {
    const Instances<const Pack> all =
        as_packs<const Pack>(instances_of(state, members, source, packs * sizeof(Pack)));
    result = pull_one<Op, T>(all, rank, members.size);
  }
  if (!sync<kScope>(state, team)) return false;
  if (rank < packs) store_weak(reinterpret_cast<Pack*>(dest) + rank, result);
  Company<kScope>::meet();
  return true;
}

// ---- with members that are not near: each fetches a piece of all sources and combines it ----

// Also where all members are near to this one, but two others are not: all go the same way.
PENSTOCK_DEVICE bool has_far(const SymmState& state, int team) {
  return state.far != nullptr && (state.far->far_teams[team / 64] >> (team % 64) & 1) != 0;
}

// One such reduction, in the stack's memory as a FarCall is (far.h). Of each thread.
struct FarReduction {
  Members members;
  int team;
  int member;  // the next one of whom a piece is fetched
  void* dest;
  const void* source;    // as dest, of the next piece
  uint64_t left;         // elements that are not combined yet
  uint64_t count;        // in this piece
  char* pieces;          // of all members, in this GPU's memory
  uint64_t piece_bytes;  // room of each
};

PENSTOCK_DEVICE FarReduction far_reduction(const SymmState& state, int team, const Members& members,
                                           void* dest, const void* source, uint64_t count) {
  const SymmFar& far = *state.far;
  const uint64_t each = far.scratch_bytes / static_cast<uint64_t>(members.size);
  FarReduction out = {};
  out.members = members;
  out.team = team;
  out.dest = dest;
  out.source = source;
  out.left = count;
  out.pieces = far.scratch + static_cast<uint64_t>(team) * far.scratch_bytes;
  out.piece_bytes = each / sizeof(SymmUnit) * sizeof(SymmUnit);
  return out;
}

template <Scope kScope>
PENSTOCK_DEVICE_CALL bool sync_by_call(const SymmState& state, int team) {
  return sync<kScope>(state, team);
}
template <Scope kScope>
PENSTOCK_DEVICE_CALL void copy_by_call(void* to, const void* from, uint64_t bytes) {
  copy<Source::far, kScope>(to, from, bytes);
}

template <Scope kScope>
PENSTOCK_DEVICE bool fetch_piece(const SymmState& state, const FarReduction& reduction,
                                 uint64_t bytes) {
  char* const piece =
      reduction.pieces + static_cast<uint64_t>(reduction.member) * reduction.piece_bytes;
  const int pe = reduction.members.pe(reduction.member);
  if (is_reached(state, reduction.source, bytes, pe)) {
    copy_by_call<kScope>(piece, instance_of(state, reduction.source, pe), bytes);
  } else if (Company<kScope>::rank() == 0) {
    return try_get_far(state, piece, reduction.source, bytes, pe);
  }
  return true;
}

// False: somebody has ended. Told to all, who see all of it then.
template <Scope kScope>
PENSTOCK_DEVICE_CALL bool fetch_pieces(const SymmState& state, FarReduction& reduction,
                                       uint64_t element_bytes) {
  const uint64_t room = reduction.piece_bytes / element_bytes;
  reduction.count = reduction.left < room ? reduction.left : room;
  bool came = true;
  PENSTOCK_NOT_UNROLLED
  for (reduction.member = 0; reduction.member < reduction.members.size; ++reduction.member) {
    came = fetch_piece<kScope>(state, reduction, reduction.count * element_bytes) && came;
  }
  return Company<kScope>::all(came);
}

template <Scope kScope, class Op, class T>
PENSTOCK_DEVICE_CALL void combine_pieces(FarReduction& reduction) {
  const Instances<const Word<T>> all = {reinterpret_cast<const Word<T>*>(reduction.pieces),
                                        reduction.piece_bytes};
  Word<T>* const dest = static_cast<Word<T>*>(reduction.dest);
  PENSTOCK_NOT_UNROLLED
  for (uint64_t i = Company<kScope>::rank(); i < reduction.count; i += Company<kScope>::size())
    store_weak(dest + i, pull_one<Op, T>(all, i, reduction.members.size));
  reduction.dest = dest + reduction.count;
  reduction.source = static_cast<const Word<T>*>(reduction.source) + reduction.count;
  reduction.left -= reduction.count;
  Company<kScope>::meet();
}

// `may_be_source`: dest may be the source, which others read.
template <Scope kScope, class Op, class T>
PENSTOCK_DEVICE bool reduce_far(const SymmState& state, FarReduction& reduction,
                                bool may_be_source) {
  if (!sync_by_call<kScope>(state, reduction.team)) return false;  // all sources are ready
  PENSTOCK_NOT_UNROLLED
  while (reduction.left != 0) {
    if (!fetch_pieces<kScope>(state, reduction, sizeof(T))) return false;
    if (may_be_source && !sync_by_call<kScope>(state, reduction.team)) return false;
    combine_pieces<kScope, Op, T>(reduction);
  }
  // All have read.
  return may_be_source || sync_by_call<kScope>(state, reduction.team);
}

template <Scope kScope, class Op, class T>
PENSTOCK_DEVICE_CALL bool reduce_with_far(const SymmState& state, int team, T* dest,
                                          const T* source, uint64_t count) {
  FarReduction whole = far_reduction(state, team, members_of(state, team), dest, source, count);
  return reduce_far<kScope, Op, T>(state, whole, true);
}

template <Scope kScope, class Op, class T>
PENSTOCK_DEVICE_CALL bool reducescatter_with_far(const SymmState& state, int team, T* dest,
                                                 const T* source, uint64_t count) {
  const Members members = members_of(state, team);
  FarReduction share = far_reduction(state, team, members, dest,
                                     source + count * static_cast<uint64_t>(members.index), count);
  return reduce_far<kScope, Op, T>(state, share, false);
}

template <Scope kScope, class Op, class T>
PENSTOCK_DEVICE bool reduce(const SymmState& state, int team, T* dest, const T* source,
                            uint64_t count) {
  const Members members = members_of(state, team);
  if (!can_sync(members)) return false;
  Company<kScope>::meet();  // source is written
  if (has_far(state, team)) return reduce_with_far<kScope, Op, T>(state, team, dest, source, count);
  const uint64_t bytes = count * sizeof(T);
  if (bytes <= kScratchBytes) {
    return reduce_small<kScope, Op>(state, team, members, dest, source, count);
  }
  const uint32_t size = Company<kScope>::size();
  if (bytes % sizeof(SymmUnit) == 0 && bytes / sizeof(SymmUnit) <= size &&
      is_unit_aligned(source) && is_unit_aligned(dest)) {
    return reduce_held<kScope, Op, T, SymmUnit>(state, team, members, dest, source,
                                                bytes / sizeof(SymmUnit));
  }
  if (count <= size) {
    return reduce_held<kScope, Op, T, Word<T>>(state, team, members, dest, source, count);
  }
  if (!sync<kScope>(state, team)) return false;  // all sources and dests are ready
  reduce_part<kScope, Op>(state, members, dest, source, count, {0, 1});
  return sync<kScope>(state, team);
}

// `count` elements for each member: the first count for the first. dest is no part of source, or
// this member's own part of it.
template <Scope kScope, class Op, class T>
PENSTOCK_DEVICE bool reducescatter(const SymmState& state, int team, T* dest, const T* source,
                                   uint64_t count) {
  const Members members = members_of(state, team);
  if (!can_sync(members)) return false;
  if (has_far(state, team))
    return reducescatter_with_far<kScope, Op, T>(state, team, dest, source, count);
  if (!sync<kScope>(state, team)) return false;
  reducescatter_part<kScope, Op>(state, members, dest, source, count, {0, 1});
  return sync<kScope>(state, team);
}

}  // namespace penstock::device
