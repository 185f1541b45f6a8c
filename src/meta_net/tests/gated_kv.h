// A key-value store whose transactions wait while the test holds them.
#pragma once

#include <mutex>

#include "penstock/engine.h"

namespace penstock::meta_net {

// Thread safe.
class GatedKv final : public engine::Kv {
 public:
  explicit GatedKv(engine::Kv& below) : below_(below) {}

  void submit(engine::KvOp& op) override { below_.submit(op); }
  Status run(engine::KvOp& op) override {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    --waiting_;
    lock.unlock();
    return below_.run(op);
  }
  Status sync() override { return below_.sync(); }

  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void let_go() {
    {
      const std::lock_guard lock(mutex_);
      held_ = false;
    }
    changed_.notify_all();
  }
  // Until so many wait.
  void await(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= count; });
  }
  size_t waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  engine::Kv& below_;
  engine::Mutex mutex_;
  engine::Condition changed_;
  size_t waiting_ = 0;
  bool held_ = false;
};

}  // namespace penstock::meta_net
