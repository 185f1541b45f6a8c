// What persons, and plans of placement, order.
#include "stepper.h"

#include <algorithm>

namespace penstock::controller {

std::string Stepper::fault_in(const CreateTable& create, const std::vector<TargetId>& chain) const {
  if (chain.size() != create.copies) return "a chain has not as many targets as it shall have";
  for (size_t i = 0; i < chain.size(); ++i) {
    if (!state_.has(chain[i])) return "a target is not known";
    const Target& target = state_.at(chain[i]);
    const Node& node = state_.at(target.node);
    if (!target.seen.up || target.forgotten) return name_of(target) + " is not up";
    if (node.standing != Standing::joined) return name_of(node) + " is to go";
    if (!is_to_stay(state_, target)) return name_of(target) + " is to go";
    if (target.media != create.media) return name_of(target) + " is of another kind";
    for (size_t j = 0; j < i; ++j) {
      const Node& other = state_.at(state_.at(chain[j]).node);
      if (other.id == node.id) return "a chain has two copies on " + name_of(node);
      const bool one_rack = !node.facts.rack.empty() && node.facts.rack == other.facts.rack;
      if (create.racks_apart && one_rack) return "a chain has two copies in " + node.facts.rack;
    }
  }
  return {};
}

std::string Stepper::fault_in(const CreateTable& create) const {
  if (create.copies == 0 || create.copies > limits::kCopiesMax) {
    return "from 1 to " + std::to_string(limits::kCopiesMax) + " copies are possible";
  }
  if (create.chains.empty()) return "it has no chains";
  if (state_.tables.size() >= limits::kTablesMax) return "there are too many tables";
  if (create.chains.size() > limits::kChainsMax - state_.chains.size()) {
    return "there are too many chains";
  }
  for (const std::vector<TargetId>& chain : create.chains) {
    const std::string fault = fault_in(create, chain);
    if (!fault.empty()) return fault;
  }
  return {};
}

void Stepper::on(const CreateTable& create) {
  const std::string fault = fault_in(create);
  if (!fault.empty()) return refuse(Code::invalid_argument, "create table: " + fault);
  Table table;
  table.id = TableId(static_cast<uint32_t>(state_.tables.size() + 1));
  table.copies = create.copies;
  table.media = create.media;
  table.racks_apart = create.racks_apart;
  table.first = state_.next_chain();
  table.chains = static_cast<uint32_t>(create.chains.size());
  state_.tables.push_back(table);
  actions_.changes.tables.push_back(table.id);
  for (const std::vector<TargetId>& targets : create.chains) {
    const ChainId id = state_.next_chain();
    Chain& chain = state_.chains.emplace_back();
    chain.id = id;
    chain.table = table.id;
    for (const TargetId target : targets) {
      add_member(chain, target);
      set_state(chain, chain.members.back(), CopyState::serving);
    }
  }
  actions_.made.push_back({table.id});
}

std::string Stepper::fault_in(const Move& move) const {
  if (!state_.has(move.chain) || !state_.has(move.from) || !state_.has(move.to)) {
    return "there is no such chain or target";
  }
  const Chain& chain = state_.at(move.chain);
  const Target& to = state_.at(move.to);
  const auto has = [&](TargetId target) {
    return std::any_of(chain.members.begin(), chain.members.end(), [&](const Member& member) {
      return member.target == target && !member.leaving;
    });
  };
  if (!has(move.from)) return "the chain does not have the target, or is losing it already";
  if (chain.members.size() >= limits::kMembersMax) return "the chain has too many members";
  const bool is_wanted = to.seen.up && is_to_stay(state_, to) && !to.seen.failing && !to.seen.full;
  if (!is_wanted) return name_of(to) + " can take nothing";
  if (to.media != state_.at(chain.table).media) return name_of(to) + " is of another kind";
  for (const Member& member : chain.members) {
    if (node_of(member).id == to.node)
      return "the chain is on " + name_of(node_of(member)) + " already";
  }
  return {};
}

void Stepper::on(const Move& move) {
  const std::string fault = fault_in(move);
  if (!fault.empty()) return refuse(Code::invalid_argument, "move: " + fault);
  Chain& chain = edit(state_.at(move.chain));
  for (Member& member : chain.members) {
    if (member.target == move.from) member.leaving = true;
  }
  add_member(chain, move.to);
  queue(chain);
}

void Stepper::on(const Drain& drain) {
  if (!state_.has(drain.node) || state_.at(drain.node).standing == Standing::removed) {
    return refuse(Code::not_found, "drain: there is no such node");
  }
  Node& node = state_.at(drain.node);
  const Standing standing = drain.on ? Standing::draining : Standing::joined;
  if (node.standing == standing) return;
  node.standing = standing;
  count_drain(node);
  changed(node);
  queue(node);
}

// From now on, of what it has to hand over now.
void Stepper::count_drain(Node& node) {
  node.seen.drained_since = has_to_hand_over(state_, node) ? now_ : kLongAgo;
  node.seen.drained = 0;
}

void Stepper::on(const DrainTarget& drain) {
  if (!state_.has(drain.target) || state_.at(drain.target).forgotten) {
    return refuse(Code::not_found, "drain: there is no such target");
  }
  Target& target = state_.at(drain.target);
  if (target.draining == drain.on) return;
  target.draining = drain.on;
  count_drain(state_.at(target.node));
  changed(target, true);
  queue(target);
}

// Chains that would have no full copy any more without those targets. `gone` is sorted.
size_t Stepper::chains_lost_without(const std::vector<TargetId>& gone) const {
  size_t lost = 0;
  for (const TargetId id : gone) {
    for (const ChainId chain : state_.at(id).chains) {
      const std::vector<Member>& members = state_.at(chain).members;
      const auto is_full = [](const Member& member) {
        return member.state == CopyState::serving || member.state == CopyState::last_serving;
      };
      const bool has_one = std::any_of(members.begin(), members.end(), [&](const Member& member) {
        return member.target == id && is_full(member);
      });
      const bool keeps_one = std::any_of(members.begin(), members.end(), [&](const Member& member) {
        const bool goes = std::binary_search(gone.begin(), gone.end(), member.target);
        return is_full(member) && !goes && !target_of(member).forgotten;
      });
      if (has_one && !keeps_one) ++lost;
    }
  }
  return lost;
}

void Stepper::forget_target(Target& target) {
  if (target.forgotten) return;
  target.forgotten = true;
  target.seen.up = false;
  changed(target, true);
  queue(target);
}

void Stepper::on(const Forget& forget) {
  if (!state_.has(forget.target)) {
    return refuse(Code::not_found, "forget: there is no such target");
  }
  Target& target = state_.at(forget.target);
  if (target.forgotten) return;
  const size_t lost = chains_lost_without({target.id});
  if (lost > 0 && !forget.force) {
    return refuse(Code::not_permitted,
                  "forget " + name_of(target) + ": it has the last full copy of " +
                      std::to_string(lost) +
                      " chains; bring it back, or lose them by force (--force)");
  }
  if (target.seen.up && !target.chains.empty() && !forget.force) {
    return refuse(Code::not_permitted,
                  "forget " + name_of(target) + ": it serves, and has copies of " +
                      std::to_string(target.chains.size()) + " chains; " +
                      (target.draining ? "wait until it has handed them over"
                                       : "drain it first, wait until it has handed them over") +
                      ", or take it off by force (--force): then these have a copy less until "
                      "others are made");
  }
  forget_target(target);
}

void Stepper::on(const Remove& remove) {
  if (!state_.has(remove.node) || state_.at(remove.node).standing == Standing::removed) {
    return refuse(Code::not_found, "remove: there is no such node");
  }
  Node& node = state_.at(remove.node);
  if ((node.facts.roles & kRoleController) != 0) {
    return refuse(
        Code::not_permitted,
        "remove " + name_of(node) +
            ": it has the controller, without which there is no cluster; its disks can be "
            "taken off ('penstock drain DIR --disk'), and the node itself stays");
  }
  if ((node.facts.roles & kRoleMeta) != 0 && !remove.force) {
    return refuse(
        Code::not_permitted,
        "remove " + name_of(node) +
            ": it has the names of all files; if they are lost with its disk, remove it by "
            "force, and load a dump of them on another node (docs/cluster.md)");
  }
  std::vector<TargetId> gone = node.targets;
  std::sort(gone.begin(), gone.end());
  const size_t lost = chains_lost_without(gone);
  if (lost > 0 && !remove.force) {
    return refuse(Code::not_permitted,
                  "remove " + name_of(node) + ": it has the last full copy of " +
                      std::to_string(lost) +
                      " chains; drain it first, or lose them by force (--force)");
  }
  const size_t chains = chains_on(state_, node.id);
  if (!node.seen.silent && chains > 0 && !remove.force) {
    const std::string drain =
        node.standing == Standing::draining
            ? "wait until it has handed them over"
            : "drain it first ('penstock drain'), wait until it has handed them over";
    return refuse(Code::not_permitted,
                  "remove " + name_of(node) + ": it runs, and has copies of " +
                      std::to_string(chains) + " chains; " + drain +
                      " ('penstock nodes'), or remove it by force (--force): then these have a "
                      "copy less until others are made");
  }
  for (const TargetId id : gone) forget_target(state_.at(id));
  count(node, -1);
  node.standing = Standing::removed;
  node.seen.accuses.clear();
  node.seen.suspected_until = kLongAgo;
  changed(node);
  queue(node);
  notice(name_of(node) + ": removed");
}

void Stepper::on(const Trust& trust) {
  if (!state_.has(trust.target)) {
    return refuse(Code::not_found, "trust: there is no such target");
  }
  for (const ChainId id : state_.at(trust.target).chains) {
    for (Member& member : edit(state_.at(id)).members) {
      if (member.target == trust.target) member.doubtful = false;
    }
    queue(state_.at(id));
  }
}

}  // namespace penstock::controller
