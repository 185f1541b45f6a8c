// A simulated fabric between nodes that have threads of their own: one lock for all of it.
#pragma once

#include <memory>
#include <mutex>
#include <sys/eventfd.h>
#include <type_traits>

#include "penstock/base.h"
#include "penstock/rails.h"
#include "penstock/testing_verbs.h"

namespace penstock::api {

struct SharedFabric {
  std::mutex mutex;
  test::SimFabric fabric{1};
};

// One loop's share of a device. It never lets its loop sleep: nothing would wake it.
class SharedDevice final : public verbs::Provider {
 public:
  SharedDevice(SharedFabric& fabric, bool takes_device_memory)
      : fabric_(fabric), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    const std::lock_guard lock(fabric_.mutex);
    device_ = std::make_unique<test::SimDevice>(fabric_.fabric);
    device_->takes_device_memory = takes_device_memory;
  }
  ~SharedDevice() override {
    const std::lock_guard lock(fabric_.mutex);
    device_.reset();
  }
  const verbs::DeviceFacts& facts() const override { return device_->facts(); }
  Result<verbs::QueuePairId> create_queue_pair() override {
    return locked([&] { return device_->create_queue_pair(); });
  }
  verbs::Endpoint endpoint(verbs::QueuePairId pair) const override {
    return locked([&] { return device_->endpoint(pair); });
  }
  Status connect(verbs::QueuePairId pair, const verbs::Endpoint& other) override {
    return locked([&] { return device_->connect(pair, other); });
  }
  void break_queue_pair(verbs::QueuePairId pair) override {
    locked([&] { device_->break_queue_pair(pair); });
  }
  void destroy_queue_pair(verbs::QueuePairId pair) override {
    locked([&] { device_->destroy_queue_pair(pair); });
  }
  Result<verbs::MemoryId> register_memory(MutableBytes bytes, bool writable) override {
    return locked([&] { return device_->register_memory(bytes, writable); });
  }
  Result<verbs::MemoryId> register_device_memory(const verbs::Region& region) override {
    return locked([&] { return device_->register_device_memory(region); });
  }
  void deregister_memory(verbs::MemoryId memory) override {
    locked([&] { device_->deregister_memory(memory); });
  }
  Result<verbs::Window> create_window() override {
    return locked([&] { return device_->create_window(); });
  }
  void destroy_window(verbs::WindowId window) override {
    locked([&] { device_->destroy_window(window); });
  }
  Status post(verbs::QueuePairId pair, const verbs::WorkRequest& request) override {
    return locked([&] { return device_->post(pair, request); });
  }
  Status post_receive(uint64_t id, MutableBytes buffer, verbs::MemoryId memory) override {
    return locked([&] { return device_->post_receive(id, buffer, memory); });
  }
  size_t poll(std::span<verbs::Completion> completions) override {
    return locked([&] { return device_->poll(completions); });
  }
  bool arm() override { return false; }
  void disarm() override {}
  int wake_descriptor() const override { return wake_.get(); }
  std::optional<verbs::Event> next_event() override {
    return locked([&] { return device_->next_event(); });
  }

 private:
  template <class Act>
  std::invoke_result_t<Act> locked(const Act& act) const {
    const std::lock_guard lock(fabric_.mutex);
    return act();
  }

  SharedFabric& fabric_;
  const UniqueFd wake_;
  std::unique_ptr<test::SimDevice> device_;
};

// One card of one node.
class SharedCard final : public rails::Devices {
 public:
  SharedCard(SharedFabric& fabric, bool takes_device_memory)
      : fabric_(fabric), takes_device_memory_(takes_device_memory) {}
  std::vector<rails::Device> all() override { return {{.name = "sim"}}; }
  Outcome<std::unique_ptr<verbs::Provider>> open(const rails::Device&) override {
    return std::unique_ptr<verbs::Provider>(
        std::make_unique<SharedDevice>(fabric_, takes_device_memory_));
  }

 private:
  SharedFabric& fabric_;
  const bool takes_device_memory_;
};

}  // namespace penstock::api
