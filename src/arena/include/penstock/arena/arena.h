// All segments of a node, and the memory that they share.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "penstock/arena/segment.h"
#include "penstock/base.h"
#include "penstock/engine.h"

namespace penstock::arena {

struct ArenaConfig {
  uint64_t bytes = 0;  // of all slabs together
  uint64_t slab_bytes = 64 * kMiB;
  SlabHost* host = nullptr;  // outlives the arena
};

// Thread safe. A segment gets slabs as it needs them, until the budget is spent; then those of the
// class that has had no session for longest are taken back, all of them. A class with sessions
// keeps what it has: its processes have the memory mapped.
class Arena {
 public:
  // invalid_argument when not a single slab fits the budget.
  static Result<std::unique_ptr<Arena>> make(const ArenaConfig& config);
  // No session and no fill may be left.
  ~Arena() = default;

  // A session of this class begins, or ends. busy when there are too many classes.
  Result<std::shared_ptr<Segment>> enter(const ReaderClass& readers);
  void leave(const std::shared_ptr<Segment>& segment);

  // Gives the segment one more slab; blocks for as long as it takes to make it. no_space when the
  // budget is spent and nothing can be taken back.
  Status grow(const std::shared_ptr<Segment>& segment);

  // Sets the time of all segments that have sessions; false if none has.
  bool set_valid_until(uint64_t time);

  std::vector<std::shared_ptr<Segment>> segments() const;
  std::vector<SegmentStatus> status() const;

 private:
  Arena(const Geometry& geometry, SlabHost* host) : geometry_(geometry), host_(host) {}
  using Slabs = std::vector<std::unique_ptr<Slab>>;
  // The slabs of the class without sessions that was used least lately, if there is one but `user`.
  bool take_back(const Segment* user, Slabs* slabs);

  const Geometry geometry_;
  SlabHost* const host_;

  mutable engine::Mutex mutex_;  // taken before a segment's
  std::map<ReaderClass, std::shared_ptr<Segment>> segments_;
  uint32_t slabs_in_use_ = 0;
  uint64_t uses_ = 0;
  // One segment grows at a time; taken before mutex_, and held while the host registers the slab.
  engine::Mutex growing_{engine::Held::across_calls};
};

}  // namespace penstock::arena
