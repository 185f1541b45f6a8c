// How a PE's GPU reaches those of other nodes: the ring's memory, the mail, and a thread that turns
// the proxy.
#pragma once

#include "device_proxy.h"
#include "group_mail.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace penstock::symm {

class DeviceFar {
 public:
  static constexpr uint32_t kEntries = 4096;
  static constexpr uint64_t kStagingBytes = 8 * uint64_t{kMailBodyMax};
  // Of memory that the GPU reaches at the same address, with zeros.
  static uint64_t host_bytes();

  // Together with all of the group, whose clock it takes; they meet behind it, before start().
  // `options` without staging.
  static Outcome<std::unique_ptr<DeviceFar>> make(Group& group, std::unique_ptr<ProxyDevice> device,
                                                  MutableBytes host, ProxyOptions options);
  // What kernels have asked for is on its way then, unless its PE is slow or gone. No kernel uses
  // it any more, and no other PE this one's GPU.
  ~DeviceFar();

  Outcome<void> start();
  // Memory behind the heap that far PEs reach from now on, lengths by offset, and no other: when it
  // returns the proxy uses none of what was taken away. By one thread.
  void set_adopted(const std::map<uint64_t, uint64_t>& adopted);
  // For kernels; the caller adds what is in the GPU's memory.
  device::SymmFar view() const { return queue_.view(); }

 private:
  DeviceFar(const engine::Clock& clock, std::unique_ptr<GroupMail> mail,
            std::unique_ptr<ProxyDevice> device, AskedGeometry geometry, MutableBytes host,
            const ProxyOptions& options);
  void run();
  void work();
  void take_adopted();

  const engine::Clock& clock_;
  uint32_t* const trouble_;
  const std::unique_ptr<ProxyDevice> device_;
  const std::unique_ptr<GroupMail> mail_;
  AskedQueue queue_;
  DeviceProxy proxy_;
  std::atomic<bool> is_stopping_{false};
  // What set_adopted() hands to the thread.
  std::mutex mutex_;
  std::condition_variable taken_;
  std::optional<std::map<uint64_t, uint64_t>> adopted_;
  std::atomic<bool> is_handing_{false};  // until nothing uses what was taken away
  uint64_t changes_before_ = 0;          // that may use it
  bool has_ended_ = true;                // the thread, or it has not begun; under the mutex
  std::thread thread_;
};

}  // namespace penstock::symm
