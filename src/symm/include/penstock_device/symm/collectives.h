// What the PEs of a team do together with bytes: each calls it with the same arguments, by one
// thread, warp or block at a time.
//
// All push: a store to another GPU waits for nobody, a load waits for a way there and back. So dest
// must be ready everywhere before any PE calls (as the specification has it), and one sync at the
// end tells that all has come. What limits them: the stores of this PE, (n - 1) times the bytes,
// over its links, for large ones; a fence, one way of a store and a read of L2 for small ones.
//
// False: somebody has ended, or there is no such team or root; then dest holds anything.
#pragma once

#include "penstock_device/symm/memory.h"
#include "penstock_device/symm/sync.h"

namespace penstock::device {

// Members in the order in which this one serves them: not all begin with the same.
PENSTOCK_DEVICE int served(const Members& members, int turn) {
  const int member = members.index + turn;
  return member < members.size ? member : member - members.size;
}

template <class T>
PENSTOCK_DEVICE T* byte_offset(T* address, uint64_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(address) + bytes);
}

// This company's part of pushing `bytes` to one member.
template <Scope kScope>
PENSTOCK_DEVICE void push_part(const SymmState& state, const Members& members, int member,
                               void* dest, const void* source, uint64_t bytes, PartOf whole) {
  if (bytes == 0 || (member == members.index && dest == source)) return;
  const int pe = members.pe(member);
  if (is_reached(state, dest, bytes, pe)) {
    copy_part<Source::near, kScope>(instance_of(state, dest, pe), source, bytes, whole);
  } else if (whole.part == 0 && Company<kScope>::rank() == 0) {
    // All of it, by the first of all companies. If it fails somebody has ended, and the sync that
    // follows says so.
    try_put_far(state, dest, source, bytes, pe);
  }
}

// ---- the parts that several companies of a PE may share, between two syncs ----

// Every member's bytes, in the order of members.
template <Scope kScope>
PENSTOCK_DEVICE void fcollect_part(const SymmState& state, const Members& members, void* dest,
                                   const void* source, uint64_t bytes, PartOf whole) {
  void* const slot = byte_offset(dest, bytes * static_cast<uint64_t>(members.index));
  PENSTOCK_NOT_UNROLLED
  for (int i = 0; i < members.size; ++i) {
    push_part<kScope>(state, members, served(members, i), slot, source, bytes, whole);
  }
}

// The i-th bytes of source to member i.
template <Scope kScope>
PENSTOCK_DEVICE void alltoall_part(const SymmState& state, const Members& members, void* dest,
                                   const void* source, uint64_t bytes, PartOf whole) {
  void* const slot = byte_offset(dest, bytes * static_cast<uint64_t>(members.index));
  PENSTOCK_NOT_UNROLLED
  for (int i = 0; i < members.size; ++i) {
    const int member = served(members, i);
    push_part<kScope>(state, members, member, slot,
                      byte_offset(source, bytes * static_cast<uint64_t>(member)), bytes, whole);
  }
}

// A share of `bytes` for each member, of whole units so that all begin aligned alike.
struct Slice {
  uint64_t begin;
  uint64_t bytes;
};
PENSTOCK_DEVICE Slice slice_of(uint64_t bytes, int members, int member) {
  const uint64_t units = (bytes + sizeof(SymmUnit) - 1) / sizeof(SymmUnit);
  const uint64_t each = (units + static_cast<uint64_t>(members) - 1) /
                        static_cast<uint64_t>(members) * sizeof(SymmUnit);
  const uint64_t begin = each * static_cast<uint64_t>(member);
  if (begin >= bytes) return {bytes, 0};
  return {begin, bytes - begin < each ? bytes - begin : each};
}

// From here on the root's links, which carry everything n - 1 times, cost more than a second sync.
constexpr uint64_t kBroadcastHelpBytes = 256 * 1024;
constexpr int kBroadcastHelpMembers = 4;

PENSTOCK_DEVICE bool all_help(const Members& members, uint64_t bytes) {
  return members.size >= kBroadcastHelpMembers && bytes >= kBroadcastHelpBytes;
}

PENSTOCK_DEVICE int broadcast_rounds(const Members& members, uint64_t bytes) {
  return all_help(members, bytes) ? 2 : 1;
}

// Round 0: the root sends all to each, or a slice to each where all help, and all to itself. Round
// 1, after a sync: each one sends its slice to the others, the root from its source.
template <Scope kScope>
PENSTOCK_DEVICE void broadcast_part(const SymmState& state, const Members& members, void* dest,
                                    const void* source, uint64_t bytes, int root, int round,
                                    PartOf whole) {
  const bool is_root = members.index == root;
  if (round == 0 && !is_root) return;
  const void* const from = is_root ? source : dest;
  const bool help = all_help(members, bytes);
  PENSTOCK_NOT_UNROLLED
  for (int i = round; i < members.size; ++i) {
    const int member = served(members, i);
    if (round == 1 && member == root) continue;
    Slice slice = {0, bytes};
    if (help && member != root) {
      slice = slice_of(bytes, members.size, round == 0 ? member : members.index);
    }
    push_part<kScope>(state, members, member, byte_offset(dest, slice.begin),
                      byte_offset(from, slice.begin), slice.bytes, whole);
  }
}

// ---- the whole, by one company ----

// The root tells that its stores have come; the others wait for it alone. In the count of syncs.
template <Scope kScope>
PENSTOCK_DEVICE bool sync_with_root(const SymmState& state, int team, const Members& members,
                                    int root) {
  Company<kScope>::meet();  // all of the root's company have stored
  const auto rank = static_cast<int>(Company<kScope>::rank());
  const auto size = static_cast<int>(Company<kScope>::size());
  bool come = true;
  uint64_t number = 0;
  if (members.index == root && rank < members.size) {
    number = next_sync(state, team);
    fence_system();  // as in sync()
    for (int i = rank; i < members.size; i += size) {
      if (i != root) tell_arrival(state, team, members, i, number);
    }
  } else if (rank == 0) {
    number = next_sync(state, team);
    come = wait_for_arrival(state, team, root, number);
  }
  come = Company<kScope>::all(come);
  if (rank == 0) store_system(&state.teams[team].syncs, number);
  return come;
}

// dest of every member, the root's too, gets the root's source.
template <Scope kScope>
PENSTOCK_DEVICE bool broadcast(const SymmState& state, int team, void* dest, const void* source,
                               uint64_t bytes, int root) {
  const Members members = members_of(state, team);
  if (!can_sync(members) || root < 0 || root >= members.size) return false;
  Company<kScope>::meet();  // source is written
  const int rounds = broadcast_rounds(members, bytes);
  PENSTOCK_NOT_UNROLLED
  for (int round = 0; round < rounds; ++round) {
    broadcast_part<kScope>(state, members, dest, source, bytes, root, round, {0, 1});
    const bool come =
        round == 0 ? sync_with_root<kScope>(state, team, members, root) : sync<kScope>(state, team);
    if (!come) return false;
  }
  return true;
}

// `bytes` of each member.
template <Scope kScope>
PENSTOCK_DEVICE bool fcollect(const SymmState& state, int team, void* dest, const void* source,
                              uint64_t bytes) {
  const Members members = members_of(state, team);
  if (!can_sync(members)) return false;
  Company<kScope>::meet();
  fcollect_part<kScope>(state, members, dest, source, bytes, {0, 1});
  return sync<kScope>(state, team);
}

// `bytes` from each member to each.
template <Scope kScope>
PENSTOCK_DEVICE bool alltoall(const SymmState& state, int team, void* dest, const void* source,
                              uint64_t bytes) {
  const Members members = members_of(state, team);
  if (!can_sync(members)) return false;
  Company<kScope>::meet();
  alltoall_part<kScope>(state, members, dest, source, bytes, {0, 1});
  return sync<kScope>(state, team);
}

}  // namespace penstock::device
