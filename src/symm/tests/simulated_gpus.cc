#include "simulated_gpus.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "penstock/base.h"

namespace penstock::symm {

namespace {

constexpr uint64_t kStepsMax = 20'000'000;
constexpr size_t kPendingMax = 48;
constexpr size_t kLikelyMax = 16;
constexpr uint64_t kUnit = sizeof(device::SymmUnit);

struct EndOfLane {};

thread_local uint32_t block_of_lane = 0;

uintptr_t number(const void* at) {
  return reinterpret_cast<uintptr_t>(at);
}

}  // namespace

struct SimulatedGpus::Pending {
  uintptr_t begin;
  uint32_t bytes;
  std::byte data[kUnit];
  uint64_t seen;  // bit i: by lane i of the block
};

struct SimulatedGpus::Gpu {
  device::SymmState state = {};
  std::vector<device::SymmTeam> teams;
  device::SymmReport report = {};
  std::vector<Pending> pending;  // the oldest first
  // Of votes: by scope, and the number of the warp or block.
  struct Vote {
    uint32_t come = 0;
    bool all = true;
    bool result = true;
    uint64_t round = 0;
  };
  std::map<std::pair<int, uint32_t>, Vote> votes;
};

struct SimulatedGpus::Lane {
  SimulatedGpus* gpus = nullptr;
  Gpu* gpu = nullptr;
  uint32_t rank = 0;
  bool may_run = true;
  std::condition_variable turn;
  std::map<uintptr_t, device::SymmUnit> read_before;
  std::vector<uintptr_t> likely;  // units that it may read again, and so perhaps early

  void forget() {
    for (const auto& one : read_before) likely.push_back(one.first);
    while (likely.size() > kLikelyMax) likely.erase(likely.begin());
    read_before.clear();
  }
};

// What device code calls.
class SimulatedGpus::Player final : public device::HostLane {
 public:
  explicit Player(Lane& lane) : lane_(lane), gpus_(*lane.gpus) {}
  void load(const void* from, void* to, uint32_t bytes) override {
    gpus_.read(lane_, from, to, bytes, true);
  }
  void store(void* to, const void* from, uint32_t bytes) override {
    gpus_.write(lane_, to, from, bytes);
  }
  uint64_t load_word(const void* from, uint32_t bytes, bool acquire) override {
    uint64_t out = 0;
    gpus_.read(lane_, from, &out, bytes, false);
    if (acquire) lane_.forget();
    return out;
  }
  void store_word(void* to, uint64_t value, uint32_t bytes) override {
    gpus_.write(lane_, to, &value, bytes);
  }
  uint64_t change_word(void* at, uint32_t bytes, device::Change change, uint64_t value,
                       uint64_t expected) override {
    gpus_.pass_on(lane_);
    gpus_.look_for_far(lane_, at);
    gpus_.commit_place(*lane_.gpu, number(at), number(at) + bytes);
    uint64_t before = 0;
    std::memcpy(&before, at, bytes);
    const uint64_t after = changed(change, before, value, expected);
    std::memcpy(at, &after, bytes);
    return before;
  }
  void fence(bool) override {
    gpus_.pass_on(lane_);
    gpus_.commit_seen(lane_);
    lane_.forget();
  }
  uint32_t rank(device::Scope scope) override {
    if (scope == device::Scope::thread) return 0;
    return lane_.rank % (scope == device::Scope::warp ? device::kSymmLanes : gpus_.shape_.lanes);
  }
  uint32_t size(device::Scope scope) override {
    if (scope == device::Scope::thread) return 1;
    return scope == device::Scope::warp ? device::kSymmLanes : gpus_.shape_.lanes;
  }
  bool all(device::Scope scope, bool vote) override {
    return scope == device::Scope::thread ? vote : gpus_.all(lane_, scope, vote);
  }
  void end_kernel() override { throw EndOfLane(); }
  bool is_for_engines(const void* address) override { return gpus_.is_for_engines(address); }

 private:
  static uint64_t changed(device::Change change, uint64_t before, uint64_t value,
                          uint64_t expected) {
    switch (change) {
      case device::Change::add:
        return before + value;
      case device::Change::bit_and:
        return before & value;
      case device::Change::bit_or:
        return before | value;
      case device::Change::bit_xor:
        return before ^ value;
      case device::Change::swap:
        return value;
      case device::Change::compare_swap:
        return before == expected ? value : before;
    }
    return before;
  }

  Lane& lane_;
  SimulatedGpus& gpus_;
};

SimulatedGpus::SimulatedGpus(uint64_t seed, SimulatedShape shape) : random_(seed), shape_(shape) {
  ASSERT(shape.lanes % device::kSymmLanes == 0 && shape.lanes * shape.blocks <= 64);
  const auto pes = static_cast<size_t>(shape.pes);
  space_.reset(static_cast<char*>(std::calloc(kHeapBytes * pes + kUnit, 1)));
  ASSERT(space_ != nullptr);
  base_ = space_.get() + (kUnit - number(space_.get()) % kUnit) % kUnit;
  for (size_t pe = 0; pe < pes; ++pe) {
    auto gpu = std::make_unique<Gpu>();
    gpu->teams.resize(device::kSymmTeamsMax);
    device::SymmState& state = gpu->state;
    state.version = device::kSymmVersion;
    state.bytes = sizeof state;
    state.me = static_cast<int32_t>(pe);
    state.size = shape.pes;
    state.heap = base_ + kHeapBytes * pe;
    state.heap_bytes = kHeapBytes;
    state.peers = base_;
    state.stride = kHeapBytes;
    state.near_pes[0] = (uint64_t{1} << pes) - 1;
    state.teams = gpu->teams.data();
    state.trouble = &trouble_;
    state.failure = &gpu->report.why;
    gpus_.push_back(std::move(gpu));
  }
  make_team(0, 0, 1, shape.pes);
}

SimulatedGpus::~SimulatedGpus() = default;

uint32_t SimulatedGpus::block() {
  return block_of_lane;
}

const device::SymmState& SimulatedGpus::state(int pe) const {
  return gpus_[static_cast<size_t>(pe)]->state;
}
char* SimulatedGpus::memory(int pe, uint64_t offset) const {
  return base_ + kHeapBytes * static_cast<uint64_t>(pe) + sizeof(device::SymmControl) + offset;
}
void SimulatedGpus::make_team(int team, int start, int stride, int size) {
  for (int i = 0; i < size; ++i) {
    device::SymmTeam& entry =
        gpus_[static_cast<size_t>(start + i * stride)]->teams[static_cast<size_t>(team)];
    entry = {start, stride, size, i, 0, 0};
  }
}
void SimulatedGpus::set_trouble() {
  trouble_ = 1;
}
const device::SymmReport& SimulatedGpus::report(int pe) const {
  return gpus_[static_cast<size_t>(pe)]->report;
}
void SimulatedGpus::watch_reads(const void* begin, uint64_t bytes) {
  reads_ = {number(begin), number(begin) + bytes};
}
void SimulatedGpus::watch_writes(const void* begin, uint64_t bytes) {
  writes_ = {number(begin), number(begin) + bytes};
}
int SimulatedGpus::stray_accesses() const {
  return strays_;
}

void SimulatedGpus::make_near(int pe, uint64_t pes, device::SymmFar* far) {
  gpus_[static_cast<size_t>(pe)]->state.near_pes[0] = pes;
  gpus_[static_cast<size_t>(pe)]->state.far = far;
}
void SimulatedGpus::let_host_run(std::function<void()> turn) {
  host_turn_ = std::move(turn);
}
void SimulatedGpus::add_engine_memory(const void* begin, uint64_t bytes) {
  engine_memory_.push_back({number(begin), number(begin) + bytes});
}
bool SimulatedGpus::is_for_engines(const void* address, uint64_t bytes) const {
  const uintptr_t begin = number(address);
  const auto holds = [&](const Range& range) {
    return begin >= range.begin && begin + bytes <= range.end && begin + bytes >= begin;
  };
  if (holds({number(base_), number(base_) + kHeapBytes * gpus_.size()})) return true;
  return std::any_of(engine_memory_.begin(), engine_memory_.end(), holds);
}
void SimulatedGpus::look_for_far(const Lane& lane, const void* at) {
  if (number(at) < number(base_) || number(at) >= number(base_) + kHeapBytes * gpus_.size()) return;
  const uint64_t pe = (number(at) - number(base_)) / kHeapBytes;
  if ((lane.gpu->state.near_pes[0] >> pe & 1) == 0) ++strays_;
}

uint32_t SimulatedGpus::below(uint32_t bound) {
  return static_cast<uint32_t>(random_() % bound);
}
bool SimulatedGpus::watched(const void* at, uint32_t bytes, const Range& range) const {
  return number(at) >= range.begin && number(at) + bytes <= range.end;
}

// ---- who runs ----

void SimulatedGpus::pass_on(Lane& lane) {
  if (stuck_ || ++steps_ > kStepsMax) {
    stuck_ = true;
    throw EndOfLane();
  }
  commit_some();
  if (host_turn_ && below(2) == 0) host_turn_();
  read_early(lane);
  if (lane.may_run && below(4) != 0) return;
  std::vector<Lane*> choice;
  for (const auto& one : lanes_) {
    if (one->may_run) choice.push_back(one.get());
  }
  if (choice.empty()) {  // all wait for each other
    stuck_ = true;
    for (const auto& one : lanes_) one->may_run = true;
    throw EndOfLane();
  }
  Lane* next = choice[below(static_cast<uint32_t>(choice.size()))];
  if (next->gpu->state.me == slow_ && below(8) != 0) {
    next = choice[below(static_cast<uint32_t>(choice.size()))];
  }
  if (next == &lane) return;
  std::unique_lock lock(mutex_);
  running_ = next;
  next->turn.notify_one();
  lane.turn.wait(lock, [&] { return running_ == &lane; });
  lock.unlock();
  if (stuck_) throw EndOfLane();
}

void SimulatedGpus::leave(Lane& lane) {
  const std::lock_guard lock(mutex_);
  lane.may_run = false;
  std::vector<Lane*> choice;
  for (const auto& one : lanes_) {
    if (one->may_run) choice.push_back(one.get());
  }
  lane.gpu = nullptr;
  if (choice.empty()) {
    // Those that are left wait for who has left.
    for (const auto& one : lanes_) {
      if (one->gpu == nullptr) continue;
      stuck_ = true;
      one->may_run = true;
      choice.push_back(one.get());
    }
  }
  if (choice.empty()) return;
  running_ = choice[below(static_cast<uint32_t>(choice.size()))];
  running_->turn.notify_one();
}

bool SimulatedGpus::run(const std::function<void(int pe)>& kernel) {
  std::vector<int> all_pes;
  for (int pe = 0; pe < shape_.pes; ++pe) all_pes.push_back(pe);
  return run(all_pes, kernel);
}

bool SimulatedGpus::run(const std::vector<int>& pes, const std::function<void(int pe)>& kernel) {
  lanes_.clear();
  steps_ = 0;
  stuck_ = false;
  slow_ = static_cast<int>(below(static_cast<uint32_t>(shape_.pes) + 1));
  for (const int pe : pes) {
    for (uint32_t rank = 0; rank < shape_.lanes * shape_.blocks; ++rank) {
      auto lane = std::make_unique<Lane>();
      lane->gpus = this;
      lane->gpu = gpus_[static_cast<size_t>(pe)].get();
      lane->rank = rank;
      lanes_.push_back(std::move(lane));
    }
    gpus_[static_cast<size_t>(pe)]->votes.clear();
  }
  running_ = nullptr;
  std::vector<std::thread> threads;
  for (const auto& lane : lanes_) {
    threads.emplace_back([this, &kernel, one = lane.get(), pe = lane->gpu->state.me] {
      {
        std::unique_lock lock(mutex_);
        one->turn.wait(lock, [&] { return running_ == one; });
      }
      Player player(*one);
      device::host_lane = &player;
      block_of_lane = one->rank / shape_.lanes;
      try {
        kernel(pe);
      } catch (const EndOfLane&) {
      }
      leave(*one);
    });
  }
  {
    const std::lock_guard lock(mutex_);
    running_ = lanes_[below(static_cast<uint32_t>(lanes_.size()))].get();
    running_->turn.notify_one();
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& gpu : gpus_) {
    while (!gpu->pending.empty()) commit(*gpu, 0);
  }
  return !stuck_;
}

// ---- memory ----

void SimulatedGpus::read(Lane& lane, const void* from, void* to, uint32_t bytes, bool may_be_old) {
  pass_on(lane);
  look_for_far(lane, from);
  if (!watched(from, bytes, reads_) && may_be_old) ++strays_;
  std::memcpy(to, from, bytes);
  const uintptr_t begin = number(from);
  if (may_be_old) {
    const uintptr_t unit = begin / kUnit * kUnit;
    const auto found = lane.read_before.find(unit);
    if (found != lane.read_before.end() && below(2) == 0) {
      std::memcpy(to, reinterpret_cast<const char*>(&found->second) + (begin - unit), bytes);
    } else if (in_heaps(unit)) {
      std::memcpy(&lane.read_before[unit], reinterpret_cast<const void*>(unit), kUnit);
    }
  }
  for (const Pending& one : lane.gpu->pending) {
    if ((one.seen >> lane.rank & 1) == 0) continue;
    for (uint32_t i = 0; i < bytes; ++i) {
      if (begin + i >= one.begin && begin + i < one.begin + one.bytes) {
        static_cast<std::byte*>(to)[i] = one.data[begin + i - one.begin];
      }
    }
  }
}

bool SimulatedGpus::in_heaps(uintptr_t unit) const {
  return unit >= number(base_) && unit + kUnit <= number(base_) + kHeapBytes * gpus_.size();
}

// A load that comes before those that stand before it: nothing forbids it until the next acquire.
void SimulatedGpus::read_early(Lane& lane) {
  if (lane.likely.empty() || below(4) != 0) return;
  const uintptr_t unit = lane.likely[below(static_cast<uint32_t>(lane.likely.size()))];
  if (lane.read_before.count(unit) != 0 || !in_heaps(unit)) return;
  std::memcpy(&lane.read_before[unit], reinterpret_cast<const void*>(unit), kUnit);
}

void SimulatedGpus::write(Lane& lane, void* to, const void* from, uint32_t bytes) {
  pass_on(lane);
  look_for_far(lane, to);
  if (!watched(to, bytes, writes_)) ++strays_;
  Pending one = {number(to), bytes, {}, uint64_t{1} << lane.rank};
  std::memcpy(one.data, from, bytes);
  Gpu& gpu = *lane.gpu;
  gpu.pending.push_back(one);
  while (gpu.pending.size() > kPendingMax) {
    const size_t index = below(static_cast<uint32_t>(gpu.pending.size()));
    if (is_first_of_its_place(gpu, index)) commit(gpu, index);
  }
}

void SimulatedGpus::commit(Gpu& gpu, size_t index) {
  const Pending one = gpu.pending[index];
  gpu.pending.erase(gpu.pending.begin() + static_cast<ptrdiff_t>(index));
  std::memcpy(reinterpret_cast<void*>(one.begin), one.data, one.bytes);
  // Who stored it, or met who did, does not read older bytes again.
  for (const auto& lane : lanes_) {
    if (lane->gpu != &gpu || (one.seen >> lane->rank & 1) == 0) continue;
    lane->read_before.erase(one.begin / kUnit * kUnit);
  }
}

bool SimulatedGpus::is_first_of_its_place(const Gpu& gpu, size_t index) const {
  const Pending& one = gpu.pending[index];
  for (size_t i = 0; i < index; ++i) {
    const Pending& other = gpu.pending[i];
    if (other.begin < one.begin + one.bytes && one.begin < other.begin + other.bytes) return false;
  }
  return true;
}

void SimulatedGpus::commit_some() {
  if (below(3) != 0) return;
  Gpu& gpu = *gpus_[below(static_cast<uint32_t>(gpus_.size()))];
  if (gpu.pending.empty()) return;
  const size_t index = below(static_cast<uint32_t>(gpu.pending.size()));
  if (is_first_of_its_place(gpu, index)) commit(gpu, index);
}

void SimulatedGpus::commit_seen(Lane& lane) {
  Gpu& gpu = *lane.gpu;
  for (size_t i = 0; i < gpu.pending.size();) {
    if ((gpu.pending[i].seen >> lane.rank & 1) == 0) {
      ++i;
      continue;
    }
    const Pending one = gpu.pending[i];
    commit_place(gpu, one.begin, one.begin + one.bytes);
    i = 0;
  }
}

void SimulatedGpus::commit_place(Gpu& gpu, uintptr_t begin, uintptr_t end) {
  for (size_t i = 0; i < gpu.pending.size();) {
    const Pending& one = gpu.pending[i];
    if (one.begin < end && begin < one.begin + one.bytes) {
      commit(gpu, i);
    } else {
      ++i;
    }
  }
}

// ---- company ----

void SimulatedGpus::meet(Lane& lane, device::Scope scope) {
  uint64_t company = 0;
  for (const auto& one : lanes_) {
    if (one->gpu != lane.gpu) continue;
    const uint32_t together = scope == device::Scope::warp ? device::kSymmLanes : shape_.lanes;
    if (one->rank / together != lane.rank / together) continue;
    company |= uint64_t{1} << one->rank;
    one->forget();
    one->may_run = true;
  }
  for (Pending& one : lane.gpu->pending) {
    if ((one.seen & company) != 0) one.seen |= company;
  }
}

bool SimulatedGpus::all(Lane& lane, device::Scope scope, bool vote) {
  pass_on(lane);
  const uint32_t together = scope == device::Scope::warp ? device::kSymmLanes : shape_.lanes;
  Gpu::Vote& votes = lane.gpu->votes[{static_cast<int>(scope), lane.rank / together}];
  votes.all = votes.all && vote;
  const uint64_t round = votes.round;
  if (++votes.come < together) {
    while (votes.round == round) {
      lane.may_run = false;
      pass_on(lane);
    }
    return votes.result;
  }
  votes.result = votes.all;
  votes.come = 0;
  votes.all = true;
  ++votes.round;
  meet(lane, scope);
  return votes.result;
}

}  // namespace penstock::symm
