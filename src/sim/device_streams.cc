#include "device_streams.h"

#include <atomic>

namespace penstock::sim {

SimDeviceMemory::Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SimDeviceMemory::Stream::enqueue(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_all();
}

void SimDeviceMemory::Stream::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_.empty() && !busy_; });
}

void SimDeviceMemory::Stream::capture() {
  const std::lock_guard lock(mutex_);
  captures_ = true;
}

bool SimDeviceMemory::Stream::captures() {
  const std::lock_guard lock(mutex_);
  return captures_;
}

void SimDeviceMemory::Stream::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_ || !work_.empty()) {
    if (work_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
    lock.unlock();
    work();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

class SimDeviceMemory::Gate final : public engine::StreamGate {
 public:
  explicit Gate(SimDeviceMemory& memory) : memory_(memory) {}

  Status enqueue(engine::DeviceStream stream, void (*reached)(void*), void* context) override {
    Stream& into = memory_.stream_of(stream);
    if (into.captures()) return Code::not_supported;
    const uint32_t ticket = ++enqueued_;
    into.enqueue([opened = opened_, ticket, reached, context] {
      reached(context);
      // Acquire pairs with the release in open().
      uint32_t now = opened->load(std::memory_order_acquire);
      while (static_cast<int32_t>(now - ticket) < 0) {
        opened->wait(now);
        now = opened->load(std::memory_order_acquire);
      }
    });
    return Code::ok;
  }

  void open() override {
    opened_->fetch_add(1, std::memory_order_release);
    opened_->notify_all();
  }

 private:
  SimDeviceMemory& memory_;
  uint32_t enqueued_ = 0;
  // The stream looks at it a moment longer than the gate may live.
  std::shared_ptr<std::atomic<uint32_t>> opened_ = std::make_shared<std::atomic<uint32_t>>(0);
};

Status SimDeviceMemory::settle(engine::DeviceId) {
  synchronize(nullptr);
  return Code::ok;
}

Outcome<std::unique_ptr<engine::StreamGate>> SimDeviceMemory::make_gate() {
  return std::unique_ptr<engine::StreamGate>(std::make_unique<Gate>(*this));
}

engine::DeviceStream SimDeviceMemory::make_stream() {
  stream_of(nullptr);
  const std::lock_guard lock(mutex_);
  streams_.push_back(std::make_unique<Stream>());
  return streams_.back().get();
}

SimDeviceMemory::Stream& SimDeviceMemory::stream_of(engine::DeviceStream stream) {
  if (stream != nullptr) return *static_cast<Stream*>(stream);
  const std::lock_guard lock(mutex_);
  if (streams_.empty()) streams_.push_back(std::make_unique<Stream>());
  return *streams_.front();
}

void SimDeviceMemory::enqueue(engine::DeviceStream stream, std::function<void()> work) {
  stream_of(stream).enqueue(std::move(work));
}

void SimDeviceMemory::synchronize(engine::DeviceStream stream) {
  stream_of(stream).synchronize();
}

void SimDeviceMemory::capture(engine::DeviceStream stream) {
  stream_of(stream).capture();
}

}  // namespace penstock::sim
