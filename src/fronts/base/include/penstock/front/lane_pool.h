// The lanes that a session's rings are: a native ring has up to 64, which share its memory, its
// eventfd and the agent's bookkeeping, so that a ring costs as good as nothing after the first
// ones.
//
// Thread safe; claim() and give_back() may block on the agent.
#pragma once

#include "penstock.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "penstock/base.h"

namespace penstock::front {

class LanePool {
 public:
  explicit LanePool(penstock_session* const& session) : session_(session) {}

  // A lane of its own for one ring of so many native entries, for as long as it likes. Errors are
  // positive errnos.
  Result<penstock_lane*, int> claim(uint32_t entries);
  // Waits for what is in flight on it and gives the lane back. A native ring that is not used any
  // more ends, but for one of each size, for the next one.
  void give_back(penstock_lane* lane);

 private:
  struct Native {
    penstock_ring* ring = nullptr;
    uint32_t lanes = 0;
    uint32_t used = 0;
  };
  // Those of one number of entries.
  struct Size {
    std::vector<Native> rings;
    uint32_t lanes = 0;  // of all of them
  };
  struct Use {
    uint32_t entries = 0;
    penstock_ring* ring = nullptr;
  };
  // With mutex_ held.
  Native* with_free_lane(Size& size);
  int grow(uint32_t entries, Size& size);
  // But one, if `keep_one`: the next ring is made sooner then.
  void end_unused(Size& size, bool keep_one);

  penstock_session* const& session_;  // set after construction
  std::mutex mutex_;
  std::map<uint32_t, Size> sizes_;  // by entries
  std::map<penstock_lane*, Use> uses_;
};

// For an event loop: a descriptor that is readable while the lane has completions. The lane's own,
// as penstock_lane_descriptor() says. Errors are positive errnos.
Result<int, int> descriptor_of(penstock_lane* lane);

}  // namespace penstock::front
