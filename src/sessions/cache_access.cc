#include "cache_access.h"

namespace penstock::sessions {

std::shared_ptr<arena::Segment> CacheAccess::segment() {
  if (context_.node.cache == nullptr) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (segment_ != nullptr) return segment_;
  }
  std::shared_ptr<arena::Segment> entered = context_.node.cache->enter(context_.credentials());
  std::unique_lock lock(mutex_);
  if (segment_ == nullptr) segment_ = std::move(entered);
  const std::shared_ptr<arena::Segment> mine = segment_;
  lock.unlock();
  // Another request of this session was faster.
  if (entered != nullptr) context_.node.cache->leave(entered);
  return mine;
}

Answer CacheAccess::map(Given* given) {
  const std::shared_ptr<arena::Segment> mine = segment();
  if (mine == nullptr) {
    return Failure{Code::not_supported, "map cache: there is none for this session"};
  }
  given->fd = mine->index_fd();
  return wire::ReplyBody{wire::Mapping{mine->geometry().index_bytes()}};
}

Answer CacheAccess::map_slab(const wire::MapSlab& m, Given* given) {
  const std::shared_ptr<arena::Segment> mine = segment();
  // A segment with sessions keeps its slabs, and so the descriptor stays open until it was sent.
  const int fd = mine != nullptr ? mine->slab_fd(m.slab) : -1;
  if (fd < 0) return Failure{Code::not_found, "map slab: there is none of this number"};
  given->fd = fd;
  return wire::ReplyBody{wire::Mapping{mine->geometry().slab_bytes}};
}

Answer CacheAccess::keep_touch_log(int fd) {
  const std::shared_ptr<arena::Segment> mine = segment();
  if (mine == nullptr) return Failure{Code::not_supported, "touch log: there is no cache"};
  auto memory =
      resources::ForeignMemory::map(context_.account, fd, 0, sizeof(arena::TouchLogMemory), true);
  if (!memory) return Failure{memory.error().status, "touch log: " + memory.error().message};
  const std::lock_guard lock(mutex_);
  if (touch_log_ != nullptr) {
    return Failure{Code::already_exists, "touch log: the session has one"};
  }
  const Status added = mine->add_log(context_.id, (*memory)->bytes());
  if (!added.ok()) return failure_of("touch log", added);
  touch_log_ = std::move(*memory);
  return wire::ReplyBody{};
}

void CacheAccess::end() {
  const std::lock_guard lock(mutex_);
  if (segment_ == nullptr) return;
  if (touch_log_ != nullptr) segment_->remove_log(context_.id);
  touch_log_.reset();
  context_.node.cache->leave(segment_);
  segment_.reset();
}

}  // namespace penstock::sessions
