// A warp of 32 threads, for tests of what warps do together.
#pragma once

#include "penstock_device/host_primitives.h"

#include <algorithm>
#include <barrier>
#include <functional>
#include <thread>
#include <vector>

namespace penstock::device {

class ThreadWarp final : public HostWarp {
 public:
  // Runs `kernel` in each lane and returns when all have ended.
  void run(const std::function<void()>& kernel) {
    std::vector<std::thread> lanes;
    for (uint32_t i = 0; i < 32; ++i) {
      lanes.emplace_back([this, &kernel, i] {
        host_warp = this;
        host_warp_lane = i;
        kernel();
      });
    }
    for (std::thread& one : lanes) one.join();
  }

  void exchange(uint32_t lane, uint64_t share, uint64_t (&shares)[32]) override {
    shares_[lane] = share;
    barrier_.arrive_and_wait();
    std::copy(std::begin(shares_), std::end(shares_), std::begin(shares));
    barrier_.arrive_and_wait();
  }

 private:
  uint64_t shares_[32] = {};
  std::barrier<> barrier_{32};
};

}  // namespace penstock::device
