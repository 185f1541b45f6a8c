// Device functions of PEs on several nodes in real processes, whose GPUs are memory of the host and
// whose kernels are threads: rings, proxies and mail as with GPUs.
#include "../device_far.h"
#include "penstock_device_symm.h"
#include "pes.h"

#include <cstring>
#include <thread>

namespace penstock::symm::test {
namespace {

using device::Change;
using device::Scope;

// A thread that plays a kernel of one thread.
class ThreadLane final : public device::HostLane {
 public:
  void load(const void* from, void* to, uint32_t bytes) override { std::memcpy(to, from, bytes); }
  void store(void* to, const void* from, uint32_t bytes) override { std::memcpy(to, from, bytes); }
  uint64_t load_word(const void* from, uint32_t bytes, bool) override {
    switch (bytes) {
      case 1:
        return __atomic_load_n(static_cast<const uint8_t*>(from), __ATOMIC_ACQUIRE);
      case 2:
        return __atomic_load_n(static_cast<const uint16_t*>(from), __ATOMIC_ACQUIRE);
      case 4:
        return __atomic_load_n(static_cast<const uint32_t*>(from), __ATOMIC_ACQUIRE);
      default:
        return __atomic_load_n(static_cast<const uint64_t*>(from), __ATOMIC_ACQUIRE);
    }
  }
  void store_word(void* to, uint64_t value, uint32_t bytes) override {
    switch (bytes) {
      case 1:
        return __atomic_store_n(static_cast<uint8_t*>(to), value, __ATOMIC_RELEASE);
      case 2:
        return __atomic_store_n(static_cast<uint16_t*>(to), value, __ATOMIC_RELEASE);
      case 4:
        return __atomic_store_n(static_cast<uint32_t*>(to), value, __ATOMIC_RELEASE);
      default:
        return __atomic_store_n(static_cast<uint64_t*>(to), value, __ATOMIC_RELEASE);
    }
  }
  uint64_t change_word(void* at, uint32_t bytes, Change change, uint64_t value,
                       uint64_t expected) override {
    return bytes == 4 ? changed(static_cast<uint32_t*>(at), change, static_cast<uint32_t>(value),
                                static_cast<uint32_t>(expected))
                      : changed(static_cast<uint64_t*>(at), change, value, expected);
  }
  void fence(bool) override { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
  uint32_t rank(Scope) override { return 0; }
  uint32_t size(Scope) override { return 1; }
  bool all(Scope, bool vote) override { return vote; }
  void end_kernel() override { fail(__FILE__, __LINE__, "a kernel gave up"); }
  bool is_for_engines(const void* address) override { return is_here(address); }

  static inline const std::byte* memory = nullptr;
  static constexpr uint64_t kBytes = uint64_t{32} << 20;
  static bool is_here(const void* address) {
    const auto* const at = static_cast<const std::byte*>(address);
    return at >= memory && at < memory + kBytes;
  }

 private:
  template <class T>
  static T changed(T* at, Change change, T value, T expected) {
    T before = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(at, &before, next(before, change, value, expected), false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    return before;
  }
  template <class T>
  static T next(T before, Change change, T value, T expected) {
    switch (change) {
      case Change::add:
        return before + value;
      case Change::bit_and:
        return before & value;
      case Change::bit_or:
        return before | value;
      case Change::bit_xor:
        return before ^ value;
      case Change::swap:
        return value;
      case Change::compare_swap:
        return before == expected ? value : before;
    }
    return before;
  }
};

class HostGpu final : public ProxyDevice {
 public:
  explicit HostGpu(const device::SymmState& state) : state_(state) {}
  Status copy_in(uint64_t to, Bytes from) override {
    move(reinterpret_cast<std::byte*>(to), from.data(), from.size());
    return {};
  }
  Status copy_out(MutableBytes to, uint64_t from) override {
    move(to.data(), reinterpret_cast<const std::byte*>(from), to.size());
    return {};
  }
  Status finish() override {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return {};
  }
  bool holds(uint64_t address, uint64_t) override {
    return ThreadLane::is_here(reinterpret_cast<const void*>(address));
  }
  bool is_programs(uint64_t) override { return false; }
  Status make_changes(uint64_t) override {
    device::host_lane = &lane_;
    device::serve_changes<device::Scope::thread>(state_);
    return {};
  }

 private:
  // Words at once.
  void move(std::byte* to, const std::byte* from, uint64_t bytes) {
    if ((bytes == 4 || bytes == 8) && reinterpret_cast<uintptr_t>(to) % bytes == 0 &&
        reinterpret_cast<uintptr_t>(from) % bytes == 0) {
      lane_.store_word(to, lane_.load_word(from, static_cast<uint32_t>(bytes), true),
                       static_cast<uint32_t>(bytes));
    } else {
      std::memcpy(to, from, bytes);
    }
  }
  const device::SymmState& state_;
  ThreadLane lane_;
};

// What DeviceHeap makes on GPUs. All PEs are far to each other.
struct FarGpu {
  device::SymmState state{};
  device::SymmFar far{};
  device::FarControl control{};
  std::vector<uint32_t> waiting = std::vector<uint32_t>(DeviceFar::kEntries);
  std::vector<device::SymmTeam> teams = std::vector<device::SymmTeam>(device::kSymmTeamsMax);
  std::vector<std::byte> heap = std::vector<std::byte>(ThreadLane::kBytes);
  uint32_t trouble = 0;
  device::SymmReport report{};
  std::unique_ptr<DeviceFar> proxy;

  static constexpr uint64_t kScratchAt = uint64_t{28} << 20;
  template <class T>
  T* at(uint64_t offset) {
    return reinterpret_cast<T*>(heap.data() + (uint64_t{24} << 20) + offset);
  }
};

std::unique_ptr<FarGpu> begin_far(const Pe& pe) {
  auto gpu = std::make_unique<FarGpu>();
  device::SymmState& state = gpu->state;
  ThreadLane::memory = gpu->heap.data();
  state.version = device::kSymmVersion;
  state.bytes = sizeof state;
  state.me = static_cast<int32_t>(pe.me());
  state.size = static_cast<int32_t>(pe.size());
  state.heap = reinterpret_cast<char*>(gpu->heap.data());
  state.heap_bytes = FarGpu::kScratchAt;
  state.peers = state.heap - uint64_t{pe.me()} * ThreadLane::kBytes;
  state.stride = ThreadLane::kBytes;
  state.near_pes[0] = uint64_t{1} << pe.me();
  state.teams = gpu->teams.data();
  state.trouble = &gpu->trouble;
  state.failure = &gpu->report.why;
  gpu->teams[0] = {0, 1, state.size, state.me, 0, 0};
  pe.group.follow_trouble(&gpu->trouble);

  ProxyOptions options;
  options.me = pe.me();
  options.pes = pe.size();
  for (uint32_t other = 0; other < pe.size(); ++other) {
    if (other != pe.me()) options.far.set(other);
  }
  options.heap = reinterpret_cast<uintptr_t>(state.heap);
  options.heap_bytes = state.heap_bytes;
  options.trouble = &gpu->trouble;
  const uint64_t host_bytes = align_up(DeviceFar::host_bytes(), uint64_t{4096});
  auto* const host = static_cast<std::byte*>(std::aligned_alloc(4096, host_bytes));
  std::memset(host, 0, host_bytes);
  auto made =
      DeviceFar::make(pe.group, std::make_unique<HostGpu>(state), {host, host_bytes}, options);
  CHECK(made);
  gpu->proxy = std::move(*made);
  gpu->far = gpu->proxy->view();
  gpu->far.control = &gpu->control;
  gpu->far.waiting = gpu->waiting.data();
  gpu->far.scratch = state.heap + FarGpu::kScratchAt;
  gpu->far.scratch_bytes = 4096;
  gpu->far.far_teams[0] = 1;
  state.far = &gpu->far;
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(gpu->proxy->start());
  device::host_lane = new ThreadLane;
  return gpu;
}

void end_far(const Pe& pe, std::unique_ptr<FarGpu> gpu) {
  CHECK(device::barrier<Scope::thread>(gpu->state, 0));
  CHECK(pe.group.barrier(pe.group.world()).ok());
  pe.group.unfollow_trouble(&gpu->trouble);
  gpu.reset();
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

void kernels_reach_far_memory(const Pe& pe) {
  auto gpu = begin_far(pe);
  const device::SymmState& state = gpu->state;
  const auto me = static_cast<int>(pe.me());
  const auto right = static_cast<int>(pe.right());
  const auto left = static_cast<int>(pe.left());
  constexpr uint64_t kBytes = 300'000;  // longer than a lane
  auto* const source = gpu->at<unsigned char>(0);
  auto* const dest = gpu->at<unsigned char>(kBytes);
  auto* const back = gpu->at<unsigned char>(2 * kBytes);
  auto* const words = gpu->at<uint64_t>(3 << 20);
  for (uint64_t round = 1; round <= 5; ++round) {
    for (uint64_t i = 0; i < kBytes; ++i)
      source[i] = static_cast<unsigned char>(i * 7 + i / 256 + round + pe.me());
    device::put_signal<Scope::thread>(state, dest, source, kBytes, words, round,
                                      device::SignalOp::set, right);
    uint64_t seen = 0;
    CHECK(device::signal_wait_until(state, words, device::Comparison::equal, round, seen));
    for (uint64_t i = 0; i < kBytes; i += 61)
      CHECK(dest[i] == static_cast<unsigned char>(i * 7 + i / 256 + round + pe.left()));
    device::get<Scope::thread>(state, back, source, kBytes, left);
    CHECK(std::memcmp(back, dest, kBytes) == 0);
    for (int i = 0; i < 50; ++i) {
      device::atomic_add(state, words + 8, uint64_t{1}, right);
      device::atomic_fetch_add(state, words + 16, uint64_t{1}, 0);
    }
    CHECK(device::barrier<Scope::thread>(state, 0));
    CHECK(device::atomic_fetch(state, words + 8, left) == round * 50);
    CHECK(device::g(state, words + 16, 0) == round * 50 * pe.size());
    auto* const sum = gpu->at<int>(2 << 20);
    for (int i = 0; i < 3000; ++i) sum[i] = me + i;
    CHECK((device::reduce<Scope::thread, device::Sum>(state, 0, sum, sum, uint64_t{3000})));
    const auto size = static_cast<int>(pe.size());
    for (int i = 0; i < 3000; ++i) CHECK(sum[i] == size * (size - 1) / 2 + size * i);
  }
  end_far(pe, std::move(gpu));
}

// One that dies while others' kernels wait for it and ask it.
void kernels_hear_of_far_ends(const Pe& pe) {
  auto gpu = begin_far(pe);
  const device::SymmState& state = gpu->state;
  if (pe.me() == pe.size() - 1) std::_Exit(7);
  const auto last = static_cast<int>(pe.size() - 1);
  bool went = true;
  for (int i = 0; i < 1'000'000 && went; ++i) {
    went = device::try_put_far(state, gpu->at<char>(0), gpu->at<char>(4096), 4096, last);
  }
  CHECK(!went);
  CHECK(!device::barrier<Scope::thread>(state, 0));
  pe.group.unfollow_trouble(&gpu->trouble);
}

}  // namespace

const Named kFarKernelScenarios[] = {
    {"far_kernels", kernels_reach_far_memory},
    {"far_end", kernels_hear_of_far_ends},
    {nullptr, nullptr},
};

}  // namespace penstock::symm::test
