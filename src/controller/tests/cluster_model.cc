#include "cluster_model.h"

#include <algorithm>
#include <utility>

namespace penstock::controller {

using std::chrono::milliseconds;

namespace {

constexpr auto kBeat = milliseconds(100);
constexpr auto kTick = milliseconds(25);
constexpr auto kDelayMax = milliseconds(20);

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

ClusterModel::ClusterModel(sim::SimWorld& world, const ModelOptions& options)
    : world_(world), options_(options) {
  state_.timing = {.lease = milliseconds(1000),
                   .replace_after = milliseconds(6000),
                   .suspicion = milliseconds(3000),
                   .suspicion_first = milliseconds(1500),
                   .retry_failed = milliseconds(500),
                   .repairs_per_target = 1 + world_.random().below(3)};
  state_.cluster = any_uuid();
  begin(state_, world_.now());
  for (size_t i = 0; i < options.nodes; ++i) {
    auto& node = *nodes_.emplace_back(std::make_unique<ModelNode>());
    node.uuid = any_uuid();
    node.number = i;
    // A tenth each way, and often nearly that.
    const double drift =
        world_.chance(500) ? 1 : static_cast<double>(world_.random().below(100)) / 100;
    node.rate = world_.chance(500) ? 1 - 0.095 * drift : 1 + 0.095 * drift;
    for (size_t j = 0; j < options.targets; ++j) node.targets.emplace_back().uuid = any_uuid();
  }
}

Uuid ClusterModel::any_uuid() {
  Uuid uuid;
  for (uint8_t& byte : uuid.bytes) byte = static_cast<uint8_t>(world_.random().below(256));
  return uuid;
}

void ClusterModel::start() {
  ASSERT(options_.late < nodes_.size());
  const size_t early = nodes_.size() - options_.late;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (i < early) run(i);
    beat(i);
  }
  tick();
  const bool all_up = world_.run_until(
      [this, early] {
        const auto is_up = [](const Target& target) { return target.seen.up; };
        return state_.targets.size() == early * options_.targets &&
               std::all_of(state_.targets.begin(), state_.targets.end(), is_up);
      },
      std::chrono::seconds(20));
  ASSERT(all_up);
  CreateTable create;
  create.copies = options_.copies;
  for (size_t i = 0; i < options_.chains; ++i) {
    std::vector<TargetId>& chain = create.chains.emplace_back();
    for (size_t j = 0; j < options_.copies; ++j) {
      const ModelNode& node = *nodes_[(i + j) % early];
      chain.push_back(node.targets[i % options_.targets].id);
    }
  }
  handle(create);
  ASSERT(state_.chains.size() == options_.chains);
}

double ClusterModel::clock(const ModelNode& node) const {
  return seconds_of(world_.now().time_since_epoch()) * node.rate;
}

void ClusterModel::broken(const std::string& what) {
  if (!fault_.empty()) return;
  fault_ = what + " at " + std::to_string(seconds_of(world_.now().time_since_epoch())) + " s";
}

// The controller.

void ClusterModel::tick() {
  if (stopped_) return;
  handle(Tick{});
  live();
  world_.after(kTick, "tick", [this] { tick(); });
}

void ClusterModel::restart_controller() {
  begin(state_, world_.now());
}

// What is not committed is not sent, and the state is made anew of what was.
void ClusterModel::handle(const Event& event) {
  const std::vector<Chain> before = state_.chains;
  if (world_.chance(failed_commits_permille)) {
    State committed = state_;
    const Actions actions = step(state_, event, world_.now());
    if (actions.changes.empty()) return send(actions);
    state_ = std::move(committed);
    return restart_controller();
  }
  const Actions actions = step(state_, event, world_.now());
  check_step(before);
  send(actions);
  if (actions.more) handle(Tick{});
}

void ClusterModel::order(const Event& event) {
  const uint32_t failed = std::exchange(failed_commits_permille, 0);
  handle(event);
  failed_commits_permille = failed;
}

void ClusterModel::send(const Actions& actions) {
  for (const Admission& admission : actions.admissions) {
    world_.after(world_.between(Duration(0), kDelayMax), "admission",
                 [this, admission] { on_admission(admission); });
  }
  for (const Opened& opened : actions.opened) {
    world_.after(world_.between(Duration(0), kDelayMax), "opened",
                 [this, opened] { on_opened(opened); });
  }
  for (const Grant& grant : actions.grants) deliver(grant);
  if (!actions.published) return;
  for (const auto& node : nodes_)
    deliver({node->id, node->incarnation, 0, state_.version, false, {}});
}

void ClusterModel::deliver(const Grant& grant) {
  for (const auto& node : nodes_) {
    if (grant.node == NodeId() || node->id != grant.node) continue;
    if (deaf.contains(node->number) || world_.chance(lost_permille)) return;
    auto map = std::make_shared<Published>(Published{state_.version, state_.chains});
    world_.after(world_.between(Duration(0), kDelayMax), "grant",
                 [this, grant, map, &to = *node] { on_grant(to, grant, *map); });
  }
}

void ClusterModel::check_step(const std::vector<Chain>& before) {
  const std::string fault = find_fault(state_);
  if (!fault.empty()) broken(fault);
  for (const Target& target : state_.targets) {
    size_t syncing = 0;
    for (const ChainId id : target.chains) {
      for (const Member& member : state_.at(id).members) {
        if (member.target == target.id && member.state == CopyState::syncing) ++syncing;
      }
    }
    if (syncing != target.seen.syncing) broken("chains that sync are not counted");
  }
  for (const Chain& chain : before) {
    check_chain(chain, state_.at(chain.id));
    check_copies(chain, state_.at(chain.id));
  }
}

// What moves elsewhere, or is too much, leaves no chain with fewer copies than it is to have.
void ClusterModel::check_copies(const Chain& before, const Chain& after) {
  const uint32_t copies = state_.at(after.table).copies;
  if (count_of(after, CopyState::serving) >= copies) return;
  for (const Member& member : before.members) {
    if (member.state != CopyState::serving) continue;
    const bool stays =
        std::any_of(after.members.begin(), after.members.end(), [&](const Member& m) {
          return m.target == member.target && m.state == CopyState::serving;
        });
    const Target& target = state_.at(member.target);
    const bool is_good = target.seen.up && !target.forgotten && !target.seen.failing &&
                         target.incarnation == member.incarnation &&
                         world_.now() >= target.seen.failed_until &&
                         !state_.at(target.node).is_suspected();
    if (!stays && is_good) {
      broken("chain " + std::to_string(after.id.value) + ": a good copy left too few behind");
    }
  }
}

void ClusterModel::check_chain(const Chain& before, const Chain& after) {
  const std::string name = "chain " + std::to_string(after.id.value);
  std::vector<Member> acted, act;
  std::copy_if(before.members.begin(), before.members.end(), std::back_inserter(acted), acts);
  std::copy_if(after.members.begin(), after.members.end(), std::back_inserter(act), acts);
  const auto same = [](const Member& a, const Member& b) {
    return a.target == b.target && a.incarnation == b.incarnation && a.state == b.state;
  };
  const bool changes = !std::equal(acted.begin(), acted.end(), act.begin(), act.end(), same);
  const uint64_t versions = after.version.value - before.version.value;
  if (versions != (changes ? 1 : 0)) broken(name + ": not one version for each change (T6)");
  const auto place = [&](const std::vector<Member>& members, const Member& wanted) {
    return std::find_if(members.begin(), members.end(), [&](const Member& member) {
      return member.target == wanted.target && member.incarnation == wanted.incarnation;
    });
  };
  size_t last_old = 0;
  bool came_new = false;
  for (const Member& member : act) {
    if (member.state != CopyState::serving) continue;
    const auto old = place(acted, member);
    if (old != acted.end() && old->state == CopyState::serving) {
      const auto at = static_cast<size_t>(old - acted.begin()) + 1;
      if (at < last_old || came_new) broken(name + ": serving ones changed places (T1)");
      last_old = at;
      continue;
    }
    came_new = true;
    if (old == acted.end()) {
      const auto was = std::find_if(before.members.begin(), before.members.end(),
                                    [&](const Member& m) { return m.target == member.target; });
      const bool was_last = was != before.members.end() && was->state != CopyState::waiting;
      if (!was_last || act.front() != member) broken(name + ": one serves out of turn (T5)");
    } else if (!repaired_.contains({before.id, before.version})) {
      broken(name + ": one serves that nobody said to be repaired (T4)");
    }
  }
  bool has_full = false;
  for (const Member& member : after.members) {
    const bool holds =
        member.state == CopyState::serving || member.state == CopyState::last_serving;
    if (!holds) continue;
    has_full = true;
    for (const auto& node : nodes_) {
      for (ModelTarget& target : node->targets) {
        if (target.id != member.target) continue;
        if (target.updates[after.id] != acknowledged_[after.id]) {
          broken(name + ": a copy that counts as full lacks an update");
        }
      }
    }
  }
  if (!has_full) broken(name + ": no full copy is known any more");
}

// Nodes.

void ClusterModel::kill(size_t number) {
  ModelNode& node = *nodes_[number];
  node.running = false;
  node.id = NodeId();
  node.incarnation = NodeIncarnation();
  node.applied = MapVersion();
  node.views.clear();
  node.reports.clear();
  for (ModelTarget& target : node.targets) {
    target.open = false;
    target.id = TargetId();
    target.lease_until = -1;
    target.active.clear();
    target.failed.clear();
  }
}

void ClusterModel::run(size_t number) {
  ModelNode& node = *nodes_[number];
  if (node.running) return;
  node.running = true;
  node.process = any_uuid();
  node.proves_end = world_.chance(500);
  node.sequence = node.answered = 0;
  node.sent.clear();
}

void ClusterModel::power_cut() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    kill(i);
    world_.after(world_.between(Duration(0), milliseconds(world_.chance(500) ? 200 : 2500)),
                 "power", [this, i] { run(i); });
  }
}

void ClusterModel::heal() {
  deaf.clear();
  mute.clear();
  cut.clear();
  lost_permille = 0;
  failed_commits_permille = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) run(i);
}

// One replica that serves stops, and says so.
void ClusterModel::fail_replica(size_t number) {
  ModelNode& node = *nodes_[number];
  for (ModelTarget& target : node.targets) {
    for (const auto& [id, view] : node.views) {
      if (!target.open || target.failed.contains(id)) continue;
      const bool acts_here =
          std::any_of(view.members.begin(), view.members.end(), [&](const Member& m) {
            return acts(m) && m.target == target.id && m.incarnation == target.held;
          });
      if (!acts_here) continue;
      target.failed[id] = view.version;
      node.reports.push_back({ChainReport::Kind::failed, id, view.version, target.id});
      return;
    }
  }
}

void ClusterModel::beat(size_t number) {
  if (stopped_) return;
  ModelNode& node = *nodes_[number];
  if (node.running) heartbeat(node);
  const double later = seconds_of(kBeat) / node.rate;
  world_.after(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(later)), "beat",
               [this, number] { beat(number); });
}

void ClusterModel::say(const ModelNode& node, Event event) {
  if (mute.contains(node.number) || world_.chance(lost_permille)) return;
  const int copies = world_.chance(20) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    world_.after(world_.between(Duration(0), kDelayMax), "to controller", [this, event] {
      if (!stopped_) handle(event);
    });
  }
}

// Joins, opens what is not open, or says how it is.
void ClusterModel::heartbeat(ModelNode& node) {
  if (node.id == NodeId()) {
    Join join{state_.cluster, node.uuid, node.process, {}, node.proves_end};
    join.facts.name = "n" + std::to_string(node.number);
    return say(node, join);
  }
  Heartbeat heartbeat;
  for (ModelTarget& target : node.targets) {
    if (target.open) {
      heartbeat.targets.push_back({target.id, target.held});
      continue;
    }
    if (target.opening == 0 || world_.chance(100)) target.opening = world_.random().next() | 1;
    say(node, OpenTarget{sender(node), target.uuid, target.held, target.opening, kGiB,
                         MediaClass::flash});
  }
  heartbeat.from = sender(node);
  heartbeat.applied = node.applied;
  heartbeat.answered = node.answered;
  heartbeat.accused = accused(node);
  std::erase_if(node.reports, [&](const ChainReport& report) {
    const auto view = node.views.find(report.chain);
    return view == node.views.end() || view->second.version != report.version;
  });
  heartbeat.reports = node.reports;
  // When its lease ends is counted from here.
  node.sent[heartbeat.from.sequence] = clock(node);
  say(node, heartbeat);
}

std::vector<NodeId> ClusterModel::accused(const ModelNode& node) const {
  std::vector<NodeId> accused;
  for (const auto& other : nodes_) {
    const auto pair = std::minmax(node.number, other->number);
    const bool speaks = other->id != NodeId() && other->running;
    if (speaks && cut.contains({pair.first, pair.second})) accused.push_back(other->id);
  }
  return accused;
}

void ClusterModel::on_admission(const Admission& admission) {
  for (const auto& node : nodes_) {
    if (!node->running || node->process != admission.process || node->id != NodeId()) continue;
    if (deaf.contains(node->number) || world_.chance(lost_permille)) return;
    node->id = admission.node;
    node->incarnation = admission.incarnation;
    for (ModelTarget& target : node->targets) target.opening = 0;
  }
}

void ClusterModel::on_opened(const Opened& opened) {
  for (const auto& node : nodes_) {
    if (node->id != opened.node || node->incarnation != opened.node_incarnation) continue;
    for (ModelTarget& target : node->targets) {
      if (target.open || target.opening != opened.opening) continue;
      target.id = opened.target;
      target.held = opened.incarnation;
      target.open = true;
      target.opening = 0;
    }
  }
}

void ClusterModel::on_grant(ModelNode& node, const Grant& grant, const Published& map) {
  if (!node.running || node.incarnation != grant.node_incarnation || node.id != grant.node) return;
  if (map.version > node.applied) {
    node.applied = map.version;
    for (const Chain& chain : map.chains) adopt(node, chain);
  }
  ASSERT(node.applied >= grant.version);
  node.answered = std::max(node.answered, grant.sequence);
  if (!grant.lease) return;
  for (const Grant::Of& of : grant.targets) {
    for (ModelTarget& target : node.targets) {
      if (!target.open || target.id != of.target || target.held != of.incarnation) continue;
      target.lease_until =
          std::max(target.lease_until, node.sent[grant.sequence] + seconds_of(state_.timing.lease));
    }
  }
  check_reads();
}

void ClusterModel::adopt(ModelNode& node, const Chain& chain) {
  Chain& view = node.views[chain.id];
  if (chain.version <= view.version) return;
  view = chain;
  for (ModelTarget& target : node.targets) {
    target.active.erase(chain.id);
    const bool serves =
        std::any_of(chain.members.begin(), chain.members.end(), [&](const Member& m) {
          return m.state == CopyState::serving && m.target == target.id &&
                 m.incarnation == target.held;
        });
    if (!serves) target.failed.erase(chain.id);
    if (!target.failed.contains(chain.id)) continue;
    node.reports.push_back({ChainReport::Kind::failed, chain.id, chain.version, target.id});
  }
}

}  // namespace penstock::controller
