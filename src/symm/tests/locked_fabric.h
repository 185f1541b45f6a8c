// A simulated fabric for the threads of several PEs in one process: one at a time, and asleep until
// something completes.
#pragma once

#include <mutex>
#include <sys/eventfd.h>
#include <unistd.h>

#include "penstock/testing_verbs.h"

namespace penstock::symm::test {

class LockedDevice;

struct LockedFabric {
  explicit LockedFabric(uint64_t seed) : fabric(seed) {}
  std::mutex mutex;
  penstock::test::SimFabric fabric;
  std::vector<LockedDevice*> devices;
};

class LockedDevice final : public verbs::Provider {
 public:
  explicit LockedDevice(LockedFabric& all)
      : all_(all), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    const std::lock_guard lock(all_.mutex);
    device_ = std::make_unique<penstock::test::SimDevice>(all_.fabric);
    all_.devices.push_back(this);
  }
  ~LockedDevice() override {
    const std::lock_guard lock(all_.mutex);
    std::erase(all_.devices, this);
    device_.reset();
  }
  // With the fabric's lock.
  penstock::test::SimDevice& device() { return *device_; }

  const verbs::DeviceFacts& facts() const override { return device_->facts(); }
  Result<verbs::QueuePairId> create_queue_pair() override {
    const std::lock_guard lock(all_.mutex);
    return device_->create_queue_pair();
  }
  verbs::Endpoint endpoint(verbs::QueuePairId id) const override {
    const std::lock_guard lock(all_.mutex);
    return device_->endpoint(id);
  }
  Status connect(verbs::QueuePairId id, const verbs::Endpoint& other) override {
    const std::lock_guard lock(all_.mutex);
    return device_->connect(id, other);
  }
  void break_queue_pair(verbs::QueuePairId id) override {
    const std::lock_guard lock(all_.mutex);
    device_->break_queue_pair(id);
  }
  void destroy_queue_pair(verbs::QueuePairId id) override {
    const std::lock_guard lock(all_.mutex);
    device_->destroy_queue_pair(id);
  }
  Result<verbs::MemoryId> register_memory(MutableBytes bytes, bool writable) override {
    const std::lock_guard lock(all_.mutex);
    return device_->register_memory(bytes, writable);
  }
  Result<verbs::MemoryId> register_device_memory(const verbs::Region&) override {
    return Code::not_supported;
  }
  void deregister_memory(verbs::MemoryId id) override {
    const std::lock_guard lock(all_.mutex);
    device_->deregister_memory(id);
  }
  Result<verbs::Window> create_window() override {
    const std::lock_guard lock(all_.mutex);
    return device_->create_window();
  }
  void destroy_window(verbs::WindowId id) override {
    const std::lock_guard lock(all_.mutex);
    device_->destroy_window(id);
  }
  Status post(verbs::QueuePairId id, const verbs::WorkRequest& request) override {
    const std::lock_guard lock(all_.mutex);
    // Its own thread polls, by which the fabric goes on.
    if (armed_) wake();
    return device_->post(id, request);
  }
  Status post_receive(uint64_t id, MutableBytes buffer, verbs::MemoryId memory) override {
    const std::lock_guard lock(all_.mutex);
    return device_->post_receive(id, buffer, memory);
  }
  size_t poll(std::span<verbs::Completion> completions) override {
    const std::lock_guard lock(all_.mutex);
    if (pending_.empty()) collect();
    const size_t count = std::min(completions.size(), pending_.size());
    std::copy_n(pending_.begin(), count, completions.begin());
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(count));
    return count;
  }
  // Until nothing can happen any more.
  bool arm() override {
    const std::lock_guard lock(all_.mutex);
    while (all_.fabric.step()) {
    }
    armed_ = true;
    for (LockedDevice* const each : all_.devices) {
      each->collect();
      if (each != this && each->armed_ && !each->pending_.empty()) each->wake();
    }
    armed_ = pending_.empty();
    return armed_;
  }
  void disarm() override {
    const std::lock_guard lock(all_.mutex);
    uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof count);
    armed_ = false;
  }
  int wake_descriptor() const override { return wake_.get(); }
  std::optional<verbs::Event> next_event() override {
    const std::lock_guard lock(all_.mutex);
    return device_->next_event();
  }

 private:
  void collect() {
    std::array<verbs::Completion, 16> some;
    const size_t count = device_->poll(some);
    pending_.insert(pending_.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(count));
  }
  void wake() const {
    const uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }

  LockedFabric& all_;
  UniqueFd wake_;
  std::unique_ptr<penstock::test::SimDevice> device_;
  std::vector<verbs::Completion> pending_;
  bool armed_ = false;
};

}  // namespace penstock::symm::test
