// What this library's kernels do with words and strided elements, on simulated GPUs.
#include "../kernel_strided.h"
#include "../kernel_words.h"
#include "simulated_gpus.h"

#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

namespace penstock::symm {
namespace {

using device::ChangeBy;
using device::ChangeWord;
using device::Company;
using device::Comparison;
using device::Scope;
using device::WaitForWords;
using device::WordType;

bool is_first() {
  return Company<Scope::block>::rank() == 0;
}

struct Changed {
  uint64_t before;
  uint64_t after;
};

// By a kernel of PE 0 on a word of PE 1, between two others that stay.
template <class T>
Changed change(ChangeBy by, T held, T value, T expected = 0) {
  SimulatedGpus gpus(7, {.pes = 2, .lanes = 8});
  auto* const words = reinterpret_cast<T*>(gpus.memory(1));
  const T beside = static_cast<T>(0x5a5a5a5a5a5a5a5aULL);
  words[0] = words[2] = beside;
  words[1] = held;
  uint64_t seen = 0;
  uint64_t done = 0;
  const ChangeWord word = {.at = words + 1,
                           .value = value,
                           .expected = expected,
                           .by = by,
                           .bytes = sizeof(T),
                           .seen = &seen,
                           .done = &done,
                           .number = 9};
  EXPECT_TRUE(gpus.run({0}, [&](int) {
    if (is_first()) device::change_and_answer(word);
  }));
  EXPECT_EQ(done, 9u);
  EXPECT_EQ(words[0], beside);
  EXPECT_EQ(words[2], beside);
  return {seen, words[1]};
}

template <class T>
void try_changes() {
  const T most = std::numeric_limits<T>::max();
  const auto expect = [](Changed found, T before, T after) {
    EXPECT_EQ(found.before, before);
    EXPECT_EQ(found.after, after);
  };
  expect(change<T>(ChangeBy::swap, 5, 3), 5, 3);
  expect(change<T>(ChangeBy::compare_swap, 5, 3, 5), 5, 3);
  expect(change<T>(ChangeBy::compare_swap, 5, 3, 4), 5, 5);
  expect(change<T>(ChangeBy::add, most, 2), most, 1);
  expect(change<T>(ChangeBy::bit_and, 5, 3), 5, 1);
  expect(change<T>(ChangeBy::bit_or, 5, 3), 5, 7);
  expect(change<T>(ChangeBy::bit_xor, 5, 3), 5, 6);
}

TEST(SymmKernels, a_word_changes_alone_and_tells_what_was_there) {
  try_changes<uint32_t>();
  try_changes<uint64_t>();
}

TEST(SymmKernels, changes_by_all_lose_nothing) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SimulatedGpus gpus(seed, {.pes = 3, .lanes = 8});
    auto* const word = reinterpret_cast<uint64_t*>(gpus.memory(1));
    ASSERT_TRUE(gpus.run([&](int pe) {
      // Nobody asks for an answer.
      const ChangeWord add = {word, uint64_t{1} << 20 * pe, 0, ChangeBy::add, 8, nullptr, nullptr,
                              0};
      for (int i = 0; i < 5; ++i) device::change_and_answer(add);
    }));
    EXPECT_EQ(*word, 40 * (1 + (uint64_t{1} << 20) + (uint64_t{1} << 40))) << seed;
  }
}

TEST(SymmKernels, a_value_is_stored_with_its_own_bytes_only) {
  SimulatedGpus gpus(1, {.pes = 2, .lanes = 8});
  for (const int bytes : {1, 2, 4, 8}) {
    char* const at = gpus.memory(1, 64);
    std::memset(at - 8, 0x11, 24);
    ASSERT_TRUE(gpus.run({0}, [&](int) {
      if (is_first()) device::store(at, 0xf8f7f6f5f4f3f2f1ULL, bytes);
    }));
    for (int i = -8; i < 16; ++i) {
      const int wanted = i >= 0 && i < bytes ? 0xf1 + i : 0x11;
      EXPECT_EQ(static_cast<uint8_t>(at[i]), wanted) << bytes << " bytes, byte " << i;
    }
  }
}

// Waits of PE 0 for 20 words, of which PE 1 stores those that count, the last one first.
template <class T>
void try_waits(WordType type, uint64_t seed) {
  constexpr uint64_t kCount = 20;
  SimulatedGpus gpus(seed, {.pes = 2, .lanes = 8});
  std::array<int, kCount> status{};
  status[3] = status[12] = 1;
  // Numbers that a comparison without signs would take for large ones.
  const T low = std::is_signed_v<T> ? static_cast<T>(-9) : static_cast<T>(2);
  std::array<T, kCount> values;
  for (uint64_t i = 0; i < kCount; ++i) values[i] = static_cast<T>(low - static_cast<T>(i % 2));
  auto* const words = reinterpret_cast<T*>(gpus.memory(0));
  for (const bool by_vector : {false, true}) {
    for (uint64_t i = 0; i < kCount; ++i) words[i] = 0;
    uint64_t value = 0;
    std::memcpy(&value, &low, sizeof low);
    const WaitForWords wanted = {
        .at = words,
        .count = kCount,
        .status = status.data(),
        .values = by_vector ? values.data() : nullptr,
        .value = value,
        .comparison = static_cast<int32_t>(
            by_vector || !std::is_signed_v<T> ? Comparison::equal : Comparison::less_or_equal),
        .type = type};
    bool come = true;
    ASSERT_TRUE(gpus.run([&](int pe) {
      if (pe == 0) {
        if (!device::wait_for(gpus.state(0), wanted)) come = false;
        for (uint64_t i = Company<Scope::block>::rank(); i < kCount;
             i += Company<Scope::block>::size()) {
          if (status[i] == 0 && device::load_weak(words + i) == 0) come = false;
        }
      } else if (is_first()) {
        for (uint64_t i = kCount; i-- > 0;) {
          if (status[i] != 0) continue;
          device::p(gpus.state(1),
                    words - (gpus.memory(0) - gpus.memory(1)) / static_cast<int64_t>(sizeof(T)) + i,
                    by_vector ? values[i] : low, 0);
        }
      }
    }));
    EXPECT_TRUE(come) << "type " << static_cast<int>(type) << ", seed " << seed;
  }
}

TEST(SymmKernels, a_wait_is_for_all_words_that_count) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    try_waits<int16_t>(WordType::i16, seed);
    try_waits<uint16_t>(WordType::u16, seed);
    try_waits<int32_t>(WordType::i32, seed);
    try_waits<uint32_t>(WordType::u32, seed);
    try_waits<int64_t>(WordType::i64, seed);
    try_waits<uint64_t>(WordType::u64, seed);
  }
}

TEST(SymmKernels, a_wait_ends_when_somebody_has_and_the_host_is_told) {
  SimulatedGpus gpus(5, {.pes = 2, .lanes = 8});
  gpus.set_trouble();
  const WaitForWords wanted = {gpus.memory(0), 3, nullptr, nullptr, 1, 0, WordType::i32};
  ASSERT_TRUE(gpus.run({0}, [&](int) {
    if (!device::wait_for(gpus.state(0), wanted)) device::tell_trouble(gpus.state(0));
  }));
  EXPECT_EQ(gpus.report(0).why, device::kSymmPeerGone);
}

TEST(SymmKernels, who_sees_the_signal_sees_what_one_kernel_has_put) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SimulatedGpus gpus(seed, {.pes = 2, .lanes = 8});
    const uint64_t bytes = 37 * seed + 3;
    char* const from = gpus.memory(0, 4096 + seed);
    for (uint64_t i = 0; i < bytes; ++i) from[i] = static_cast<char>(i * 5 + seed);
    auto* const signal = reinterpret_cast<uint64_t*>(gpus.memory(1));
    *signal = 4;
    const device::PutWithSignal put = {.to = gpus.memory(1, 8192),
                                       .from = from,
                                       .bytes = bytes,
                                       .signal = signal,
                                       .value = 3,
                                       .op = static_cast<int32_t>(device::SignalOp::add),
                                       .reserved = 0};
    bool is_right = true;
    ASSERT_TRUE(gpus.run([&](int pe) {
      if (pe == 0) return device::put_with_signal(put);
      uint64_t seen = 0;
      if (!is_first()) return;
      device::signal_wait_until(gpus.state(1), signal, Comparison::equal, 7, seen);
      for (uint64_t i = 0; i < bytes; ++i)
        is_right &= device::load_weak(gpus.memory(1, 8192 + i)) == from[i];
    }));
    EXPECT_TRUE(is_right) << seed;
  }
}

template <class T>
void try_strides(uint64_t count, uint32_t for_each_block) {
  constexpr int64_t kTo = 3;
  constexpr int64_t kFrom = 2;
  SimulatedGpus gpus(count, {.pes = 2, .lanes = 8});
  char* const from = gpus.memory(0, 4096);
  char* const to = gpus.memory(1, 65536);
  const uint64_t bytes = (count * kTo + 4) * sizeof(T);
  for (uint64_t i = 0; i < bytes; ++i) from[i] = static_cast<char>(i * 7 + i / 256);
  std::memset(to, 0x55, bytes);
  const device::StridedElements all = {to, from, kTo, kFrom, count, sizeof(T), for_each_block};
  // One block more than there is work for.
  const auto blocks = static_cast<uint32_t>(count / for_each_block) + 2;
  for (uint32_t block = 0; block < blocks; ++block)
    ASSERT_TRUE(gpus.run({0}, [&](int) { device::copy_elements(all, block); }));
  for (uint64_t i = 0; i < bytes; ++i) {
    const uint64_t element = i / sizeof(T);
    const bool is_one = element % kTo == 0 && element / kTo < count;
    const char wanted =
        is_one ? from[element / kTo * kFrom * sizeof(T) + i % sizeof(T)] : char{0x55};
    ASSERT_EQ(to[i], wanted) << "byte " << i << " of " << count << " elements of " << sizeof(T);
  }
}

TEST(SymmKernels, blocks_share_strided_elements_and_touch_nothing_between) {
  for (const uint64_t count : {1, 63, 64, 65, 300}) {
    try_strides<uint8_t>(count, 64);
    try_strides<uint16_t>(count, 64);
    try_strides<uint32_t>(count, 64);
    try_strides<uint64_t>(count, 64);
    try_strides<device::SymmUnit>(count, 64);
  }
}

}  // namespace
}  // namespace penstock::symm
