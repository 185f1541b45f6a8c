// Order, and waiting for each other.
//
// A sync is one step: each PE stores its count into a word of its own at every other one, and waits
// until all have come. What limits it: the fence (a way there and back for what was put before,
// next to nothing otherwise), one way of a store, and a read of L2.
#pragma once

#include "penstock_device/symm/far.h"
#include "penstock_device/symm/team.h"

namespace penstock::device {

// Puts, atomics and signals before it are seen before those after it, by every PE.
PENSTOCK_DEVICE void fence() {
  // Release for what follows: message passing only, so no total order is needed.
  fence_system();
}

// Puts and atomics before it are complete: whoever looks sees them, also if this PE only looks
// itself after it and stores nothing. Of two PEs that both put, quiet and get, one sees the other:
// that is store buffering, which only the total fence forbids. Gets are complete by themselves.
PENSTOCK_DEVICE void quiet() {
  fence_system_total();
}

// Of who came together; the last's stores are covered by the first one's fence as they have met.
template <Scope kScope>
PENSTOCK_DEVICE void quiet() {
  Company<kScope>::meet();
  fence_system_total();
}

// The same where there are PEs that are not near. False, to all who call it together: somebody has
// ended.
template <Scope kScope>
PENSTOCK_DEVICE bool quiet(const SymmState& state) {
  quiet<kScope>();
  if (state.far == nullptr) return true;
  return Company<kScope>::all(Company<kScope>::rank() != 0 || quiet_far(state));
}

PENSTOCK_DEVICE SymmTeamControl& control_of(const SymmState& state, int team) {
  return reinterpret_cast<SymmControl*>(state.heap)->teams[team];
}
PENSTOCK_DEVICE SymmTeamControl& control_at(const SymmState& state, int team, int pe) {
  return reinterpret_cast<SymmControl*>(state.peers + static_cast<uint64_t>(pe) * state.stride)
      ->teams[team];
}

// A team that may sync: with a word for each of its PEs.
PENSTOCK_DEVICE bool can_sync(const Members& members) {
  return members.size > 0 && members.size <= static_cast<int>(kSymmNearMax);
}

// The number of the next sync. Nobody else of this PE is in a sync of this team now.
PENSTOCK_DEVICE uint64_t next_sync(const SymmState& state, int team) {
  return load_system(&state.teams[team].syncs) + 1;
}

// Tells another member that this PE has come as far. After a fence of the same thread: what it
// orders is the fence and this store together.
PENSTOCK_DEVICE void tell_arrival(const SymmState& state, int team, const Members& members,
                                  int member, uint64_t sync) {
  const int pe = members.pe(member);
  if (is_near(state, pe)) {
    store_system(&control_at(state, team, pe).arrived[members.index].value, sync);
  } else {
    // Behind what this PE has asked of that one.
    tell_far(state, &control_of(state, team).arrived[members.index].value, FarChange::set, sync,
             pe);
  }
}

// Until that member has come. Counts only grow, and one that has come farther has come.
PENSTOCK_DEVICE bool wait_for_arrival(const SymmState& state, int team, int member, uint64_t sync) {
  // The acquire pairs with the member's fence and store in tell_arrival().
  const uint64_t* const word = &control_of(state, team).arrived[member].value;
  return wait(state, [&] { return load_acquire(word) >= sync; });
}

// What this PE did before it, in the own memory and by puts, is seen by the others after it. False:
// somebody has ended, or there is no such team. To all who call it together.
template <Scope kScope>
PENSTOCK_DEVICE bool sync(const SymmState& state, int team) {
  const Members members = members_of(state, team);
  if (!can_sync(members)) return false;
  Company<kScope>::meet();  // all of them have done what they did before
  const auto rank = static_cast<int>(Company<kScope>::rank());
  const auto size = static_cast<int>(Company<kScope>::size());
  bool come = true;
  uint64_t number = 0;
  if (rank < members.size) {
    // Read while the fence waits. The one before was written before they met.
    number = next_sync(state, team);
    // By each that stores words: only its own fence and its own store together release. Those of a
    // warp are one fence. It covers the others' stores, which this thread saw by meeting them.
    fence_system();
    for (int i = rank; i < members.size; i += size) {
      if (i != members.index) tell_arrival(state, team, members, i, number);
    }
    for (int i = rank; i < members.size && come; i += size) {
      if (i != members.index) come = wait_for_arrival(state, team, i, number);
    }
  }
  // What each has acquired is seen by all after they have met; and all have read the count.
  come = Company<kScope>::all(come);
  if (rank == 0) store_system(&state.teams[team].syncs, number);
  return come;
}

// A quiet and a sync. The fence of the sync completes what this PE has put: whoever learns that it
// has come sees it, and the sync's own waits stand between it and what this PE reads afterwards. Of
// what went to PEs that are not near, only those know: it must be done before others are told.
template <Scope kScope>
PENSTOCK_DEVICE bool barrier(const SymmState& state, int team) {
  if (state.far != nullptr && !quiet<kScope>(state)) return false;
  return sync<kScope>(state, team);
}

}  // namespace penstock::device
