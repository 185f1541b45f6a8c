// The node cache's memory, as a session may map it.
#pragma once

#include "context.h"

#include <memory>

#include "penstock/arena.h"
#include "penstock/engine.h"

namespace penstock::sessions {

// Thread safe.
class CacheAccess {
 public:
  explicit CacheAccess(const Context& context) : context_(context) {}
  ~CacheAccess() { ASSERT(segment_ == nullptr && touch_log_ == nullptr); }

  // The segment of this session's class, taken at the first call; null where there is no cache.
  std::shared_ptr<arena::Segment> segment();

  Answer map(Given* given);
  Answer map_slab(const wire::MapSlab& m, Given* given);
  Answer keep_touch_log(int fd);

  // No request runs and no share is left.
  void end();

 private:
  const Context& context_;
  engine::Mutex mutex_;
  std::shared_ptr<arena::Segment> segment_;
  std::unique_ptr<resources::ForeignMemory> touch_log_;
};

}  // namespace penstock::sessions
