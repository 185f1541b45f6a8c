#include "penstock/arena/arena.h"

#include "limits.h"
#include "slab.h"

namespace penstock::arena {

Result<std::unique_ptr<Arena>> Arena::make(const ArenaConfig& config) {
  TRY_ASSIGN(const Geometry geometry, Geometry::make(config.bytes, config.slab_bytes));
  return std::unique_ptr<Arena>(new Arena(geometry, config.host));
}

Result<std::shared_ptr<Segment>> Arena::enter(const ReaderClass& readers) {
  Slabs slabs;  // destroyed without the mutex
  const std::lock_guard lock(mutex_);
  auto found = segments_.find(readers);
  if (found == segments_.end()) {
    if (segments_.size() >= limits::kSegmentsMax && !take_back(nullptr, &slabs)) return Code::busy;
    TRY_ASSIGN(std::shared_ptr<Segment> made, Segment::make(readers, geometry_));
    found = segments_.emplace(readers, std::move(made)).first;
  }
  ++found->second->sessions_;
  return found->second;
}

void Arena::leave(const std::shared_ptr<Segment>& segment) {
  const std::lock_guard lock(mutex_);
  ASSERT(segment->sessions_ > 0);
  --segment->sessions_;
  segment->last_used_ = ++uses_;
}

Status Arena::grow(const std::shared_ptr<Segment>& segment) {
  const std::lock_guard one_at_a_time(growing_);
  {
    Slabs slabs;
    {
      const std::lock_guard lock(mutex_);
      const bool room = segment->slab_count() < geometry_.slabs_max() &&
                        (slabs_in_use_ < geometry_.slabs_max() || take_back(segment.get(), &slabs));
      if (!room) return Code::no_space;
      ++slabs_in_use_;
    }
    // What was taken back is gone before the new slab is made.
  }
  Result<std::unique_ptr<Slab>> slab = Slab::make(geometry_.slab_bytes, host_);
  // Outside of the mutex: it takes long, and the thread that renews the lease waits for the mutex.
  if (slab) segment->populate_index();
  const std::lock_guard lock(mutex_);
  const auto known = segments_.find(segment->readers());
  // The segment itself may have been taken back in the meantime.
  const bool wanted = known != segments_.end() && known->second == segment;
  if (!slab || !wanted) {
    ASSERT(slabs_in_use_ > 0);
    --slabs_in_use_;
    return slab ? Code::no_space : slab.error();
  }
  segment->add_slab(std::move(*slab));
  return Code::ok;
}

bool Arena::take_back(const Segment* user, Slabs* slabs) {
  while (true) {
    auto oldest = segments_.end();
    for (auto it = segments_.begin(); it != segments_.end(); ++it) {
      const Segment& segment = *it->second;
      if (segment.sessions_ > 0 || &segment == user) continue;
      if (oldest == segments_.end() || segment.last_used_ < oldest->second->last_used_) oldest = it;
    }
    if (oldest == segments_.end() || !oldest->second->close(slabs)) return false;
    const std::shared_ptr<Segment> gone = std::move(oldest->second);
    segments_.erase(oldest);
    ASSERT(slabs_in_use_ >= slabs->size() && gone->sessions_ == 0);
    slabs_in_use_ -= static_cast<uint32_t>(slabs->size());
    if (!slabs->empty() || user == nullptr) return true;
  }
}

bool Arena::set_valid_until(uint64_t time) {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const auto& [readers, segment] : segments_) {
    if (segment->sessions_ == 0) continue;
    segment->set_valid_until(time);
    any = true;
  }
  return any;
}

std::vector<std::shared_ptr<Segment>> Arena::segments() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Segment>> all;
  for (const auto& [readers, segment] : segments_) all.push_back(segment);
  return all;
}

std::vector<SegmentStatus> Arena::status() const {
  std::vector<SegmentStatus> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [readers, segment] : segments_) {
    all.push_back(segment->status());
    all.back().sessions = segment->sessions_;
  }
  return all;
}

}  // namespace penstock::arena
