// Where copies of chains lie. Plans are computed outside the step, as that takes long, and checked
// in it; replacements of lost copies, and moves, are chosen within it.
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

// Moves that bring copies to where they are to lie: to each target its share of the capacity, and
// as far as that allows chains that nodes share spread evenly. Of any two targets of one kind with
// much more and much less than their shares a copy moves from one to the other; no move makes
// anything less even, so that none is ever moved back. None begins while a chain lacks a copy.
struct MovesPlan {
  std::vector<Move> moves;  // that may begin now (limits.h)
  bool goes_on = false;     // there are more to come, or under way, to even out shares
  bool waits = false;       // a chain lacks a copy: nothing begins until it has it
  uint32_t left = 0;        // about how many copies have still to move, with those that do
};
// `begun`: the last plan went on. Moves begin when shares are far from even, and then go on until
// they are. Takes some milliseconds with 1,000 nodes and 20,000 chains.
MovesPlan plan_moves(const State& state, bool begun);

// The best target for one more copy of the chain: on a node, and where the table says so in a rack,
// that has none of its members yet; the one with the fewest chains for its size. TargetId() if
// there is none.
TargetId choose_target(const State& state, const Chain& chain);

// Chains of a node that is to go, or of targets of it that are, for which there is no other target:
// each node that could take a copy has one already, is down, or full. Looks at every target for
// each chain.
size_t chains_without_place(const State& state, NodeId node);

// How evenly the copies of a table's chains lie: of the pairs of nodes, how many chains they share.
struct PairLoads {
  uint32_t most = 0;
  double mean = 0;  // over all pairs of nodes that hold any

  // What the most may be: a lost node's load then spreads evenly over the others.
  uint32_t bound() const;
};
PairLoads pair_loads(const State& state, const std::vector<std::vector<TargetId>>& chains);

}  // namespace penstock::controller
