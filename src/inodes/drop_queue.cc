#include "penstock/inodes/drop_queue.h"

#include "penstock/inodes/limits.h"

namespace penstock::inodes {

void DropQueue::dropped(std::shared_ptr<Inode> inode, bool writer) {
  {
    const std::lock_guard lock(mutex_);
    dropped_.push_back({std::move(inode), writer});
    if (dropped_.size() > 1) return;
  }
  arrived_.notify_one();
}

std::vector<DropQueue::Dropped> DropQueue::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(dropped_, {});
}

bool DropQueue::wait(engine::Duration at_most) {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, at_most, [this] { return stopped_ || woken_ || !dropped_.empty(); });
  woken_ = false;
  return !stopped_;
}

void DropQueue::wake() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(woken_, true)) return;
  }
  arrived_.notify_one();
}

void DropQueue::wait_for_company() {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, limits::kCollectCompany, [this] { return stopped_ || hurried_; });
  hurried_ = false;
}

void DropQueue::hurry() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = hurried_ = true;
  }
  // Each time: it is rare, and which of the two waits is under way is not known.
  arrived_.notify_one();
}

void DropQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  arrived_.notify_one();
  std::vector<RoomRequest*> asked = take_room_requests();
  answer(asked, engine::Time{});
}

bool DropQueue::ask_for_room(RoomRequest& request, engine::Time now) {
  ASSERT(request.loop != nullptr && !request.linked());
  if (!served_.load(std::memory_order_relaxed)) return false;
  if (removed.load(std::memory_order_relaxed) <= 0 &&
      !may_give_way.load(std::memory_order_relaxed) &&
      now - collected_.load(std::memory_order_relaxed) > limits::kCollectedLately) {
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return false;
    asked_.push_back(&request);
  }
  hurry();
  return true;
}

std::vector<RoomRequest*> DropQueue::take_room_requests() {
  const std::lock_guard lock(mutex_);
  return std::exchange(asked_, {});
}

void DropQueue::answer(std::vector<RoomRequest*>& asked, engine::Time now) {
  if (now != engine::Time{}) collected_.store(now, std::memory_order_relaxed);
  for (RoomRequest* const request : asked) request->loop->complete_remote(*request, Code::ok);
  asked.clear();
}

void DropQueue::want_collection() {
  want_more();
  wake();
}

}  // namespace penstock::inodes
