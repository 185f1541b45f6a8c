// A team: PEs of a group that do things together.
#pragma once

#include <memory>
#include <vector>

#include "penstock/symm/control.h"
#include "penstock/symm/pe_set.h"

namespace penstock::symm {

// How the PEs of a team stand on several nodes.
struct TeamNodes {
  std::vector<uint32_t> firsts;   // of each node the PE that comes first in the team
  std::vector<uint32_t> node_of;  // by index in the team: a place there
  uint32_t own = 0;               // this node's place there
  uint32_t here = 0;              // PEs of the team on this node
};

// Made and owned by its group; its address stays while it lives. Calls that all of a team make
// together are made by one thread of each PE at a time.
class Team {
 public:
  // `nodes`: null where all are on one.
  Team(uint32_t id, const PeSet& set, uint32_t index,
       std::unique_ptr<const TeamNodes> nodes = nullptr)
      : id_(id), set_(set), index_(index), nodes_(std::move(nodes)) {}

  const PeSet& set() const { return set_; }
  uint32_t size() const { return set_.size; }
  uint32_t index() const { return index_; }  // of this PE
  uint32_t id() const {
    return id_;
  }  // the same on all its PEs; teams without a common PE may share one

  const TeamNodes* nodes() const { return nodes_.get(); }

  // The number of the sync that begins now.
  uint64_t next_sync() { return ++syncs_; }

  // The number of the small operation that begins now; and the last one that is known to be over at
  // all PEs.
  uint64_t next_operation() { return ++operations_; }
  uint64_t over_at_all() const { return over_at_all_; }
  void set_over_at_all(uint64_t number) { over_at_all_ = number; }
  // Whoever has come to a sync has done what was before it.
  void set_all_over() { over_at_all_ = operations_; }

 private:
  const uint32_t id_;
  const PeSet set_;
  const uint32_t index_;
  const std::unique_ptr<const TeamNodes> nodes_;
  uint64_t syncs_ = 0;
  uint64_t operations_ = 0;
  uint64_t over_at_all_ = 0;
};

}  // namespace penstock::symm
