// Where copies of chains lie. Plans are computed outside the step, as that takes long, and checked
// in it; only the replacement of one lost copy is chosen within it.
#pragma once

#include <optional>

#include "penstock/controller/step.h"

namespace penstock::controller {

struct TablePlan {
  uint32_t copies = 1;
  MediaClass media = MediaClass::flash;
  bool racks_apart = false;
  uint32_t chains = 0;
};

// A table of so many chains over all targets that can take copies now. Copies of a chain lie on
// different nodes, and in different racks if asked for; a target gets as many as its share of the
// capacity says, as far as copies that must lie apart allow that; the copies of one node have their
// others spread evenly over all other nodes; heads are spread. `random` decides among equals.
// Takes up to a second or two with 1,000 nodes and 20,000 chains. Fails, with a reason for people,
// where there are too few nodes or racks.
Outcome<CreateTable> plan_table(const State& state, const TablePlan& plan, engine::Random& random);

// The move that evens out the worst difference in load between two targets of one kind: none if
// that is less than a chain, or while another move is not finished.
std::optional<Move> plan_move(const State& state);

// The best target for one more copy of the chain: on a node, and where the table says so in a rack,
// that has none of its members yet; the one with the fewest chains for its size. TargetId() if
// there is none.
TargetId choose_target(const State& state, const Chain& chain);

// How evenly the copies of a table's chains lie: of the pairs of nodes, how many chains they share.
struct PairLoads {
  uint32_t most = 0;
  double mean = 0;  // over all pairs of nodes that hold any

  // What the most may be: a lost node's load then spreads evenly over the others.
  uint32_t bound() const;
};
PairLoads pair_loads(const State& state, const std::vector<std::vector<TargetId>>& chains);

}  // namespace penstock::controller
