#include "penstock/symm/heap.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

namespace penstock::symm {
namespace {

TEST(HeapTest, gives_places_that_do_not_overlap_whatever_is_asked_in_which_order) {
  std::mt19937_64 random(7);
  Heap heap(100, 1 << 20);
  std::map<uint64_t, uint64_t> model;  // begin to asked bytes
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 3 != 0 || model.empty()) {
      const uint64_t bytes = 1 + random() % 5000;
      const uint64_t alignment = uint64_t{1} << (random() % 13);
      const auto place = heap.allocate(bytes, alignment);
      if (!place) {
        EXPECT_GT(heap.used_bytes(), heap.end() / 4) << "only a heap that is well used refuses";
        continue;
      }
      EXPECT_EQ(*place % alignment, 0u);
      EXPECT_GE(*place, 100u);
      EXPECT_LE(*place + bytes, uint64_t{1} << 20);
      const auto after = model.lower_bound(*place);
      if (after != model.end()) {
        ASSERT_LE(*place + bytes, after->first);
      }
      if (after != model.begin()) {
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second, *place);
      }
      model[*place] = bytes;
    } else {
      auto it = model.lower_bound(random() % (1 << 20));
      if (it == model.end()) it = model.begin();
      EXPECT_EQ(heap.size_of(it->first), it->second);
      const auto found = heap.allocation_at(it->first + it->second - 1);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->begin, it->first);
      EXPECT_EQ(found->bytes, it->second);
      EXPECT_TRUE(heap.release(it->first));
      model.erase(it);
    }
  }
  for (const auto& [begin, bytes] : model) EXPECT_TRUE(heap.release(begin));
  EXPECT_EQ(heap.used_bytes(), 0u);
  EXPECT_EQ(heap.largest_free(), heap.end() - heap.begin())
      << "all parts have grown together again";
}

TEST(HeapTest, gives_the_same_places_for_the_same_calls) {
  const auto places = [] {
    std::mt19937_64 random(3);
    Heap heap(0, 1 << 22);
    std::vector<uint64_t> all;
    std::vector<uint64_t> live;
    for (int step = 0; step < 5000; ++step) {
      if (random() % 2 == 0 || live.empty()) {
        const auto place = heap.allocate(1 + random() % 9000, 64);
        if (place) live.push_back(*place);
        all.push_back(place.value_or(UINT64_MAX));
      } else {
        const size_t which = random() % live.size();
        heap.release(live[which]);
        live.erase(live.begin() + static_cast<ptrdiff_t>(which));
      }
    }
    return all;
  };
  EXPECT_EQ(places(), places());
}

TEST(HeapTest, refuses_what_does_not_fit_and_stays_as_it_was) {
  Heap heap(0, 1 << 16);
  EXPECT_FALSE(heap.allocate(0, 64));
  EXPECT_FALSE(heap.allocate((1 << 16) + 1, 64));
  EXPECT_FALSE(heap.allocate(UINT64_MAX, 64));
  EXPECT_FALSE(heap.allocate(64, uint64_t{1} << 63));
  EXPECT_EQ(heap.used_bytes(), 0u);
  EXPECT_TRUE(heap.allocate(1 << 16, 64));
  EXPECT_FALSE(heap.allocate(1, 1));
  EXPECT_FALSE(heap.release(64));
  EXPECT_FALSE(heap.size_of(64));
  EXPECT_EQ(heap.allocation_at(64)->bytes, uint64_t{1} << 16);
}

TEST(HeapTest, grows_and_shrinks_where_there_is_room_behind) {
  Heap heap(0, 1024);
  const auto first = heap.allocate(100, 64);
  const auto second = heap.allocate(100, 64);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(heap.resize(*first, 200)) << "another stands behind it";
  EXPECT_TRUE(heap.resize(*first, 128));
  EXPECT_TRUE(heap.resize(*second, 800));
  EXPECT_EQ(heap.size_of(*second), 800u);
  EXPECT_FALSE(heap.resize(*second, 1024));
  EXPECT_TRUE(heap.resize(*second, 10));
  EXPECT_EQ(heap.used_bytes(), 192u);
  EXPECT_TRUE(heap.release(*first));
  EXPECT_TRUE(heap.release(*second));
  EXPECT_EQ(heap.largest_free(), 1024u);
}

}  // namespace
}  // namespace penstock::symm
