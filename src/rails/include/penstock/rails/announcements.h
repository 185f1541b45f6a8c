// Memory that the network cards of a process are told of once, and not at each call.
#pragma once

#include <vector>

#include "penstock/engine.h"
#include "penstock/rails/rail_net.h"

namespace penstock::rails {

// Thread safe once all loops are added. announce() and take_back() block on the loops: never call
// them from one.
class Announcements {
 public:
  // `net` belongs to that loop. Both are there until the last region was taken back.
  void add(engine::Loop& loop, RailNet& net) { homes_.push_back({&loop, &net}); }

  // A device pins it when a call exposes it first, and keeps it pinned as long as there is room.
  // It overlaps nothing that was announced, and is mapped until it is taken back.
  void announce(const verbs::Region& region) const;
  // No call exposes it any more.
  void take_back(MutableBytes region) const;

 private:
  struct Home {
    engine::Loop* loop = nullptr;
    RailNet* net = nullptr;
  };
  template <class Act>
  void in_each(const Act& act) const;

  std::vector<Home> homes_;
};

}  // namespace penstock::rails
