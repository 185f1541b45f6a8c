// A simulated GPU, as one process sees it.
#pragma once

#include "stream.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "penstock/testing_gpus/devices.h"

namespace penstock::test {

inline constexpr uint64_t kSimulatedGranule = uint64_t{2} << 20;
inline constexpr uint64_t kSimulatedPage = 4096;

// Memory of this process that devices reach: windows and pinned words. What is not in it is
// pageable, which copies treat in another way.
class Reached {
 public:
  void add(const std::byte* begin, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    stretches_[begin] = bytes;
  }
  // Gives its length.
  uint64_t remove(const std::byte* begin) {
    const std::lock_guard lock(mutex_);
    const auto found = stretches_.find(begin);
    ASSERT(found != stretches_.end());
    const uint64_t bytes = found->second;
    stretches_.erase(found);
    return bytes;
  }
  bool holds(const void* address) {
    const auto* const at = static_cast<const std::byte*>(address);
    const std::lock_guard lock(mutex_);
    auto found = stretches_.upper_bound(at);
    if (found == stretches_.begin()) return false;
    --found;
    return at < found->first + found->second;
  }

 private:
  std::mutex mutex_;
  std::map<const std::byte*, uint64_t> stretches_;
};

Reached& reached();

// One device of this process, whoever has opened it.
class SimulatedDevices::Gpu {
 public:
  Gpu(uint32_t number, const SimulatedDeviceOptions& options)
      : number_(number), options_(options), default_(options.at_once) {}

  uint32_t number() const { return number_; }
  uint64_t memory_bytes() const { return options_.memory_bytes; }
  std::unique_ptr<DeviceQueue> make_queue() const {
    return std::make_unique<DeviceQueue>(options_.at_once);
  }
  DeviceQueue& queue(engine::DeviceStream stream) {
    return stream != nullptr ? *static_cast<DeviceQueue*>(stream) : default_;
  }
  // Those whose end synchronize_all() waits for.
  void know(DeviceQueue* queue) {
    const std::lock_guard lock(mutex_);
    known_.push_back(queue);
  }
  void forget(DeviceQueue* queue) {
    const std::lock_guard lock(mutex_);
    std::erase(known_, queue);
  }
  void synchronize_all();
  engine::DeviceStream keep(std::unique_ptr<DeviceQueue> queue) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(queue));
    known_.push_back(kept_.back().get());
    return kept_.back().get();
  }

  // Calls of the program's context. One that waits for kernels may shut out all others, as the
  // driver's do; these pass() before they do anything.
  void pass() { const std::shared_lock lock(calls_); }
  std::unique_lock<std::shared_mutex> shut_out() { return std::unique_lock(calls_); }

  // Sticky, as the context of a process is broken as a whole.
  Status state() const { return is_broken_ ? Status(Code::peer_gone) : Status(); }
  void fail() { is_broken_ = true; }
  const std::atomic<bool>& is_broken() const { return is_broken_; }

  SimulatedDeviceFaults faults() const {
    const std::lock_guard lock(mutex_);
    return faults_;
  }
  void set_faults(const SimulatedDeviceFaults& faults) {
    const std::lock_guard lock(mutex_);
    faults_ = faults;
  }

  Status count_launch() {
    const std::lock_guard lock(mutex_);
    ++launches_;
    if (faults_.launches_until_failure < 0) return {};
    if (faults_.launches_until_failure == 0) return Code::no_memory;
    --faults_.launches_until_failure;
    return {};
  }
  uint64_t launches() const {
    const std::lock_guard lock(mutex_);
    return launches_;
  }

  // False: there is not so much left.
  bool take(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const uint64_t limit = std::min(options_.memory_bytes, faults_.allocates_at_most);
    if (bytes > limit || taken_ > limit - bytes) return false;
    taken_ += bytes;
    return true;
  }
  void give_back(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    ASSERT(bytes <= taken_);
    taken_ -= bytes;
  }

  Outcome<MutableBytes> make_memory(uint64_t bytes);
  MutableBytes make_programs_memory(uint64_t bytes);
  bool is_programs(const void* address) const;
  Outcome<UniqueFd> export_memory(const void* memory, uint64_t length, const std::string& what);

  MutableBytes host_words(uint64_t bytes);

 private:
  const uint32_t number_;
  const SimulatedDeviceOptions& options_;
  std::atomic<bool> is_broken_{false};
  std::shared_mutex calls_;
  mutable std::mutex mutex_;  // of what follows
  SimulatedDeviceFaults faults_;
  uint64_t launches_ = 0;
  uint64_t taken_ = 0;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> host_words_;
  struct Made {
    MutableBytes bytes;
    UniqueFd file;
  };
  std::vector<Made> made_;  // as long as the process: a program's own
  std::vector<MutableBytes> programs_;
  std::vector<std::unique_ptr<DeviceQueue>> kept_;
  std::vector<DeviceQueue*> known_;
  DeviceQueue default_;  // the last: its thread may use the others
};

// Files that stand for memory of a device, with a label behind their bytes.
Outcome<UniqueFd> make_device_file(uint32_t device, uint64_t length, const std::string& what);

Outcome<std::unique_ptr<gpu::Window>> make_window(SimulatedDevices::Gpu& gpu, uint64_t bytes);

}  // namespace penstock::test
