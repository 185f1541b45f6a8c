// Targets that nodes open.
#include "stepper.h"

#include <algorithm>

namespace penstock::controller {

void Stepper::on(const OpenTarget& open) {
  Node* node = known_sender(open.from, "open target");
  if (node == nullptr) return;
  const Target* known = find_target(state_, open.target);
  if (known == nullptr) return add_target(*node, open);
  Target& target = state_.at(known->id);
  if (!may_open(target, open)) return;
  if (target.node != node->id) {
    if (!may_move(target, *node)) return;
    adopt(target, *node);
  }
  if (open.held != target.held) {
    target.held = open.held;
    changed(target, false);
  }
  if (target.opening != open.opening) give_incarnation(target, open);
  actions_.opened.push_back(
      {node->id, node->incarnation, open.opening, target.id, target.incarnation});
}

bool Stepper::may_open(const Target& target, const OpenTarget& open) {
  if (target.forgotten) {
    refuse(Code::not_permitted, "open " + name_of(target) + ": it was given up; make a new one");
    return false;
  }
  if (open.held != target.held && open.held != target.incarnation) {
    refuse(Code::stale, "open " + name_of(target) +
                            ": this is a copy of an earlier time, of incarnation " +
                            std::to_string(open.held.value) + "; the target is at " +
                            std::to_string(target.held.value));
    return false;
  }
  const bool again = target.node == open.from.node && target.opening == open.opening;
  if (target.seen.up && !again) {
    refuse(Code::in_use, "open " + name_of(target) + ": it is open already on " +
                             name_of(state_.at(target.node)) +
                             "; a copied target cannot be a second one");
    return false;
  }
  return true;
}

bool Stepper::may_move(const Target& target, const Node& to) {
  if (!target.seen.down) {
    refuse(Code::in_use, "open " + name_of(target) + ": it may still be open on " +
                             name_of(state_.at(target.node)));
    return false;
  }
  for (const ChainId id : target.chains) {
    for (const Member& member : state_.at(id).members) {
      if (member.target == target.id || state_.at(member.target).node != to.id) continue;
      refuse(Code::in_use, "open " + name_of(target) + ": " + name_of(to) + " has a copy of " +
                               name_of(state_.at(id)) + " already; take it to another node");
      return false;
    }
  }
  return true;
}

// The disk may be a copy of what the target was: where it would have to come back first, a person
// decides.
void Stepper::adopt(Target& target, Node& node) {
  ASSERT(target.seen.down && target.node != node.id);
  notice(name_of(target) + ": moved to " + name_of(node));
  std::vector<TargetId>& left = state_.at(target.node).targets;
  left.erase(std::remove(left.begin(), left.end(), target.id), left.end());
  node.targets.push_back(target.id);
  target.node = node.id;
  target.opening = 0;
  changed(target, true);
  for (const ChainId id : target.chains) {
    for (Member& member : edit(state_.at(id)).members) {
      const bool holds =
          member.state == CopyState::serving || member.state == CopyState::last_serving;
      if (member.target == target.id && holds) member.doubtful = true;
    }
  }
}

void Stepper::add_target(Node& node, const OpenTarget& open) {
  if (open.held != Incarnation()) {
    return refuse(Code::stale, "open target: it belonged to another cluster; make a new one");
  }
  if (state_.targets.size() >= limits::kTargetsMax) {
    return refuse(Code::busy, "open target: the cluster has as many targets as it can have");
  }
  Target target;
  target.id = TargetId(static_cast<uint32_t>(state_.targets.size() + 1));
  target.uuid = open.target;
  target.node = node.id;
  target.media = open.media;
  target.seen.down = true;
  target.seen.down_since = now_;
  state_.targets.push_back(target);
  node.targets.push_back(target.id);
  Target& added = state_.targets.back();
  give_incarnation(added, open);
  actions_.opened.push_back({node.id, node.incarnation, open.opening, added.id, added.incarnation});
}

// From here on all that chains say of the target is of an older incarnation.
void Stepper::give_incarnation(Target& target, const OpenTarget& open) {
  ASSERT(!target.seen.up);
  target.opening = open.opening;
  target.incarnation.value++;
  target.capacity_bytes = open.capacity_bytes;
  target.seen.fresh = true;
  // The opening before has ended, as the node has one at a time.
  set_down(target, now_);
  changed(target, true);
  queue(target);
  ASSERT(target.held < target.incarnation);
}

}  // namespace penstock::controller
