// Which target is the best for a copy, and which copies should lie elsewhere.
#include "penstock/controller/placement.h"

#include "candidates.h"

#include <algorithm>

namespace penstock::controller {

bool can_take_copies(const State& state, const Target& target, MediaClass media) {
  const Node& node = state.at(target.node);
  return target.seen.up && is_to_stay(state, target) && !target.seen.failing && !target.seen.full &&
         target.media == media && !node.is_suspected() && target.capacity_bytes > 0;
}

bool are_apart(const State& state, NodeId a, NodeId b, bool racks) {
  const std::string& rack = state.at(a).facts.rack;
  return a != b && !(racks && !rack.empty() && rack == state.at(b).facts.rack);
}

namespace {

// Whether the target may have one more copy beside the members that stay.
bool fits(const State& state, const Chain& chain, const Target& target) {
  const bool racks_apart = state.at(chain.table).racks_apart;
  return std::all_of(chain.members.begin(), chain.members.end(), [&](const Member& member) {
    // One that is lost or leaves does not count for racks, but it does for nodes.
    const bool stays = member.state == CopyState::serving && !member.leaving;
    return are_apart(state, target.node, state.at(member.target).node, racks_apart && stays);
  });
}

using Wide = unsigned __int128;

// Chains for each byte, compared without division.
bool has_less(const Target& a, const Target& b) {
  return Wide{a.chains.size()} * b.capacity_bytes < Wide{b.chains.size()} * a.capacity_bytes;
}

}  // namespace

TargetId choose_target(const State& state, const Chain& chain) {
  const MediaClass media = state.at(chain.table).media;
  const Target* best = nullptr;
  for (const Target& target : state.targets) {
    if (!can_take_copies(state, target, media)) continue;
    if (best != nullptr && !has_less(target, *best)) continue;
    if (fits(state, chain, target)) best = &target;
  }
  return best == nullptr ? TargetId() : best->id;
}

size_t chains_without_place(const State& state, NodeId node) {
  size_t chains = 0;
  const auto is_promising = [&](const Member& member) {
    const Target& target = state.at(member.target);
    return is_to_stay(state, target) && !target.seen.failing && !target.seen.aged &&
           !member.leaving;
  };
  for (const TargetId target : state.at(node).targets) {
    if (is_to_stay(state, state.at(target))) continue;
    for (const ChainId id : state.at(target).chains) {
      const Chain& chain = state.at(id);
      const auto promising = static_cast<size_t>(
          std::count_if(chain.members.begin(), chain.members.end(), is_promising));
      if (promising >= state.at(chain.table).copies) continue;
      if (choose_target(state, chain) == TargetId()) ++chains;
    }
  }
  return chains;
}

uint32_t PairLoads::bound() const {
  const auto rounded = static_cast<uint32_t>(mean);
  const uint32_t next = rounded + (rounded < mean ? 2 : 1);
  return std::max(next, static_cast<uint32_t>(mean * 1.25));
}

PairLoads pair_loads(const State& state, const std::vector<std::vector<TargetId>>& chains) {
  std::vector<NodeId> nodes;
  std::vector<std::pair<NodeId, NodeId>> pairs;
  for (const std::vector<TargetId>& chain : chains) {
    for (size_t i = 0; i < chain.size(); ++i) {
      nodes.push_back(state.at(chain[i]).node);
      for (size_t j = 0; j < i; ++j) {
        pairs.push_back(std::minmax(state.at(chain[i]).node, state.at(chain[j]).node));
      }
    }
  }
  std::sort(nodes.begin(), nodes.end());
  const auto count = static_cast<size_t>(std::unique(nodes.begin(), nodes.end()) - nodes.begin());
  std::sort(pairs.begin(), pairs.end());
  PairLoads loads;
  for (size_t i = 0; i < pairs.size();) {
    size_t end = i;
    while (end < pairs.size() && pairs[end] == pairs[i]) ++end;
    loads.most = std::max(loads.most, static_cast<uint32_t>(end - i));
    i = end;
  }
  if (count > 1) {
    loads.mean = static_cast<double>(pairs.size()) * 2 / static_cast<double>(count * (count - 1));
  }
  return loads;
}

}  // namespace penstock::controller
