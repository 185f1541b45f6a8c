// What a node says of itself, and the lease that it gets for it.
#include "stepper.h"

#include <algorithm>

namespace penstock::controller {

void Stepper::on(const Heartbeat& heartbeat) {
  Node* node = known_sender(heartbeat.from, "heartbeat");
  if (node == nullptr) return;
  // Heartbeats are many: choices, which look at all targets, are made by ticks.
  choices_left_ = 0;
  if (heartbeat.applied > state_.version) {
    state_.behind = true;
    return refuse(Code::wrong_version,
                  "heartbeat: " + name_of(*node) +
                      " knows a later map than the controller: its store is of an earlier time, "
                      "or another controller runs; no leases are granted any more");
  }
  if (!is_answered(*node, heartbeat)) return grant(*node, heartbeat.from.sequence, false);
  if (node->seen.silent) notice(name_of(*node) + ": is there again");
  set_silent(*node, false);
  node->seen.heard = now_;
  node->seen.applied = std::max(node->seen.applied, heartbeat.applied);
  node->seen.accuses = heartbeat.accused;
  take_targets(*node, heartbeat.targets);
  for (const ChainReport& report : heartbeat.reports) take_chain(*node, report);
  for (const TargetId target : node->targets) {
    for (const ChainId id : state_.at(target).chains) {
      if (state_.at(id).seen.open) queue(state_.at(id));
    }
  }
  settle_queued();
  grant(*node, heartbeat.from.sequence, !state_.behind);
}

// A node that hears no answers, or does not apply maps, has no lease, whatever is granted to it: it
// counts as silent, so that its chains go on without it. It gets answers without leases until it
// says that it has one of them.
bool Stepper::is_answered(Node& node, const Heartbeat& heartbeat) {
  Node::Seen& seen = node.seen;
  const uint64_t answered = std::min(heartbeat.answered, heartbeat.from.sequence - 1);
  if (answered > seen.answered) {
    seen.answered = answered;
    seen.answered_at = now_;
  }
  // After begin() nothing is known of it yet.
  if (seen.answered_at == kLongAgo) seen.answered_at = now_;
  return now_ - seen.answered_at <= state_.timing.lease;
}

void Stepper::take_targets(Node& node, const std::vector<TargetReport>& reports) {
  std::vector<TargetId> reported;
  reported.reserve(reports.size());
  for (const TargetReport& report : reports) {
    take_target(node, report);
    reported.push_back(report.target);
  }
  std::sort(reported.begin(), reported.end());
  // What is not named is closed: the node promises that it serves nothing.
  for (const TargetId id : node.targets) {
    if (!std::binary_search(reported.begin(), reported.end(), id)) set_down(state_.at(id), now_);
  }
}

void Stepper::take_target(Node& node, const TargetReport& report) {
  const bool known = state_.has(report.target) && state_.at(report.target).node == node.id;
  if (!known || state_.at(report.target).incarnation != report.incarnation) {
    return refuse(Code::stale, "heartbeat: " + name_of(node) + " has target " +
                                   std::to_string(report.target.value) +
                                   " open under an incarnation that is not its own; open it again");
  }
  Target& target = state_.at(report.target);
  if (target.forgotten) return;
  if (target.held != report.incarnation) {
    target.held = report.incarnation;
    changed(target, false);
  }
  Target::Seen& seen = target.seen;
  seen.used_bytes = report.used_bytes;
  if (!seen.up || seen.failing != report.failing || seen.full != report.full) {
    seen.up = true;
    seen.down = seen.aged = false;
    seen.failing = report.failing;
    seen.full = report.full;
    queue(target);
  }
  ASSERT(seen.up && !seen.down);
}

// Words of another version, or of a target that is not what it would have to be, do not count.
void Stepper::take_chain(const Node& node, const ChainReport& report) {
  if (!state_.has(report.chain) || !state_.has(report.reporter)) return;
  const Target& reporter = state_.at(report.reporter);
  if (reporter.node != node.id || !reporter.seen.up) return;
  Chain& chain = state_.at(report.chain);
  if (chain.version != report.version) return;
  const auto member = std::find_if(chain.members.begin(), chain.members.end(),
                                   [&](const Member& m) { return m.target == report.reporter; });
  if (member == chain.members.end() || !acts(*member)) return;
  if (member->incarnation != reporter.incarnation) return;
  if (report.kind == ChainReport::Kind::failed) {
    state_.at(report.reporter).seen.failed_until = now_ + state_.timing.retry_failed;
    if (!has_failed(chain, *member)) chain.seen.failed.push_back(report.reporter);
  } else {
    // Only the last serving one knows what was committed.
    const auto next = std::next(member);
    const bool is_commit_point = member->state == CopyState::serving &&
                                 next != chain.members.end() && next->state == CopyState::syncing;
    if (!is_commit_point) return;
    chain.seen.repaired = true;
  }
  queue(chain);
}

void Stepper::grant(Node& node, uint64_t sequence, bool lease) {
  Grant grant{node.id, node.incarnation, sequence, {}, lease, {}};
  if (lease) {
    ASSERT(now_ == node.seen.heard);
    const engine::Time end = now_ + state_.timing.lease_counted();
    for (const TargetId id : node.targets) {
      Target& target = state_.at(id);
      if (!target.seen.up || !may_serve(target)) continue;
      grant.targets.push_back({target.id, target.incarnation});
      target.seen.lease_end = end;
    }
    node.seen.lease_end = end;
  }
  actions_.grants.push_back(std::move(grant));
}

// Not while a chain still counts on an older opening of it.
bool Stepper::may_serve(Target& target) {
  if (!target.seen.fresh) return true;
  for (const ChainId id : target.chains) {
    for (const Member& member : state_.at(id).members) {
      const bool is_older = member.incarnation != target.incarnation;
      if (member.target == target.id && acts(member) && is_older) return false;
    }
  }
  target.seen.fresh = false;
  return true;
}

}  // namespace penstock::controller
