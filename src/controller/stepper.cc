#include "stepper.h"

#include <algorithm>
#include <utility>

namespace penstock::controller {
namespace {

template <class T>
void sort_unique(std::vector<T>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

// Whether the same members act, in the same order: then it is the same version.
bool act_the_same(const std::vector<Member>& a, const std::vector<Member>& b) {
  for (size_t i = 0;; ++i) {
    const bool more_a = i < a.size() && acts(a[i]), more_b = i < b.size() && acts(b[i]);
    if (!more_a || !more_b) return more_a == more_b;
    const bool same = a[i].target == b[i].target && a[i].incarnation == b[i].incarnation &&
                      a[i].state == b[i].state;
    if (!same) return false;
  }
}

bool are_the_same(const std::vector<Member>& a, const std::vector<Member>& b) {
  const auto all_in = [](const std::vector<Member>& these, const std::vector<Member>& those) {
    return std::all_of(these.begin(), these.end(), [&](const Member& member) {
      return std::any_of(those.begin(), those.end(),
                         [&](const Member& other) { return other.target == member.target; });
    });
  };
  return a.size() == b.size() && all_in(a, b);
}

bool has_serving(const std::vector<Member>& members) {
  return !members.empty() && members.front().state == CopyState::serving;
}

}  // namespace

Actions step(State& state, const Event& event, engine::Time now) {
  return Stepper(state, now).run(event);
}

Changes changed_since(const State& state, MapVersion applied) {
  ASSERT(applied <= state.version);
  Changes changes;
  changes.root = applied < state.version;
  const auto collect = [applied](const auto& records, auto& ids) {
    for (const auto& record : records) {
      if (record.changed > applied) ids.push_back(record.id);
    }
  };
  collect(state.nodes, changes.nodes);
  collect(state.targets, changes.targets);
  collect(state.tables, changes.tables);
  collect(state.chains, changes.chains);
  for (const auto& [node, fenced] : state.fences) {
    if (fenced.changed > applied) changes.fences.push_back(node);
  }
  for (const auto& [node, restricted] : state.restrictions) {
    if (restricted.changed > applied) changes.restrictions.push_back(node);
  }
  for (const auto& [id, key] : state.signing_keys) {
    if (key.changed > applied) changes.signing_keys.push_back(id);
  }
  return changes;
}

Stepper::Stepper(State& state, engine::Time now) : state_(state), now_(now) {
  ASSERT(now >= state.now);
  state_.now = now;
}

Actions Stepper::run(const Event& event) {
  std::visit([this](const auto& kind) { on(kind); }, event);
  settle_queued();
  finish_chains();
  publish();
  actions_.more = !state_.queue.empty();
  return std::move(actions_);
}

void Stepper::set_down(Target& target, engine::Time since) {
  if (target.seen.down) return;
  target.seen.up = false;
  target.seen.down = true;
  target.seen.aged = false;
  target.seen.down_since = since;
  queue(target);
}

void Stepper::set_node_down(const Node& node, engine::Time since) {
  for (const TargetId id : node.targets) set_down(state_.at(id), since);
}

void Stepper::queue(const Target& target) {
  for (const ChainId id : target.chains) queue(state_.at(id));
}

void Stepper::queue(Chain& chain) {
  if (std::exchange(chain.seen.queued, true)) return;
  state_.queue.push_back(chain.id);
}

void Stepper::queue(const Node& node) {
  for (const TargetId id : node.targets) queue(state_.at(id));
}

Chain& Stepper::edit(Chain& chain) {
  before_.try_emplace(chain.id, chain.members);
  return chain;
}

void Stepper::add_member(Chain& chain, TargetId target) {
  ASSERT(chain.members.size() < limits::kMembersMax);
  edit(chain).members.push_back({target, state_.at(target).incarnation});
  state_.at(target).chains.push_back(chain.id);
}

void Stepper::set_state(Chain& chain, Member& member, CopyState state) {
  if (member.state == state) return;
  edit(chain);
  size_t& syncing = state_.at(member.target).seen.syncing;
  ASSERT(member.state != kSyncing || syncing > 0);
  if (member.state == kSyncing) --syncing;
  if (state == kSyncing) ++syncing;
  member.state = state;
}

void Stepper::erase_member(Chain& chain, size_t index) {
  ASSERT(index < chain.members.size());
  edit(chain);
  std::vector<ChainId>& chains = state_.at(chain.members[index].target).chains;
  const auto found = std::find(chains.begin(), chains.end(), chain.id);
  ASSERT(found != chains.end());
  ASSERT(chain.members[index].state != kSyncing);
  *found = chains.back();
  chains.pop_back();
  chain.members.erase(chain.members.begin() + static_cast<ptrdiff_t>(index));
}

void Stepper::set_open(Chain& chain, bool open) {
  if (chain.seen.open == open) return;
  chain.seen.open = open;
  if (open) {
    const bool is_new = state_.open.insert(chain.id).second;
    ASSERT(is_new);
  } else {
    const bool was_there = state_.open.erase(chain.id) == 1;
    ASSERT(was_there);
  }
}

// A chain's rules change nothing that another chain's look at, but for the load of targets. What is
// settled late is settled by what is known then: until then the chain stays as it was published.
void Stepper::settle_queued() {
  while (!state_.queue.empty() && settled_left_ > 0) {
    --settled_left_;
    Chain& chain = state_.at(state_.queue.front());
    state_.queue.pop_front();
    ASSERT(chain.seen.queued);
    chain.seen.queued = false;
    settle(chain);
  }
}

void Stepper::changed(const Node& node) {
  actions_.changes.nodes.push_back(node.id);
}

void Stepper::changed(const Target& target, bool published) {
  actions_.changes.targets.push_back(target.id);
  if (published) published_targets_.push_back(target.id);
}

void Stepper::refuse(Code code, std::string reason) {
  ASSERT(code != Code::ok);
  actions_.refusals.push_back({code, std::move(reason)});
}

void Stepper::notice(std::string text) {
  actions_.notices.push_back({std::move(text)});
}

void Stepper::finish_chains() {
  for (const auto& [id, before] : before_) finish_chain(state_.at(id), before);
}

// Gives a chain its new version if others act in it now. What was said of an older one counts no
// more.
void Stepper::finish_chain(Chain& chain, const std::vector<Member>& before) {
  const bool is_new = chain.version == ChainVersion();
  if (before == chain.members && !is_new) return;
  actions_.changes.chains.push_back(chain.id);
  const bool acts_anew = is_new || !act_the_same(before, chain.members);
  if (acts_anew || !are_the_same(before, chain.members)) published_chains_.push_back(chain.id);
  if (!acts_anew) return;
  chain.version.value++;
  chain.seen.repaired = false;
  chain.seen.failed.clear();
  actions_.chains.push_back(chain.id);
  const std::string fault = find_fault(state_, chain);
  ASSERT(fault.empty());
  const bool serves = has_serving(chain.members);
  if (has_serving(before) && !serves) {
    notice(name_of(chain) + ": no copy serves; the first of the last to serve that is up will");
  } else if (!has_serving(before) && serves && !is_new) {
    notice(name_of(chain) + ": serves again");
  }
}

// All that is published of this step gets one new version of the map.
void Stepper::publish() {
  Changes& changes = actions_.changes;
  sort_unique(changes.nodes);
  sort_unique(changes.targets);
  sort_unique(changes.tables);
  sort_unique(changes.keys);
  sort_unique(changes.tokens);
  sort_unique(changes.restrictions);
  ASSERT(std::is_sorted(changes.chains.begin(), changes.chains.end()));
  actions_.published = !changes.nodes.empty() || !published_targets_.empty() ||
                       !changes.tables.empty() || !published_chains_.empty() ||
                       !changes.fences.empty() || !changes.restrictions.empty() ||
                       !changes.signing_keys.empty();
  if (actions_.published) {
    state_.version.value++;
    changes.root = true;
    for (const NodeId id : changes.nodes) state_.at(id).changed = state_.version;
    for (const TargetId id : published_targets_) state_.at(id).changed = state_.version;
    for (const TableId id : changes.tables) state_.at(id).changed = state_.version;
    for (const ChainId id : published_chains_) state_.at(id).changed = state_.version;
    for (const NodeId id : changes.fences) state_.fences.at(id).changed = state_.version;
    for (const NodeId id : changes.restrictions) {
      state_.restrictions.at(id).changed = state_.version;
    }
    for (const SigningKeyId id : changes.signing_keys) {
      const auto key = state_.signing_keys.find(id);
      if (key != state_.signing_keys.end()) key->second.changed = state_.version;
    }
  }
  for (Grant& grant : actions_.grants) grant.version = state_.version;
}

std::string name_of(const Node& node) {
  return "node " + std::to_string(node.id.value) + " (" + node.facts.name + ")";
}

std::string name_of(const Target& target) {
  return "target " + std::to_string(target.id.value);
}

std::string name_of(const Chain& chain) {
  return "chain " + std::to_string(chain.id.value);
}

}  // namespace penstock::controller
