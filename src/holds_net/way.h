// Into a loop, for what others have promised to call back, perhaps when nobody waits any more.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "penstock/engine.h"

namespace penstock::holds_net {

// Made and closed in the loop's thread.
class Way : public std::enable_shared_from_this<Way> {
 public:
  explicit Way(engine::Loop& loop) : loop_(loop) {}

  // Runs in the loop, unless the way is closed by then. Any thread.
  void post(std::function<void()> action) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    auto* posted = new Posted;
    posted->way = shared_from_this();
    posted->action = std::move(action);
    posted->completion = [](engine::Op& op) {
      const std::unique_ptr<Posted> self(static_cast<Posted*>(&op));
      if (self->way->take()) self->action();
    };
    ++on_the_way_;
    // With the lock: who closes the way may end the loop.
    loop_.complete_remote(*posted, Code::ok);
  }
  // A function that posts, and may be called whenever.
  std::function<void()> back(std::function<void()> action) {
    return [self = shared_from_this(), action = std::move(action)] { self->post(action); };
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  // Nothing is left in the loop.
  bool is_empty() {
    const std::lock_guard lock(mutex_);
    return on_the_way_ == 0;
  }

 private:
  struct Posted : engine::Op {
    std::shared_ptr<Way> way;
    std::function<void()> action;
  };

  bool take() {
    const std::lock_guard lock(mutex_);
    ASSERT(on_the_way_ > 0);
    --on_the_way_;
    return !closed_;
  }

  engine::Loop& loop_;
  engine::Mutex mutex_;
  bool closed_ = false;
  size_t on_the_way_ = 0;
};

}  // namespace penstock::holds_net
