#include "penstock/controller/placement.h"

#include <algorithm>

namespace penstock::controller {
namespace {

// Whether new copies may be put there.
bool is_free(const State& state, const Target& target, MediaClass media) {
  const Node& node = state.at(target.node);
  return target.seen.up && !target.forgotten && !target.seen.failing && !target.seen.full &&
         target.media == media && node.standing == Standing::joined && !node.is_suspected() &&
         target.capacity_bytes > 0;
}

bool are_apart(const State& state, NodeId a, NodeId b, bool racks) {
  const std::string& rack = state.at(a).facts.rack;
  return a != b && !(racks && !rack.empty() && rack == state.at(b).facts.rack);
}

}  // namespace

TargetId choose_target(const State& state, const Chain& chain) {
  const Table& table = state.at(chain.table);
  const Target* best = nullptr;
  // By chains for each byte, compared without division.
  const auto has_less = [](const Target& a, const Target& b) {
    return static_cast<unsigned __int128>(a.chains.size() + 1) * b.capacity_bytes <
           static_cast<unsigned __int128>(b.chains.size() + 1) * a.capacity_bytes;
  };
  for (const Target& target : state.targets) {
    if (!is_free(state, target, table.media)) continue;
    if (best != nullptr && !has_less(target, *best)) continue;
    const bool is_apart =
        std::all_of(chain.members.begin(), chain.members.end(), [&](const Member& member) {
          // One that is lost or leaves does not count for racks, but it does for nodes.
          const bool racks = table.racks_apart && member.state == CopyState::serving;
          return are_apart(state, target.node, state.at(member.target).node, racks);
        });
    if (is_apart) best = &target;
  }
  return best == nullptr ? TargetId() : best->id;
}

}  // namespace penstock::controller
