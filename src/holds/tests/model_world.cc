#include "model_world.h"

#include "model_agent.h"

#include <algorithm>
#include <utility>

namespace penstock::holds {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

ModelWorld::ModelWorld(sim::SimWorld& its_world, size_t count, Mutants its_mutants)
    : world(its_world), mutants(its_mutants) {
  restart_meta();
  for (uint32_t node = 1; node <= count; ++node) {
    agents.push_back(std::make_unique<ModelAgent>(*this, NodeId(node)));
    agents.back()->start();
  }
  remind();
}

ModelWorld::~ModelWorld() {
  for (const auto& agent : agents) agent->end();
}

void ModelWorld::send(NodeId between, std::string_view label, std::function<void()> deliver) {
  const bool is_bad = lost_permille != 0;
  if (is_away() || cut.contains(between) || (is_bad && world.chance(lost_permille))) return;
  const uint32_t copies = is_bad && world.chance(50) ? 2 : 1;
  for (uint32_t i = 0; i < copies; ++i) {
    const Duration late =
        world.between(milliseconds(0), milliseconds(is_bad && world.chance(100) ? 900 : 5));
    world.after(late, label, [this, between, deliver] {
      if (!is_away() && !cut.contains(between)) deliver();
    });
  }
}

// What was in memory is gone; who waits asks again.
void ModelWorld::restart_meta() {
  world.trace("meta begins", ++life_);
  std::vector<AgentId> recorded;
  for (const auto& [agent, is_ended] : recorded_) {
    world.trace(is_ended ? "has ended" : "is recorded", agent.node.value, agent.session);
    recorded.push_back(agent);
  }
  barriers_ = 0;
  waiting_.clear();
  std::erase_if(done_, [](const auto& one) { return one.second.first == 0; });
  const Time wait = world.now() + limits::kAgentLease + limits::kLeaseGuard;
  table_ = std::make_unique<Table>(life_, recorded, world.now(), wait);
  for (const auto& [agent, is_ended] : recorded_) {
    if (is_ended) table_->expel(agent, world.now());
  }
  act();
}

void ModelWorld::lose_meta(Duration away) {
  world.trace("meta is away", static_cast<uint64_t>(away / milliseconds(1)));
  ++away_;
  // What it was doing is not done.
  ++life_;
  world.after(away, "meta is back", [this] {
    if (--away_ == 0) restart_meta();
  });
}

// As when a person removes a node, which may come back.
void ModelWorld::expel(NodeId node) {
  if (is_away()) return;
  table_->expel(agents[node.value - 1]->id(), world.now());
  act();
}

void ModelWorld::heal() {
  lost_permille = 0;
  cut.clear();
  deaf.clear();
}

bool ModelWorld::is_idle() const {
  return !is_away() && !table_->is_claiming() &&
         std::all_of(agents.begin(), agents.end(), [](const auto& one) { return one->is_idle(); });
}

void ModelWorld::remind() {
  world.after(limits::kTickInterval, "tick", [this] { remind(); });
  if (is_away()) return;
  table_->tick(world.now());
  act();
  if (world.chance(500)) {
    for (const auto& agent : agents) {
      for (const Recall& recall : table_->recalls_of(agent->id())) {
        if (deaf.contains(agent->node())) continue;
        send(agent->node(), "recall again",
             [&to = *agent, recall] { to.when_awake([&to, recall] { to.on_recall(recall); }); });
      }
    }
  }
}

void ModelWorld::act() {
  for (const Action& action : table_->take_actions()) {
    if (const auto* given = std::get_if<Given>(&action)) {
      world.trace("give", given->inode.value, given->stamp.value);
      ModelAgent& to = *agents[given->agent.node.value - 1];
      send(to.node(), "given",
           [&to, what = *given] { to.when_awake([&to, what] { to.on_given(what); }); });
    } else if (const auto* recall = std::get_if<Recall>(&action)) {
      world.trace("recall", recall->inode.value, recall->recall.value);
      if (deaf.contains(recall->agent.node)) continue;
      ModelAgent& to = *agents[recall->agent.node.value - 1];
      send(to.node(), "recall",
           [&to, what = *recall] { to.when_awake([&to, what] { to.on_recall(what); }); });
    } else if (const auto* ready = std::get_if<Ready>(&action)) {
      const auto found = waiting_.extract(ready->request);
      ASSERT(!found.empty());
      found.mapped()(ready->stamps.front());
    } else if (const auto* gone = std::get_if<Gone>(&action)) {
      world.trace("gone", gone->agent.node.value, gone->agent.session);
      if (!mutants.forgets_ends) recorded_.erase(gone->agent);
    } else {
      end(std::get<End>(action).agent);
    }
  }
}

// Recorded first, then refused at the targets, and only then told to the table.
void ModelWorld::end(AgentId agent) {
  if (is_calm) fault("a session has ended though nothing failed");
  const auto soon = world.between(milliseconds(0), milliseconds(50));
  world.after(soon, "end recorded", [this, agent, life = life_] {
    if (life != life_) return;
    recorded_[agent] = !mutants.forgets_ends;
    const auto later = world.between(milliseconds(0), milliseconds(900));
    world.after(later, "fenced", [this, agent, life] {
      if (life == life_) fence(agent);
    });
  });
}

void ModelWorld::fence(AgentId agent) {
  uint64_t& floor = floor_[agent.node];
  if (!mutants.skips_fence) floor = std::max(floor, agent.session + 1);
  forget_unwritten(agent);
  if (mutants.skips_lease) table_->dropped(agent, world.now());
  table_->fenced(agent, world.now());
  act();
}

// Programs were told of what it had yet to write: that was lost with it, and they hear of it.
void ModelWorld::forget_unwritten(AgentId agent) {
  for (auto& [what, version] : told_) {
    const auto by = told_by_.find(what);
    if (by == told_by_.end() || by->second != agent || !what.starts_with("file ")) continue;
    version = std::min(version, stored(InodeId(std::stoull(what.substr(5)))));
    for (const auto& one : expected_[what]) {
      if (const auto expected = one.lock()) *expected = std::min(*expected, version);
    }
  }
}

void ModelWorld::on_want(const Want& want, uint16_t life) {
  if (life != life_) return;
  const Status status = table_->want(want, world.now());
  static_cast<void>(status);  // It asks again, or hears of its end when it renews.
  act();
}

void ModelWorld::on_back(const Back& back, uint16_t life) {
  if (life != life_) return;
  table_->back(back, world.now());
  act();
}

void ModelWorld::on_renew(AgentId agent, Time sent, uint16_t life) {
  static_cast<void>(life);
  const bool good = table_->renew(agent, world.now());
  world.trace(good ? "renews" : "ended", agent.node.value, agent.session);
  ModelAgent& to = *agents[agent.node.value - 1];
  send(to.node(), "renewed", [&to, agent, good, sent, now = life_] {
    to.when_awake([&to, agent, good, sent, now] { to.on_renewed(agent, good, sent, now); });
  });
}

void ModelWorld::on_begin(AgentId agent) {
  const auto found = recorded_.find(agent);
  const bool is_over =
      floor_[agent.node] > agent.session || (found != recorded_.end() && found->second);
  const Time now = world.now();
  if (!is_over) {
    recorded_[agent] = false;
    table_->begin(agent, now);
    act();
  }
  ModelAgent& to = *agents[agent.node.value - 1];
  send(to.node(), "begun", [&to, agent, is_over, now, life = life_] {
    to.when_awake([&to, agent, is_over, now, life] { to.on_begun(agent, !is_over, now, life); });
  });
}

void ModelWorld::on_claims(const Claim& claim, uint16_t life) {
  if (life != life_) return;
  std::vector<std::pair<InodeId, Stamp>> grants;
  for (const auto& [inode, hold] : claim.has) {
    const Result<Stamp> claimed = table_->claim(claim.agent, inode, hold, false);
    if (!claimed && claimed.error() == Code::conflict) fault("two have had it");
    // It was claimed already, where the answer was lost.
    grants.emplace_back(inode, claimed ? *claimed : table_->grant_of(claim.agent, inode));
  }
  table_->claimed(claim.agent, world.now());
  act();
  ModelAgent& to = *agents[claim.agent.node.value - 1];
  send(to.node(), "claimed", [&to, agent = claim.agent, life, grants] {
    to.when_awake([&to, agent, life, grants] { to.on_claimed(agent, life, grants); });
  });
}

void ModelWorld::answer_name(AgentId maker, uint64_t operation, Version version, Stamp stamp) {
  ModelAgent& to = *agents[maker.node.value - 1];
  send(to.node(), "name told", [&to, operation, version, stamp] {
    to.when_awake([&to, operation, version, stamp] { to.on_name(operation, version, stamp); });
  });
}

void ModelWorld::on_change_name(AgentId maker, uint64_t operation, const std::string& name,
                                uint16_t life) {
  if (life != life_) return;
  const auto key = std::pair(maker.node, operation);
  if (const auto found = done_.find(key); found != done_.end()) {
    const auto [version, stamp] = found->second;
    if (version != 0) answer_name(maker, operation, version, stamp);
    return;
  }
  const RequestId request(++barriers_);
  const auto commit = [=, this](Stamp stamp) {
    world.after(world.between(milliseconds(0), milliseconds(30)), "commit", [=, this] {
      if (life != life_) return;
      const Version version = next_version();
      names_[name] = version;
      done_[key] = {version, stamp};
      if (!mutants.ignores_barrier) table_->over(request, true, world.now());
      answer_name(maker, operation, version, stamp);
      act();
    });
  };
  done_[key] = {};
  if (mutants.ignores_barrier) return commit({});
  waiting_[request] = commit;
  std::vector<Part> parts{{kDirectory, {name}}};
  // As where a file gets or loses a name, which is in its attributes.
  if (world.chance(500)) parts.push_back({InodeId(2 + world.random().below(4)), {""}});
  table_->barrier({request, maker, std::move(parts)}, world.now());
  act();
}

void ModelWorld::on_look_up(AgentId agent, uint64_t operation, const std::string& name,
                            uint16_t life) {
  if (life != life_) return;
  answer_name(agent, operation, names_[name], table_->reading(kDirectory));
}

void ModelWorld::store(AgentId agent, InodeId inode, Version version,
                       std::function<void(bool)> done) {
  const bool is_late = lost_permille != 0 && world.chance(50);
  const Duration late = world.between(milliseconds(0), milliseconds(is_late ? 9000 : 10));
  world.after(late, "store", [this, agent, inode, version, done = std::move(done)] {
    const bool may = agent.session >= floor_[agent.node];
    world.trace(may ? "stored" : "refused", inode.value, version);
    if (may) files_[inode] = version;
    done(may);
  });
}

Version ModelWorld::stored(InodeId inode) const {
  const auto found = files_.find(inode);
  return found == files_.end() ? 0 : found->second;
}

void ModelWorld::told(AgentId by, const std::string& what, Version version) {
  if (by.session < floor_[by.node]) return;  // nobody can expect it of others
  Version& known = told_[what];
  if (version <= known) return;
  known = version;
  told_by_[what] = by;
  world.trace(what.starts_with("file ") ? "told of bytes" : "told of a name", by.node.value,
              version);
}

std::shared_ptr<Version> ModelWorld::expect(const std::string& what) {
  std::vector<std::weak_ptr<Version>>& all = expected_[what];
  std::erase_if(all, [](const auto& one) { return one.expired(); });
  auto expected = std::make_shared<Version>(told_[what]);
  all.push_back(expected);
  return expected;
}

void ModelWorld::fault(const std::string& what) {
  world.trace("fault");
  if (first_fault.empty()) {
    first_fault = what + ", after " +
                  std::to_string(world.now().time_since_epoch() / milliseconds(1)) + " ms";
  }
}

}  // namespace penstock::holds
