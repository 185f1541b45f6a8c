// Device code on simulated GPUs: copies, signals, waits, syncs and what PEs do together, whatever
// the order in which stores become visible.
#include "simulated_gpus.h"

#include <cstring>
#include <gtest/gtest.h>

#include "penstock/base.h"

namespace penstock::symm {
namespace {

using device::Company;
using device::Scope;

constexpr uint64_t kSeeds = 12;

template <class T>
T* at(const SimulatedGpus& gpus, int pe, uint64_t offset = 0) {
  return reinterpret_cast<T*>(gpus.memory(pe, offset));
}

// In the heap of GPU code; written before kernels run.
void fill(char* to, uint64_t bytes, int salt) {
  for (uint64_t i = 0; i < bytes; ++i)
    to[i] = static_cast<char>(i * 7 + static_cast<uint64_t>(salt));
}

// ---- copies ----

template <Scope kScope>
void try_copies(uint64_t seed) {
  std::mt19937_64 random(seed);
  SimulatedGpus gpus(seed, {.pes = 2, .lanes = 8});
  const uint64_t sizes[] = {1, 3, 8, 16, 17, 32, 40, 64, 128, 129, 144, 256, 512, 513, 528, 1500};
  const uint64_t alignments[] = {1, 8, 16};
  for (const uint64_t bytes : sizes) {
    const uint64_t alignment = alignments[random() % 3];
    const uint64_t dest = 4096 + align_down(random() % 32, alignment);
    const uint64_t source = 16384 + align_down(random() % 32, alignment);
    const bool is_get = random() % 2 != 0;
    std::memset(gpus.memory(0), 0, 32768);
    std::memset(gpus.memory(1), 0, 32768);
    const int from = is_get ? 1 : 0;
    fill(gpus.memory(from, source), bytes, static_cast<int>(bytes));
    gpus.watch_reads(gpus.memory(from, source), bytes);
    gpus.watch_writes(gpus.memory(1 - from, dest), bytes);
    ASSERT_TRUE(gpus.run({0}, [&](int) {
      const device::SymmState& state = gpus.state(0);
      if (Company<kScope>::size() == 1 && Company<Scope::block>::rank() != 0) return;
      if (kScope == Scope::warp && Company<Scope::block>::rank() >= device::kSymmLanes) return;
      if (is_get) {
        device::get<kScope>(state, gpus.memory(0, dest), gpus.memory(0, source), bytes, 1);
      } else {
        device::put<kScope>(state, gpus.memory(0, dest), gpus.memory(0, source), bytes, 1);
      }
    }));
    EXPECT_EQ(std::memcmp(gpus.memory(1 - from, dest), gpus.memory(from, source), bytes), 0)
        << bytes << " bytes from " << source << " to " << dest << ", seed " << seed;
  }
  // A get reads by words, which are not watched.
  EXPECT_EQ(gpus.stray_accesses(), 0);
}

TEST(SymmDevice, copies_exactly_the_range_whatever_its_alignment) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    try_copies<Scope::thread>(seed);
    try_copies<Scope::warp>(seed);
    try_copies<Scope::block>(seed);
  }
}

TEST(SymmDevice, strides_reach_every_element_and_nothing_between) {
  SimulatedGpus gpus(3, {.pes = 2, .lanes = 8});
  for (int i = 0; i < 40; ++i) at<int>(gpus, 0, 4096)[i] = i + 1;
  ASSERT_TRUE(gpus.run({0}, [&](int) {
    device::iput<Scope::block>(gpus.state(0), at<int>(gpus, 0), at<int>(gpus, 0, 4096),
                               device::Strides{3, 2}, 20, 1);
  }));
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(at<int>(gpus, 1)[i], i % 3 == 0 ? i / 3 * 2 + 1 : 0) << i;
  }
  ASSERT_TRUE(gpus.run({0}, [&](int) {
    device::iget<Scope::block>(gpus.state(0), at<int>(gpus, 0), at<int>(gpus, 0),
                               device::Strides{1, 3}, 20, 1);
  }));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(at<int>(gpus, 0)[i], 2 * i + 1);
}

// ---- order ----

// Who sees the signal sees all lanes' bytes.
template <Scope kScope>
void try_signal(uint64_t seed, device::SignalOp op) {
  SimulatedGpus gpus(seed, {.pes = 2, .lanes = 8});
  constexpr uint64_t kBytes = 400;
  int wrong = 0;
  ASSERT_TRUE(gpus.run([&](int pe) {
    const device::SymmState& state = gpus.state(pe);
    auto* const signal = at<uint64_t>(gpus, pe, 65536);
    const uint32_t rank = Company<Scope::block>::rank();
    if (pe == 0) {
      if (rank >= Company<kScope>::size()) return;
      device::wait_until(state, at<int>(gpus, pe, 131072), device::Comparison::equal, 1);
      // Each its part of the source, and nothing between that and the put.
      for (uint64_t i = rank; i < kBytes; i += Company<kScope>::size()) {
        device::store_weak(gpus.memory(0, 4096 + i), static_cast<char>(i * 7 + 5));
      }
      device::put_signal<kScope>(state, gpus.memory(0, 8192), gpus.memory(0, 4096), kBytes, signal,
                                 7, op, 1);
    } else if (rank == 0) {
      // Read before, so that old bytes are at hand.
      for (uint64_t i = 0; i < kBytes; i += 16) device::load_weak(gpus.memory(1, 8192 + i));
      device::p(state, at<int>(gpus, pe, 131072), 1, 0);
      uint64_t seen = 0;
      if (!device::signal_wait_until(state, signal, device::Comparison::greater_or_equal, 7,
                                     seen)) {
        ++wrong;
      }
      for (uint64_t i = 0; i < kBytes; ++i) {
        if (device::load_weak(gpus.memory(1, 8192 + i)) != static_cast<char>(i * 7 + 5)) ++wrong;
      }
    }
  })) << seed;
  EXPECT_EQ(wrong, 0) << "seed " << seed;
}

TEST(SymmDevice, who_sees_the_signal_sees_the_bytes) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    try_signal<Scope::thread>(seed, device::SignalOp::set);
    try_signal<Scope::warp>(seed, device::SignalOp::add);
    try_signal<Scope::block>(seed, device::SignalOp::set);
    try_signal<Scope::block>(seed, device::SignalOp::add);
  }
}

// One of those who have put together fences and tells for all.
TEST(SymmDevice, one_tells_of_what_all_have_put) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulatedGpus gpus(seed, {.pes = 2, .lanes = 8});
    constexpr uint64_t kBytes = 600;
    fill(gpus.memory(0, 4096), kBytes, 9);
    int wrong = 0;
    ASSERT_TRUE(gpus.run([&](int pe) {
      const device::SymmState& state = gpus.state(pe);
      if (pe == 0) {
        device::put<Scope::block>(state, gpus.memory(0), gpus.memory(0, 4096), kBytes, 1);
        if (Company<Scope::block>::rank() != 0) return;
        device::fence();
        device::p(state, at<int>(gpus, 0, 65536), 1, 1);
      } else if (Company<Scope::block>::rank() == 0) {
        device::wait_until(state, at<int>(gpus, 1, 65536), device::Comparison::equal, 1);
        for (uint64_t i = 0; i < kBytes; ++i) {
          if (device::load_weak(gpus.memory(1, i)) != gpus.memory(0, 4096)[i]) ++wrong;
        }
      }
    }));
    EXPECT_EQ(wrong, 0) << "seed " << seed;
  }
}

TEST(SymmDevice, a_fence_orders_puts) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulatedGpus gpus(seed, {.pes = 2, .lanes = 4});
    int wrong = 0;
    ASSERT_TRUE(gpus.run([&](int pe) {
      if (Company<Scope::block>::rank() != 0) return;
      const device::SymmState& state = gpus.state(pe);
      auto* const data = at<int>(gpus, pe);
      auto* const flag = at<int>(gpus, pe, 256);
      for (int i = 1; i <= 20; ++i) {
        if (pe == 0) {
          device::p(state, data, i, 1);
          device::fence();
          device::p(state, flag, i, 1);
        } else {
          device::wait_until(state, flag, device::Comparison::greater_or_equal, i);
          if (device::load_weak(data) < i) ++wrong;
        }
      }
    }));
    EXPECT_EQ(wrong, 0) << "seed " << seed;
  }
}

// Each PE writes into its own memory and into its neighbour's; after a sync all see all of it.
template <Scope kScope>
void try_syncs(uint64_t seed, int pes) {
  SimulatedGpus gpus(seed, {.pes = pes, .lanes = 8});
  int wrong = 0;
  ASSERT_TRUE(gpus.run([&](int pe) {
    const device::SymmState& state = gpus.state(pe);
    const uint32_t rank = Company<Scope::block>::rank();
    if (rank >= Company<kScope>::size()) return;
    for (int round = 1; round <= 4; ++round) {
      device::store_weak(at<int>(gpus, pe) + rank, round * 100 + pe);
      device::p(state, at<int>(gpus, pe, 1024) + rank, round * 100 + pe, (pe + 1) % pes);
      if (!device::barrier<kScope>(state, 0)) ++wrong;
      for (int other = 0; other < pes; ++other) {
        for (uint32_t i = 0; i < Company<kScope>::size(); ++i) {
          if (device::load_weak(at<int>(gpus, other) + i) != round * 100 + other) ++wrong;
          if (device::load_weak(at<int>(gpus, (other + 1) % pes, 1024) + i) !=
              round * 100 + other) {
            ++wrong;
          }
        }
      }
      if (!device::sync<kScope>(state, 0)) ++wrong;
    }
  })) << seed;
  EXPECT_EQ(wrong, 0) << "seed " << seed << ", " << pes << " PEs";
}

TEST(SymmDevice, after_a_sync_all_see_what_was_done_before) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    for (const int pes : {1, 2, 3, 5}) {
      try_syncs<Scope::thread>(seed, pes);
      try_syncs<Scope::warp>(seed, pes);
    }
    try_syncs<Scope::block>(seed, 3);
  }
}

TEST(SymmDevice, teams_sync_apart_from_each_other) {
  SimulatedGpus gpus(9, {.pes = 5, .lanes = 4});
  gpus.make_team(4, 1, 2, 2);  // 1 and 3
  int wrong = 0;
  ASSERT_TRUE(gpus.run({1, 3}, [&](int pe) {
    const device::SymmState& state = gpus.state(pe);
    for (int i = 0; i < 3; ++i) {
      if (!device::sync<Scope::block>(state, 4)) ++wrong;
    }
    if (device::sync<Scope::block>(state, 5)) ++wrong;  // there is none
    if (device::team_my_pe(state, 4) != (pe - 1) / 2 || device::team_n_pes(state, 5) != -1) ++wrong;
    if (device::translate_pe(state, 4, 1, 0) != 3 || device::translate_pe(state, 0, 3, 4) != 1 ||
        device::translate_pe(state, 0, 2, 4) != -1) {
      ++wrong;
    }
  }));
  EXPECT_EQ(wrong, 0);
}

// ---- ends ----

TEST(SymmDevice, a_wait_ends_when_somebody_has) {
  SimulatedGpus gpus(5, {.pes = 2, .lanes = 4});
  gpus.set_trouble();
  bool came = true;
  ASSERT_TRUE(gpus.run({0}, [&](int) { came = device::sync<Scope::block>(gpus.state(0), 0); }));
  EXPECT_FALSE(came);
}

TEST(SymmDevice, what_has_come_counts_although_somebody_has_ended) {
  SimulatedGpus gpus(5, {.pes = 2, .lanes = 4});
  gpus.set_trouble();
  *at<int>(gpus, 0) = 3;
  bool came = false;
  ASSERT_TRUE(gpus.run({0}, [&](int) {
    came = device::wait_until(gpus.state(0), at<int>(gpus, 0), device::Comparison::equal, 3);
  }));
  EXPECT_TRUE(came);
}

TEST(SymmDevice, a_wrong_address_or_pe_ends_the_kernel_and_is_told) {
  struct Case {
    uint64_t offset;
    uint64_t bytes;
    int pe;
    device::SymmFailure why;
  };
  const uint64_t room = SimulatedGpus::kHeapBytes - sizeof(device::SymmControl);
  const Case cases[] = {
      {0, 8, 2, device::kSymmNoSuchPe},
      {0, 8, -1, device::kSymmNoSuchPe},
      {room, 1, 1, device::kSymmNotSymmetric},
      {room - 8, 16, 1, device::kSymmNotSymmetric},
      {0, room + 1, 1, device::kSymmNotSymmetric},
  };
  for (const Case& one : cases) {
    SimulatedGpus gpus(1, {.pes = 2, .lanes = 4});
    bool went_on = false;
    gpus.run({0}, [&](int) {
      device::put<Scope::thread>(gpus.state(0), gpus.memory(0, one.offset), gpus.memory(0),
                                 one.bytes, one.pe);
      went_on = true;
    });
    EXPECT_FALSE(went_on);
    EXPECT_EQ(gpus.report(0).why, one.why);
    EXPECT_EQ(gpus.report(0).pe, one.pe);
    EXPECT_EQ(gpus.report(0).address, reinterpret_cast<uintptr_t>(gpus.memory(0, one.offset)));
  }
}

// ---- waits for many words ----

TEST(SymmDevice, waits_for_any_some_and_all_leave_out_what_does_not_count) {
  SimulatedGpus gpus(2, {.pes = 2, .lanes = 4});
  const int status[4] = {0, 1, 0, 0};
  const int none[4] = {1, 1, 1, 1};
  auto* const words = at<int>(gpus, 1);
  const int values[4] = {1, 2, 3, 4};
  int wrong = 0;
  ASSERT_TRUE(gpus.run([&](int pe) {
    if (Company<Scope::block>::rank() != 0) return;
    const device::SymmState& state = gpus.state(pe);
    if (pe == 0) {
      for (int i = 3; i >= 0; --i) device::p(state, at<int>(gpus, 0) + i, values[i], 1);
      return;
    }
    using Words = device::Words<int>;
    const Words same = {words, 4, status, device::Comparison::not_equal, nullptr, 0};
    const Words each = {words, 4, status, device::Comparison::equal, values, 0};
    const Words nobody = {words, 4, none, device::Comparison::equal, values, 0};
    uint64_t index = 0;
    uint64_t indices[4] = {};
    uint64_t found = 0;
    if (!device::wait_until_any(state, same, index) || index == 1 || index > 3) ++wrong;
    if (!device::wait_until_some(state, each, indices, found) || found == 0 || found > 3) ++wrong;
    if (!device::wait_until_all(state, each) || !device::test_all(each)) ++wrong;
    if (device::test_some(each, indices) != 3 || indices[0] != 0 || indices[1] != 2) ++wrong;
    if (!device::wait_until_any(state, nobody, index) || index != device::kNoWord) ++wrong;
    if (!device::wait_until_some(state, nobody, indices, found) || found != 0) ++wrong;
    if (!device::wait_until_all(state, nobody) || device::test_any(nobody) != device::kNoWord) {
      ++wrong;
    }
  }));
  EXPECT_EQ(wrong, 0);
}

TEST(SymmDevice, atomic_operations_lose_nothing) {
  SimulatedGpus gpus(4, {.pes = 3, .lanes = 8});
  ASSERT_TRUE(gpus.run([&](int pe) {
    const device::SymmState& state = gpus.state(pe);
    const uint32_t rank = Company<Scope::block>::rank();
    device::atomic_add(state, at<uint64_t>(gpus, pe), uint64_t{1}, 0);
    device::atomic_fetch_inc(state, at<int>(gpus, pe, 64), 0);
    device::atomic_or(state, at<uint32_t>(gpus, pe, 128), uint32_t{1} << rank, 0);
    float seen = device::atomic_fetch(state, at<float>(gpus, pe, 192), 0);
    for (;;) {
      const auto before = device::bits_as<uint32_t>(seen);
      const auto after = device::bits_as<uint32_t>(seen + 1);
      const uint32_t found =
          device::atomic_compare_swap(state, at<uint32_t>(gpus, pe, 192), before, after, 0);
      if (found == before) break;
      seen = device::bits_as<float>(found);
    }
  }));
  EXPECT_EQ(*at<uint64_t>(gpus, 0), 24u);
  EXPECT_EQ(*at<int>(gpus, 0, 64), 24);
  EXPECT_EQ(*at<uint32_t>(gpus, 0, 128), 255u);
  EXPECT_EQ(*at<float>(gpus, 0, 192), 24.0F);
}

}  // namespace
}  // namespace penstock::symm
