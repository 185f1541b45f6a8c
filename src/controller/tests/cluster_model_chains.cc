// What copies of chains do among each other, as far as it matters to the controller.
#include "cluster_model.h"

#include <algorithm>

namespace penstock::controller {

ClusterModel::Replica ClusterModel::replica(const Member& member) {
  for (const auto& node : nodes_) {
    for (ModelTarget& target : node->targets) {
      const bool is_it = node->running && target.open && target.id == member.target &&
                         target.held == member.incarnation;
      if (is_it) return {node.get(), &target};
    }
  }
  return {};
}

// It acts by that version of the chain.
bool ClusterModel::has(const Replica& replica, const Chain& view) const {
  if (!replica || replica.target->failed.contains(view.id)) return false;
  const auto found = replica.node->views.find(view.id);
  return found != replica.node->views.end() && found->second.version == view.version;
}

bool ClusterModel::reach(const Replica& a, const Replica& b) const {
  const auto pair = std::minmax(a.node->number, b.node->number);
  return !cut.contains({pair.first, pair.second});
}

// All that anybody takes for a version of a chain may make progress.
void ClusterModel::live() {
  std::map<std::pair<ChainId, ChainVersion>, Chain> views;
  for (const auto& node : nodes_) {
    for (const auto& [id, view] : node->views) views.try_emplace({id, view.version}, view);
  }
  for (const auto& [id, view] : views) {
    greet(view);
    repair(view);
    if (world_.chance(300)) commit(view);
  }
  check_reads();
}

void ClusterModel::greet(const Chain& view) {
  Replica before;
  for (const Member& member : view.members) {
    if (!acts(member)) return;
    const Replica here = replica(member);
    if (!has(here, view)) return;
    if (before && (!before.target->active.contains(view.id) || !reach(before, here))) return;
    if (before && !here.target->active.contains(view.id) && world_.chance(200)) return;
    here.target->active.insert(view.id);
    before = here;
  }
}

void ClusterModel::repair(const Chain& view) {
  const size_t serving = count_of(view, CopyState::serving);
  if (serving == 0 || count_of(view, CopyState::syncing) == 0 || world_.chance(500)) return;
  const Replica source = replica(view.members[serving - 1]), to = replica(view.members[serving]);
  if (!has(source, view) || !has(to, view) || !reach(source, to)) return;
  if (!source.target->active.contains(view.id) || !to.target->active.contains(view.id)) return;
  to.target->updates[view.id] = source.target->updates[view.id];
  const ChainReport report{ChainReport::Kind::repaired, view.id, view.version, source.target->id};
  repaired_.insert({view.id, view.version});
  const auto is_same = [&](const ChainReport& other) {
    return other.chain == report.chain && other.version == report.version &&
           other.kind == report.kind;
  };
  std::vector<ChainReport>& reports = source.node->reports;
  if (std::none_of(reports.begin(), reports.end(), is_same)) reports.push_back(report);
}

// An update is acknowledged if all that act in that version know it and are active. Leases are not
// asked: those that commit need none.
void ClusterModel::commit(const Chain& view) {
  std::vector<Replica> all;
  for (const Member& member : view.members) {
    if (!acts(member)) break;
    const Replica here = replica(member);
    if (!has(here, view) || !here.target->active.contains(view.id)) return;
    if (!all.empty() && !reach(all.back(), here)) return;
    all.push_back(here);
  }
  const size_t serving = count_of(view, CopyState::serving);
  if (serving == 0) return;
  const uint64_t had = all[serving - 1].target->updates[view.id];
  ++acknowledged_[view.id];
  for (const Replica& here : all) {
    // What is not repaired yet is not told of most chunks.
    if (here.target->updates[view.id] == had) ++here.target->updates[view.id];
  }
}

void ClusterModel::check_reads() {
  for (const auto& node : nodes_) {
    for (const ModelTarget& target : node->targets) check_reads(*node, target);
  }
}

void ClusterModel::check_reads(const ModelNode& node, const ModelTarget& target) {
  if (!node.running || !target.open || clock(node) >= target.lease_until) return;
  for (const auto& [id, view] : node.views) {
    if (target.failed.contains(id) || !target.active.contains(id)) continue;
    for (const Member& member : view.members) {
      const bool is_it = member.state == CopyState::serving && member.target == target.id &&
                         member.incarnation == target.held;
      if (!is_it) continue;
      const auto found = target.updates.find(id);
      const uint64_t has = found == target.updates.end() ? 0 : found->second;
      if (has != acknowledged(id)) {
        broken("chain " + std::to_string(id.value) + ": node " + std::to_string(node.number) +
               " can answer with " + std::to_string(has) + " of " +
               std::to_string(acknowledged(id)) + " updates");
      }
    }
  }
}

bool ClusterModel::is_whole() const {
  const Health now = health(state_);
  for (const auto& node : nodes_) {
    for (const ModelTarget& target : node->targets) {
      const Target* const known = find_target(state_, target.uuid);
      if (known != nullptr && known->forgotten) {
        if (!known->chains.empty()) return false;
        continue;
      }
      // A restart that the controller did not hear of yet.
      if (!node->running || clock(*node) >= target.lease_until) return false;
    }
  }
  const bool all_fine = now.whole == now.chains && now.syncing == 0 && now.missing == 0;
  return all_fine && state_.open.empty() && state_.queue.empty();
}

// Targets are of one size: none has two chains more than another.
bool ClusterModel::is_even() const {
  if (health(state_).moves_left > 0) return false;
  size_t least = SIZE_MAX, most = 0;
  for (const Target& target : state_.targets) {
    if (!is_to_stay(state_, target)) continue;
    least = std::min(least, target.chains.size());
    most = std::max(most, target.chains.size());
  }
  return most <= least + 1 || options_.targets > 1;
}

uint64_t ClusterModel::acknowledged(ChainId chain) const {
  const auto found = acknowledged_.find(chain);
  return found == acknowledged_.end() ? 0 : found->second;
}

std::string ClusterModel::describe() const {
  std::string text;
  const auto add = [&](const std::string& name, uint64_t number) {
    text += name + std::to_string(number) + " ";
  };
  for (const Node& node : state_.nodes) {
    add("\nnode ", node.id.value);
    add(node.seen.silent ? "silent applied " : "applied ", node.seen.applied.value);
    add(node.is_suspected() ? "suspected standing " : "standing ",
        static_cast<uint64_t>(node.standing));
  }
  for (const Target& target : state_.targets) {
    add("\ntarget ", target.id.value);
    add("node ", target.node.value);
    add(target.seen.up ? "up incarnation " : "not up incarnation ", target.incarnation.value);
    add("chains ", target.chains.size());
  }
  for (const Chain& chain : state_.chains) {
    add("\nchain ", chain.id.value);
    add(chain.seen.open ? "open version " : "version ", chain.version.value);
    add("changed ", chain.changed.value);
    for (const Member& member : chain.members) {
      add(" ", member.target.value);
      add(member.leaving ? "leaving " : "", member.incarnation.value);
      text += "Syw!"[static_cast<size_t>(member.state)];
    }
  }
  return text;
}

}  // namespace penstock::controller
