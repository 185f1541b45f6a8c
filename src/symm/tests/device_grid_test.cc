// Collective operations on streams as their kernels make them, on simulated GPUs with several
// blocks each.
#include "penstock_device/symm/grid_reduce.h"
#include "simulated_gpus.h"

#include <cstring>
#include <gtest/gtest.h>
#include <vector>

namespace penstock::symm {
namespace {

using device::GridKind;
using device::GridPlan;
using device::GridWork;

constexpr uint64_t kGridSource = uint64_t{1} << 20;
constexpr uint64_t kGridDest = uint64_t{4} << 20;
constexpr uint64_t kGridArea = uint64_t{1} << 20;
constexpr uint32_t kGridTestBlocks = 3;

// A type that is combined in a wider one.
struct Narrow {
  int8_t value;
  friend bool operator==(Narrow left, Narrow right) { return left.value == right.value; }
};

}  // namespace
}  // namespace penstock::symm

namespace penstock::device {
template <>
struct Combined<symm::Narrow> {
  using type = int;
  static int widen(symm::Narrow value) { return value.value; }
  static symm::Narrow narrow(int value) { return {static_cast<int8_t>(value / 4)}; }
};
}  // namespace penstock::device

namespace penstock::symm {
namespace {

uint64_t* blocks_done(const SimulatedGpus& gpus, int pe) {
  return reinterpret_cast<uint64_t*>(gpus.memory(pe));
}
// What a kernel's end is for the next one in a stream: all blocks of the PE have done their part,
// and what they did is seen.
void end_of_kernel(const device::GridBlock& at, uint64_t* done, uint64_t kernels) {
  device::Block::meet();
  device::fence_system();
  if (device::Block::rank() == 0) device::add_system(done, uint64_t{1});
  device::wait(at.state, [&] { return device::load_acquire(done) >= kGridTestBlocks * kernels; });
  device::Block::meet();
}

struct Operation {
  GridKind kind = GridKind::broadcast;
  uint64_t bytes = 0;
  int root = 0;
  bool in_place = false;
  bool is_marked = false;
};

struct TestTeam {
  int number = 0;
  int start = 0;
  int stride = 1;
  int size = 2;

  int pe(int index) const { return start + index * stride; }
};

uint8_t byte_of(int index, uint64_t operation, uint64_t i) {
  return static_cast<uint8_t>(static_cast<uint64_t>(index) * 37 + operation * 11 + i * 7 + i / 251);
}

uint64_t all_of(GridKind kind, uint64_t bytes, int size) {
  const bool each = kind != GridKind::broadcast && kind != GridKind::reduce;
  return each ? bytes * static_cast<uint64_t>(size) : bytes;
}

// What a kernel does, by one block of it.
template <class T>
bool one_kernel(const device::GridBlock& at) {
  const bool is_reduction =
      at.work.kind == GridKind::reduce || at.work.kind == GridKind::reducescatter;
  if (is_reduction) {
    return at.block >= at.work.blocks || device::grid_reduce<device::Sum, T>(at);
  }
  if (at.work.pairs != 0) return at.block >= at.work.blocks || device::marked_bytes(at);
  if (at.block >= at.work.blocks) {
    device::grid_copy_own(at, {at.block - at.work.blocks, kGridTestBlocks - at.work.blocks});
    return true;
  }
  return device::grid_bytes(at);
}

// What becomes of bytes; reductions by sums of T.
template <class T>
class Story {
 public:
  Story(uint64_t seed, int pes, TestTeam team, std::vector<Operation> operations)
      : gpus_(seed, {.pes = pes, .lanes = 4, .blocks = kGridTestBlocks}),
        team_(team),
        operations_(std::move(operations)),
        unaligned_(seed % 4 == 0 ? sizeof(T) : 0),
        apart_(seed % 4 == 1 ? sizeof(T) : 0) {
    gpus_.make_team(team.number, team.start, team.stride, team.size);
    for (uint64_t o = 0; o < operations_.size(); ++o) {
      for (int index = 0; index < team_.size; ++index) {
        const uint64_t bytes = all_of(operations_[o].kind, operations_[o].bytes, team_.size);
        for (uint64_t i = 0; i < bytes; ++i) source(index, o)[i] = given(index, o, i);
        if (operations_[o].in_place) continue;
        std::memset(dest(index, o) - 1, 0x5a, kGridArea / operations_.size() / 2);
      }
    }
  }

  SimulatedGpus& gpus() { return gpus_; }

  void run() {
    std::vector<int> pes;
    for (int index = 0; index < team_.size; ++index) pes.push_back(team_.pe(index));
    wrong_ = 0;
    ASSERT_TRUE(gpus_.run(pes, [this](int pe) { kernels(pe); }));
    EXPECT_EQ(wrong_, 0);
    for (uint64_t o = 0; o < operations_.size(); ++o) {
      for (int index = 0; index < team_.size; ++index) check(index, o);
    }
  }

 private:
  // Not aligned to units, or one differently from the other.
  uint8_t* source(int index, uint64_t operation) {
    return reinterpret_cast<uint8_t*>(
        gpus_.memory(team_.pe(index), kGridSource + place(operation) + unaligned_ + 16));
  }
  uint8_t* dest(int index, uint64_t operation) {
    const Operation& one = operations_[operation];
    if (one.in_place) {
      const auto own = static_cast<uint64_t>(index);
      return source(index, operation) + (one.kind == GridKind::reducescatter ? own * one.bytes : 0);
    }
    return reinterpret_cast<uint8_t*>(
        gpus_.memory(team_.pe(index), kGridDest + place(operation) + unaligned_ + apart_ + 16));
  }
  uint64_t place(uint64_t operation) const {
    return kGridArea / operations_.size() / 16 * 16 * operation;
  }
  uint8_t given(int index, uint64_t operation, uint64_t i) const {
    const Operation& one = operations_[operation];
    if (one.in_place && one.kind == GridKind::fcollect) {
      // Its source is its own place in dest.
      const uint64_t begin = one.bytes * static_cast<uint64_t>(index);
      return i >= begin && i < begin + one.bytes ? byte_of(index, operation, i - begin) : 0x5a;
    }
    return byte_of(index, operation, i);
  }

  // All kernels of one PE's stream, by one of its blocks; what comes after each other in a stream
  // sees what came before.
  void kernels(int pe) {
    const auto& state = gpus_.state(pe);
    const int index = (pe - team_.start) / team_.stride;
    for (uint64_t o = 0; o < operations_.size(); ++o) {
      const GridWork work = work_of(index, o);
      const device::GridBlock at = device::grid_block(state, work, SimulatedGpus::block());
      if (!one_kernel<T>(at)) ++wrong_;
      end_of_kernel(at, blocks_done(gpus_, pe), o + 1);
    }
  }

  GridWork work_of(int index, uint64_t o) {
    const Operation& one = operations_[o];
    GridWork work = {dest(index, o), source(index, o), one.bytes,  0,
                     team_.start,    team_.stride,     team_.size, index,
                     team_.number,   one.root,         one.kind,   kGridTestBlocks - 1};
    if (one.in_place && one.kind == GridKind::fcollect) {
      work.dest = source(index, o);
      work.source = source(index, o) + static_cast<uint64_t>(index) * one.bytes;
    }
    if (one.is_marked) {
      const GridPlan plan = device::marked_plan(team_.size, one.bytes);
      // No more blocks than are simulated.
      work.pairs = device::divided_up(device::divided_up(one.bytes, 8), kGridTestBlocks);
      work.blocks =
          static_cast<uint32_t>(device::divided_up(device::divided_up(one.bytes, 8), work.pairs));
      EXPECT_LE(work.pairs, device::kSymmMarkedPairs / static_cast<uint32_t>(team_.size));
      EXPECT_LE(plan.blocks, device::kSymmMarkedBlocks);
    }
    return work;
  }

  T reduced(uint64_t o, uint64_t i) const {
    using Wide = typename device::Combined<T>::type;
    Wide sum{};
    for (int index = 0; index < team_.size; ++index) {
      T one;
      uint8_t bytes[sizeof(T)];
      for (uint64_t k = 0; k < sizeof(T); ++k) bytes[k] = byte_of(index, o, i * sizeof(T) + k);
      std::memcpy(&one, bytes, sizeof one);
      sum = static_cast<Wide>(index == 0 ? device::Combined<T>::widen(one)
                                         : sum + device::Combined<T>::widen(one));
    }
    return device::Combined<T>::narrow(sum);
  }

  void check(int index, uint64_t o) {
    const Operation& one = operations_[o];
    const uint64_t bytes = one.bytes;
    const auto size = static_cast<uint64_t>(team_.size);
    const bool collects = one.kind == GridKind::fcollect || one.kind == GridKind::alltoall;
    const uint64_t all = collects ? bytes * size : bytes;
    const uint8_t* const got = dest(index, o);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < all; ++i) {
      uint8_t expected = 0;
      if (one.kind == GridKind::broadcast) {
        expected = byte_of(one.root, o, i);
      } else if (one.kind == GridKind::fcollect) {
        expected = byte_of(static_cast<int>(i / bytes), o, i % bytes);
      } else if (one.kind == GridKind::alltoall) {
        expected = byte_of(static_cast<int>(i / bytes), o,
                           i % bytes + bytes * static_cast<uint64_t>(index));
      } else {
        const uint64_t first =
            one.kind == GridKind::reduce ? 0 : bytes * static_cast<uint64_t>(index);
        const T value = reduced(o, (first + i) / sizeof(T));
        std::memcpy(&expected, reinterpret_cast<const uint8_t*>(&value) + (first + i) % sizeof(T),
                    1);
      }
      if (got[i] != expected) ++wrong;
    }
    EXPECT_EQ(wrong, 0U) << "operation " << o << " of kind " << static_cast<int>(one.kind) << ", "
                         << bytes << " bytes, index " << index << " of " << size
                         << (one.is_marked ? ", marked" : "");
    if (one.in_place) return;
    EXPECT_EQ(got[all], 0x5a) << "operation " << o;
    EXPECT_EQ(got[-1], 0x5a) << "operation " << o;
  }

  SimulatedGpus gpus_;
  const TestTeam team_;
  const std::vector<Operation> operations_;
  const uint64_t unaligned_;
  const uint64_t apart_;
  int wrong_ = 0;
};

std::vector<Operation> some_operations(uint64_t seed, int size, uint64_t element) {
  std::mt19937_64 random(seed);
  std::vector<Operation> out;
  for (int i = 0; i < 8; ++i) {
    Operation one;
    one.kind = static_cast<GridKind>(random() % 5);
    one.is_marked = random() % 2 == 0;
    one.bytes = (1 + random() % (one.is_marked ? 60 : 400) / element) * element;
    one.root = static_cast<int>(random() % static_cast<uint64_t>(size));
    one.in_place = random() % 3 == 0 && one.kind != GridKind::alltoall;
    out.push_back(one);
  }
  return out;
}

template <class T>
void try_team(uint64_t seed, int pes, const TestTeam& team) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(team.size) + " PEs");
  Story<T>(seed, pes, team, some_operations(seed, team.size, sizeof(T))).run();
}

TEST(SymmDeviceGrids, operations_one_after_the_other_give_what_they_should) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    for (const int pes : {1, 2, 3, 4}) try_team<int32_t>(seed, pes, {0, 0, 1, pes});
    try_team<int64_t>(seed, 2, {0, 0, 1, 2});
    try_team<int8_t>(seed, 3, {0, 0, 1, 3});
    try_team<Narrow>(seed, 3, {0, 0, 1, 3});
  }
}

TEST(SymmDeviceGrids, teams_count_for_themselves) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    try_team<int32_t>(seed, 5, {7, 4, -2, 3});
    try_team<int16_t>(seed, 5, {3, 1, 2, 2});
  }
}

// Much of one kind, so that words and numbers are used again and again.
TEST(SymmDeviceGrids, marked_words_are_used_again) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (const GridKind kind :
         {GridKind::broadcast, GridKind::fcollect, GridKind::reduce, GridKind::alltoall}) {
      std::vector<Operation> operations;
      for (int i = 0; i < 12; ++i) {
        // Always the same root, or one after the other.
        const int root = seed % 2 == 0 ? 1 : i % 3;
        const uint64_t bytes = 4 + static_cast<uint64_t>(i) * seed % 5 * 8;
        operations.push_back({kind, bytes, root, false, true});
      }
      Story<int32_t>(seed, 3, {0, 0, 1, 3}, operations).run();
    }
  }
}

// At the end of their period numbers begin anew, and nothing of before is taken for new.
TEST(SymmDeviceGrids, numbers_of_marked_words_begin_anew) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    std::vector<Operation> operations;
    // Small ones first, so that later ones come to what an old one has left.
    for (int i = 0; i < 8; ++i) {
      operations.push_back(
          {GridKind::reduce, i < 3 ? uint64_t{24} : uint64_t{120}, 0, false, true});
    }
    Story<int32_t> story(seed, 3, {0, 0, 1, 3}, operations);
    for (int pe = 0; pe < 3; ++pe) {
      auto& grid = reinterpret_cast<device::SymmControl*>(story.gpus().state(pe).heap)->grids[0];
      for (uint32_t block = 0; block < device::kSymmMarkedBlocks; ++block) {
        grid.exchanges[block] = device::kMarkPeriod - 3;
        // What the first operation of all would have left, a period ago, with another value.
        for (auto& half : grid.marked[block]) {
          for (auto& pair : half) pair = device::marked(0x1111, 1);
        }
      }
    }
    story.run();
  }
}

// What comes out of one operation is what the next one takes: nobody may take it, or put into it,
// too early.
TEST(SymmDeviceGrids, operations_in_place_follow_each_other) {
  constexpr uint64_t kWords = 96;
  constexpr uint64_t kOperations = 8;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    const int pes = 2 + static_cast<int>(seed % 3);
    SimulatedGpus gpus(seed, {.pes = pes, .lanes = 4, .blocks = kGridTestBlocks});
    for (int pe = 0; pe < pes; ++pe) {
      for (uint64_t i = 0; i < kWords; ++i)
        reinterpret_cast<uint32_t*>(gpus.memory(pe, kGridDest))[i] =
            static_cast<uint32_t>(i + static_cast<uint64_t>(pe));
    }
    ASSERT_TRUE(gpus.run([&](int pe) {
      for (uint64_t o = 0; o < kOperations; ++o) {
        const bool is_marked = (seed + o) % 4 == 0;
        const GridWork work = {gpus.memory(pe, kGridDest), gpus.memory(pe, kGridDest), kWords * 4,
                               is_marked ? uint64_t{16} : 0, 0, 1, pes, pe, 0, 0, GridKind::reduce,
                               // Other blocks have other parts each time.
                               is_marked ? 3 : 1 + static_cast<uint32_t>(o % kGridTestBlocks)};
        const device::GridBlock at =
            device::grid_block(gpus.state(pe), work, SimulatedGpus::block());
        one_kernel<uint32_t>(at);
        end_of_kernel(at, blocks_done(gpus, pe), o + 1);
      }
    })) << seed;
    for (int pe = 0; pe < pes; ++pe) {
      for (uint64_t i = 0; i < kWords; ++i) {
        uint32_t sum = 0;
        for (int other = 0; other < pes; ++other)
          sum += static_cast<uint32_t>(i + static_cast<uint64_t>(other));
        for (uint64_t o = 1; o < kOperations; ++o) sum *= static_cast<uint32_t>(pes);
        ASSERT_EQ(reinterpret_cast<uint32_t*>(gpus.memory(pe, kGridDest))[i], sum)
            << "seed " << seed << ", PE " << pe << ", word " << i;
      }
    }
  }
}

// A PE writes its dest until it comes itself, and finds all there when it is through.
TEST(SymmDeviceGrids, nobody_writes_a_dest_before_its_pe_has_come) {
  constexpr uint64_t kBytes = 96;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    const int pes = 2 + static_cast<int>(seed % 3);
    const auto kind = static_cast<GridKind>(seed / 3 % 3);
    SimulatedGpus gpus(seed, {.pes = pes, .lanes = 4, .blocks = kGridTestBlocks});
    int wrong = 0;
    ASSERT_TRUE(gpus.run([&](int pe) {
      const device::SymmState& state = gpus.state(pe);
      for (uint64_t o = 0; o < 4; ++o) {
        const auto root = static_cast<int>(seed % static_cast<uint64_t>(pes));
        const GridWork work = {gpus.memory(pe, kGridDest),
                               gpus.memory(pe, kGridSource),
                               kBytes,
                               (seed + o) % 3 == 0 ? uint64_t{4} : 0,
                               0,
                               1,
                               pes,
                               pe,
                               0,
                               root,
                               kind,
                               (seed + o) % 3 == 0 ? 3U : 2U};
        const device::GridBlock at = device::grid_block(state, work, SimulatedGpus::block());
        auto* const dest = reinterpret_cast<uint64_t*>(work.dest);
        auto* const source = reinterpret_cast<uint64_t*>(const_cast<void*>(work.source));
        const uint64_t words = all_of(kind, kBytes, pes) / 8;
        if (at.block == 0) {
          for (uint64_t i = device::Block::rank(); i < words; i += device::Block::size()) {
            device::store_weak(dest + i, ~uint64_t{0});
            device::store_weak(source + i, static_cast<uint64_t>(pe) * 1000 + o);
          }
        }
        end_of_kernel(at, blocks_done(gpus, pe), 3 * o + 1);
        if (!one_kernel<uint64_t>(at)) ++wrong;
        end_of_kernel(at, blocks_done(gpus, pe), 3 * o + 2);
        for (uint64_t i = device::Block::rank(); i < words; i += device::Block::size()) {
          const auto from =
              kind == GridKind::broadcast ? static_cast<uint64_t>(root) : i / (kBytes / 8);
          if (device::load_weak(dest + i) != from * 1000 + o) ++wrong;
        }
        end_of_kernel(at, blocks_done(gpus, pe), 3 * o + 3);
      }
    })) << seed;
    EXPECT_EQ(wrong, 0) << "seed " << seed << ", kind " << static_cast<int>(kind);
  }
}

// More than a step of a block.
TEST(SymmDeviceGrids, a_large_broadcast_is_passed_on_in_steps) {
  const uint64_t bytes = 3 * (kGridTestBlocks - 1) * device::kBroadcastStepBytes + 20;
  SimulatedGpus gpus(5, {.pes = 3, .lanes = 4, .blocks = kGridTestBlocks});
  for (uint64_t i = 0; i < bytes; ++i)
    *gpus.memory(1, kGridSource + i) = static_cast<char>(i * 5 + i / 999);
  int wrong = 0;
  ASSERT_TRUE(gpus.run([&](int pe) {
    const GridWork work = {
        gpus.memory(pe, kGridDest), gpus.memory(pe, kGridSource), bytes, 0, 0, 1, 3, pe, 0, 1,
        GridKind::broadcast,        kGridTestBlocks - 1};
    const device::GridBlock at = device::grid_block(gpus.state(pe), work, SimulatedGpus::block());
    if (at.block < work.blocks) {
      if (device::broadcast_steps(at) != 2) ++wrong;
      if (!device::grid_bytes(at)) ++wrong;
    } else {
      device::grid_copy_own(at, {0, 1});
    }
  }));
  EXPECT_EQ(wrong, 0);
  for (int pe = 0; pe < 3; ++pe) {
    EXPECT_EQ(std::memcmp(gpus.memory(pe, kGridDest), gpus.memory(1, kGridSource), bytes), 0) << pe;
  }
}

// A PE that does not come: the others' blocks end, and say so.
TEST(SymmDeviceGrids, blocks_end_when_somebody_has_ended) {
  for (const bool is_marked : {false, true}) {
    for (const GridKind kind : {GridKind::broadcast, GridKind::alltoall, GridKind::reduce}) {
      SimulatedGpus gpus(3, {.pes = 3, .lanes = 4, .blocks = 2});
      gpus.set_trouble();
      int ended = 0;
      ASSERT_TRUE(gpus.run({0, 2}, [&](int pe) {
        const GridWork work = {gpus.memory(pe, kGridDest),
                               gpus.memory(pe, kGridSource),
                               64,
                               is_marked ? uint64_t{4} : 0,
                               0,
                               1,
                               3,
                               pe,
                               0,
                               1,
                               kind,
                               2};
        const device::GridBlock at =
            device::grid_block(gpus.state(pe), work, SimulatedGpus::block());
        bool come = false;
        if (kind == GridKind::reduce) {
          come = device::grid_reduce<device::Max, int32_t>(at);
        } else {
          come = is_marked ? device::marked_bytes(at) : device::grid_bytes(at);
        }
        if (!come) ++ended;
        if (!come) device::report_end(gpus.state(pe));
      }));
      EXPECT_EQ(ended, 2 * 2 * 4);
      EXPECT_EQ(gpus.report(0).why, device::kSymmPeerGone);
    }
  }
}

TEST(SymmDeviceGrids, plans_fit_what_there_is) {
  for (int size = 1; size <= static_cast<int>(device::kSymmNearMax); ++size) {
    for (uint64_t bytes = 1; bytes < uint64_t{1} << 40; bytes = bytes * 5 / 4 + 1) {
      for (const GridKind kind : {GridKind::broadcast, GridKind::fcollect, GridKind::alltoall,
                                  GridKind::reduce, GridKind::reducescatter}) {
        const GridPlan plan = device::grid_plan(kind, size, bytes);
        ASSERT_GE(plan.blocks, 1U);
        ASSERT_TRUE(plan.threads % 32 == 0 && plan.threads >= 32 &&
                    plan.threads <= device::kGridThreads);
        if (plan.pairs == 0) {
          ASSERT_LE(plan.blocks, device::kSymmGridBlocks);
          continue;
        }
        ASSERT_LE(plan.blocks, device::kSymmMarkedBlocks);
        ASSERT_LE(plan.pairs * static_cast<uint64_t>(size), device::kSymmMarkedPairs);
        const uint64_t pairs = device::divided_up(bytes, 8);
        ASSERT_GE(plan.pairs * plan.blocks, pairs);
        ASSERT_LT(plan.pairs * (plan.blocks - 1), pairs);
      }
    }
  }
}

}  // namespace
}  // namespace penstock::symm
