// A team: PEs of a group that do things together.
#pragma once

#include "penstock/symm/control.h"
#include "penstock/symm/pe_set.h"

namespace penstock::symm {

// Made and owned by its group; its address stays while it lives. Calls that all of a team make
// together are made by one thread of each PE at a time.
class Team {
 public:
  Team(uint32_t id, const PeSet& set, uint32_t index) : id_(id), set_(set), index_(index) {}

  const PeSet& set() const { return set_; }
  uint32_t size() const { return set_.size; }
  uint32_t index() const { return index_; }  // of this PE
  uint32_t id() const {
    return id_;
  }  // the same on all its PEs; teams without a common PE may share one

  // The number of the sync that begins now.
  uint64_t next_sync() { return ++syncs_; }

 private:
  const uint32_t id_;
  const PeSet set_;
  const uint32_t index_;
  uint64_t syncs_ = 0;
};

}  // namespace penstock::symm
