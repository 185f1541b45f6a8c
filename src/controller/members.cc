// What the rules of a chain ask of its members.
#include "stepper.h"

#include <algorithm>

namespace penstock::controller {

// Its node says that it is open, under the incarnation that was given out last.
bool Stepper::is_up(const Member& member) const {
  const Target& target = target_of(member);
  ASSERT(!(target.seen.up && target.seen.down));
  return target.seen.up && !target.forgotten;
}

bool Stepper::has_failed(const Chain& chain, const Member& member) const {
  const std::vector<TargetId>& failed = chain.seen.failed;
  return std::find(failed.begin(), failed.end(), member.target) != failed.end();
}

// What was a member is not acting any more: its lease is over, it was opened anew, or it said so.
bool Stepper::is_lost(const Chain& chain, const Member& member) const {
  const Target& target = target_of(member);
  return target.seen.down || target.incarnation != member.incarnation || has_failed(chain, member);
}

bool Stepper::is_sound(const Member& member) const {
  const Target& target = target_of(member);
  return !target.forgotten && !target.seen.failing && !node_of(member).is_suspected();
}

bool Stepper::is_wanted(const Member& member) const {
  return is_sound(member) && !member.leaving && is_to_stay(state_, target_of(member));
}

// It serves, or will without anybody's doing.
bool Stepper::is_promising(const Member& member) const {
  const Target::Seen& seen = target_of(member).seen;
  const bool will_be_back = !seen.failing && !seen.aged;
  return will_be_back && !member.leaving && is_to_stay(state_, target_of(member));
}

// The chain is better with it than without: a copy is missing.
bool Stepper::is_useful_syncing(const Chain& chain, const Member& member) const {
  if (!is_sound(member)) return false;
  const uint32_t copies = state_.at(chain.table).copies;
  return is_wanted(member) ? good_copies(chain) < copies
                           : count_of(chain, CopyState::serving) < copies;
}

// It served last and has everything that was acknowledged. One that failed begins anew after a
// while, as if it had been opened again.
bool Stepper::may_come_back(const Member& member) const {
  return member.state == CopyState::last_serving && is_up(member) && !member.doubtful &&
         now_ >= target_of(member).seen.failed_until;
}

// Its node acts by the chain's present version and by no older one.
bool Stepper::knows(const Chain& chain, const Member& member) const {
  return !before_.contains(chain.id) && is_up(member) &&
         node_of(member).seen.applied >= chain.changed;
}

// One that goes on serving was heard of after that moment, so that it was not lost together with
// those that were lost then.
bool Stepper::was_heard_since(const Chain& chain, engine::Time moment) const {
  return std::any_of(chain.members.begin(), chain.members.end(), [&](const Member& member) {
    return member.state == CopyState::serving && !is_lost(chain, member) && is_up(member) &&
           node_of(member).seen.heard > moment;
  });
}

size_t Stepper::good_copies(const Chain& chain) const {
  return static_cast<size_t>(
      std::count_if(chain.members.begin(), chain.members.end(), [&](const Member& member) {
        return member.state == CopyState::serving && is_wanted(member);
      }));
}

size_t Stepper::part_of_nodes() const {
  return std::max<size_t>(1, state_.joined / limits::kMissingPart);
}

// When many nodes are missing, the rest is not made to hold their chains, too.
bool Stepper::may_add_members() const {
  return state_.missing <= part_of_nodes();
}

}  // namespace penstock::controller
