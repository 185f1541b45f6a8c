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
  Status sync() override {
    std::unique_lock lock(mutex_);
    ++syncs_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !syncs_held_; });
    if (!sync_status_.ok()) return sync_status_;
    lock.unlock();
    return below_.sync();
  }
  // Syncs wait, or are let go; then each ends with the status where that is not ok.
  void hold_syncs() {
    const std::lock_guard lock(mutex_);
    syncs_held_ = true;
  }
  void let_syncs_go(Status status = {}) {
    {
      const std::lock_guard lock(mutex_);
      syncs_held_ = false;
      sync_status_ = status;
    }
    changed_.notify_all();
  }
  // So many have begun.
  void await_syncs(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return syncs_ >= count; });
  }
  size_t syncs() {
    const std::lock_guard lock(mutex_);
    return syncs_;
  }

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
  bool syncs_held_ = false;
  size_t syncs_ = 0;
  Status sync_status_;
};

}  // namespace penstock::meta_net
