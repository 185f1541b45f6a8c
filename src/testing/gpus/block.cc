#include "block.h"

#include "penstock_device_symm.h"

#include <cstring>
#include <memory>
#include <sched.h>
#include <unistd.h>
#include <vector>

#include "penstock/base.h"
#include "penstock/sim_context.h"

namespace penstock::test {
namespace {

using device::Change;
using device::Scope;

constexpr uint32_t kWarp = device::kSymmLanes;
static_assert(kWarp == 32, "this library's build sets PENSTOCK_HOST_LANES: kernels count on 32");

// What may run at once. The stack of a lane is a megabyte of addresses.
constexpr uint32_t kLanesMax = 4096;
// Lanes that poll let others go on now and then; and the processor, when none of them gets on.
constexpr uint32_t kPollsPerTurn = 8;
constexpr uint32_t kIdleRoundsPerSleep = 64;

struct EndOfLane {};

class Launched;
class Lane;
thread_local Lane* current_lane = nullptr;

// Those that meet: of a warp or a block.
struct Meeting {
  uint32_t size = 0;
  uint32_t come = 0;
  bool all = true;
  bool result = true;
  uint64_t round = 0;
};

struct Block {
  Meeting all;
  std::vector<Meeting> warps;
  uint32_t lanes_left = 0;
};

class Lane final : public device::HostLane {
 public:
  Lane(Launched& launch, Block& block, LanePlace place);

  const LanePlace& place() const { return place_; }
  bool has_ended() const { return context_.ended(); }
  bool waits() const { return meeting_ != nullptr && meeting_->round == round_; }
  Block& block() const { return block_; }

  void resume() {
    device::host_lane = this;
    current_lane = this;
    context_.resume();
    device::host_lane = nullptr;
    current_lane = nullptr;
  }
  void give_way();
  bool meet(Meeting& meeting, bool vote);
  bool meet_block(bool vote) { return meet(block_.all, vote); }
  bool meet_warp(bool vote) { return meet(block_.warps[place_.thread / kWarp], vote); }

  void load(const void* from, void* to, uint32_t bytes) override { std::memcpy(to, from, bytes); }
  void store(void* to, const void* from, uint32_t bytes) override { std::memcpy(to, from, bytes); }
  uint64_t load_word(const void* from, uint32_t bytes, bool acquire) override;
  void store_word(void* to, uint64_t value, uint32_t bytes) override;
  uint64_t change_word(void* at, uint32_t bytes, Change change, uint64_t value,
                       uint64_t expected) override;
  void fence(bool) override { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
  uint32_t rank(Scope scope) override {
    if (scope == Scope::thread) return 0;
    return scope == Scope::warp ? place_.thread % kWarp : place_.thread;
  }
  uint32_t size(Scope scope) override {
    if (scope == Scope::thread) return 1;
    return scope == Scope::warp ? kWarp : place_.threads;
  }
  bool all(Scope scope, bool vote) override {
    if (scope == Scope::thread) return vote;
    return scope == Scope::warp ? meet_warp(vote) : meet_block(vote);
  }
  void end_kernel() override;
  // No memory of a simulated GPU is out of the reach of its copy engines, as shared memory is.
  bool is_for_engines(const void*) override { return true; }

 private:
  Launched& launch_;
  Block& block_;
  const LanePlace place_;
  const Meeting* meeting_ = nullptr;
  uint64_t round_ = 0;
  uint32_t polls_ = 0;
  sim::Context context_;
};

class Launched {
 public:
  Launched(const BoundKernel& kernel, LaunchShape shape, const std::atomic<bool>& is_lost)
      : kernel_(kernel), shape_(shape), is_lost_(is_lost) {}

  LaunchEnd run() {
    uint32_t idle_rounds = 0;
    for (;;) {
      begin_blocks();
      if (lanes_.empty()) return end_;
      if (is_lost_.load(std::memory_order_relaxed)) stop(LaunchEnd::trapped);
      if (round()) {
        idle_rounds = 0;
      } else if (++idle_rounds % kIdleRoundsPerSleep == 0) {
        ::usleep(20);
      } else {
        ::sched_yield();
      }
    }
  }

  void run_lane() const { kernel_(); }
  bool is_stopped() const { return end_ != LaunchEnd::done; }
  void stop(LaunchEnd end) {
    if (end_ == LaunchEnd::done) end_ = end;
  }
  void got_on() { has_got_on_ = true; }

 private:
  void begin_blocks() {
    while (next_block_ < shape_.blocks && !is_stopped() &&
           (lanes_.empty() || lanes_.size() + shape_.threads <= kLanesMax)) {
      auto block = std::make_unique<Block>();
      block->all.size = shape_.threads;
      block->lanes_left = shape_.threads;
      for (uint32_t first = 0; first < shape_.threads; first += kWarp) {
        Meeting& warp = block->warps.emplace_back();
        warp.size = std::min(kWarp, shape_.threads - first);
      }
      for (uint32_t thread = 0; thread < shape_.threads; ++thread) {
        lanes_.push_back(std::make_unique<Lane>(
            *this, *block, LanePlace{next_block_, shape_.blocks, thread, shape_.threads}));
      }
      blocks_.push_back(std::move(block));
      ++next_block_;
    }
  }

  // Lets each lane go on once. False: none has done more than look.
  bool round() {
    has_got_on_ = false;
    bool has_run = false;
    for (const auto& lane : lanes_) {
      if (lane->waits() && !is_stopped()) continue;
      has_run = true;
      lane->resume();
    }
    const size_t before = lanes_.size();
    std::erase_if(lanes_, [](const auto& lane) {
      if (!lane->has_ended()) return false;
      --lane->block().lanes_left;
      return true;
    });
    std::erase_if(blocks_, [](const auto& block) { return block->lanes_left == 0; });
    if (!has_run) stop(LaunchEnd::stuck);
    return has_got_on_ || lanes_.size() != before;
  }

  const BoundKernel& kernel_;
  const LaunchShape shape_;
  const std::atomic<bool>& is_lost_;
  LaunchEnd end_ = LaunchEnd::done;
  bool has_got_on_ = false;
  uint32_t next_block_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // those that have not ended
};

Lane::Lane(Launched& launch, Block& block, LanePlace place)
    : launch_(launch), block_(block), place_(place), context_([this] {
        try {
          if (!launch_.is_stopped()) launch_.run_lane();
        } catch (const EndOfLane&) {
        }
      }) {}

void Lane::give_way() {
  context_.give_way();
  if (launch_.is_stopped()) throw EndOfLane();
}

void Lane::end_kernel() {
  launch_.stop(LaunchEnd::trapped);
  throw EndOfLane();
}

bool Lane::meet(Meeting& meeting, bool vote) {
  launch_.got_on();
  meeting.all = meeting.all && vote;
  if (++meeting.come == meeting.size) {
    meeting.result = meeting.all;
    meeting.come = 0;
    meeting.all = true;
    ++meeting.round;
    return meeting.result;
  }
  meeting_ = &meeting;
  round_ = meeting.round;
  while (meeting.round == round_) give_way();
  meeting_ = nullptr;
  return meeting.result;
}

template <class T>
uint64_t load_as(const void* from) {
  return __atomic_load_n(static_cast<const T*>(from), __ATOMIC_ACQUIRE);
}
template <class T>
void store_as(void* to, uint64_t value) {
  __atomic_store_n(static_cast<T*>(to), static_cast<T>(value), __ATOMIC_RELEASE);
}
template <class T>
uint64_t change_as(void* at, Change change, uint64_t value64, uint64_t expected64) {
  auto* const word = static_cast<T*>(at);
  const auto value = static_cast<T>(value64);
  auto expected = static_cast<T>(expected64);
  switch (change) {
    case Change::add:
      return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
    case Change::bit_and:
      return __atomic_fetch_and(word, value, __ATOMIC_SEQ_CST);
    case Change::bit_or:
      return __atomic_fetch_or(word, value, __ATOMIC_SEQ_CST);
    case Change::bit_xor:
      return __atomic_fetch_xor(word, value, __ATOMIC_SEQ_CST);
    case Change::swap:
      return __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
    case Change::compare_swap:
      __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_SEQ_CST,
                                  __ATOMIC_SEQ_CST);
      return expected;
  }
  return 0;
}

uint64_t Lane::load_word(const void* from, uint32_t bytes, bool) {
  if (++polls_ % kPollsPerTurn == 0) give_way();
  switch (bytes) {
    case 1:
      return load_as<uint8_t>(from);
    case 2:
      return load_as<uint16_t>(from);
    case 4:
      return load_as<uint32_t>(from);
    default:
      return load_as<uint64_t>(from);
  }
}

void Lane::store_word(void* to, uint64_t value, uint32_t bytes) {
  launch_.got_on();
  switch (bytes) {
    case 1:
      return store_as<uint8_t>(to, value);
    case 2:
      return store_as<uint16_t>(to, value);
    case 4:
      return store_as<uint32_t>(to, value);
    default:
      return store_as<uint64_t>(to, value);
  }
}

uint64_t Lane::change_word(void* at, uint32_t bytes, Change change, uint64_t value,
                           uint64_t expected) {
  // A lane that tries again and again, as for a lock, is one that polls.
  if (++polls_ % kPollsPerTurn == 0) give_way();
  return bytes == 4 ? change_as<uint32_t>(at, change, value, expected)
                    : change_as<uint64_t>(at, change, value, expected);
}

}  // namespace

LanePlace lane_place() {
  ASSERT(current_lane != nullptr);
  return current_lane->place();
}
bool meet_block(bool vote) {
  ASSERT(current_lane != nullptr);
  return current_lane->meet_block(vote);
}
bool meet_warp(bool vote) {
  ASSERT(current_lane != nullptr);
  return current_lane->meet_warp(vote);
}

LaunchEnd run_launch(const BoundKernel& kernel, LaunchShape shape,
                     const std::atomic<bool>& is_lost) {
  return Launched(kernel, shape, is_lost).run();
}

}  // namespace penstock::test
