#include "penstock/chain/buffers.h"

#include <cstring>
#include <gtest/gtest.h>
#include <map>

#include "penstock/engine.h"

namespace penstock::chain {
namespace {

TEST(Buffers, are_aligned_to_blocks_whatever_their_length) {
  const auto buffers = Buffers::make();
  for (const size_t length : {1, 100, 4096, 4097, 65536, 1'000'000, 5'000'000}) {
    const auto buffer = buffers->take(length);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.get()) % 4096, 0u);
    std::memset(buffer.get(), 1, length);
  }
  EXPECT_EQ(buffers->take(0), nullptr);
}

TEST(Buffers, come_again) {
  const auto buffers = Buffers::make();
  const void* const first = buffers->take(kMiB).get();
  const uint64_t mapped = buffers->mapped_bytes();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(buffers->take(kMiB - 10).get(), first);
  EXPECT_EQ(buffers->mapped_bytes(), mapped);
}

TEST(Buffers, what_is_idle_beyond_the_bound_goes) {
  const auto buffers = Buffers::make(4 * kMiB);
  {
    std::vector<Buffers::Buffer> taken;
    for (int i = 0; i < 32; ++i) taken.push_back(buffers->take(kMiB));
    for (int i = 0; i < 1000; ++i) taken.push_back(buffers->take(4096));
    EXPECT_GE(buffers->mapped_bytes(), 36 * kMiB);
  }
  EXPECT_LE(buffers->mapped_bytes(), 5 * kMiB);
  EXPECT_EQ(buffers->idle_bytes(), buffers->mapped_bytes());
}

TEST(Buffers, those_of_one_size_do_not_stay_where_others_are_wanted) {
  const auto buffers = Buffers::make(4 * kMiB);
  {
    std::vector<Buffers::Buffer> taken;
    for (int i = 0; i < 8; ++i) taken.push_back(buffers->take(kMiB));
  }
  const void* const first = buffers->take(2 * kMiB).get();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(buffers->take(2 * kMiB).get(), first);
  EXPECT_LE(buffers->mapped_bytes(), 4 * kMiB);
}

TEST(Buffers, may_outlive_whoever_made_them) {
  auto buffers = Buffers::make();
  const auto buffer = buffers->take(100);
  buffers.reset();
  std::memset(buffer.get(), 1, 100);
  EXPECT_EQ(buffer[99], std::byte{1});
}

TEST(Buffers, are_told_of_while_they_are_there) {
  const auto buffers = Buffers::make(kMiB);
  const auto before = buffers->take(100);
  std::map<std::byte*, size_t> known;
  buffers->tell([&](MutableBytes memory) { known[memory.data()] = memory.size(); },
                [&](MutableBytes memory) { EXPECT_EQ(known.erase(memory.data()), 1u); });
  EXPECT_EQ(known.size(), 1u);
  buffers->take(8 * kMiB);
  EXPECT_EQ(known.size(), 1u);
  const auto more = buffers->take(8 * kMiB);
  EXPECT_EQ(known.size(), 2u);
  buffers->tell_nobody();
}

// No two that are in use share a byte.
TEST(Buffers, are_apart) {
  const auto buffers = Buffers::make(kMiB);
  engine::SeededRandom random(1);
  std::map<std::byte*, std::pair<Buffers::Buffer, size_t>> taken;
  for (int i = 0; i < 20'000; ++i) {
    if (!taken.empty() && random.chance(1, 2)) {
      auto victim = taken.begin();
      std::advance(victim, static_cast<ptrdiff_t>(random.below(taken.size())));
      taken.erase(victim);
      continue;
    }
    if (taken.size() > 100) continue;
    const size_t length = 1 + random.below(random.chance(1, 10) ? 3'000'000 : 20'000);
    auto buffer = buffers->take(length);
    std::byte* const at = buffer.get();
    const auto after = taken.upper_bound(at);
    const bool is_first = after == taken.begin();
    std::byte* const free_from =
        is_first ? nullptr : std::prev(after)->first + std::prev(after)->second.second;
    ASSERT_LE(free_from, at);
    ASSERT_TRUE(after == taken.end() || at + length <= after->first);
    taken[at] = {std::move(buffer), length};
  }
}

}  // namespace
}  // namespace penstock::chain
