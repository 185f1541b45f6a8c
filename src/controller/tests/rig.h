// A controller and nodes that say what a test tells them to say.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/controller.h"

namespace penstock::controller {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

inline Uuid uuid_of(uint32_t number) {
  Uuid uuid;
  uuid.bytes[0] = static_cast<uint8_t>(number);
  uuid.bytes[1] = static_cast<uint8_t>(number >> 8);
  uuid.bytes[2] = static_cast<uint8_t>(number >> 16);
  return uuid;
}

// Nodes and targets are numbered as the controller numbers them; node n has target n.
class Rig {
 public:
  explicit Rig(uint32_t nodes) {
    state.cluster = uuid_of(7);
    begin(state, now);
    for (uint32_t n = 1; n <= nodes; ++n) {
      join(n, n);
      open(n, n, Incarnation(0), n);
      held_[n] = Incarnation(1);
    }
    beat_all();
  }

  Actions say(const Event& event) {
    Actions actions = step(state, event, now);
    while (actions.more) {
      const Actions rest = step(state, Tick{}, now);
      actions.more = rest.more;
      actions.chains.insert(actions.chains.end(), rest.chains.begin(), rest.chains.end());
    }
    return actions;
  }
  Actions tick_after(engine::Duration duration) {
    now += duration;
    return say(Tick{});
  }

  Actions join(uint32_t node, uint32_t process, bool proof = false) {
    Join join{state.cluster, uuid_of(node), uuid_of(1000 + process), {}, proof};
    join.facts.name = "n" + std::to_string(node);
    const Actions actions = say(join);
    if (!actions.admissions.empty()) sequence_[node] = answered_[node] = 0;
    return actions;
  }
  Actions open(uint32_t node, uint32_t target, Incarnation held, uint64_t opening) {
    return say(OpenTarget{sender(node), uuid_of(target), held, opening, kGiB, MediaClass::flash});
  }
  // The process of a node ends, another begins, and opens the target again.
  void restart(uint32_t node) {
    ++processes_;
    join(node, 100 + processes_, true);
    const Actions actions = open(node, node, held_[node], 100 + processes_);
    held_[node] = actions.opened.front().incarnation;
  }

  Sender sender(uint32_t node) {
    return {NodeId(node), state.at(NodeId(node)).incarnation, ++sequence_[node]};
  }
  Heartbeat heartbeat(uint32_t node) {
    Heartbeat heartbeat;
    heartbeat.from = sender(node);
    heartbeat.applied = state.version;
    heartbeat.answered = answered_[node];
    heartbeat.targets.push_back({TargetId(node), held_[node]});
    return heartbeat;
  }
  Actions beat(uint32_t node) { return beat(heartbeat(node)); }
  Actions beat(const Heartbeat& heartbeat) {
    Actions actions = say(heartbeat);
    if (!actions.grants.empty()) {
      answered_[heartbeat.from.node.value] = heartbeat.from.sequence;
    }
    return actions;
  }
  void beat_all() {
    for (const Node& node : state.nodes) {
      if (node.standing != Standing::removed) beat(node.id.value);
    }
  }
  void beat_others(uint32_t but) {
    for (const Node& node : state.nodes) {
      if (node.id.value != but) beat(node.id.value);
    }
  }
  // All but those that are silent are heard of for so long.
  void pass(engine::Duration duration, uint32_t silent = 0) {
    for (const engine::Time end = now + duration; now < end;) {
      beat_others(silent);
      tick_after(milliseconds(250));
    }
  }
  Actions report(uint32_t node, ChainReport::Kind kind, ChainVersion version) {
    Heartbeat said = heartbeat(node);
    said.reports.push_back({kind, kFirstSharedChain, version, TargetId(node)});
    return beat(said);
  }
  // The last serving copy of a chain says that the syncing one is complete.
  Actions repaired(const Chain& of) {
    const TargetId source = of.members[count_of(of, CopyState::serving) - 1].target;
    Heartbeat said = heartbeat(source.value);
    said.reports.push_back({ChainReport::Kind::repaired, of.id, of.version, source});
    return beat(said);
  }
  // A table of one chain.
  Actions make_chain(const std::vector<uint32_t>& targets) {
    CreateTable create;
    create.copies = static_cast<uint32_t>(targets.size());
    create.chains.emplace_back();
    for (const uint32_t target : targets) create.chains.front().push_back(TargetId(target));
    return say(create);
  }

  const Chain& chain(uint32_t id = 1) const {
    return state.at(ChainId(kFirstSharedChain.value + id - 1));
  }
  ChainVersion version() const { return chain().version; }
  // As "1S 2y 3w 4!": serving, syncing, waiting, last serving.
  std::string members(uint32_t id = 1) const {
    std::string text;
    for (const Member& member : chain(id).members) {
      if (!text.empty()) text += " ";
      text += std::to_string(member.target.value) + "Syw!"[static_cast<size_t>(member.state)];
    }
    return text;
  }

  State state;
  engine::Time now{seconds(1)};

 private:
  std::map<uint32_t, uint64_t> sequence_;
  std::map<uint32_t, uint64_t> answered_;
  std::map<uint32_t, Incarnation> held_;
  uint32_t processes_ = 0;
};

}  // namespace penstock::controller
