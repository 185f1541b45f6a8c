// A ring for kernels in ordinary memory, and a proxy that the test plays.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "penstock/ring.h"
#include "penstock/testing_kernels.h"

namespace penstock::ring {

using test::kMillisecond;

class KernelRig {
 public:
  using Taken = KernelQueue::Taken;

  explicit KernelRig(uint32_t entries = 64, uint64_t region_bytes = kMiB)
      : geometry_(*KernelGeometry::make(entries)),
        host_(make(geometry_.host_bytes())),
        gpu_part_(make(geometry_.device_bytes())),
        queue({host_.get(), geometry_.host_bytes()}, geometry_),
        region(region_bytes) {
    test::play_kernels();
    std::memcpy(gpu_part_.get(), queue.image().data(), queue.image().size());
  }

  device::Ring view() { return queue.view(gpu_part_.get(), region.data(), region.size()); }
  // What a copy of the GPU's part shows.
  uint32_t outstanding() {
    std::memcpy(queue.image().data(), gpu_part_.get(), queue.image().size());
    return queue.outstanding();
  }
  // The next request; the test fails without one.
  Taken take_one() {
    Taken taken;
    if (queue.take({&taken, 1}) != 1) std::abort();
    return taken;
  }
  // Answers whatever comes, until stop().
  void serve(const std::function<void(const Taken&)>& answer) {
    proxy_ = std::jthread([this, answer](const std::stop_token& stop) {
      std::vector<Taken> batch(16);
      while (!stop.stop_requested()) {
        const uint32_t count = queue.take(batch);
        for (uint32_t i = 0; i < count; ++i) answer(batch[i]);
        if (count == 0) std::this_thread::yield();
      }
    });
  }
  void stop() { proxy_ = {}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte[], Free>;
  static Memory make(uint64_t bytes) {
    const uint64_t size = align_up(bytes, 4096);
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(4096, size));
    std::memset(memory, 0, size);
    return Memory(memory);
  }

  KernelGeometry geometry_;
  Memory host_;
  Memory gpu_part_;

 public:
  KernelQueue queue;
  std::vector<std::byte> region;

 private:
  std::jthread proxy_;
};

inline device::Request request(uint64_t offset, uint32_t length = 1, uint64_t destination = 0) {
  device::Request out;
  out.offset = offset;
  out.length = length;
  out.destination = destination;
  return out;
}

// `bytes`, as where they lie.
inline device::Answer answer_at(Bytes bytes) {
  return {device::kAddress, reinterpret_cast<uint64_t>(bytes.data()),
          static_cast<uint32_t>(bytes.size()), remainder_of(bytes)};
}

}  // namespace penstock::ring
