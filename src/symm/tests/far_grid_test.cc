// Collective operations on streams with far members as their kernels make them, on simulated GPUs
// with rings, proxies and slow mail.
#include "penstock_device/symm/far_grid.h"

#include "far_nodes.h"

#include <cstring>
#include <gtest/gtest.h>
#include <string>

namespace penstock::symm {
namespace {

using device::FarWork;
using device::GridKind;
using device::MemberBits;

constexpr uint64_t kFarGridSource = uint64_t{1} << 20;
constexpr uint64_t kFarGridDest = uint64_t{4} << 20;
constexpr uint64_t kFarGridArea = uint64_t{1} << 20;
constexpr uint32_t kFarGridLanding = 1024;  // large ones take several pieces

struct FarTeam {
  int number = 0;
  int start = 0;
  int stride = 1;
  int size = 2;

  int pe(int index) const { return start + index * stride; }
};

struct FarOperation {
  GridKind kind = GridKind::broadcast;
  uint64_t bytes = 0;
  int root = 0;
  bool in_place = false;
  bool is_small = false;

  bool collects() const { return kind == GridKind::fcollect || kind == GridKind::alltoall; }
  bool is_reduction() const { return kind == GridKind::reduce || kind == GridKind::reducescatter; }
};

// Of each member those near to it, as the host finds it of a team.
std::vector<MemberBits> near_members(const FarShape& shape, const FarTeam& team) {
  std::vector<MemberBits> near(static_cast<size_t>(team.size));
  for (int i = 0; i < team.size; ++i) {
    for (int k = 0; k < team.size; ++k) {
      const bool is_near =
          shape.near.empty() ? team.pe(i) / shape.node_pes == team.pe(k) / shape.node_pes
                             : (shape.near[static_cast<size_t>(team.pe(i))] >> team.pe(k) & 1) != 0;
      if (is_near) near[static_cast<size_t>(i)] |= device::bit_of(k);
    }
  }
  return near;
}

FarWork far_work(const FarShape& shape, const FarTeam& team, const FarOperation& one, int index,
                 void* dest, const void* source) {
  FarWork out = {};
  out.work = {dest,      source, one.bytes,   0,        team.start, team.stride,
              team.size, index,  team.number, one.root, one.kind,   1};
  out.plan = device::far_plan(near_members(shape, team).data(), team.size, index);
  out.is_small = one.is_small ? 1 : 0;
  out.landing_bytes = kFarGridLanding;
  return out;
}

template <class Op, class T>
bool far_operation(const device::SymmState& state, const FarWork& work) {
  const device::FarBlock at = device::far_block(state, work);
  if (work.work.kind != GridKind::reduce && work.work.kind != GridKind::reducescatter)
    return device::far_bytes(at);
  return device::far_reduce(
      at, [](const device::FarPieces& pieces) { device::combine_landed<Op, T>(pieces); });
}

// What a kernel's end is for the next one in its stream.
void end_of_far_kernel() {
  device::Block::meet();
  device::fence_system();
  device::Block::meet();
}

uint8_t far_byte(int index, uint64_t operation, uint64_t i) {
  return static_cast<uint8_t>(static_cast<uint64_t>(index) * 37 + operation * 11 + i * 7 + i / 251);
}

// What becomes of bytes, one operation after the other; reductions by sums of T.
template <class T>
class FarStory {
 public:
  FarStory(uint64_t seed, const FarShape& shape, const FarTeam& team,
           std::vector<FarOperation> operations)
      : shape_(shape),
        team_(team),
        operations_(std::move(operations)),
        nodes_(seed, shape),
        unaligned_(seed % 4 == 0 ? sizeof(T) : 0),
        apart_(seed % 4 == 1 ? sizeof(T) : 0) {
    nodes_.gpus().make_team(team.number, team.start, team.stride, team.size);
    nodes_.make_team_far(team.number, true);
    for (uint64_t o = 0; o < operations_.size(); ++o) {
      for (int index = 0; index < team_.size; ++index) {
        const uint64_t all = operations_[o].bytes * static_cast<uint64_t>(team_.size);
        for (uint64_t i = 0; i < all; ++i) source(index, o)[i] = given(index, o, i);
        if (!operations_[o].in_place) std::memset(dest(index, o) - 1, 0x5a, all + 2);
      }
    }
  }

  FarNodes& nodes() { return nodes_; }

  void run() {
    std::vector<int> pes;
    for (int index = 0; index < team_.size; ++index) pes.push_back(team_.pe(index));
    wrong_ = 0;
    ASSERT_TRUE(nodes_.run(pes, [this](int pe) {
      const int index = (pe - team_.start) / team_.stride;
      for (uint64_t o = 0; o < operations_.size(); ++o) {
        if (!far_operation<device::Sum, T>(nodes_.gpus().state(pe), work_of(index, o))) ++wrong_;
        end_of_far_kernel();
      }
    }));
    EXPECT_EQ(wrong_, 0);
    EXPECT_EQ(nodes_.gpus().stray_accesses(), 0);
    for (uint64_t o = 0; o < operations_.size(); ++o) {
      for (int index = 0; index < team_.size; ++index) check(index, o);
    }
  }

 private:
  uint64_t place(uint64_t operation) const {
    return kFarGridArea / operations_.size() / 16 * 16 * operation;
  }
  uint8_t* source(int index, uint64_t operation) {
    return reinterpret_cast<uint8_t*>(
        nodes_.gpus().memory(team_.pe(index), kFarGridSource + place(operation) + unaligned_ + 16));
  }
  uint8_t* dest(int index, uint64_t operation) {
    const FarOperation& one = operations_[operation];
    if (one.in_place) {
      const auto own = static_cast<uint64_t>(index);
      return source(index, operation) + (one.kind == GridKind::reducescatter ? own * one.bytes : 0);
    }
    return reinterpret_cast<uint8_t*>(nodes_.gpus().memory(
        team_.pe(index), kFarGridDest + place(operation) + unaligned_ + apart_ + 16));
  }
  uint8_t given(int index, uint64_t operation, uint64_t i) const {
    const FarOperation& one = operations_[operation];
    if (!one.in_place || one.kind != GridKind::fcollect) return far_byte(index, operation, i);
    // Its source is its own place in dest.
    const uint64_t begin = one.bytes * static_cast<uint64_t>(index);
    return i >= begin && i < begin + one.bytes ? far_byte(index, operation, i - begin) : 0x5a;
  }
  FarWork work_of(int index, uint64_t o) {
    const FarOperation& one = operations_[o];
    FarWork work = far_work(shape_, team_, one, index, dest(index, o), source(index, o));
    if (one.in_place && one.kind == GridKind::fcollect)
      work.work.source = source(index, o) + static_cast<uint64_t>(index) * one.bytes;
    return work;
  }
  uint8_t reduced(uint64_t o, uint64_t i) const {
    T sum{};
    for (int index = 0; index < team_.size; ++index) {
      uint8_t bytes[sizeof(T)];
      T value;
      for (uint64_t k = 0; k < sizeof(T); ++k)
        bytes[k] = far_byte(index, o, i / sizeof(T) * sizeof(T) + k);
      std::memcpy(&value, bytes, sizeof value);
      sum = static_cast<T>(sum + value);
    }
    return reinterpret_cast<const uint8_t*>(&sum)[i % sizeof(T)];
  }
  uint8_t expected(int index, uint64_t o, uint64_t i) const {
    const FarOperation& one = operations_[o];
    const uint64_t own = one.bytes * static_cast<uint64_t>(index);
    switch (one.kind) {
      case GridKind::broadcast:
        return far_byte(one.root, o, i);
      case GridKind::fcollect:
        return far_byte(static_cast<int>(i / one.bytes), o, i % one.bytes);
      case GridKind::alltoall:
        return far_byte(static_cast<int>(i / one.bytes), o, i % one.bytes + own);
      case GridKind::reduce:
        return reduced(o, i);
      case GridKind::reducescatter:
        return reduced(o, own + i);
    }
    return 0;
  }
  void check(int index, uint64_t o) {
    const FarOperation& one = operations_[o];
    const uint64_t all = one.collects() ? one.bytes * static_cast<uint64_t>(team_.size) : one.bytes;
    const uint8_t* const got = dest(index, o);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < all; ++i) {
      if (got[i] != expected(index, o, i)) ++wrong;
    }
    EXPECT_EQ(wrong, 0U) << "operation " << o << " of kind " << static_cast<int>(one.kind) << ", "
                         << one.bytes << " bytes, index " << index << " of " << team_.size
                         << (one.is_small ? ", small" : "") << (one.in_place ? ", in place" : "");
    if (one.in_place) return;
    EXPECT_EQ(got[all], 0x5a) << "operation " << o;
    EXPECT_EQ(got[-1], 0x5a) << "operation " << o;
  }

  const FarShape shape_;
  const FarTeam team_;
  const std::vector<FarOperation> operations_;
  FarNodes nodes_;
  const uint64_t unaligned_;
  const uint64_t apart_;
  int wrong_ = 0;
};

std::vector<FarOperation> some_far_operations(uint64_t seed, int size, uint64_t element) {
  std::mt19937_64 random(seed);
  std::vector<FarOperation> out;
  const uint64_t room = device::far_room(kFarGridLanding / 2, size);
  for (int i = 0; i < 6; ++i) {
    FarOperation one;
    one.kind = static_cast<GridKind>(random() % 5);
    one.is_small = random() % 2 == 0;
    one.bytes = (1 + random() % ((one.is_small ? room : 2000) / element)) * element;
    one.root = static_cast<int>(random() % static_cast<uint64_t>(size));
    one.in_place = random() % 3 == 0 && one.kind != GridKind::alltoall;
    out.push_back(one);
  }
  return out;
}

template <class T>
void try_far(uint64_t seed, const FarShape& shape, const FarTeam& team) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(team.size) + " members");
  FarStory<T>(seed, shape, team, some_far_operations(seed, team.size, sizeof(T))).run();
}

TEST(SymmDeviceFarGrids, operations_one_after_the_other_give_what_they_should) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    try_far<int32_t>(seed, {.pes = 2, .node_pes = 1, .lanes = 4}, {.size = 2});
    try_far<int64_t>(seed, {.pes = 4, .node_pes = 2, .lanes = 4}, {.size = 4});
    try_far<int8_t>(seed, {.pes = 3, .node_pes = 2, .lanes = 4}, {.size = 3});
    try_far<int16_t>(seed, {.pes = 5, .node_pes = 3, .lanes = 8}, {.size = 5});
  }
}

TEST(SymmDeviceFarGrids, teams_count_for_themselves) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    try_far<int32_t>(seed, {.pes = 5, .node_pes = 3, .lanes = 4}, {7, 4, -2, 3});
    try_far<int32_t>(seed, {.pes = 6, .node_pes = 2, .lanes = 4}, {3, 1, 1, 5});
  }
}

// As on GPUs of a node without access: 1 is near to two that are far to each other.
TEST(SymmDeviceFarGrids, members_agree_where_one_is_near_to_all) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    try_far<int32_t>(seed, {.pes = 3, .near = {0b011, 0b111, 0b110}, .lanes = 4}, {.size = 3});
    try_far<int16_t>(seed, {.pes = 4, .near = {0b0011, 0b1011, 0b1100, 0b1110}, .lanes = 4},
                     {.size = 4});
  }
}

// Much of one kind, so that landing places are used again and again.
TEST(SymmDeviceFarGrids, small_ones_do_not_meet_in_the_landing_place) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    for (const GridKind kind : {GridKind::broadcast, GridKind::fcollect, GridKind::reduce}) {
      std::vector<FarOperation> operations;
      for (int i = 0; i < 12; ++i) {
        const bool is_small = seed % 2 == 0 || i % 4 != 3;
        operations.push_back({kind, is_small ? uint64_t{96} : uint64_t{640},
                              seed % 2 == 0 ? 1 : i % 3, false, is_small});
      }
      FarStory<int32_t>(seed, {.pes = 3, .node_pes = 2, .lanes = 4}, {.size = 3}, operations).run();
    }
  }
}

// What comes out of one operation is what the next one takes.
TEST(SymmDeviceFarGrids, operations_in_place_follow_each_other) {
  constexpr uint64_t kWords = 160;
  constexpr uint64_t kOperations = 6;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const FarShape shape = {
        .pes = 2 + static_cast<int>(seed % 3), .node_pes = 2 - int{seed % 3 == 0}, .lanes = 4};
    const FarTeam team = {.size = shape.pes};
    FarNodes nodes(seed, shape);
    const auto words = [&](int pe) {
      return reinterpret_cast<uint32_t*>(nodes.gpus().memory(pe, kFarGridDest));
    };
    for (int pe = 0; pe < shape.pes; ++pe) {
      for (uint64_t i = 0; i < kWords; ++i) words(pe)[i] = static_cast<uint32_t>(i) * 3 + 1;
    }
    ASSERT_TRUE(nodes.run([&](int pe) {
      for (uint64_t o = 0; o < kOperations; ++o) {
        const bool is_small = (seed + o) % 3 == 0;
        const FarOperation one = {GridKind::reduce, (is_small ? 24 : kWords) * 4, 0, true,
                                  is_small};
        far_operation<device::Sum, uint32_t>(nodes.gpus().state(pe),
                                             far_work(shape, team, one, pe, words(pe), words(pe)));
        end_of_far_kernel();
      }
    })) << seed;
    for (int pe = 0; pe < shape.pes; ++pe) {
      for (uint64_t i = 0; i < kWords; ++i) {
        uint32_t value = static_cast<uint32_t>(i) * 3 + 1;
        for (uint64_t o = 0; o < kOperations; ++o) {
          if (i < 24 || (seed + o) % 3 != 0) value *= static_cast<uint32_t>(shape.pes);
        }
        ASSERT_EQ(words(pe)[i], value) << "seed " << seed << ", PE " << pe << ", word " << i;
      }
    }
  }
}

// A PE writes its dest and source until it comes itself, and after it; what it finds between is
// what the operation has made.
TEST(SymmDeviceFarGrids, nobody_writes_a_dest_before_its_pe_has_come) {
  constexpr uint64_t kBytes = 96;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    const FarShape shape = {
        .pes = 2 + static_cast<int>(seed % 3), .node_pes = 2 - int{seed % 3 == 0}, .lanes = 4};
    const FarTeam team = {.size = shape.pes};
    const auto kind = static_cast<GridKind>(seed % 4);
    const int root = static_cast<int>(seed) % shape.pes;
    FarNodes nodes(seed, shape);
    int wrong = 0;
    ASSERT_TRUE(nodes.run([&](int pe) {
      auto* const dest = reinterpret_cast<uint64_t*>(nodes.gpus().memory(pe, kFarGridDest));
      auto* const source = reinterpret_cast<uint64_t*>(nodes.gpus().memory(pe, kFarGridSource));
      const auto pes = static_cast<uint64_t>(shape.pes);
      for (uint64_t o = 1; o <= 4; ++o) {
        const FarOperation one = {kind, kBytes, root, false, (seed / 4 + o) % 2 == 0};
        const uint64_t words = kBytes / 8 * (one.collects() ? pes : 1);
        for (uint64_t i = device::Block::rank(); i < kBytes / 8 * pes; i += device::Block::size()) {
          device::store_weak(dest + i, ~uint64_t{0});
          device::store_weak(source + i, static_cast<uint64_t>(pe) * 1000 + o);
        }
        end_of_far_kernel();
        if (!far_operation<device::Sum, uint64_t>(nodes.gpus().state(pe),
                                                  far_work(shape, team, one, pe, dest, source))) {
          ++wrong;
        }
        end_of_far_kernel();
        for (uint64_t i = device::Block::rank(); i < words; i += device::Block::size()) {
          uint64_t wanted =
              (one.collects() ? i / (kBytes / 8) : static_cast<uint64_t>(root)) * 1000 + o;
          if (one.is_reduction()) wanted = pes * (pes - 1) / 2 * 1000 + pes * o;
          if (device::load_weak(dest + i) != wanted) ++wrong;
        }
        end_of_far_kernel();
      }
    })) << seed;
    EXPECT_EQ(wrong, 0) << "seed " << seed << ", kind " << static_cast<int>(kind);
  }
}

// Two islands of two: what goes to all goes over once, and of a reduction each source once, too.
TEST(SymmDeviceFarGrids, bytes_cross_to_an_island_once) {
  struct Case {
    GridKind kind;
    uint64_t crossing;  // of all bytes of one member, to the second island
  };
  constexpr uint64_t kBytes = 6400;
  // 2 of 4 sources, of which each PE there reads a quarter, and the first two's slices.
  for (const Case& one :
       {Case{GridKind::broadcast, kBytes}, Case{GridKind::fcollect, 2 * kBytes},
        Case{GridKind::alltoall, 4 * kBytes}, Case{GridKind::reduce, kBytes + kBytes / 2}}) {
    FarStory<int32_t> story(3, {.pes = 4, .node_pes = 2, .lanes = 8}, {.size = 4},
                            {{one.kind, kBytes, 1, false, false}});
    story.run();
    uint64_t crossed = 0;
    for (const uint32_t from : {0U, 1U}) {
      for (const uint32_t to : {2U, 3U}) crossed += story.nodes().mail().body_bytes(from, to);
    }
    EXPECT_EQ(crossed, one.crossing) << static_cast<int>(one.kind);
  }
}

// One that is gone: the others' blocks end, and say so.
TEST(SymmDeviceFarGrids, blocks_end_when_somebody_has_ended) {
  for (const bool is_small : {false, true}) {
    for (const GridKind kind : {GridKind::broadcast, GridKind::fcollect, GridKind::alltoall,
                                GridKind::reduce, GridKind::reducescatter}) {
      const FarShape shape = {.pes = 4, .node_pes = 2, .lanes = 4};
      FarNodes nodes(3, shape);
      int ended = 0;
      ASSERT_TRUE(nodes.run({0, 1, 2}, [&](int pe) {
        const FarOperation one = {kind, 96, 0, false, is_small};
        const FarWork work =
            far_work(shape, {.size = 4}, one, pe, nodes.gpus().memory(pe, kFarGridDest),
                     nodes.gpus().memory(pe, kFarGridSource));
        // What makes that known: 3's frames, and those to it, arrive nowhere.
        nodes.mail().cut(3);
        const bool come = far_operation<device::Max, int32_t>(nodes.gpus().state(pe), work);
        if (!come) ++ended;
        if (!come && device::Block::rank() == 0) device::report_end(nodes.gpus().state(pe));
      }));
      EXPECT_EQ(ended, 3 * 4) << static_cast<int>(kind) << (is_small ? ", small" : "");
      EXPECT_EQ(nodes.gpus().report(0).why, device::kSymmPeerGone);
    }
  }
}

// However members are spread: what one gives to all comes to each once.
TEST(SymmDeviceFarGrids, plans_give_everything_to_each_once) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const int size = 2 + static_cast<int>(random() % 63);
    const uint64_t islands = 1 + random() % 8;
    std::vector<uint64_t> island(static_cast<size_t>(size));
    for (auto& one : island) one = random() % islands;
    std::vector<MemberBits> near(island.size());
    for (size_t i = 0; i < near.size(); ++i) {
      for (size_t k = 0; k < near.size(); ++k) {
        if (island[i] == island[k]) near[i] |= MemberBits{1} << k;
      }
    }
    if (round % 4 == 3) {  // near one way round, but not along: no islands
      near[0] |= 2;
      near[1] |= 1;
    }
    std::vector<device::FarPlan> plans;
    for (int i = 0; i < size; ++i) plans.push_back(device::far_plan(near.data(), size, i));
    for (int giver = 0; giver < size; ++giver) {
      std::vector<int> came(island.size());
      const auto come = [&](MemberBits to) {
        for (int i = 0; i < size; ++i) came[static_cast<size_t>(i)] += device::has_member(to, i);
      };
      const device::FarPlan& plan = plans[static_cast<size_t>(giver)];
      come(device::bit_of(giver) | plan.mates | plan.give_to);
      for (int i = 0; i < size; ++i) {
        const device::FarPlan& other = plans[static_cast<size_t>(i)];
        EXPECT_EQ(other.passes, plan.passes);
        if (!device::has_member(other.gifts, giver)) continue;
        EXPECT_TRUE(device::has_member(plan.give_to, i));
        come(other.mates);
      }
      for (const int count : came) ASSERT_EQ(count, 1) << size << " members, round " << round;
    }
  }
}

TEST(SymmDeviceFarGrids, what_is_small_fits_the_landing_place) {
  for (int size = 2; size <= 64; ++size) {
    for (uint64_t bytes = 1; bytes < 100'000; bytes = bytes * 5 / 4 + 1) {
      if (!device::is_far_small(size, bytes)) continue;
      EXPECT_LE(bytes * static_cast<uint64_t>(size), device::kFarLandingBytes / 2);
    }
    EXPECT_TRUE(device::is_far_small(size, 1024));
  }
  EXPECT_FALSE(device::is_far_small(2, device::kFarSmallBytes + 1));
}

}  // namespace
}  // namespace penstock::symm
