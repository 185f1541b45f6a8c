#include "penstock/controller/state.h"

#include <algorithm>

namespace penstock::controller {
namespace {

template <class Record>
const Record* find_uuid(const std::vector<Record>& records, const Uuid& uuid) {
  const auto found = std::find_if(records.begin(), records.end(),
                                  [&](const Record& record) { return record.uuid == uuid; });
  return found == records.end() ? nullptr : &*found;
}

// Ids are places, and what records name is there.
std::string find_broken_reference(const State& state) {
  for (size_t i = 0; i < state.nodes.size(); ++i) {
    if (state.nodes[i].id.value != i + 1) return "nodes are not numbered one after the other";
  }
  for (size_t i = 0; i < state.targets.size(); ++i) {
    const Target& target = state.targets[i];
    if (target.id.value != i + 1) return "targets are not numbered one after the other";
    if (!state.has(target.node)) return "a target is on a node that is not there";
    if (target.held > target.incarnation) return "a target holds what was never given to it";
  }
  size_t chains = 0;
  for (size_t i = 0; i < state.tables.size(); ++i) {
    const Table& table = state.tables[i];
    if (table.id.value != i + 1) return "tables are not numbered one after the other";
    if (table.first.value != kFirstSharedChain.value + chains)
      return "a table's chains do not follow the others";
    if (table.copies == 0 || table.copies > limits::kCopiesMax) return "a table's copies are wrong";
    chains += table.chains;
  }
  if (chains != state.chains.size()) return "there are chains without a table";
  for (const auto& [node, fenced] : state.fences) {
    if (!state.has(node) || fenced.id != node) return "a fence is of a node that is not there";
    if (fenced.lowest == 0 || fenced.changed > state.version) return "a fence was never raised";
  }
  for (const auto& [node, restricted] : state.restrictions) {
    if (!state.has(node) || restricted.id != node || restricted.changed > state.version) {
      return "a restriction is of a node that is not there, or of no map";
    }
  }
  for (const auto& [id, key] : state.signing_keys) {
    if (key.changed > state.version) return "a key that signs is of no map";
  }
  for (size_t i = 0; i < state.chains.size(); ++i) {
    const Chain& chain = state.chains[i];
    if (chain.id.value != kFirstSharedChain.value + i)
      return "chains are not numbered one after the other";
    if (!state.has(chain.table)) return "a chain is of a table that is not there";
    const Table& table = state.at(chain.table);
    const bool is_of_it =
        chain.id >= table.first && chain.id.value - table.first.value < table.chains;
    if (!is_of_it) return "a chain is of another table than its number says";
  }
  return {};
}

}  // namespace

void begin(State& state, engine::Time now) {
  const std::string fault = find_fault(state);
  ASSERT(fault.empty());
  const engine::Time lease_end = now + state.timing.lease_counted();
  state.now = now;
  state.behind = false;
  state.joined = state.missing = 0;
  state.queue.clear();
  state.open.clear();
  state.next_open = ChainId();
  state.balancing = {};
  state.balancing.next_look = now + state.timing.balance;
  for (Node& node : state.nodes) {
    node.seen = {};
    node.targets.clear();
    node.seen.silent = node.standing == Standing::removed;
    node.seen.lease_end = lease_end;
    if (node.standing != Standing::removed && !is_client(node)) ++state.joined;
  }
  for (Target& target : state.targets) {
    target.seen = {};
    target.chains.clear();
    target.seen.lease_end = lease_end;
    state.at(target.node).targets.push_back(target.id);
  }
  for (Node& node : state.nodes) {
    if (has_to_hand_over(state, node)) node.seen.drained_since = now;
  }
  for (Chain& chain : state.chains) {
    chain.seen = {};
    chain.seen.queued = true;
    state.queue.push_back(chain.id);
    for (const Member& member : chain.members) {
      Target& target = state.at(member.target);
      target.chains.push_back(chain.id);
      if (member.state == CopyState::syncing) ++target.seen.syncing;
    }
  }
  ASSERT(state.queue.size() == state.chains.size());
}

const Node* find_node(const State& state, const Uuid& uuid) {
  return find_uuid(state.nodes, uuid);
}

const Target* find_target(const State& state, const Uuid& uuid) {
  return find_uuid(state.targets, uuid);
}

size_t count_of(const Chain& chain, CopyState state) {
  return static_cast<size_t>(
      std::count_if(chain.members.begin(), chain.members.end(),
                    [state](const Member& member) { return member.state == state; }));
}

bool is_offline(const State& state, const Member& member) {
  return !acts(member) && !state.at(member.target).seen.up;
}

Health health(const State& state) {
  Health health;
  health.nodes = state.joined;
  health.missing = state.missing;
  health.suspected = static_cast<size_t>(std::count_if(
      state.nodes.begin(), state.nodes.end(), [](const Node& n) { return n.is_suspected(); }));
  health.chains = state.chains.size();
  for (const Chain& chain : state.chains) {
    const size_t serving = count_of(chain, CopyState::serving);
    if (serving == 0) {
      ++health.unavailable;
    } else {
      ++(serving >= state.at(chain.table).copies ? health.whole : health.partial);
    }
    if (count_of(chain, CopyState::syncing) > 0) ++health.syncing;
    const bool leaves = std::any_of(chain.members.begin(), chain.members.end(),
                                    [](const Member& member) { return member.leaving; });
    if (leaves) ++health.moving;
  }
  const Balancing& balancing = state.balancing;
  health.moves_left = std::max<size_t>(health.moving, balancing.left);
  health.moves_wait = balancing.waits && balancing.goes_on;
  if (balancing.goes_on && balancing.done > 0) {
    ASSERT(balancing.since != kLongAgo);
    const engine::Duration each = (state.now - balancing.since) / balancing.done;
    health.moves_time = each * static_cast<int64_t>(health.moves_left);
  }
  ASSERT(health.whole + health.partial + health.unavailable == health.chains);
  return health;
}

bool is_to_stay(const State& state, const Target& target) {
  return !target.forgotten && !target.draining &&
         state.at(target.node).standing == Standing::joined;
}

namespace {

bool has_to_hand_over(const State& state, const Target& target) {
  return !target.forgotten &&
         (target.draining || state.at(target.node).standing == Standing::draining);
}

}  // namespace

bool has_to_hand_over(const State& state, const Node& node) {
  if (node.standing == Standing::draining) return true;
  return std::any_of(node.targets.begin(), node.targets.end(),
                     [&](TargetId id) { return has_to_hand_over(state, state.at(id)); });
}

// A target that has applied an older map may serve by it until its lease is over, and gets no other
// lease before it has applied this one.
bool is_fenced(const State& state, NodeId node, uint64_t lowest) {
  const auto found = state.fences.find(node);
  if (found == state.fences.end() || found->second.lowest < lowest) return false;
  return std::all_of(state.targets.begin(), state.targets.end(), [&](const Target& target) {
    const bool has_lease = !target.seen.down && state.now < target.seen.lease_end;
    return !has_lease || state.at(target.node).seen.applied >= found->second.changed;
  });
}

const rights::Restriction* restriction_of(const State& state, NodeId node) {
  const auto found = state.restrictions.find(node);
  const bool is_limited = found != state.restrictions.end() && !found->second.what.is_nothing();
  return is_limited ? &found->second.what : nullptr;
}

size_t chains_on(const State& state, NodeId node) {
  size_t chains = 0;
  for (const TargetId id : state.at(node).targets) chains += state.at(id).chains.size();
  return chains;
}

engine::Duration time_to_drain(const State& state, NodeId node) {
  const Node::Seen& seen = state.at(node).seen;
  if (seen.drained == 0 || seen.drained_since == kLongAgo) return engine::Duration(-1);
  ASSERT(state.now >= seen.drained_since);
  const engine::Duration each = (state.now - seen.drained_since) / seen.drained;
  size_t left = 0;
  for (const TargetId id : state.at(node).targets) {
    if (has_to_hand_over(state, state.at(id))) left += state.at(id).chains.size();
  }
  return each * static_cast<int64_t>(left);
}

std::string find_fault(const State& state, const Chain& chain) {
  const auto fault = [&](const char* what) {
    return "chain " + std::to_string(chain.id.value) + ": " + what;
  };
  if (chain.members.size() > limits::kMembersMax) return fault("too many members");
  for (const Member& member : chain.members) {
    if (!state.has(member.target)) return fault("a member is no target");
    if (member.incarnation > state.at(member.target).incarnation) {
      return fault("a member is of an incarnation that was never given out");
    }
  }
  const auto before = [](const Member& a, const Member& b) { return rank_of(a) < rank_of(b); };
  if (!std::is_sorted(chain.members.begin(), chain.members.end(), before)) {
    return fault("members are out of order");
  }
  const size_t serving = count_of(chain, CopyState::serving);
  if (count_of(chain, CopyState::syncing) > (serving > 0 ? 1 : 0)) {
    return fault("too many are syncing");
  }
  if (serving > 0 && count_of(chain, CopyState::last_serving) > 0) {
    return fault("one serves, and others served last");
  }
  if (serving == 0 && !chain.members.empty() && count_of(chain, CopyState::last_serving) == 0) {
    return fault("nobody knows who served last");
  }
  for (size_t i = 0; i < chain.members.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const NodeId node = state.at(chain.members[i].target).node;
      if (state.at(chain.members[j].target).node == node) return fault("two copies on one node");
    }
  }
  return {};
}

std::string find_fault(const State& state) {
  std::string fault = find_broken_reference(state);
  for (size_t i = 0; i < state.chains.size() && fault.empty(); ++i) {
    fault = find_fault(state, state.chains[i]);
  }
  return fault;
}

}  // namespace penstock::controller
