// The rules of a chain: what its members' states become, given what is seen of them (decision
// 0043).
#include "stepper.h"

#include <algorithm>

namespace penstock::controller {

// In this order: who is gone, who comes back, who is complete, who is to go, who is to come. A
// chain may be settled at any time and any number of times: it changes only if something that is
// seen has changed.
void Stepper::settle(Chain& chain) {
  set_open(chain, false);
  drop_lost(chain);
  give_up(chain);
  revive(chain);
  promote(chain);
  order(chain);
  refresh(chain);
  end_syncing(chain);
  trim(chain);
  demote(chain);
  extend(chain);
  begin_empty(chain);
  begin_syncing(chain);
  order(chain);
}

void Stepper::drop_lost(Chain& chain) {
  const size_t serving = count_of(chain, kServing);
  std::vector<Member*> lost;
  for (Member& member : chain.members) {
    if (member.state == kServing && is_lost(chain, member)) lost.push_back(&member);
    if (member.state == kSyncing && is_lost(chain, member)) set_state(chain, member, kWaiting);
  }
  ASSERT(lost.size() <= serving);
  if (lost.empty()) return;
  if (lost.size() == serving) return drop_all(chain);
  for (Member* const member : lost) {
    const engine::Time since =
        has_failed(chain, *member) ? kLongAgo : target_of(*member).seen.down_since;
    // Else the others are lost, too, perhaps: then all of them served last.
    if (!was_heard_since(chain, since)) {
      set_open(chain, true);
    } else {
      set_state(chain, *member, kWaiting);
    }
  }
}

// All that served are gone. The syncing one may have served in an older version, and may still act
// by that: the first that comes back must not begin before.
void Stepper::drop_all(Chain& chain) {
  for (const Member& member : chain.members) {
    if (member.state == kSyncing && !knows(chain, member)) return set_open(chain, true);
  }
  for (Member& member : chain.members) {
    if (member.state == kSyncing) set_state(chain, member, kWaiting);
    if (member.state == kServing) set_state(chain, member, kLastServing);
  }
}

// A person has given up all that served last: any of the rest may come back first, with what it
// has.
void Stepper::give_up(Chain& chain) {
  if (count_of(chain, kServing) > 0) return;
  size_t last = 0;
  for (const Member& member : chain.members) {
    if (member.state != kLastServing) continue;
    if (!target_of(member).forgotten) return;
    ++last;
  }
  if (last == 0) return;
  for (size_t i = chain.members.size(); i-- > 0;) {
    if (target_of(chain.members[i]).forgotten) erase_member(chain, i);
  }
  for (Member& member : chain.members) set_state(chain, member, kLastServing);
  if (!chain.members.empty()) {
    notice(name_of(chain) +
           ": its last full copies were given up; what an older one has comes back");
  }
}

// The first that is up of those that served last; the sound ones before the others.
void Stepper::revive(Chain& chain) {
  if (count_of(chain, kServing) > 0) return;
  Member* first = nullptr;
  for (Member& member : chain.members) {
    if (member.state == kLastServing && is_up(member)) set_open(chain, true);
    if (!may_come_back(member)) continue;
    if (first == nullptr || (!is_sound(*first) && is_sound(member))) first = &member;
  }
  if (first == nullptr) return;
  ASSERT(count_of(chain, kSyncing) == 0);
  set_state(chain, *first, kServing);
  first->incarnation = target_of(*first).incarnation;
}

// The word is of the present version: a step in which others left made it worthless.
void Stepper::promote(Chain& chain) {
  if (!chain.seen.repaired || before_.contains(chain.id)) return;
  for (Member& member : chain.members) {
    if (member.state == kSyncing && is_useful_syncing(chain, member)) {
      set_state(chain, member, kServing);
    }
  }
}

// Where one serves, those that served last have missed something since.
void Stepper::refresh(Chain& chain) {
  const bool serves = count_of(chain, kServing) > 0;
  for (size_t i = chain.members.size(); i-- > 0;) {
    Member& member = chain.members[i];
    if (acts(member) || (member.state == kLastServing && !serves)) continue;
    if (target_of(member).forgotten) {
      erase_member(chain, i);
      continue;
    }
    set_state(chain, member, kWaiting);
    if (member.doubtful) {
      edit(chain);
      member.doubtful = false;
    }
  }
}

// A syncing one that is not to become serving goes when it cannot take itself for serving any more:
// it may have been.
void Stepper::end_syncing(Chain& chain) {
  for (Member& member : chain.members) {
    if (member.state != kSyncing || is_useful_syncing(chain, member)) continue;
    if (knows(chain, member)) {
      set_state(chain, member, kWaiting);
    } else {
      set_open(chain, true);
    }
  }
}

// With all copies there, and good, the others are not needed.
void Stepper::trim(Chain& chain) {
  if (good_copies(chain) < state_.at(chain.table).copies) return;
  for (size_t i = chain.members.size(); i-- > 0;) {
    if (acts(chain.members[i])) continue;
    if (chain.members[i].leaving && state_.balancing.goes_on) ++state_.balancing.done;
    const Target& target = target_of(chain.members[i]);
    if (!is_to_stay(state_, target)) ++state_.at(target.node).seen.drained;
    erase_member(chain, i);
  }
}

// Serving ones never change places among each other: the head is who was before all others.
void Stepper::order(Chain& chain) {
  const auto before = [](const Member& a, const Member& b) { return rank_of(a) < rank_of(b); };
  if (std::is_sorted(chain.members.begin(), chain.members.end(), before)) return;
  edit(chain);
  std::stable_sort(chain.members.begin(), chain.members.end(), before);
}

}  // namespace penstock::controller
