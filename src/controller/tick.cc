// What comes of time alone: leases that end, targets that stay down, accusations that are weighed.
#include "stepper.h"

#include <algorithm>
#include <tuple>

#include "penstock/controller/placement.h"

namespace penstock::controller {

void Stepper::on(const Tick&) {
  expire_nodes();
  expire_targets();
  end_suspicions();
  suspect_one();
  queue_open_chains();
  balance();
}

void Stepper::expire_nodes() {
  for (Node& node : state_.nodes) {
    if (node.seen.silent || now_ < node.seen.lease_end) continue;
    // One that was let in and has no lease yet is not silent.
    const engine::Time heard = node.seen.heard;
    if (heard != kLongAgo && now_ < heard + state_.timing.lease) continue;
    set_silent(node, true);
    node.seen.accuses.clear();
    for (const TargetId id : node.targets) state_.at(id).seen.up = false;
    notice(name_of(node) + ": nothing is heard of it; its lease is over");
  }
}

void Stepper::expire_targets() {
  for (Target& target : state_.targets) {
    const Target::Seen& seen = target.seen;
    if (!seen.up && !seen.down && now_ >= seen.lease_end) set_down(target, seen.lease_end);
    if (!seen.down || seen.aged || now_ - state_.timing.replace_after < seen.down_since) continue;
    target.seen.aged = true;
    queue(target);
  }
}

void Stepper::end_suspicions() {
  for (Node& node : state_.nodes) {
    if (!node.is_suspected() || now_ < node.seen.suspected_until) continue;
    node.seen.suspected_until = kLongAgo;
    node.seen.trusted_since = now_;
    queue(node);
    notice(name_of(node) + ": is tried again");
  }
}

// What others say of a node may be of its last process, until they have had time to notice.
bool Stepper::may_suspect(const Node& node) const {
  const engine::Time let_in = node.seen.let_in;
  const bool is_new = let_in != kLongAgo && now_ < let_in + state_.timing.lease;
  return !node.seen.silent && !node.is_suspected() && !is_new;
}

// Suspects the node that most others accuse. Of two that accuse each other it is the one that
// accuses more, as one that is cut off accuses everybody.
void Stepper::suspect_one() {
  std::vector<size_t> accusers(state_.nodes.size() + 1);
  size_t suspected = 0;
  for (const Node& node : state_.nodes) {
    if (node.is_suspected()) ++suspected;
    if (node.seen.silent || node.is_suspected()) continue;
    std::vector<NodeId> accused = node.seen.accuses;
    std::sort(accused.begin(), accused.end());
    accused.erase(std::unique(accused.begin(), accused.end()), accused.end());
    for (const NodeId id : accused) {
      if (state_.has(id) && id != node.id) ++accusers[id.value];
    }
  }
  if (suspected >= part_of_nodes()) return;
  Node* worst = nullptr;
  const auto weight = [&](const Node& node) {
    return std::tuple(accusers[node.id.value], node.seen.accuses.size(), node.id);
  };
  for (Node& node : state_.nodes) {
    if (!may_suspect(node) || accusers[node.id.value] == 0) continue;
    if (worst == nullptr || weight(node) > weight(*worst)) worst = &node;
  }
  if (worst == nullptr) return;
  Node::Seen& seen = worst->seen;
  const bool again =
      seen.trusted_since != kLongAgo && now_ - limits::kSuspicionForgotten < seen.trusted_since;
  seen.suspicion =
      std::min(again ? 2 * seen.suspicion : state_.timing.suspicion_first, state_.timing.suspicion);
  seen.suspected_until = now_ + seen.suspicion;
  ASSERT(worst->is_suspected());
  queue(*worst);
  notice(name_of(*worst) +
         ": its neighbours do not reach it, or it is far too slow; it leaves its chains for now");
}

// Chains that wait for something are looked at again, beginning where the last tick ended, as a
// step looks at so many only.
void Stepper::queue_open_chains() {
  size_t left = limits::kSettledPerStep;
  auto at = state_.open.lower_bound(state_.next_open);
  for (size_t size = state_.open.size(); size > 0 && left > 0; --size, --left) {
    if (at == state_.open.end()) at = state_.open.begin();
    queue(state_.at(*at));
    ++at;
  }
  state_.next_open = at == state_.open.end() ? ChainId() : *at;
}

// Copies move to where they are to lie while nothing else is wrong.
void Stepper::balance() {
  Balancing& balancing = state_.balancing;
  if (now_ < balancing.next_look) return;
  balancing.next_look = now_ + state_.timing.balance;
  const MovesPlan plan = plan_moves(state_, balancing.goes_on);
  if (plan.goes_on && !balancing.goes_on) {
    balancing.since = now_;
    balancing.done = 0;
    notice("copies of chains do not lie where disks have most room for them; about " +
           std::to_string(plan.left) + " move, a few at a time");
  }
  if (!plan.goes_on && balancing.goes_on) {
    notice("copies of chains lie as evenly as they can; " + std::to_string(balancing.done) +
           " were moved");
  }
  balancing.goes_on = plan.goes_on;
  balancing.waits = plan.waits;
  balancing.left = plan.left;
  for (const Move& move : plan.moves) {
    ASSERT(fault_in(move).empty());
    on(move);
  }
}

}  // namespace penstock::controller
