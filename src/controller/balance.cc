// Moves that bring copies to where they are to lie: to targets that have too few for their size
// first, then between nodes that share too many chains.
#include "candidates.h"
#include "shares.h"

#include <algorithm>
#include <array>
#include <map>

#include "penstock/controller/placement.h"

namespace penstock::controller {
namespace {

// The copies that a chain has, or will have when what was begun with it has ended.
struct Copies {
  std::array<TargetId, limits::kCopiesMax> at{};
  size_t count = 0;
  bool may_move = false;  // all of them serve, and nothing is under way

  bool has(TargetId target) const { return std::find(begin(), end(), target) != end(); }
  const TargetId* begin() const { return at.data(); }
  const TargetId* end() const { return at.data() + count; }
};

// What a target has and is to have.
struct Load {
  bool counts = false;  // it is to have a share
  double share = 0;
  size_t copies = 0;
  size_t busy = 0;  // chains of it of which a copy is being made

  double over() const { return static_cast<double>(copies) - share; }
};

// Of nodes, by number: how many chains one shares with each.
using Row = std::vector<uint32_t>;

class Balance {
 public:
  Balance(const State& state, bool begun)
      : state_(state), begun_(begun), chains_(state.chains.size()), loads_(state.targets.size()) {}

  MovesPlan run() {
    for (const Target& target : state_.targets) load(target.id).counts = is_to_have_a_share(target);
    for (const Chain& chain : state_.chains) look_at(chain);
    for (uint8_t media = 0; media < kMediaClasses; ++media) balance(MediaClass{media});
    for (const Load& load : loads_) {
      if (load.counts && plan_.goes_on) plan_.left += static_cast<uint32_t>(left_of(load));
    }
    plan_.left += static_cast<uint32_t>(moving_ + plan_.moves.size());
    return std::move(plan_);
  }

 private:
  // Rounded.
  static double left_of(const Load& load) { return std::max(0.0, load.over() + 0.5); }

  // One that is away for a moment keeps its share.
  bool is_to_have_a_share(const Target& target) const {
    return is_to_stay(state_, target) && !target.seen.failing && !target.seen.aged &&
           target.capacity_bytes > 0;
  }

  Load& load(TargetId target) { return loads_[target.value - 1]; }
  const Load& load(TargetId target) const { return loads_[target.value - 1]; }
  Copies& copies(ChainId chain) { return chains_[chain.value - kFirstSharedChain.value]; }
  NodeId node_of(TargetId target) const { return state_.at(target).node; }

  void look_at(const Chain& chain) {
    const uint32_t wanted = state_.at(chain.table).copies;
    const size_t serving = count_of(chain, CopyState::serving);
    Copies& copies = this->copies(chain.id);
    bool leaves = false, all_good = true;
    for (const Member& member : chain.members) {
      leaves = leaves || member.leaving;
      all_good = all_good && load(member.target).counts && state_.at(member.target).seen.up;
      if (member.leaving || copies.count == copies.at.size()) continue;
      copies.at[copies.count++] = member.target;
      ++load(member.target).copies;
    }
    if (serving < wanted) plan_.waits = true;
    if (leaves) ++moving_;
    if (leaves || chain.members.size() != wanted || serving != chain.members.size()) {
      ++busy_;
      for (const Member& member : chain.members) ++load(member.target).busy;
    } else {
      copies.may_move = all_good;
    }
  }

  void balance(MediaClass media) {
    if (!deal_shares(media)) return;
    rows_.clear();
    blocked_ = false;
    const bool loads = begun_ || is_uneven();
    if (plan_.waits) {
      plan_.goes_on = plan_.goes_on || loads;
      return;
    }
    const size_t before = plan_.moves.size();
    size_t tries = limits::kMovesTriedPerLook;
    while (loads && move_one(tries)) {
    }
    const bool goes_on = loads && (blocked_ || moving_ > 0 || plan_.moves.size() > before);
    plan_.goes_on = plan_.goes_on || goes_on;
    if (!goes_on) swap_one();
  }

  // Of this kind of media: what each target is to have, and what two nodes are to share. False if
  // there are no chains of it.
  bool deal_shares(MediaClass media) {
    double copies = 0, chains = 0;
    bool racks_apart = true;
    pairs_.clear();
    for (const Table& table : state_.tables) {
      if (table.media != media) continue;
      copies += double{1} * table.chains * table.copies;
      chains += table.chains;
      pairs_.push_back(double{1} * table.chains * table.copies * (table.copies - 1));
      racks_apart = racks_apart && table.racks_apart;
    }
    if (chains == 0) return false;
    targets_.clear();
    // Copies of a chain lie in different ones of these.
    std::map<std::string, std::vector<TargetId>> groups;
    for (const Target& target : state_.targets) {
      if (!load(target.id).counts || target.media != media) continue;
      targets_.push_back(target.id);
      const std::string& rack = state_.at(target.node).facts.rack;
      const bool by_rack = racks_apart && !rack.empty();
      groups[by_rack ? "r" + rack : std::to_string(target.node.value)].push_back(target.id);
    }
    if (targets_.empty()) return false;
    std::vector<uint64_t> capacities;
    for (const auto& [name, targets] : groups) capacities.push_back(capacity_of(targets));
    const std::vector<double> shares = shares_by_weight(capacities, copies, chains);
    node_shares_.assign(state_.nodes.size() + 1, 0);
    size_t group = 0;
    for (const auto& [name, targets] : groups) deal_within(targets, shares[group++]);
    const auto nodes = static_cast<double>(std::count_if(node_shares_.begin(), node_shares_.end(),
                                                         [](double share) { return share > 0; }));
    // Of all pairs, as many as the loads of both are greater than others'.
    for (double& pairs : pairs_) pairs *= nodes > 1 ? nodes / (nodes - 1) / (copies * copies) : 0;
    return true;
  }

  uint64_t capacity_of(const std::vector<TargetId>& targets) const {
    uint64_t sum = 0;
    for (const TargetId target : targets) sum += state_.at(target).capacity_bytes;
    return sum;
  }

  void deal_within(const std::vector<TargetId>& targets, double share) {
    std::vector<uint64_t> capacities;
    for (const TargetId target : targets) capacities.push_back(state_.at(target).capacity_bytes);
    const std::vector<double> shares = shares_by_weight(capacities, share, share);
    for (size_t i = 0; i < targets.size(); ++i) {
      load(targets[i]).share = shares[i];
      node_shares_[node_of(targets[i]).value] += shares[i];
    }
  }

  bool may_take(TargetId target) const {
    return can_take_copies(state_, state_.at(target), state_.at(target).media);
  }

  // So much that moves begin, which go on until nothing is left to be gained: so sizes that differ
  // a little from start to start move nothing to and fro.
  bool is_uneven() const {
    const Load *most = nullptr, *least = nullptr;
    for (const TargetId target : targets_) {
      const Load& one = load(target);
      if (most == nullptr || one.over() > most->over()) most = &one;
      if (may_take(target) && (least == nullptr || one.over() < least->over())) least = &one;
    }
    if (most == nullptr || least == nullptr) return false;
    const double slack = std::max(most->share, least->share) / limits::kUnevenPart;
    return most->over() - least->over() > limits::kWorthMoving + slack;
  }

  // From a target that has too much to one that has too little; of its chains the one by which
  // nodes share chains most evenly.
  bool move_one(size_t& tries) {
    if (plan_.moves.size() >= limits::kMovesPerLook || busy_ >= limits::kMovesAtOnce) {
      blocked_ = true;
      return false;
    }
    std::vector<TargetId> by_load = targets_;
    std::stable_sort(by_load.begin(), by_load.end(),
                     [this](TargetId a, TargetId b) { return load(a).over() < load(b).over(); });
    for (size_t from = by_load.size(); from-- > 0;) {
      for (size_t to = 0; to < from; ++to) {
        if (load(by_load[from]).over() - load(by_load[to]).over() <= limits::kWorthMoving) break;
        if (!may_take(by_load[to])) continue;
        if (tries == 0) return false;
        --tries;
        const ChainId chain = best_chain(by_load[from], by_load[to]);
        if (chain == ChainId()) continue;
        begin({chain, by_load[from], by_load[to]});
        return true;
      }
    }
    return false;
  }

  ChainId best_chain(TargetId from, TargetId to) {
    if (!is_free(from) || !is_free(to)) {
      blocked_ = true;
      return {};
    }
    ChainId best;
    double best_growth = 0;
    for (const ChainId id : state_.at(from).chains) {
      const Copies& chain = copies(id);
      if (!chain.has(from) || !fits(id, from, to)) continue;
      if (!chain.may_move) continue;
      if (!std::all_of(chain.begin(), chain.end(), [this](TargetId t) { return is_free(t); })) {
        blocked_ = true;
        continue;
      }
      const double growth = growth_by(chain, from, to);
      if (best != ChainId() && growth >= best_growth) continue;
      best = id;
      best_growth = growth;
    }
    return best;
  }

  bool is_free(TargetId target) const { return load(target).busy < limits::kMovesPerTarget; }

  bool fits(ChainId id, TargetId from, TargetId to) {
    if (node_of(from) == node_of(to)) return false;
    const bool racks_apart = state_.at(state_.at(id).table).racks_apart;
    const Copies& chain = copies(id);
    return std::all_of(chain.begin(), chain.end(), [&](TargetId other) {
      return other == from || are_apart(state_, node_of(other), node_of(to), racks_apart);
    });
  }

  void begin(const Move& move) {
    Copies& chain = copies(move.chain);
    ASSERT(chain.may_move && chain.has(move.from) && !chain.has(move.to));
    chain.may_move = false;
    for (const TargetId target : chain) ++load(target).busy;
    ++load(move.to).busy;
    *std::find(chain.at.begin(), chain.at.end(), move.from) = move.to;
    --load(move.from).copies;
    ++load(move.to).copies;
    ++busy_;
    rows_.clear();
    plan_.moves.push_back(move);
  }

  // How many chains a node shares with each.
  Row count_row(NodeId node) {
    Row row(state_.nodes.size() + 1);
    const auto count = [&](const Copies& chain) {
      for (const TargetId other : chain) ++row[node_of(other).value];
    };
    for (const TargetId target : state_.at(node).targets) {
      for (const ChainId id : state_.at(target).chains) {
        if (copies(id).has(target)) count(copies(id));
      }
    }
    for (const Move& move : plan_.moves) {
      if (node_of(move.to) == node) count(copies(move.chain));
    }
    return row;
  }
  const Row& row_of(NodeId node) {
    const auto found = rows_.find(node);
    return found != rows_.end() ? found->second
                                : rows_.emplace(node, count_row(node)).first->second;
  }

  // What two nodes are to share, and what they may.
  double wanted_of(NodeId a, NodeId b) const {
    double wanted = 0;
    for (const double pairs : pairs_) wanted += pairs;
    return wanted * node_shares_[a.value] * node_shares_[b.value];
  }
  uint32_t bound_of(NodeId a, NodeId b) const {
    uint32_t bound = 0;
    for (const double pairs : pairs_) {
      PairLoads loads;
      loads.mean = pairs * node_shares_[a.value] * node_shares_[b.value];
      bound += loads.bound();
    }
    return bound;
  }

  // By how much the sum of squares of what pairs share too much grows, halved.
  double growth_by(const Copies& chain, TargetId from, TargetId to) {
    const NodeId leaves = node_of(from), comes = node_of(to);
    const Row& there = row_of(comes);
    const Row& here = row_of(leaves);
    double growth = 0;
    for (const TargetId target : chain) {
      if (target == from) continue;
      const NodeId other = node_of(target);
      growth += there[other.value] - wanted_of(comes, other);
      growth -= here[other.value] - wanted_of(leaves, other);
      growth += 1;
    }
    return growth;
  }

  struct Pair {
    NodeId a, b;
  };
  // The one that shares most beyond what it may.
  std::optional<Pair> worst_pair() {
    std::optional<Pair> worst;
    uint32_t most = 0;
    for (const Node& node : state_.nodes) {
      if (node_shares_[node.id.value] == 0) continue;
      const Row row = count_row(node.id);
      for (uint32_t other = node.id.value + 1; other < row.size(); ++other) {
        if (row[other] <= most || node_shares_[other] == 0) continue;
        const uint32_t bound = bound_of(node.id, NodeId(other));
        if (row[other] <= bound + most) continue;
        most = row[other] - bound;
        worst = Pair{node.id, NodeId(other)};
      }
    }
    return worst;
  }

  // Two chains change one copy each, so that no target gets more.
  void swap_one() {
    const std::optional<Pair> pair = worst_pair();
    if (!pair || busy_ + 2 > limits::kMovesAtOnce) return;
    size_t tries = limits::kMovesTriedPerLook;
    Swap best;
    for (const TargetId target : state_.at(pair->a).targets) {
      for (const ChainId id : state_.at(target).chains) {
        const Copies& chain = copies(id);
        const auto other = std::find_if(chain.begin(), chain.end(),
                                        [&](TargetId t) { return node_of(t) == pair->b; });
        if (!chain.has(target) || other == chain.end()) continue;
        find_swap(id, target, tries, best);
        find_swap(id, *other, tries, best);
      }
    }
    if (best.one.chain == ChainId()) return;
    begin(best.one);
    begin(best.other);
  }

  struct Swap {
    Move one, other;
    double growth = -1;  // less than nothing, or it would be swapped back
  };
  // Looks at chains from another place each time, as not all can be looked at.
  void find_swap(ChainId id, TargetId here, size_t& tries, Swap& best) {
    if (!is_idle(copies(id))) return;
    const size_t first = state_.version.value % chains_.size();
    for (size_t i = 0; i < chains_.size() && tries > 0; ++i) {
      const ChainId other(kFirstSharedChain.value +
                          static_cast<uint32_t>((first + i) % chains_.size()));
      if (other == id || !is_idle(copies(other)) || copies(other).has(here)) continue;
      if (state_.at(state_.at(other).table).media != state_.at(here).media) continue;
      --tries;
      for (const TargetId there : copies(other)) {
        if (copies(id).has(there) || !may_take(there) || !may_take(here)) continue;
        if (!fits(id, here, there) || !fits(other, there, here)) continue;
        const double growth =
            growth_by(copies(id), here, there) + growth_by(copies(other), there, here);
        if (growth >= best.growth) continue;
        best = {{id, here, there}, {other, there, here}, growth};
      }
    }
  }
  bool is_idle(const Copies& chain) const {
    return chain.may_move && std::all_of(chain.begin(), chain.end(),
                                         [this](TargetId t) { return load(t).busy == 0; });
  }

  const State& state_;
  const bool begun_;
  std::vector<Copies> chains_;
  std::vector<Load> loads_;
  size_t busy_ = 0;    // chains of which a copy is being made,
  size_t moving_ = 0;  // and those that a copy is to leave
  MovesPlan plan_;

  // Of the kind of media that is being looked at.
  std::vector<TargetId> targets_;
  std::vector<double> node_shares_;
  std::vector<double> pairs_;  // of tables: chains that two nodes are to share, for shares of 1
  bool blocked_ = false;       // a move waits for others to end
  std::map<NodeId, Row> rows_;
};

}  // namespace

MovesPlan plan_moves(const State& state, bool begun) {
  return Balance(state, begun).run();
}

}  // namespace penstock::controller
