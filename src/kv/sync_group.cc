#include "sync_group.h"

namespace penstock::kv {

Status SyncGroup::wait() {
  std::unique_lock lock(mutex_);
  const uint64_t mine = started_ + 1;  // the round in progress may have begun too early
  while (finished_ < mine) {
    if (started_ != finished_) {
      // No deadline: the round ends when the file system below answers.
      finished_changed_.wait(lock);
      continue;
    }
    const uint64_t round = ++started_;
    lock.unlock();
    const Status status = sync_();
    lock.lock();
    ASSERT(started_ == round && finished_ + 1 == round);
    finished_ = round;
    if (!status.ok()) {
      failed_ = round;
      failure_ = status;
    }
    finished_changed_.notify_all();
  }
  ASSERT(finished_ >= mine && failed_ <= finished_);
  return failed_ >= mine ? failure_ : Status();
}

}  // namespace penstock::kv
