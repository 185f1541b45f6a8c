// How a chain grows and shrinks: who is to leave it, and who is to come.
#include "stepper.h"

#include <algorithm>

#include "penstock/controller/placement.h"

namespace penstock::controller {

// Who is to leave first: those that do harm, then those that are wanted elsewhere, then what is too
// much; of equals the last. Null: nobody.
Member* Stepper::worst_serving(Chain& chain) const {
  const uint32_t copies = state_.at(chain.table).copies;
  const size_t good = good_copies(chain);
  Member* worst = nullptr;
  int worst_reason = 1;
  for (Member& member : chain.members) {
    if (member.state != kServing || is_lost(chain, member)) continue;
    int reason = 0;
    if (!is_sound(member)) {
      reason = 3;
    } else if (!is_wanted(member) && good >= copies) {
      reason = 2;
    } else if (good > copies) {
      reason = 1;
    }
    if (reason >= worst_reason) {
      worst = &member;
      worst_reason = reason;
    }
  }
  return worst;
}

// A serving one that is up leaves by way of syncing: then nothing is acknowledged without it before
// it knows. The last sound one never leaves.
void Stepper::demote(Chain& chain) {
  Member* const leaver = worst_serving(chain);
  if (leaver == nullptr) return;
  const bool stays = std::any_of(chain.members.begin(), chain.members.end(), [&](const Member& m) {
    return &m != leaver && m.state == kServing && !is_lost(chain, m) && is_sound(m);
  });
  if (!stays) return;
  for (Member& member : chain.members) {
    if (member.state != kSyncing) continue;
    set_open(chain, true);
    // One is syncing at a time. What does harm goes first, once the other one cannot take itself
    // for serving.
    if (is_sound(*leaver) || !knows(chain, member)) return;
    set_state(chain, member, kWaiting);
  }
  set_state(chain, *leaver, kSyncing);
  set_open(chain, true);
}

// The next tick goes on behind this chain: else those for which there is nothing to choose would
// keep all others from it.
TargetId Stepper::choose(const Chain& chain) {
  ASSERT(choices_left_ > 0);
  --choices_left_;
  state_.next_open = ChainId(chain.id.value + 1);
  return choose_target(state_, chain);
}

void Stepper::extend(Chain& chain) {
  if (count_of(chain, kServing) == 0) return;
  const uint32_t copies = state_.at(chain.table).copies;
  auto promising = static_cast<size_t>(
      std::count_if(chain.members.begin(), chain.members.end(),
                    [&](const Member& member) { return is_promising(member); }));
  // A move whose destination is not there any more is given up.
  for (Member& member : chain.members) {
    if (promising >= copies || !member.leaving) continue;
    edit(chain);
    member.leaving = false;
    set_open(chain, true);
    if (is_promising(member)) ++promising;
  }
  while (promising < copies && chain.members.size() < limits::kMembersMax) {
    set_open(chain, true);
    if (!may_add_members() || choices_left_ == 0) return;
    const TargetId found = choose(chain);
    if (found == TargetId()) return;
    add_member(chain, found);
    ++promising;
  }
}

// All members were given up by force: what was in the chain is lost, and it begins anew.
void Stepper::begin_empty(Chain& chain) {
  if (!chain.members.empty()) return;
  set_open(chain, true);
  if (choices_left_ == 0) return;
  const TargetId found = choose(chain);
  if (found == TargetId()) return;
  add_member(chain, found);
  set_state(chain, chain.members.back(), kServing);
  notice(name_of(chain) + ": begins anew, empty; what it held is lost");
}

// A few at a time, and fewer where no copy is missing.
bool Stepper::has_room_to_sync(const Chain& chain, const Member& member) const {
  const bool lacks_copies = count_of(chain, kServing) < state_.at(chain.table).copies;
  const size_t room = lacks_copies ? state_.timing.repairs_per_target : limits::kMovesPerTarget;
  return target_of(member).seen.syncing < room;
}

void Stepper::begin_syncing(Chain& chain) {
  if (count_of(chain, kServing) == 0 || count_of(chain, kSyncing) > 0) return;
  Member* first = nullptr;
  for (Member& member : chain.members) {
    if (member.state != kWaiting || !is_up(member) || !is_useful_syncing(chain, member)) continue;
    if (now_ < target_of(member).seen.failed_until || !has_room_to_sync(chain, member)) {
      set_open(chain, true);
      continue;
    }
    if (first == nullptr || (!is_wanted(*first) && is_wanted(member))) first = &member;
  }
  if (first == nullptr) return;
  set_state(chain, *first, kSyncing);
  first->incarnation = target_of(*first).incarnation;
}

}  // namespace penstock::controller
