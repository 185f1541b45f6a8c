// Two sides of a connection, each with a card of a simulated fabric: bytes and packets that come
// late, queue pairs that break.
#include "card_side.h"

namespace penstock::symm {
namespace {

using penstock::test::SimFabric;
using test::Asking;
using test::CardSide;
using test::HandClock;
using test::kPartBytes;
using test::Limits;
using test::Wire;

class FarPairTest : public testing::Test {
 protected:
  void begin(uint64_t seed, const Limits& of_a = {}, const Limits& of_b = {}) {
    b_.reset();
    a_.reset();
    fabric_ = std::make_unique<SimFabric>(seed);
    wire_ = std::make_unique<Wire>(seed);
    a_ = std::make_unique<CardSide>(*fabric_, clock_, of_a);
    b_ = std::make_unique<CardSide>(*fabric_, clock_, of_b);
    a_->pair->begin();
    b_->pair->begin();
  }
  // One thing happens.
  Status step() {
    switch (wire_->below(4)) {
      case 0:
        return a_->carry(*b_, *wire_);
      case 1:
        return b_->carry(*a_, *wire_);
      case 2:
        return a_->turn();
      default:
        return b_->turn();
    }
  }
  template <class Done>
  void run_until(Done&& is_done) {
    for (int i = 0; i < 2'000'000; ++i) {
      if (is_done()) return;
      const Status status = step();
      ASSERT_TRUE(status.ok()) << status.name();
    }
    FAIL() << "nothing happens any more";
  }
  void agree() {
    run_until([&] { return a_->pair->is_decided() && b_->pair->is_decided(); });
  }
  bool is_quiet() const {
    return !a_->stream.has_unsent() && !b_->stream.has_unsent() &&
           (!a_->pair->has_moved() || a_->pair->is_idle()) &&
           (!b_->pair->has_moved() || b_->pair->is_idle());
  }
  // Both ask each other for everything, and get it.
  void ask_and_check(int steps) {
    Asking of_a(*a_, *b_, *wire_);
    Asking of_b(*b_, *a_, *wire_);
    for (int i = 0; i < steps; ++i) {
      if (wire_->below(3) == 0) {
        (wire_->below(2) == 0 ? of_a : of_b).ask();
        continue;
      }
      const Status status = step();
      ASSERT_TRUE(status.ok()) << status.name();
    }
    run_until([&] { return !of_a.is_awaiting() && !of_b.is_awaiting(); });
    a_->stream.flush();
    b_->stream.flush();
    run_until([&] {
      return a_->stream.applied() == a_->stream.puts() &&
             b_->stream.applied() == b_->stream.puts() && is_quiet();
    });
    of_a.check();
    of_b.check();
  }

  HandClock clock_;
  std::unique_ptr<SimFabric> fabric_;
  std::unique_ptr<Wire> wire_;
  std::unique_ptr<CardSide> a_;
  std::unique_ptr<CardSide> b_;
};

TEST_F(FarPairTest, does_to_the_peers_memory_what_is_asked_in_order) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    begin(seed);
    ask_and_check(1500);
    if (HasFailure()) return;
    EXPECT_TRUE(a_->pair->has_moved() && b_->pair->has_moved());
    EXPECT_GT(fabric_->counts.packets_written, 0u);
    EXPECT_GT(fabric_->counts.bound, 0u);
  }
}

// Parts that cannot be registered go as frames; as does all where nothing can be.
TEST_F(FarPairTest, goes_by_frames_where_memory_cannot_be_registered) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    begin(seed, {.pinned_bytes = seed % 3 * 2 * kPartBytes}, {.pinned_bytes = 3 * kPartBytes});
    ask_and_check(1500);
    if (HasFailure()) return;
    EXPECT_TRUE(a_->pair->has_moved() && b_->pair->has_moved());
  }
}

TEST_F(FarPairTest, stays_with_the_connection_where_one_side_does_not_join) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    begin(seed, {.joins = false});
    ask_and_check(600);
    if (HasFailure()) return;
    EXPECT_EQ(a_->pair->lack(), FarLack::not_joined);
    EXPECT_EQ(b_->pair->lack(), FarLack::not_joined);
    EXPECT_FALSE(a_->pair->is_lack_of_peer());
    EXPECT_TRUE(b_->pair->is_lack_of_peer());
    EXPECT_EQ(fabric_->counts.packets_written, 0u);
  }
}

TEST_F(FarPairTest, stays_with_the_connection_where_large_packets_are_lost) {
  begin(1);
  fabric_->faults.packet_max = 4000;
  ask_and_check(600);
  EXPECT_FALSE(a_->pair->is_decided() || b_->pair->is_decided());
  clock_.pass(limits::kFarTrial + std::chrono::milliseconds(1));
  a_->pair->look(clock_.now());
  agree();
  EXPECT_EQ(a_->pair->lack(), FarLack::not_through);
  EXPECT_EQ(b_->pair->lack(), FarLack::not_through);
}

// Whatever is under way ends, and from then on nothing is written.
TEST_F(FarPairTest, ends_what_waits_when_the_queue_pair_breaks_anywhere) {
  uint64_t broken_in_a_large_one = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    begin(seed);
    agree();
    Asking of_a(*a_, *b_, *wire_);
    Asking of_b(*b_, *a_, *wire_);
    // With one packet of a thousand, or when it is said.
    if (seed % 2 == 0) fabric_->faults.breaks = 2000;
    const uint64_t last = wire_->below(3000);
    Status status;
    for (uint64_t i = 0; i < 20'000 && status.ok(); ++i) {
      if (wire_->below(3) == 0) (wire_->below(2) == 0 ? of_a : of_b).ask();
      if (seed % 2 == 1 && i == last) {
        if (seed % 4 == 1) {
          a_->device->lose();
        } else {
          break;
        }
      }
      status = step();
    }
    EXPECT_NE(status.code(), Code::bad_message);
    if (of_a.is_blocked() || of_b.is_blocked()) ++broken_in_a_large_one;
    a_->end(Code::peer_gone);
    b_->end(Code::peer_gone);
    EXPECT_FALSE(of_a.is_awaiting() || of_b.is_awaiting());
    const std::vector<std::byte> before_a = a_->heap;
    const std::vector<std::byte> before_b = b_->heap;
    while (fabric_->step()) {
    }
    a_->card->poll();
    b_->card->poll();
    EXPECT_EQ(a_->heap, before_a);
    EXPECT_EQ(b_->heap, before_b);
    fabric_->faults.breaks = 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(broken_in_a_large_one, 20u);
}

// Without the flush a large put would overtake the small one.
TEST_F(FarPairTest, puts_nothing_large_ahead_of_something_small) {
  begin(3);
  agree();
  const std::vector<std::byte> small(8, std::byte{1});
  const std::vector<std::byte> large(10'000, std::byte{2});
  FarAnswer answer;
  a_->stream.put({}, small);
  a_->pair->put({}, large, &answer);
  run_until([&] { return answer.awaited == 0; });
  a_->stream.flush();
  run_until([&] { return a_->stream.applied() == a_->stream.puts(); });
  EXPECT_TRUE(std::equal(large.begin(), large.end(), b_->heap.begin()));
}

}  // namespace
}  // namespace penstock::symm
