#include "settlements.h"

#include <algorithm>
#include <utility>

#include "penstock/base.h"

namespace penstock::agent {
namespace {

// In the place of files that are not known.
constexpr InodeId kAll{};

engine::Time settlement_time() {
  return engine::system_clock().now();
}

}  // namespace

void Settlements::add(holds::AgentId agent, const std::vector<InodeId>& files,
                      std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return;
    const bool is_new = known_.insert(agent).second;
    ASSERT(is_new);
    Item item{agent, {files.begin(), files.end()}, std::move(done), {}, false};
    if (files.empty() && has_begun_) item.files.push_back(kAll);
    fresh_.push_back(std::move(item));
  }
  wake_.notify_all();
}

void Settlements::begin(Settle settle) {
  {
    const std::lock_guard lock(mutex_);
    ASSERT(!has_begun_ && !is_stopping_);
    has_begun_ = true;
    settle_ = std::move(settle);
  }
  ASSERT(threads_.empty());
  for (uint32_t i = 0; i < limits::kSettleThreads; ++i) {
    threads_.emplace_back("settle", [this] { run(); });
  }
}

void Settlements::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  for (engine::Thread& thread : threads_) thread.join();
  threads_.clear();
  const std::lock_guard lock(mutex_);
  fresh_.clear();
  again_.clear();
  known_.clear();
}

bool Settlements::has(holds::AgentId agent) {
  const std::lock_guard lock(mutex_);
  return known_.contains(agent);
}

size_t Settlements::waiting() {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

// False: it is stopped.
bool Settlements::take_next(std::unique_lock<engine::Mutex>& lock, Item& item) {
  ASSERT(lock.owns_lock());
  while (!is_stopping_) {
    std::deque<Item>* from = nullptr;
    if (!fresh_.empty()) {
      from = &fresh_;
    } else if (!again_.empty() && again_.front().next <= settlement_time()) {
      from = &again_;
    }
    if (from != nullptr) {
      item = std::move(from->front());
      from->pop_front();
      return true;
    }
    if (again_.empty()) {
      wake_.wait(lock, [this] { return is_stopping_ || !fresh_.empty() || !again_.empty(); });
    } else {
      wake_.wait_for(lock, limits::kFenceAgain, [this] { return is_stopping_ || !fresh_.empty(); });
    }
  }
  return false;
}

// Until one cannot be, which is the last one to be tried again: a try may take as long as a target
// may take to answer, and others have their turn in between.
Status Settlements::settle_some(Item& item) {
  while (!item.files.empty()) {
    const InodeId file = item.files.front();
    const Status status = settle_(file);
    item.files.pop_front();
    if (status.ok()) continue;
    item.files.push_back(file);
    return status;
  }
  return Code::ok;
}

void Settlements::run() {
  Item item;
  std::unique_lock lock(mutex_);
  while (take_next(lock, item)) {
    lock.unlock();
    const Status status = settle_some(item);
    if (status.ok()) {
      // Known until then, as whoever asks may count on `done`.
      item.done();
      lock.lock();
      known_.erase(item.agent);
      continue;
    }
    if (!std::exchange(item.is_told, true)) {
      log::warning(
          "session {} of node {} is over, and {} of its files could not be settled yet: {}",
          item.agent.session, item.agent.node.value, item.files.size(), status.name());
    }
    item.next = settlement_time() + limits::kFenceAgain;
    lock.lock();
    again_.push_back(std::move(item));
  }
}

}  // namespace penstock::agent
