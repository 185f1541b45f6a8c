// Device functions of PEs on several nodes, on simulated GPUs: through rings, proxies and slow
// mail.
#include "far_nodes.h"

#include <cstring>
#include <gtest/gtest.h>

namespace penstock::symm {
namespace {

using device::Company;
using device::Scope;

constexpr uint64_t kFarSeeds = 6;

template <class T>
T* at(FarNodes& nodes, int pe, uint64_t offset = 0) {
  return reinterpret_cast<T*>(nodes.gpus().memory(pe, offset));
}

bool is_first_lane() {
  return Company<Scope::block>::rank() == 0;
}

void fill_far(char* to, uint64_t bytes, int salt) {
  for (uint64_t i = 0; i < bytes; ++i)
    to[i] = static_cast<char>(i * 7 + i / 256 + static_cast<uint64_t>(salt));
}

// ---- bytes ----

template <Scope kScope>
void try_copies(uint64_t seed, uint64_t bytes) {
  FarNodes nodes(seed, {.pes = 3, .node_pes = 1});
  const uint64_t dest = 4096 + seed % 16;
  const uint64_t source = (uint64_t{1} << 20) + seed % 5;
  fill_far(nodes.gpus().memory(0, source), bytes, 3);
  fill_far(nodes.gpus().memory(2, source), bytes, 4);
  ASSERT_TRUE(nodes.run({0}, [&](int) {
    if (Company<Scope::block>::rank() >= Company<kScope>::size()) return;
    const device::SymmState& state = nodes.gpus().state(0);
    device::put<kScope>(state, nodes.gpus().memory(0, dest), nodes.gpus().memory(0, source), bytes,
                        1);
    device::get<kScope>(state, nodes.gpus().memory(0, dest), nodes.gpus().memory(0, source), bytes,
                        2);
    for (uint64_t i = Company<kScope>::rank(); i < bytes; i += 97) {
      EXPECT_EQ(device::load_weak(nodes.gpus().memory(0, dest + i)),
                nodes.gpus().memory(2, source)[i]);
    }
  })) << seed;
  EXPECT_EQ(std::memcmp(at<char>(nodes, 1, dest), at<char>(nodes, 0, source), bytes), 0);
  EXPECT_EQ(std::memcmp(at<char>(nodes, 0, dest), at<char>(nodes, 2, source), bytes), 0);
  EXPECT_EQ(*at<char>(nodes, 1, dest - 1), 0);
  EXPECT_EQ(*at<char>(nodes, 1, dest + bytes), 0);
  EXPECT_EQ(nodes.gpus().stray_accesses(), 0);
}

TEST(SymmDeviceFar, copies_exactly_the_range_whatever_its_length) {
  for (uint64_t seed = 1; seed <= kFarSeeds; ++seed) {
    for (const uint64_t bytes : {1, 3, 8, 9, 64, 1000, 70'000, 200'000}) {
      try_copies<Scope::thread>(seed, bytes);
      if (bytes < 2000) try_copies<Scope::warp>(seed, bytes);
      if (bytes < 2000) try_copies<Scope::block>(seed, bytes);
    }
  }
}

// Of memory that copy engines do not reach, as a thread's own.
TEST(SymmDeviceFar, copies_what_stands_in_a_threads_own_memory) {
  FarNodes nodes(3, {.pes = 2, .node_pes = 1});
  fill_far(at<char>(nodes, 1, 9000), 100, 1);
  ASSERT_TRUE(nodes.run({0}, [&](int) {
    if (!is_first_lane()) return;
    char own[100];
    fill_far(own, sizeof own, 9);
    device::put<Scope::thread>(nodes.gpus().state(0), at<char>(nodes, 0, 5), own, sizeof own, 1);
    std::memset(own, 0, sizeof own);
    device::get<Scope::thread>(nodes.gpus().state(0), own, at<char>(nodes, 0, 9000), sizeof own, 1);
    for (uint64_t i = 0; i < sizeof own; ++i)
      EXPECT_EQ(device::load_weak(own + i), at<char>(nodes, 1, 9000)[i]);
    device::fence();  // nothing is stored into it when it is gone
  }));
  std::vector<char> expected(100);
  fill_far(expected.data(), 100, 9);
  EXPECT_EQ(std::memcmp(at<char>(nodes, 1, 5), expected.data(), 100), 0);
}

TEST(SymmDeviceFar, strides_reach_every_element_and_nothing_between) {
  for (uint64_t seed = 1; seed <= kFarSeeds; ++seed) {
    FarNodes nodes(seed, {.pes = 2, .node_pes = 1});
    constexpr uint64_t kCount = 1300;  // more than one frame carries
    for (uint64_t i = 0; i < 2 * kCount; ++i) at<int>(nodes, 0, 65536)[i] = static_cast<int>(i) + 1;
    ASSERT_TRUE(nodes.run({0}, [&](int) {
      const device::SymmState& state = nodes.gpus().state(0);
      device::iput<Scope::block>(state, at<int>(nodes, 0), at<int>(nodes, 0, 65536),
                                 device::Strides{3, 2}, kCount, 1);
      device::iget<Scope::block>(state, at<int>(nodes, 0), at<int>(nodes, 0), device::Strides{2, 3},
                                 kCount, 1);
    }));
    for (uint64_t i = 0; i < 3 * kCount; ++i) {
      ASSERT_EQ(at<int>(nodes, 1)[i], i % 3 == 0 ? static_cast<int>(i / 3 * 2 + 1) : 0) << i;
    }
    for (uint64_t i = 0; i < 2 * kCount; ++i) {
      ASSERT_EQ(at<int>(nodes, 0)[i], i % 2 == 0 ? static_cast<int>(i + 1) : 0) << i;
    }
    EXPECT_EQ(nodes.gpus().stray_accesses(), 0);
  }
}

// ---- words ----

template <class T>
void try_words(uint64_t seed, T value) {
  FarNodes nodes(seed, {.pes = 2, .node_pes = 1});
  *at<T>(nodes, 1, 640) = value;
  ASSERT_TRUE(nodes.run({0}, [&](int) {
    if (!is_first_lane()) return;
    const device::SymmState& state = nodes.gpus().state(0);
    device::p(state, at<T>(nodes, 0), value, 1);
    EXPECT_EQ(device::g(state, at<T>(nodes, 0, 640), 1), value);
    // Behind the store, without a quiet.
    EXPECT_EQ(device::g(state, at<T>(nodes, 0), 1), value);
  }));
  EXPECT_EQ(*at<T>(nodes, 1), value);
  EXPECT_EQ(*at<char>(nodes, 1, sizeof(T)), 0);
}

TEST(SymmDeviceFar, words_of_all_sizes_come_and_go) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    try_words<uint8_t>(seed, 0xfe);
    try_words<int16_t>(seed, -2);
    try_words<float>(seed, 2.5F);
    try_words<double>(seed, -1.0 / 3);
    try_words<uint64_t>(seed, ~uint64_t{0});
    try_words<uint64_t>(seed, 7);
  }
}

template <class T>
void try_atomics(FarNodes& nodes, const device::SymmState& state, uint64_t place) {
  T* const word = at<T>(nodes, 0, place);
  const T high = static_cast<T>(T{1} << (sizeof(T) * 8 - 2));
  device::atomic_set(state, word, high, 1);
  EXPECT_EQ(device::atomic_fetch_add(state, word, T{5}, 1), high);
  device::atomic_add(state, word, T{2}, 1);
  EXPECT_EQ(device::atomic_fetch(state, word, 1), high + 7);
  EXPECT_EQ(device::atomic_swap(state, word, T{12}, 1), high + 7);
  EXPECT_EQ(device::atomic_compare_swap(state, word, T{11}, T{1}, 1), T{12});
  EXPECT_EQ(device::atomic_compare_swap(state, word, T{12}, static_cast<T>(high + 3), 1), T{12});
  EXPECT_EQ(device::atomic_compare_swap(state, word, static_cast<T>(high + 3), T{12}, 1), high + 3);
  EXPECT_EQ(device::atomic_fetch_and(state, word, T{6}, 1), T{12});
  device::atomic_and(state, word, T{4}, 1);
  EXPECT_EQ(device::atomic_fetch_or(state, word, T{3}, 1), T{4});
  device::atomic_or(state, word, T{8}, 1);
  EXPECT_EQ(device::atomic_fetch_xor(state, word, T{1}, 1), T{15});
  device::atomic_xor(state, word, T{2}, 1);
  EXPECT_EQ(device::atomic_fetch_inc(state, word, 1), T{12});
  device::atomic_inc(state, word, 1);
  EXPECT_EQ(device::atomic_fetch(state, word, 1), T{14});
}

TEST(SymmDeviceFar, all_atomic_operations_do_what_they_say) {
  for (uint64_t seed = 1; seed <= kFarSeeds; ++seed) {
    FarNodes nodes(seed, {.pes = 2, .node_pes = 1});
    ASSERT_TRUE(nodes.run({0}, [&](int) {
      if (!is_first_lane()) return;
      try_atomics<int32_t>(nodes, nodes.gpus().state(0), 0);
      try_atomics<uint64_t>(nodes, nodes.gpus().state(0), 8);
    })) << seed;
    EXPECT_EQ(nodes.gpus().stray_accesses(), 0);
  }
}

// Near and far ones at the same word.
TEST(SymmDeviceFar, changes_from_near_and_far_lose_nothing) {
  for (uint64_t seed = 1; seed <= kFarSeeds; ++seed) {
    FarNodes nodes(seed, {.pes = 4, .node_pes = 2});
    ASSERT_TRUE(nodes.run([&](int pe) {
      const device::SymmState& state = nodes.gpus().state(pe);
      const uint32_t rank = Company<Scope::block>::rank();
      for (int i = 0; i < 3; ++i) {
        device::atomic_add(state, at<uint64_t>(nodes, pe), uint64_t{1}, 0);
        device::atomic_fetch_inc(state, at<int>(nodes, pe, 64), 0);
      }
      device::atomic_or(state, at<uint64_t>(nodes, pe, 128),
                        uint64_t{1} << (static_cast<uint32_t>(pe) * 8 + rank), 0);
    })) << seed;
    EXPECT_EQ(*at<uint64_t>(nodes, 0), 4U * 8 * 3);
    EXPECT_EQ(*at<int>(nodes, 0, 64), 4 * 8 * 3);
    EXPECT_EQ(*at<uint64_t>(nodes, 0, 128), 0xffffffffU);
  }
}

// No kernel of the proxy's ever starts: those that wait for the changes make them.
TEST(SymmDeviceFar, who_waits_on_a_full_gpu_makes_the_changes_it_waits_for) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    FarNodes nodes(seed, {.pes = 2, .node_pes = 1, .lanes = 4, .is_full = true});
    ASSERT_TRUE(nodes.run([&](int pe) {
      if (!is_first_lane()) return;
      const device::SymmState& state = nodes.gpus().state(pe);
      const int other = 1 - pe;
      for (uint64_t i = 1; i <= 3; ++i) {
        device::atomic_add(state, at<uint64_t>(nodes, pe), uint64_t{1}, other);
        // Each waits for the other one's GPU.
        device::atomic_fetch_add(state, at<uint64_t>(nodes, pe, 64), uint64_t{1}, other);
        EXPECT_TRUE(device::wait_until(state, at<uint64_t>(nodes, pe),
                                       device::Comparison::greater_or_equal, i));
      }
      // As a program does that only looks: the other one may still need this GPU.
      EXPECT_TRUE(device::sync<Scope::thread>(state, 0));
    })) << seed;
    EXPECT_EQ(*at<uint64_t>(nodes, 0, 64), 3U);
  }
}

// ---- order ----

template <Scope kScope>
void try_signal(uint64_t seed, device::SignalOp op, uint64_t bytes) {
  FarNodes nodes(seed, {.pes = 2, .node_pes = 1});
  int wrong = 0;
  ASSERT_TRUE(nodes.run([&](int pe) {
    const device::SymmState& state = nodes.gpus().state(pe);
    auto* const signal = at<uint64_t>(nodes, pe, 1 << 20);
    const uint32_t rank = Company<Scope::block>::rank();
    if (pe == 0) {
      if (rank >= Company<kScope>::size()) return;
      for (uint64_t i = rank; i < bytes; i += Company<kScope>::size())
        device::store_weak(nodes.gpus().memory(0, 4096 + i), static_cast<char>(i * 7 + 5));
      device::put_signal<kScope>(state, nodes.gpus().memory(0, 8192), nodes.gpus().memory(0, 4096),
                                 bytes, signal, 7, op, 1);
    } else if (rank == 0) {
      for (uint64_t i = 0; i < bytes; i += 16) device::load_weak(nodes.gpus().memory(1, 8192 + i));
      uint64_t seen = 0;
      if (!device::signal_wait_until(state, signal, device::Comparison::equal, 7, seen)) ++wrong;
      for (uint64_t i = 0; i < bytes; ++i) {
        if (device::load_weak(nodes.gpus().memory(1, 8192 + i)) != static_cast<char>(i * 7 + 5))
          ++wrong;
      }
    }
  })) << seed;
  EXPECT_EQ(wrong, 0) << "seed " << seed;
}

TEST(SymmDeviceFar, who_sees_the_signal_sees_the_bytes) {
  for (uint64_t seed = 1; seed <= kFarSeeds; ++seed) {
    try_signal<Scope::thread>(seed, device::SignalOp::set, 5);
    try_signal<Scope::thread>(seed, device::SignalOp::set, 400);
    try_signal<Scope::warp>(seed, device::SignalOp::add, 400);
    try_signal<Scope::block>(seed, device::SignalOp::set, 3000);
    try_signal<Scope::block>(seed, device::SignalOp::add, 3000);
  }
}

// What one has put, and others are told of, is there for those, whoever has it.
TEST(SymmDeviceFar, after_a_quiet_a_third_one_sees_what_was_put) {
  for (uint64_t seed = 1; seed <= kFarSeeds; ++seed) {
    FarNodes nodes(seed, {.pes = 4, .node_pes = 2});
    ASSERT_TRUE(nodes.run([&](int pe) {
      const device::SymmState& state = nodes.gpus().state(pe);
      if (!is_first_lane()) return;
      if (pe == 0) {
        for (int i = 0; i < 5; ++i) device::p(state, at<int>(nodes, 0) + i, i + 1, 2);
        device::p(state, at<int>(nodes, 0, 64), 9, 3);
        EXPECT_TRUE(device::quiet<Scope::thread>(state));
        EXPECT_TRUE(device::quiet<Scope::thread>(state));
        device::p(state, at<int>(nodes, 0, 256), 1, 1);
      } else if (pe == 1) {
        device::wait_until(state, at<int>(nodes, 1, 256), device::Comparison::equal, 1);
        for (int i = 0; i < 5; ++i) EXPECT_EQ(device::g(state, at<int>(nodes, 1) + i, 2), i + 1);
        EXPECT_EQ(device::g(state, at<int>(nodes, 1, 64), 3), 9);
      }
    })) << seed;
    EXPECT_EQ(nodes.gpus().stray_accesses(), 0);
  }
}

// Each lane asks by itself, more than the ring holds, of several PEs.
TEST(SymmDeviceFar, a_full_ring_makes_kernels_wait_and_loses_nothing) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    FarNodes nodes(seed, {.pes = 3, .node_pes = 1, .lanes = 8, .lane_bytes = 2048 + kMailBodyMax});
    constexpr int kRounds = 60;
    ASSERT_TRUE(nodes.run([&](int pe) {
      const device::SymmState& state = nodes.gpus().state(pe);
      const auto rank = static_cast<int>(Company<Scope::block>::rank());
      for (int i = 0; i < kRounds; ++i) {
        const int other = (pe + 1 + i % 2) % 3;
        device::p(state, at<int>(nodes, pe) + (pe * 8 + rank) * kRounds + i, i + 1, other);
        device::atomic_add(state, at<uint64_t>(nodes, pe, 65536), uint64_t{1} << 50, other);
      }
      EXPECT_TRUE(device::quiet<Scope::thread>(state));
    })) << seed;
    for (int pe = 0; pe < 3; ++pe) {
      EXPECT_EQ(*at<uint64_t>(nodes, pe, 65536), (uint64_t{1} << 50) * 8 * kRounds);
      for (int from = 0; from < 3; ++from) {
        for (int i = 0; i < 8 * kRounds; ++i) {
          const bool is_his = (from + 1 + i % kRounds % 2) % 3 == pe;
          ASSERT_EQ(at<int>(nodes, pe)[from * 8 * kRounds + i], is_his ? i % kRounds + 1 : 0);
        }
      }
    }
    EXPECT_EQ(nodes.proxy(0).stats().refused, 0U);
  }
}

// ---- all together ----

template <Scope kScope>
void try_barriers(uint64_t seed, int pes, int node_pes) {
  FarNodes nodes(seed, {.pes = pes, .node_pes = node_pes});
  int wrong = 0;
  ASSERT_TRUE(nodes.run([&](int pe) {
    const device::SymmState& state = nodes.gpus().state(pe);
    const auto rank = static_cast<int>(Company<Scope::block>::rank());
    if (Company<Scope::block>::rank() >= Company<kScope>::size()) return;
    for (int round = 1; round <= 3; ++round) {
      const int right = (pe + 1) % pes;
      device::store_weak(at<int>(nodes, pe) + rank, round * 100 + pe);
      device::p(state, at<int>(nodes, pe, 1024) + rank, round * 100 + pe, right);
      if (!device::barrier<kScope>(state, 0)) ++wrong;
      for (int other = 0; other < pes; ++other) {
        if (device::g(state, at<int>(nodes, pe) + rank, other) != round * 100 + other) ++wrong;
        if (device::g(state, at<int>(nodes, pe, 1024) + rank, (other + 1) % pes) !=
            round * 100 + other) {
          ++wrong;
        }
      }
      if (!device::sync<kScope>(state, 0)) ++wrong;
    }
  })) << seed;
  EXPECT_EQ(wrong, 0) << "seed " << seed << ", " << pes << " PEs";
  EXPECT_EQ(nodes.gpus().stray_accesses(), 0);
}

TEST(SymmDeviceFar, after_a_barrier_all_see_what_was_put_before) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    try_barriers<Scope::thread>(seed, 2, 1);
    try_barriers<Scope::warp>(seed, 4, 2);
    try_barriers<Scope::block>(seed, 3, 2);
  }
}

template <class Op>
int reduced(int pes, int factor, uint64_t i) {
  int out = static_cast<int>(i) * factor + 1;
  for (int pe = 1; pe < pes; ++pe)
    out = Op::template combine<int>(out, static_cast<int>(i) * factor + 1 + pe * 31);
  return out;
}

template <Scope kScope>
void try_collectives(uint64_t seed, const FarShape& shape, uint64_t count) {
  FarNodes nodes(seed, shape);
  const int pes = shape.pes;
  const uint64_t bytes = count * sizeof(int);
  const auto members = static_cast<uint64_t>(pes);
  const auto element = [](int pe, uint64_t i) { return static_cast<int>(i) * 3 + 1 + pe * 31; };
  for (int pe = 0; pe < pes; ++pe) {
    for (uint64_t i = 0; i < count * members; ++i) {
      at<int>(nodes, pe, 1 << 20)[i] = element(pe, i);
      at<int>(nodes, pe, 3 << 19)[i] = element(pe, i);
    }
  }
  int wrong = 0;
  const int root = static_cast<int>(seed) % pes;
  ASSERT_TRUE(nodes.run([&](int pe) {
    if (Company<Scope::block>::rank() >= Company<kScope>::size()) return;
    const device::SymmState& state = nodes.gpus().state(pe);
    int* const source = at<int>(nodes, pe, 1 << 20);
    int* const dest = at<int>(nodes, pe, 2 << 20);
    const auto expect = [&](int* place, int value) {
      if (device::load_weak(place) != value) ++wrong;
    };
    if (!device::fcollect<kScope>(state, 0, dest, source, bytes)) ++wrong;
    for (uint64_t i = 0; i < count * members; ++i)
      expect(dest + i, element(static_cast<int>(i / count), i % count));
    if (!device::sync<kScope>(state, 0)) ++wrong;
    if (!device::alltoall<kScope>(state, 0, dest, source, bytes)) ++wrong;
    for (uint64_t i = 0; i < count * members; ++i) {
      expect(dest + i,
             element(static_cast<int>(i / count), i % count + count * static_cast<uint64_t>(pe)));
    }
    if (!device::sync<kScope>(state, 0)) ++wrong;
    if (!device::broadcast<kScope>(state, 0, dest, source, bytes, root)) ++wrong;
    for (uint64_t i = 0; i < count; ++i) expect(dest + i, element(root, i));
    if (!device::sync<kScope>(state, 0)) ++wrong;
    if (!device::reduce<kScope, device::Max>(state, 0, dest, source, count)) ++wrong;
    for (uint64_t i = 0; i < count; ++i) expect(dest + i, reduced<device::Max>(pes, 3, i));
    if (!device::reducescatter<kScope, device::Sum>(state, 0, dest, source, count)) ++wrong;
    for (uint64_t i = 0; i < count; ++i) {
      expect(dest + i, reduced<device::Sum>(pes, 3, i + count * static_cast<uint64_t>(pe)));
    }
    // In place.
    int* const both = at<int>(nodes, pe, 3 << 19);
    if (!device::reduce<kScope, device::Sum>(state, 0, both, both, count)) ++wrong;
    for (uint64_t i = 0; i < count; ++i) expect(both + i, reduced<device::Sum>(pes, 3, i));
  })) << seed;
  EXPECT_EQ(wrong, 0) << pes << " PEs, " << count << " words, seed " << seed;
  EXPECT_EQ(nodes.gpus().stray_accesses(), 0);
}

TEST(SymmDeviceFar, collective_operations_give_near_and_far_members_the_same) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    try_collectives<Scope::thread>(seed, {.pes = 2, .node_pes = 1}, 3);
    try_collectives<Scope::warp>(seed, {.pes = 3, .node_pes = 2}, 10);
    try_collectives<Scope::block>(seed, {.pes = 4, .node_pes = 2},
                                  90);  // of which scratch memory holds a part
  }
}

// One is near to two that are far to each other, as on GPUs of a node without access: all go the
// same way.
TEST(SymmDeviceFar, collective_operations_agree_where_one_is_near_to_all) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const FarShape ends = {.pes = 3, .near = {0b011, 0b111, 0b110}};
    try_collectives<Scope::thread>(seed, ends, 3);
    try_collectives<Scope::warp>(seed, ends, 40);
    try_collectives<Scope::block>(seed, {.pes = 4, .near = {0b0011, 0b1011, 0b1100, 0b1110}}, 90);
  }
}

// ---- ends ----

TEST(SymmDeviceFar, a_peer_that_ends_in_the_middle_ends_waits_and_calls) {
  for (uint64_t seed = 1; seed <= kFarSeeds; ++seed) {
    FarNodes nodes(seed, {.pes = 2, .node_pes = 1, .lanes = 4});
    int went_on = 0;
    bool is_quiet = true;
    ASSERT_TRUE(nodes.run({0}, [&](int) {
      const device::SymmState& state = nodes.gpus().state(0);
      const uint32_t rank = Company<Scope::block>::rank();
      if (rank == 3) nodes.mail().cut(1);
      if (rank == 0) {
        for (int i = 0; i < 50; ++i) {
          device::get<Scope::thread>(state, at<char>(nodes, 0), at<char>(nodes, 0, 4096), 1000, 1);
        }
        ++went_on;
      } else if (rank == 1) {
        for (int i = 0; i < 50; ++i) device::p(state, at<int>(nodes, 0, 8192), i, 1);
        is_quiet = device::quiet<Scope::thread>(state);
      } else if (rank == 2) {
        device::atomic_fetch_add(state, at<int>(nodes, 0, 8192), 1, 1);
        device::wait_until(state, at<int>(nodes, 0, 9000), device::Comparison::equal, 1);
      }
    })) << seed;
    EXPECT_EQ(went_on, 0);
    EXPECT_FALSE(is_quiet);
    EXPECT_EQ(nodes.gpus().report(0).why, device::kSymmPeerGone);
    EXPECT_TRUE(nodes.proxy(0).is_gone(1));
    EXPECT_EQ(nodes.trouble(0), 1U);
  }
}

TEST(SymmDeviceFar, a_wrong_address_or_pe_ends_the_kernel_and_is_told) {
  struct Case {
    uint64_t offset;
    uint64_t bytes;
    int pe;
    device::SymmFailure why;
  };
  const uint64_t room = SimulatedGpus::kHeapBytes - sizeof(device::SymmControl);
  for (const Case& one :
       {Case{0, 8, 2, device::kSymmNoSuchPe}, Case{0, 8, -1, device::kSymmNoSuchPe},
        Case{room, 1, 1, device::kSymmNotSymmetric},
        Case{room - 8, 16, 1, device::kSymmNotSymmetric}}) {
    FarNodes nodes(1, {.pes = 2, .node_pes = 1, .lanes = 4});
    bool went_on = false;
    nodes.run({0}, [&](int) {
      device::put<Scope::thread>(nodes.gpus().state(0), at<char>(nodes, 0, one.offset),
                                 at<char>(nodes, 0), one.bytes, one.pe);
      went_on = true;
    });
    EXPECT_FALSE(went_on);
    EXPECT_EQ(nodes.gpus().report(0).why, one.why);
  }
}

}  // namespace
}  // namespace penstock::symm
