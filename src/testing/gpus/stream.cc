#include "stream.h"

#include <atomic>
#include <utility>

namespace penstock::test {
namespace {

std::atomic<uint64_t> queues_ever{0};

}  // namespace

DeviceQueue::DeviceQueue(bool at_once) : at_once_(at_once), number_(++queues_ever) {
  if (!at_once) thread_ = std::thread([this] { loop(); });
}

DeviceQueue::~DeviceQueue() {
  if (at_once_) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DeviceQueue::add(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  if (at_once_) {
    // One after the other, as in a stream.
    changed_.wait(lock, [this] { return !is_busy_; });
    is_busy_ = true;
    lock.unlock();
    work();
    lock.lock();
    is_busy_ = false;
  } else {
    work_.push_back(std::move(work));
  }
  lock.unlock();
  changed_.notify_all();
}

void DeviceQueue::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_.empty() && !is_busy_; });
}

void DeviceQueue::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> next = std::move(work_.front());
    work_.pop_front();
    is_busy_ = true;
    lock.unlock();
    next();
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace penstock::test
