// The table of locks, a rule each.
#include <algorithm>
#include <gtest/gtest.h>

#include "penstock/locks.h"

namespace penstock::locks {
namespace {

constexpr AgentId kA{NodeId{1}, 1}, kB{NodeId{2}, 1};
constexpr InodeId kFile{7}, kOther{8}, kThird{9};
constexpr Owner kA1{kA, Kind::range, 1}, kA2{kA, Kind::range, 2}, kB1{kB, Kind::range, 1};
constexpr Owner kFlockA{kA, Kind::whole, 1}, kFlockB{kB, Kind::whole, 1};

class LockTable : public testing::Test {
 protected:
  Answer set(Owner owner, Type type, Range range = {}, InodeId inode = kFile) {
    return table_.set({inode, owner, range, type, 5});
  }
  Answer wait(uint64_t request, Owner owner, Type type, Range range = {}, InodeId inode = kFile) {
    return table_.set({inode, owner, range, type, 5}, RequestId(request));
  }
  // What has ended since: request and answer.
  std::vector<std::pair<uint64_t, Answer>> ended() {
    std::vector<std::pair<uint64_t, Answer>> out;
    for (const Ended& one : table_.take_ended()) out.emplace_back(one.request.value, one.answer);
    return out;
  }
  using Endings = std::vector<std::pair<uint64_t, Answer>>;

  Table table_;
};

TEST_F(LockTable, one_writes_or_many_read) {
  EXPECT_EQ(set(kA1, Type::read), Answer::done);
  EXPECT_EQ(set(kB1, Type::read), Answer::done);
  EXPECT_EQ(set(kB1, Type::write), Answer::held);
  EXPECT_EQ(set(kA1, Type::none), Answer::done);
  EXPECT_EQ(set(kB1, Type::write), Answer::done);
  EXPECT_EQ(set(kA1, Type::read), Answer::held);
  EXPECT_EQ(set(kA2, Type::read, {}, kOther), Answer::done);
}

TEST_F(LockTable, an_owner_is_never_in_its_own_way) {
  EXPECT_EQ(set(kA1, Type::write, {0, 10}), Answer::done);
  EXPECT_EQ(set(kA1, Type::read, {5, 15}), Answer::done);
  EXPECT_EQ(set(kB1, Type::read, {5, 15}), Answer::done);
  EXPECT_EQ(set(kB1, Type::read, {4, 5}), Answer::held);
}

TEST_F(LockTable, the_same_number_on_another_node_is_another_owner) {
  EXPECT_EQ(set({kA, Kind::range, 9}, Type::write), Answer::done);
  EXPECT_EQ(set({kB, Kind::range, 9}, Type::write), Answer::held);
}

TEST_F(LockTable, flock_and_fcntl_know_nothing_of_one_another) {
  EXPECT_EQ(set(kA1, Type::write), Answer::done);
  EXPECT_EQ(set(kFlockB, Type::write), Answer::done);
  EXPECT_EQ(set(kFlockA, Type::read), Answer::held);
}

TEST_F(LockTable, tells_who_is_in_the_way_first) {
  EXPECT_FALSE(table_.get({kFile, kB1, {}, Type::write, 0}).has_value());
  EXPECT_EQ(set(kA1, Type::read, {20, 30}), Answer::done);
  EXPECT_EQ(set(kA2, Type::read, {10, 12}), Answer::done);
  const auto held = table_.get({kFile, kB1, {}, Type::write, 0});
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(held->owner, kA2);
  EXPECT_EQ(held->range, (Range{10, 12}));
  EXPECT_EQ(held->pid, 5U);
  EXPECT_FALSE(table_.get({kFile, kB1, {}, Type::read, 0}).has_value());
  EXPECT_FALSE(table_.get({kFile, kA2, {0, 15}, Type::write, 0}).has_value());
}

TEST_F(LockTable, who_waits_is_served_in_order) {
  EXPECT_EQ(set(kA1, Type::write), Answer::done);
  EXPECT_EQ(wait(1, kB1, Type::write, {0, 10}), Answer::waits);
  EXPECT_EQ(wait(2, kA2, Type::write, {5, 15}), Answer::waits);
  EXPECT_EQ(wait(3, {kB, Kind::range, 3}, Type::read, {20, 30}), Answer::waits);
  EXPECT_EQ(ended(), Endings{});
  EXPECT_EQ(set(kA1, Type::none, {0, 15}), Answer::done);
  EXPECT_EQ(ended(), (Endings{{1, Answer::done}}));
  table_.release(kB1, kFile);
  EXPECT_EQ(ended(), (Endings{{2, Answer::done}}));
  // A lock that lets others read.
  EXPECT_EQ(set(kA1, Type::read, {15, kEnd}), Answer::done);
  EXPECT_EQ(ended(), (Endings{{3, Answer::done}}));
  EXPECT_EQ(table_.waiting(), 0U);
}

TEST_F(LockTable, who_waits_keeps_nobody_off_what_is_free) {
  EXPECT_EQ(set(kA1, Type::read), Answer::done);
  EXPECT_EQ(wait(1, kB1, Type::write), Answer::waits);
  EXPECT_EQ(set(kA2, Type::read), Answer::done);
}

TEST_F(LockTable, who_waits_can_give_up) {
  EXPECT_EQ(set(kA1, Type::write), Answer::done);
  EXPECT_EQ(wait(1, kB1, Type::write), Answer::waits);
  EXPECT_TRUE(table_.cancel(kB, RequestId(1)));
  EXPECT_FALSE(table_.cancel(kB, RequestId(1)));
  EXPECT_FALSE(table_.cancel(kA, RequestId(1)));
  EXPECT_EQ(set(kA1, Type::none), Answer::done);
  EXPECT_EQ(ended(), Endings{});
  EXPECT_EQ(set(kA1, Type::write), Answer::done);
  EXPECT_EQ(wait(2, kB1, Type::write), Answer::waits);
  EXPECT_EQ(set(kA1, Type::none), Answer::done);
  // It has been given meanwhile.
  EXPECT_FALSE(table_.cancel(kB, RequestId(2)));
  EXPECT_EQ(ended(), (Endings{{2, Answer::done}}));
}

TEST_F(LockTable, two_that_wait_for_one_another_are_a_deadlock) {
  EXPECT_EQ(set(kA1, Type::write, {0, 1}), Answer::done);
  EXPECT_EQ(set(kB1, Type::write, {0, 1}, kOther), Answer::done);
  EXPECT_EQ(wait(1, kA1, Type::write, {0, 1}, kOther), Answer::waits);
  EXPECT_EQ(set(kB1, Type::write, {0, 1}), Answer::held);
  EXPECT_EQ(wait(2, kB1, Type::write, {0, 1}), Answer::deadlock);
  // It has what it had, and the other goes on when it is free.
  EXPECT_EQ(set(kB1, Type::none, {}, kOther), Answer::done);
  EXPECT_EQ(ended(), (Endings{{1, Answer::done}}));
}

TEST_F(LockTable, a_ring_of_three_files_is_one_too) {
  EXPECT_EQ(set(kA1, Type::write, {}, kFile), Answer::done);
  EXPECT_EQ(set(kA2, Type::write, {}, kOther), Answer::done);
  EXPECT_EQ(set(kB1, Type::write, {}, kThird), Answer::done);
  EXPECT_EQ(wait(1, kA1, Type::write, {}, kOther), Answer::waits);
  EXPECT_EQ(wait(2, kA2, Type::write, {}, kThird), Answer::waits);
  EXPECT_EQ(wait(3, kB1, Type::read, {}, kFile), Answer::deadlock);
  EXPECT_TRUE(table_.cancel(kA, RequestId(2)));
  EXPECT_EQ(wait(4, kB1, Type::read, {}, kFile), Answer::waits);
}

TEST_F(LockTable, a_ring_that_another_closes_later_is_one_too) {
  // Two threads of one owner: one waits for what B1 has, the other gets what B1 waits for.
  EXPECT_EQ(set(kB1, Type::write, {}, kOther), Answer::done);
  EXPECT_EQ(set(kA2, Type::write, {0, 2}), Answer::done);
  EXPECT_EQ(wait(1, kA1, Type::write, {}, kOther), Answer::waits);
  EXPECT_EQ(wait(2, kB1, Type::write, {0, 3}), Answer::waits);
  EXPECT_EQ(set(kA1, Type::write, {2, 3}), Answer::done);
  EXPECT_EQ(ended(), (Endings{{2, Answer::deadlock}}));
}

TEST_F(LockTable, of_flock_there_are_no_deadlocks) {
  EXPECT_EQ(set(kFlockA, Type::write), Answer::done);
  EXPECT_EQ(set(kFlockB, Type::write, {}, kOther), Answer::done);
  EXPECT_EQ(wait(1, kFlockA, Type::write, {}, kOther), Answer::waits);
  EXPECT_EQ(wait(1, kFlockB, Type::write), Answer::waits);
}

TEST_F(LockTable, flock_gives_up_what_it_wants_as_another_type) {
  EXPECT_EQ(set(kFlockA, Type::read), Answer::done);
  EXPECT_EQ(set(kFlockB, Type::read), Answer::done);
  EXPECT_EQ(wait(1, {kB, Kind::whole, 2}, Type::write), Answer::waits);
  EXPECT_EQ(set(kFlockA, Type::write), Answer::held);
  EXPECT_EQ(set(kFlockB, Type::none), Answer::done);
  EXPECT_EQ(ended(), (Endings{{1, Answer::done}}));
  EXPECT_EQ(set(kFlockA, Type::read), Answer::held);
}

TEST_F(LockTable, the_end_of_a_session_is_that_of_all_its_locks) {
  EXPECT_EQ(set(kA1, Type::write), Answer::done);
  EXPECT_EQ(set(kFlockA, Type::write, {}, kOther), Answer::done);
  EXPECT_EQ(set(kB1, Type::write, {}, kThird), Answer::done);
  EXPECT_EQ(wait(1, kB1, Type::write), Answer::waits);
  EXPECT_EQ(wait(2, kFlockB, Type::write, {}, kOther), Answer::waits);
  EXPECT_EQ(wait(3, kA2, Type::write, {}, kThird), Answer::waits);
  table_.end(kA);
  EXPECT_EQ(ended(), (Endings{{1, Answer::done}, {2, Answer::done}}));
  EXPECT_EQ(table_.locks(), 3U);
  EXPECT_EQ(table_.waiting(), 0U);
  table_.end(kB);
  EXPECT_EQ(table_.locks(), 0U);
}

TEST_F(LockTable, has_room_for_so_many) {
  Answer answer = Answer::done;
  uint64_t count = 0;
  while (answer == Answer::done) {
    answer = set(kA1, Type::write, {2 * count, 2 * count + 1});
    if (answer == Answer::done) ++count;
  }
  EXPECT_EQ(answer, Answer::full);
  EXPECT_GT(count, limits::kLocksOfFileMax - 4);
  EXPECT_EQ(set(kB1, Type::write, {2 * count, kEnd}), Answer::full);
  // Nor for a hole, but for what makes it fewer.
  EXPECT_EQ(set(kA1, Type::write, {0, 2 * count}), Answer::done);
  EXPECT_EQ(table_.locks(), 1U);
  EXPECT_EQ(set(kB1, Type::write, {2 * count, kEnd}), Answer::done);
}

}  // namespace
}  // namespace penstock::locks
