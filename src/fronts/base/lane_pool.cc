#include "penstock/front/lane_pool.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "penstock/front/limits.h"

namespace penstock::front {

namespace {

// Lanes of the next native ring where there are `lanes` already. The first ones are alone in
// theirs, so that they are spread over the agent's shards; later there are always so many native
// rings of about one size that they still are.
uint32_t next_lanes(uint32_t lanes, uint32_t entries) {
  const uint32_t wanted = std::bit_floor(std::max(lanes / limits::kRingsToSpread, 1u));
  const uint32_t most = std::max(limits::kSharedEntriesMax / entries, 1u);
  return std::min({wanted, most, limits::kLanesPerRingMax});
}

// Drops what the lane still has in flight, and its completions. The agent lets go of the memory
// when it completes an operation, so nothing but its completion or its death ends the wait.
int drain(penstock_lane* lane) {
  const uint64_t end = penstock_now() + limits::kDrainNanoseconds;
  for (;;) {
    const int released = penstock_lane_release(lane);
    if (released != -EBUSY) return released;
    penstock_completion dropped[limits::kDropBatch];
    const int taken = penstock_lane_wait(lane, dropped, limits::kDropBatch, 1, end);
    if (taken < 0 && taken != -EINTR) return taken;
    if (taken == 0 && penstock_now() >= end) return -ETIMEDOUT;
  }
}

}  // namespace

LanePool::Native* LanePool::with_free_lane(Size& size) {
  Native* found = nullptr;
  for (Native& native : size.rings) {
    if (native.used == native.lanes) continue;
    // The one with the fewest, so that rings are spread while there are few.
    if (found == nullptr || native.used < found->used) found = &native;
  }
  return found;
}

int LanePool::grow(uint32_t entries, Size& size) {
  Native native;
  native.lanes = next_lanes(size.lanes, entries);
  const int result = penstock_ring_create(session_, entries, native.lanes, &native.ring);
  if (result < 0) return -result;
  size.lanes += native.lanes;
  size.rings.push_back(native);
  return 0;
}

Result<penstock_lane*, int> LanePool::claim(uint32_t entries) {
  const std::lock_guard lock(mutex_);
  Size& size = sizes_[entries];
  Native* native = with_free_lane(size);
  if (native == nullptr) {
    const int error = grow(entries, size);
    if (error != 0) return Unexpected(int{error});
    native = &size.rings.back();
  }
  penstock_lane* lane = nullptr;
  const int result = penstock_lane_claim(native->ring, &lane);
  if (result < 0) return Unexpected(int{-result});
  ++native->used;
  uses_[lane] = {entries, native->ring};
  return lane;
}

void LanePool::end_unused(Size& size, bool keep_one) {
  bool kept = !keep_one;
  std::erase_if(size.rings, [&](const Native& native) {
    if (native.used > 0) return false;
    if (!std::exchange(kept, true)) return false;
    if (penstock_ring_destroy(native.ring) < 0) {
      log::warning("destroy a ring: {}", penstock_last_error());
    }
    size.lanes -= native.lanes;
    return true;
  });
}

void LanePool::give_back(penstock_lane* lane) {
  const int drained = drain(lane);
  const std::lock_guard lock(mutex_);
  const auto use = uses_.find(lane);
  if (drained < 0) {
    // It stays in use, as the agent may still write into what the caller registered.
    log::warning("a ring's operations do not end: {}", penstock_last_error());
    return;
  }
  Size& size = sizes_[use->second.entries];
  for (Native& native : size.rings) {
    if (native.ring != use->second.ring) continue;
    const bool keep_one = use->second.entries <= limits::kKeptEntriesMax;
    if (--native.used == 0) end_unused(size, keep_one);
    break;
  }
  uses_.erase(use);
}

Result<int, int> descriptor_of(penstock_lane* lane) {
  const int descriptor = penstock_lane_descriptor(lane);
  if (descriptor < 0) return Unexpected(int{-descriptor});
  return descriptor;
}

}  // namespace penstock::front
