// The node cache's memory, as a session may map it.
#include "session.h"

namespace penstock::agent {

std::shared_ptr<arena::Segment> Session::segment() {
  if (node_.cache == nullptr) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (segment_ != nullptr) return segment_;
  }
  std::shared_ptr<arena::Segment> entered = node_.cache->enter(peer_.credentials);
  std::unique_lock lock(mutex_);
  if (segment_ == nullptr) segment_ = std::move(entered);
  const std::shared_ptr<arena::Segment> mine = segment_;
  lock.unlock();
  // Another request of this session was faster.
  if (entered != nullptr) node_.cache->leave(entered);
  return mine;
}

Session::Answer Session::on(const wire::MapCache&, Given* given) {
  const std::shared_ptr<arena::Segment> mine = segment();
  if (mine == nullptr)
    return Failure{Code::not_supported, "map cache: there is none for this session"};
  given->fd = mine->index_fd();
  return wire::ReplyBody{wire::Mapping{mine->geometry().index_bytes()}};
}

Session::Answer Session::on(const wire::MapSlab& m, Given* given) {
  const std::shared_ptr<arena::Segment> mine = segment();
  // A segment with sessions keeps its slabs, and so the descriptor stays open until it was sent.
  const int fd = mine != nullptr ? mine->slab_fd(m.slab) : -1;
  if (fd < 0) return Failure{Code::not_found, "map slab: there is none of this number"};
  given->fd = fd;
  return wire::ReplyBody{wire::Mapping{mine->geometry().slab_bytes}};
}

Session::Answer Session::on(const wire::KeepTouchLog&, int fd) {
  const std::shared_ptr<arena::Segment> mine = segment();
  if (mine == nullptr) return Failure{Code::not_supported, "touch log: there is no cache"};
  auto memory = ForeignMemory::map(account_, fd, 0, sizeof(arena::TouchLogMemory), true);
  if (!memory) return Failure{memory.error().status, "touch log: " + memory.error().message};
  const std::lock_guard lock(mutex_);
  if (touch_log_ != nullptr) return Failure{Code::already_exists, "touch log: the session has one"};
  const Status added = mine->add_log(id_, (*memory)->bytes());
  if (!added.ok()) return failure_of("touch log", added);
  touch_log_ = std::move(*memory);
  return wire::ReplyBody{};
}

void Session::leave_segment() {
  if (segment_ == nullptr) return;
  if (touch_log_ != nullptr) segment_->remove_log(id_);
  touch_log_.reset();
  node_.cache->leave(segment_);
  segment_.reset();
}

}  // namespace penstock::agent
