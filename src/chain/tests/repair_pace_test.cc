#include "../repair_pace.h"

#include "../limits.h"

#include <gtest/gtest.h>

#include "penstock/sim.h"

namespace penstock::chain {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kChunk = 4 * kMiB;

class RepairPaceTest : public testing::Test {
 protected:
  // Asks once, and is not remembered.
  RepairPace::Turn take(uint64_t bytes) {
    RepairPace::Turn turn = pace_.ask(this, bytes).turn;
    pace_.forget(this);
    return turn;
  }
  engine::Duration wait_for(uint64_t bytes) {
    const engine::Duration wait = pace_.ask(this, bytes).wait;
    pace_.forget(this);
    return wait;
  }
  void pass(engine::Duration time) {
    world_.run_for(time);
    loop_.poll();
  }

  sim::SimWorld world_{1};
  sim::SimLoop loop_{world_, sim::LoopDriver::world_when_called};
  RepairPace pace_{loop_};
};

TEST_F(RepairPaceTest, nobody_waits_where_clients_ask_for_nothing) {
  std::vector<RepairPace::Turn> turns;
  for (int i = 0; i < 8; ++i) {
    turns.push_back(take(kChunk));
    ASSERT_NE(turns.back(), nullptr);
  }
  pass(milliseconds(10));
  turns.clear();
  EXPECT_NE(take(kChunk), nullptr) << "no rest either";
}

TEST_F(RepairPaceTest, as_much_is_copied_as_clients_have_under_way) {
  pace_.begin_request(2 * kChunk);
  const RepairPace::Turn first = take(kChunk);
  const RepairPace::Turn second = take(kChunk);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(take(kChunk), nullptr);
  EXPECT_GT(wait_for(kChunk), engine::Duration::zero());
  pace_.begin_request(kChunk);
  EXPECT_NE(take(kChunk), nullptr);
}

TEST_F(RepairPaceTest, a_chunk_that_is_more_than_that_is_alone_and_then_there_is_a_rest) {
  pace_.begin_request(limits::kBlockBytes);
  RepairPace::Turn turn = take(kChunk);
  ASSERT_NE(turn, nullptr) << "repair goes on, whatever clients do";
  EXPECT_EQ(take(limits::kBlockBytes), nullptr);
  pass(milliseconds(30));
  turn = nullptr;
  EXPECT_EQ(wait_for(kChunk), milliseconds(15));
  pass(milliseconds(15));
  EXPECT_NE(take(kChunk), nullptr);
}

TEST_F(RepairPaceTest, a_rest_is_no_longer_than_its_bound) {
  pace_.begin_request(limits::kBlockBytes);
  RepairPace::Turn turn = take(kChunk);
  pass(std::chrono::seconds(20));
  turn = nullptr;
  EXPECT_EQ(wait_for(kChunk), limits::kRestMost);
}

TEST_F(RepairPaceTest, a_client_is_at_work_between_two_requests) {
  pace_.begin_request(limits::kBlockBytes);
  pace_.end_request(limits::kBlockBytes);
  pass(limits::kClientsRest / 2);
  const RepairPace::Turn turn = take(kChunk);
  EXPECT_EQ(take(kChunk), nullptr);
  pass(limits::kClientsRest / 2);
  EXPECT_NE(take(kChunk), nullptr) << "it asks for nothing any more";
}

TEST_F(RepairPaceTest, turns_come_in_the_order_of_asking) {
  pace_.begin_request(limits::kBlockBytes);
  const int who[3] = {};
  RepairPace::Turn turn = take(kChunk);
  EXPECT_EQ(pace_.ask(&who[0], kChunk).turn, nullptr);
  EXPECT_EQ(pace_.ask(&who[1], limits::kBlockBytes).turn, nullptr);
  turn = nullptr;
  EXPECT_EQ(pace_.ask(&who[1], limits::kBlockBytes).turn, nullptr)
      << "a small one is not before its turn";
  EXPECT_EQ(pace_.ask(&who[2], limits::kBlockBytes).turn, nullptr);
  EXPECT_NE(pace_.ask(&who[0], kChunk).turn, nullptr);
  pace_.forget(&who[1]);
  EXPECT_NE(pace_.ask(&who[2], limits::kBlockBytes).turn, nullptr)
      << "who asks no more is in nobody's way";
}

TEST_F(RepairPaceTest, what_is_empty_never_waits) {
  pace_.begin_request(limits::kBlockBytes);
  const RepairPace::Turn turn = take(kChunk);
  EXPECT_NE(take(0), nullptr);
}

}  // namespace
}  // namespace penstock::chain
