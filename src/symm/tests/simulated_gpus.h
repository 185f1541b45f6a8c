// GPUs that run device code in threads, for tests: a few blocks on each, whose stores become
// visible late and out of order, and whose weak loads may give what was there before.
//
// What CUDA's memory model allows is made to happen where it is cheap to do so:
// - A store waits in a buffer of its GPU. It leaves at a random time, in any order but behind an
//   older one of the same place; or at a fence of a lane that has seen it. Only its own lane, and
//   those it has met since, read it from there.
// - A weak load may give what this lane has read of those 16 bytes before, until it acquires,
// fences
//   or meets others.
// Not made to happen: system loads that overtake earlier ones, and atomic operations that come
// late. One lane runs at a time, chosen by the seed, so that the same seed gives the same run.
#pragma once

#include "penstock_device_symm.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace penstock::symm {

struct SimulatedShape {
  int pes = 2;
  uint32_t lanes = 8;   // of a block; a multiple of those of a warp
  uint32_t blocks = 1;  // of each kernel, which run at the same time
};

class SimulatedGpus {
 public:
  static constexpr uint64_t kHeapBytes = uint64_t{64} << 20;

  SimulatedGpus(uint64_t seed, SimulatedShape shape);
  ~SimulatedGpus();
  SimulatedGpus(const SimulatedGpus&) = delete;
  SimulatedGpus& operator=(const SimulatedGpus&) = delete;

  // Runs a kernel on all PEs, or on those given, and returns when all lanes have ended. What they
  // stored is then visible. False: nobody could go on, or it took forever.
  bool run(const std::function<void(int pe)>& kernel);
  bool run(const std::vector<int>& pes, const std::function<void(int pe)>& kernel);

  // Of the calling lane, in a kernel.
  static uint32_t block();

  const device::SymmState& state(int pe) const;
  // Symmetric memory behind the control words, at the same place in each heap.
  char* memory(int pe, uint64_t offset = 0) const;
  void make_team(int team, int start, int stride, int size);
  void set_trouble();
  const device::SymmReport& report(int pe) const;

  // PEs that this one reaches, bit by bit; what reaches for the memory of others is counted as
  // stray. `far`: how it asks for that.
  void make_near(int pe, uint64_t pes, device::SymmFar* far);
  // Runs now and then while kernels do, as the host would; also when all lanes wait.
  void let_host_run(std::function<void()> turn);
  // Memory beside the heaps that copy engines reach, and kernels of all PEs.
  void add_engine_memory(const void* begin, uint64_t bytes);
  bool is_for_engines(const void* address, uint64_t bytes = 1) const;

  // From here on, accesses outside of these bytes of symmetric memory are counted.
  void watch_reads(const void* begin, uint64_t bytes);
  void watch_writes(const void* begin, uint64_t bytes);
  int stray_accesses() const;

 private:
  struct Lane;
  struct Gpu;
  struct Pending;
  class Player;
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = ~uintptr_t{0};
  };

  uint32_t below(uint32_t bound);
  bool watched(const void* at, uint32_t bytes, const Range& range) const;
  void pass_on(Lane& lane);  // to a lane that may run, the same one perhaps
  void leave(Lane& lane);
  void read(Lane& lane, const void* from, void* to, uint32_t bytes, bool may_be_old);
  bool in_heaps(uintptr_t unit) const;
  void look_for_far(const Lane& lane, const void* at);
  void read_early(Lane& lane);
  void write(Lane& lane, void* to, const void* from, uint32_t bytes);
  void commit(Gpu& gpu, size_t index);
  bool is_first_of_its_place(const Gpu& gpu, size_t index) const;
  void commit_some();
  void commit_seen(Lane& lane);
  void commit_place(Gpu& gpu, uintptr_t begin, uintptr_t end);
  void meet(Lane& lane, device::Scope scope);
  bool all(Lane& lane, device::Scope scope, bool vote);

  std::mt19937_64 random_;
  SimulatedShape shape_;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> space_;  // of which pages are there once they are touched
  char* base_ = nullptr;
  uint32_t trouble_ = 0;
  std::function<void()> host_turn_;
  std::vector<Range> engine_memory_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Range reads_, writes_;
  int strays_ = 0;
  std::mutex mutex_;
  Lane* running_ = nullptr;
  int slow_ = 0;  // a PE that gets few turns, or none of them
  uint64_t steps_ = 0;
  bool stuck_ = false;
};

}  // namespace penstock::symm
