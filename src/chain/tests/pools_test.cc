#include "../pools.h"

#include <gtest/gtest.h>
#include <vector>

namespace penstock::chain {
namespace {

class PoolsTest : public testing::Test {
 protected:
  // Asks as `who`; what it gets later is noted by its number.
  void ask(const int& who, size_t place, uint64_t bytes) {
    if (Pools::Held held = pools_.take(place, bytes)) return note(who, std::move(held));
    pools_.wait(&who, place, bytes, [this, &who](Pools::Held held) { note(who, std::move(held)); });
  }
  void note(int who, Pools::Held held) {
    turns_.push_back(who);
    held_.push_back(std::move(held));
  }

  const int names_[5] = {0, 1, 2, 3, 4};
  Pools pools_{100};
  std::vector<int> turns_;
  std::vector<Pools::Held> held_;
};

TEST_F(PoolsTest, memory_is_given_in_the_order_of_asking) {
  ask(names_[0], 1, 60);
  ask(names_[1], 1, 60);
  ask(names_[2], 1, 10);
  EXPECT_EQ(turns_, std::vector<int>{0}) << "what is small does not pass what is large";
  held_[0] = nullptr;
  EXPECT_EQ(turns_, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(pools_.held(), 70U);
}

TEST_F(PoolsTest, each_place_has_memory_of_its_own) {
  ask(names_[0], 1, 100);
  ask(names_[1], 1, 1);
  ask(names_[2], 2, 100);
  EXPECT_EQ(turns_, (std::vector<int>{0, 2}));
  pools_.close();
}

TEST_F(PoolsTest, what_is_larger_than_a_pool_is_alone_there) {
  ask(names_[0], 1, 1);
  ask(names_[1], 1, 500);
  EXPECT_EQ(turns_, std::vector<int>{0});
  held_[0] = nullptr;
  EXPECT_EQ(turns_, (std::vector<int>{0, 1}));
  ask(names_[2], 1, 1);
  EXPECT_EQ(turns_, (std::vector<int>{0, 1}));
  held_[1] = nullptr;
  EXPECT_EQ(turns_, (std::vector<int>{0, 1, 2}));
}

TEST_F(PoolsTest, who_stands_elsewhere_now_is_counted_there) {
  ask(names_[0], 2, 100);
  ask(names_[1], 1, 50);
  ask(names_[2], 2, 10);
  held_[0]->move_to(1);
  EXPECT_EQ(turns_, (std::vector<int>{0, 1, 2})) << "where it was there is room";
  ask(names_[3], 1, 10);
  held_[1] = nullptr;
  EXPECT_EQ(turns_, (std::vector<int>{0, 1, 2})) << "where it is there is none";
  held_[0] = nullptr;
  EXPECT_EQ(turns_, (std::vector<int>{0, 1, 2, 3}));
}

TEST_F(PoolsTest, who_does_not_want_it_any_more_is_in_nobodys_way) {
  ask(names_[0], 1, 60);
  ask(names_[1], 1, 60);
  ask(names_[2], 1, 10);
  ask(names_[1], 2, 100);
  ask(names_[1], 2, 100);
  pools_.forget(&names_[1]);
  EXPECT_EQ(turns_, (std::vector<int>{0, 1, 2}));
  held_.clear();
  EXPECT_EQ(turns_.size(), 3U);
  EXPECT_EQ(pools_.held(), 0U);
}

TEST_F(PoolsTest, what_is_held_may_outlive_them) {
  Pools::Held left;
  {
    Pools pools(10);
    left = pools.take(1, 10);
    pools.wait(&names_[0], 1, 10, [](Pools::Held) { FAIL() << "nobody waits any more"; });
    pools.close();
  }
  left = nullptr;
}

}  // namespace
}  // namespace penstock::chain
