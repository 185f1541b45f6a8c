// Plans of tables: shares first, then chain by chain the nodes that share the fewest chains so far,
// and swaps in the end where some share too many.
#include "candidates.h"
#include "shares.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "penstock/controller/placement.h"

namespace penstock::controller {
namespace {

// Swaps that are tried for one copy, and in all: they take a second at most.
constexpr int kTriesEach = 256;
constexpr size_t kTriesMax = 8'000'000;

// Copies that must lie in different groups: of one node, or of one rack.
struct Group {
  uint64_t capacity = 0;
  uint32_t share = 0;  // copies that it is to hold
  uint32_t left = 0;   // of these, not placed yet
  std::vector<size_t> places;
};

// A target of the plan.
struct Place {
  TargetId target;
  size_t node = 0;  // in the order of the plan
  size_t group = 0;
  uint64_t capacity = 0;
  uint32_t share = 0;
  uint32_t left = 0;
};

// Deals out `total` by weights; nobody gets more than `most`. The sum is right if it can be.
std::vector<uint32_t> deal(const std::vector<uint64_t>& weights, uint64_t total, uint64_t most) {
  const std::vector<double> shares =
      shares_by_weight(weights, static_cast<double>(total), static_cast<double>(most));
  std::vector<uint32_t> dealt(weights.size());
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  uint64_t sum = 0;
  for (size_t i = 0; i < shares.size(); ++i)
    sum += dealt[i] = static_cast<uint32_t>(shares[i] + 1e-9);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return shares[a] - dealt[a] > shares[b] - dealt[b]; });
  for (bool more = true; more && sum < total;) {
    more = false;
    for (const size_t i : order) {
      if (sum == total) break;
      if (dealt[i] >= most) continue;
      ++dealt[i];
      ++sum;
      more = true;
    }
  }
  return dealt;
}

class Planner {
 public:
  Planner(const State& state, const TablePlan& plan, engine::Random& random)
      : state_(state), plan_(plan), random_(random) {}

  Outcome<CreateTable> run() {
    find_places();
    if (groups_.size() < plan_.copies) {
      const std::string what = plan_.racks_apart ? "racks" : "nodes";
      return Failure{Code::invalid_argument,
                     "table: " + std::to_string(plan_.copies) + " copies need as many " + what +
                         " with targets that are up; there are " + std::to_string(groups_.size()) +
                         " (let another join, or choose fewer copies)"};
    }
    deal_shares();
    for (uint32_t left = plan_.chains; left > 0; --left) place_chain(left);
    even_out();
    CreateTable create{plan_.copies, plan_.media, plan_.racks_apart, {}};
    std::vector<uint32_t> heads(nodes_);
    for (std::vector<size_t>& chain : chains_) create.chains.push_back(in_order(chain, heads));
    ASSERT(create.chains.size() == plan_.chains);
    return create;
  }

 private:
  void find_places() {
    std::map<NodeId, size_t> nodes;
    std::map<std::string, size_t> groups;
    for (const Target& target : state_.targets) {
      if (!can_take_copies(state_, target, plan_.media)) continue;
      const std::string& rack = state_.at(target.node).facts.rack;
      const bool by_rack = plan_.racks_apart && !rack.empty();
      const std::string name = by_rack ? "r" + rack : std::to_string(target.node.value);
      const size_t node = nodes.try_emplace(target.node, nodes.size()).first->second;
      const size_t group = groups.try_emplace(name, groups.size()).first->second;
      if (group == groups_.size()) groups_.emplace_back();
      groups_[group].capacity += target.capacity_bytes;
      groups_[group].places.push_back(places_.size());
      places_.push_back({target.id, node, group, target.capacity_bytes});
    }
    nodes_ = nodes.size();
    pairs_.assign(nodes_ * nodes_, 0);
    loads_.assign(nodes_, 0);
  }

  void deal_shares() {
    std::vector<uint64_t> weights;
    for (const Group& group : groups_) weights.push_back(group.capacity);
    const std::vector<uint32_t> shares =
        deal(weights, uint64_t{plan_.chains} * plan_.copies, plan_.chains);
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      group.share = group.left = shares[g];
      std::vector<uint64_t> within;
      for (const size_t p : group.places) within.push_back(places_[p].capacity);
      const std::vector<uint32_t> parts = deal(within, group.share, group.share);
      for (size_t i = 0; i < parts.size(); ++i) {
        Place& place = places_[group.places[i]];
        place.share = place.left = parts[i];
        loads_[place.node] += parts[i];
      }
    }
  }

  uint32_t& pair(size_t a, size_t b) { return pairs_[a * nodes_ + b]; }
  void count_pair(size_t a, size_t b, int32_t by) {
    pair(a, b) += static_cast<uint32_t>(by);
    pair(b, a) += static_cast<uint32_t>(by);
  }

  // Groups that have as many copies left as there are chains are in each of these.
  void place_chain(uint32_t chains_left) {
    std::vector<size_t> chain;
    std::vector<bool>& used = used_;
    used.assign(groups_.size(), false);
    for (size_t g = 0; g < groups_.size(); ++g) {
      ASSERT(groups_[g].left <= chains_left);
      if (groups_[g].left == chains_left) take(best_of(groups_[g], chain), chain, used);
    }
    while (chain.size() < plan_.copies) {
      size_t best = places_.size();
      Rank best_rank;
      for (size_t p = 0; p < places_.size(); ++p) {
        if (used[places_[p].group] || places_[p].left == 0) continue;
        const Rank rank = rank_of_place(p, chain);
        if (best < places_.size() && !(rank < best_rank)) continue;
        best = p;
        best_rank = rank;
      }
      ASSERT(best < places_.size());
      take(best, chain, used);
    }
    chains_.push_back(std::move(chain));
  }

  size_t best_of(const Group& group, const std::vector<size_t>& chain) {
    size_t best = places_.size();
    Rank best_rank;
    for (const size_t p : group.places) {
      if (places_[p].left == 0) continue;
      const Rank rank = rank_of_place(p, chain);
      if (best < places_.size() && !(rank < best_rank)) continue;
      best = p;
      best_rank = rank;
    }
    ASSERT(best < places_.size());
    return best;
  }

  // Those that share the fewest chains with the others, then those with most of their share left.
  struct Rank {
    uint32_t shared = 0;
    double placed = 0;
    uint64_t draw = 0;
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  Rank rank_of_place(size_t p, const std::vector<size_t>& chain) {
    Rank rank;
    for (const size_t other : chain) rank.shared += pair(places_[p].node, places_[other].node);
    rank.placed = 1 - static_cast<double>(places_[p].left) / places_[p].share;
    rank.draw = random_.next();
    return rank;
  }

  void take(size_t p, std::vector<size_t>& chain, std::vector<bool>& used) {
    Place& place = places_[p];
    ASSERT(place.left > 0 && groups_[place.group].left > 0 && !used[place.group]);
    --place.left;
    --groups_[place.group].left;
    used[place.group] = true;
    for (const size_t other : chain) count_pair(place.node, places_[other].node, 1);
    chain.push_back(p);
  }

  // Swaps copies of two chains as long as some nodes share more than they may: loads stay.
  void even_out() {
    size_t tries = kTriesMax;
    for (bool improves = true; improves && tries > 0;) {
      improves = false;
      for (size_t c = 0; c < chains_.size(); ++c) {
        for (size_t i = 0; i < chains_[c].size(); ++i) {
          if (!shares_too_much(c, i)) continue;
          for (int t = 0; t < kTriesEach && tries > 0; ++t, --tries) {
            if (!swap(c, i)) continue;
            improves = true;
            break;
          }
        }
      }
    }
  }

  // What two nodes may share: nodes that hold more than others share more.
  uint32_t bound_of(size_t a, size_t b) const {
    const auto nodes = static_cast<double>(nodes_);
    const double copies = static_cast<double>(plan_.chains) * plan_.copies;
    PairLoads loads;
    loads.mean = copies * (plan_.copies - 1) / (nodes * (nodes - 1));
    loads.mean *= loads_[a] / copies * nodes * loads_[b] / copies * nodes;
    return loads.bound();
  }

  bool shares_too_much(size_t c, size_t i) {
    const size_t here = places_[chains_[c][i]].node;
    for (size_t j = 0; j < chains_[c].size(); ++j) {
      const size_t there = places_[chains_[c][j]].node;
      if (j != i && pair(here, there) > bound_of(here, there)) return true;
    }
    return false;
  }

  // By how much the sum of squares grows if chain c gets place `p` instead of its i-th.
  int64_t growth(size_t c, size_t i, size_t p) {
    int64_t growth = 0;
    for (size_t j = 0; j < chains_[c].size(); ++j) {
      if (j == i) continue;
      const size_t other = places_[chains_[c][j]].node;
      growth += 2 * int64_t{pair(places_[p].node, other)} + 1;
      growth -= 2 * int64_t{pair(places_[chains_[c][i]].node, other)} - 1;
    }
    return growth;
  }

  bool has_group(size_t c, size_t but, size_t group) {
    for (size_t j = 0; j < chains_[c].size(); ++j) {
      if (j != but && places_[chains_[c][j]].group == group) return true;
    }
    return false;
  }

  void replace(size_t c, size_t i, size_t p) {
    for (size_t j = 0; j < chains_[c].size(); ++j) {
      if (j == i) continue;
      count_pair(places_[chains_[c][i]].node, places_[chains_[c][j]].node, -1);
      count_pair(places_[p].node, places_[chains_[c][j]].node, 1);
    }
    chains_[c][i] = p;
  }

  // With a random copy of another chain, if that makes it more even.
  bool swap(size_t c, size_t i) {
    const size_t d = random_.below(chains_.size()), j = random_.below(plan_.copies);
    const size_t here = chains_[c][i], there = chains_[d][j];
    if (c == d || places_[here].node == places_[there].node) return false;
    if (has_group(c, i, places_[there].group) || has_group(d, j, places_[here].group)) return false;
    if (growth(c, i, there) + growth(d, j, here) >= 0) return false;
    replace(c, i, there);
    replace(d, j, here);
    return true;
  }

  // The head is the node that heads the fewest so far, and so on.
  std::vector<TargetId> in_order(std::vector<size_t>& chain, std::vector<uint32_t>& heads) const {
    std::stable_sort(chain.begin(), chain.end(), [&](size_t a, size_t b) {
      return heads[places_[a].node] < heads[places_[b].node];
    });
    ++heads[places_[chain.front()].node];
    std::vector<TargetId> targets;
    for (const size_t p : chain) targets.push_back(places_[p].target);
    return targets;
  }

  const State& state_;
  const TablePlan plan_;
  engine::Random& random_;
  std::vector<Group> groups_;
  std::vector<Place> places_;
  size_t nodes_ = 0;
  std::vector<double> loads_;    // of nodes: how many copies they are to hold
  std::vector<uint32_t> pairs_;  // of nodes: how many chains they share
  std::vector<std::vector<size_t>> chains_;
  std::vector<bool> used_;
};

}  // namespace

Outcome<CreateTable> plan_table(const State& state, const TablePlan& plan, engine::Random& random) {
  if (plan.copies == 0 || plan.copies > limits::kCopiesMax || plan.chains == 0 ||
      plan.chains > limits::kChainsMax) {
    return Failure{Code::invalid_argument,
                   "table: from 1 to " + std::to_string(limits::kCopiesMax) + " copies and 1 to " +
                       std::to_string(limits::kChainsMax) + " chains are possible"};
  }
  return Planner(state, plan, random).run();
}

}  // namespace penstock::controller
