// What PEs' kernels do together, on simulated GPUs.
#include "simulated_gpus.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

namespace penstock::symm {
namespace {

using device::Company;
using device::Scope;

constexpr uint64_t kSource = uint64_t{1} << 20;
constexpr uint64_t kDest = uint64_t{3} << 20;

template <class T>
T* source_of(const SimulatedGpus& gpus, int pe, uint64_t offset = 0) {
  return reinterpret_cast<T*>(gpus.memory(pe, kSource + offset));
}
template <class T>
T* dest_of(const SimulatedGpus& gpus, int pe, uint64_t offset = 0) {
  return reinterpret_cast<T*>(gpus.memory(pe, kDest + offset));
}

template <class T>
T element(int pe, uint64_t i) {
  return static_cast<T>(static_cast<uint64_t>(pe + 1) * 31 + i * 3 + 1);
}

template <class T>
void prepare(const SimulatedGpus& gpus, int pes, uint64_t count, uint64_t offset) {
  for (int pe = 0; pe < pes; ++pe) {
    for (uint64_t i = 0; i < count; ++i) source_of<T>(gpus, pe, offset)[i] = element<T>(pe, i);
    std::memset(dest_of<char>(gpus, pe), 0, 4096);
  }
}

template <Scope kScope>
bool is_idle() {
  return Company<Scope::block>::rank() >= Company<kScope>::size();
}

// ---- bytes ----

template <Scope kScope>
void try_bytes(uint64_t seed, int pes, uint64_t count) {
  SimulatedGpus gpus(seed, {.pes = pes, .lanes = 8});
  const uint64_t offset = seed % 3 * 4;
  const auto members = static_cast<uint64_t>(pes);
  prepare<int>(gpus, pes, count * members, offset);
  int wrong = 0;
  const int root = static_cast<int>(seed) % pes;
  ASSERT_TRUE(gpus.run([&](int pe) {
    if (is_idle<kScope>()) return;
    const device::SymmState& state = gpus.state(pe);
    int* const source = source_of<int>(gpus, pe, offset);
    const auto expect = [&](int* at, int from, uint64_t first) {
      for (uint64_t i = 0; i < count; ++i) {
        if (device::load_weak(at + i) != element<int>(from, first + i)) ++wrong;
      }
    };
    const uint64_t bytes = count * sizeof(int);
    int* const dest = dest_of<int>(gpus, pe);
    // Old bytes at hand.
    for (uint64_t i = 0; i < count * members; ++i) device::load_weak(dest + i);
    if (!device::fcollect<kScope>(state, 0, dest, source, bytes)) ++wrong;
    for (int other = 0; other < pes; ++other) {
      expect(dest + count * static_cast<uint64_t>(other), other, 0);
    }
    if (!device::sync<kScope>(state, 0)) ++wrong;
    if (!device::alltoall<kScope>(state, 0, dest, source, bytes)) ++wrong;
    for (int other = 0; other < pes; ++other) {
      expect(dest + count * static_cast<uint64_t>(other), other, count * static_cast<uint64_t>(pe));
    }
    if (!device::sync<kScope>(state, 0)) ++wrong;
    if (!device::broadcast<kScope>(state, 0, dest, source, bytes, root)) ++wrong;
    expect(dest, root, 0);
    if (device::broadcast<kScope>(state, 0, dest, source, bytes, pes)) ++wrong;
    if (!device::sync<kScope>(state, 0)) ++wrong;
  })) << seed;
  EXPECT_EQ(wrong, 0) << pes << " PEs, " << count << " words, seed " << seed;
}

TEST(SymmDeviceCollectives, bytes_come_to_all_whose_they_are) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    for (const int pes : {1, 2, 4, 5}) {
      try_bytes<Scope::thread>(seed, pes, 3);
      try_bytes<Scope::warp>(seed, pes, 10);
      try_bytes<Scope::block>(seed, pes, 40);
    }
  }
}

TEST(SymmDeviceCollectives, all_help_with_a_large_broadcast) {
  SimulatedGpus gpus(7, {.pes = 5, .lanes = 4});
  const uint64_t bytes = device::kBroadcastHelpBytes + 4;
  for (uint64_t i = 0; i < bytes; ++i) {
    *source_of<char>(gpus, 2, i) = static_cast<char>(i * 7 + i / 256);
  }
  int wrong = 0;
  ASSERT_TRUE(gpus.run([&](int pe) {
    if (!device::broadcast<Scope::block>(gpus.state(pe), 0, dest_of<char>(gpus, pe),
                                         source_of<char>(gpus, pe), bytes, 2)) {
      ++wrong;
    }
  }));
  EXPECT_EQ(wrong, 0);
  for (int pe = 0; pe < 5; ++pe) {
    EXPECT_EQ(std::memcmp(dest_of<char>(gpus, pe), source_of<char>(gpus, 2), bytes), 0) << pe;
  }
}

// ---- reductions ----

// As double2 is.
struct alignas(16) Located {
  double x;
  double y;
};
bool operator!=(const Located& a, const Located& b) {
  return a.x != b.x || a.y != b.y;
}
template <>
Located element<Located>(int pe, uint64_t i) {
  // Some have the same value.
  return {static_cast<double>((static_cast<uint64_t>(pe) * 7 + i) % 5),
          pe + 0.25 * static_cast<double>(i)};
}

template <class Op, class T>
T reduced(int pes, uint64_t i) {
  T out = element<T>(0, i);
  for (int pe = 1; pe < pes; ++pe) out = Op::template combine<T>(out, element<T>(pe, i));
  return out;
}

// Several one after the other, with nothing between them: small ones take turns in scratch words.
template <Scope kScope, class Op, class T>
void try_reduces(uint64_t seed, int pes, uint64_t count, bool in_place) {
  SimulatedGpus gpus(seed, {.pes = pes, .lanes = 8});
  constexpr int kRounds = 4;
  constexpr uint64_t kRoundBytes = 16384;
  const uint64_t offset = seed % 2 * sizeof(T);
  for (int round = 0; round < kRounds; ++round) {
    for (int pe = 0; pe < pes; ++pe) {
      T* const source = source_of<T>(gpus, pe, offset + kRoundBytes * static_cast<uint64_t>(round));
      for (uint64_t i = 0; i < count; ++i)
        source[i] = element<T>(pe, i + static_cast<uint64_t>(round));
    }
  }
  int wrong = 0;
  ASSERT_TRUE(gpus.run([&](int pe) {
    if (is_idle<kScope>()) return;
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t at = offset + kRoundBytes * static_cast<uint64_t>(round);
      T* const source = source_of<T>(gpus, pe, at);
      T* const dest = in_place ? source : dest_of<T>(gpus, pe, at);
      if (!device::reduce<kScope, Op>(gpus.state(pe), 0, dest, source, count)) ++wrong;
      for (uint64_t i = 0; i < count; ++i) {
        if (device::load_weak(dest + i) != reduced<Op, T>(pes, i + static_cast<uint64_t>(round))) {
          ++wrong;
        }
      }
    }
  })) << seed;
  EXPECT_EQ(wrong, 0) << pes << " PEs, " << count << " elements of " << sizeof(T) << " bytes, seed "
                      << seed;
}

TEST(SymmDeviceCollectives, the_first_of_the_greatest_is_found) {
  const auto found = [](Located a, Located b) { return device::MaxLoc::combine(a, b).y; };
  EXPECT_EQ(found({1, 7}, {2, 8}), 8);
  EXPECT_EQ(found({2, 7}, {1, 8}), 7);
  EXPECT_EQ(found({2, 7}, {2, 8}), 7);
}

TEST(SymmDeviceCollectives, reductions_give_the_same_to_all) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const bool in_place = seed % 2 == 0;
    for (const int pes : {1, 2, 3, 4, 6}) {
      // Through scratch words, held by threads, shared out.
      try_reduces<Scope::block, device::Sum, int32_t>(seed, pes, 5, in_place);
      try_reduces<Scope::block, device::Max, int64_t>(seed, pes, 16, in_place);
      try_reduces<Scope::block, device::Xor, uint16_t>(seed, pes, 83, in_place);
      try_reduces<Scope::warp, device::Prod, float>(seed, pes, 16, in_place);
      try_reduces<Scope::thread, device::Min, uint8_t>(seed, pes, 70, in_place);
      for (const uint64_t count : {1, 3, 7, 30})
        try_reduces<Scope::block, device::MaxLoc, Located>(seed, pes, count, in_place);
    }
  }
}

TEST(SymmDeviceCollectives, small_reductions_one_after_the_other_do_not_meet_in_scratch) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    try_reduces<Scope::thread, device::Sum, int32_t>(seed, 3, 2, false);
  }
}

TEST(SymmDeviceCollectives, nobody_writes_in_place_what_others_still_read) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    try_reduces<Scope::block, device::Sum, int64_t>(2 * seed, 3, 16, true);
  }
}

template <Scope kScope>
void try_reducescatter(uint64_t seed, int pes, uint64_t count) {
  SimulatedGpus gpus(seed, {.pes = pes, .lanes = 8});
  prepare<int>(gpus, pes, count * static_cast<uint64_t>(pes), 0);
  int wrong = 0;
  ASSERT_TRUE(gpus.run([&](int pe) {
    if (is_idle<kScope>()) return;
    int* const source = source_of<int>(gpus, pe);
    const uint64_t first = count * static_cast<uint64_t>(pe);
    // Into its own part of the source, every other time.
    int* const dest = seed % 2 == 0 ? source + first : dest_of<int>(gpus, pe);
    if (!device::reducescatter<kScope, device::Sum>(gpus.state(pe), 0, dest, source, count)) {
      ++wrong;
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (device::load_weak(dest + i) != reduced<device::Sum, int>(pes, first + i)) ++wrong;
    }
  }));
  EXPECT_EQ(wrong, 0) << seed;
}

TEST(SymmDeviceCollectives, each_gets_its_part_of_a_reduction) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    for (const int pes : {2, 3, 4}) {
      try_reducescatter<Scope::block>(seed, pes, 21);
      try_reducescatter<Scope::warp>(seed, pes, 8);
      try_reducescatter<Scope::thread>(seed, pes, 2);
    }
  }
}

// The parts of a grid's blocks are the whole.
TEST(SymmDeviceCollectives, parts_of_several_blocks_make_the_whole) {
  SimulatedGpus gpus(11, {.pes = 3, .lanes = 8});
  constexpr uint64_t kCount = 700;
  prepare<int>(gpus, 3, kCount, 0);
  ASSERT_TRUE(gpus.run([&](int pe) {
    const device::SymmState& state = gpus.state(pe);
    const device::Members members = device::members_of(state, 0);
    for (uint32_t part = 0; part < 3; ++part) {
      device::fcollect_part<Scope::block>(state, members, dest_of<int>(gpus, pe),
                                          source_of<int>(gpus, pe), kCount * sizeof(int),
                                          {part, 3});
      device::reduce_part<Scope::block, device::Sum>(state, members, dest_of<int>(gpus, pe, 32768),
                                                     source_of<int>(gpus, pe), kCount, {part, 3});
    }
  }));
  for (int pe = 0; pe < 3; ++pe) {
    for (uint64_t i = 0; i < kCount; ++i) {
      for (int other = 0; other < 3; ++other) {
        ASSERT_EQ(dest_of<int>(gpus, pe)[kCount * static_cast<uint64_t>(other) + i],
                  element<int>(other, i));
      }
      ASSERT_EQ(dest_of<int>(gpus, pe, 32768)[i], (reduced<device::Sum, int>(3, i)));
    }
  }
}

}  // namespace
}  // namespace penstock::symm
