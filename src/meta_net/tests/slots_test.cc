// The last answer of each slot.
#include "../slots.h"

#include <gtest/gtest.h>

namespace penstock::meta_net {
namespace {

using What = Slots::Taken::What;

constexpr Slots::Name kCaller{NodeId{1}, 0, 5};
constexpr engine::Time kNow{};

AnswerBytes answer_of(size_t bytes) {
  return std::make_shared<const std::string>(bytes, 'a');
}

TEST(Slots, give_a_repeated_call_the_answer_of_the_first) {
  Slots slots;
  const auto first = slots.take(kCaller, 3, 1, kNow);
  ASSERT_EQ(first.what, What::run);
  EXPECT_EQ(slots.take(kCaller, 3, 1, kNow).what, What::wait);
  const AnswerBytes answer = answer_of(10);
  slots.end(first.ticket, answer, kNow);
  const auto again = slots.take(kCaller, 3, 1, kNow);
  EXPECT_EQ(again.what, What::answer);
  EXPECT_EQ(again.answer, answer);
  EXPECT_EQ(slots.kept_bytes(), 10u);
  const auto next = slots.take(kCaller, 3, 2, kNow);
  ASSERT_EQ(next.what, What::run);
  EXPECT_EQ(slots.kept_bytes(), 0u) << "nobody asks for it any more";
  EXPECT_EQ(slots.take(kCaller, 3, 1, kNow).what, What::old);
  slots.end(next.ticket, answer, kNow);
}

TEST(Slots, are_apart_for_nodes_sessions_callers_and_numbers) {
  Slots slots;
  const auto run = [&](const Slots::Name& name, uint32_t slot) {
    const auto taken = slots.take(name, slot, 1, kNow);
    EXPECT_EQ(taken.what, What::run);
    if (taken.what == What::run) slots.end(taken.ticket, answer_of(1), kNow);
  };
  run(kCaller, 0);
  run(kCaller, 1);
  run({NodeId{2}, 0, 5}, 0);
  run({NodeId{1}, 1, 5}, 0);
  run({NodeId{1}, 0, 6}, 0);
  EXPECT_EQ(slots.callers(), 4u);
  EXPECT_EQ(slots.take(kCaller, 0, 1, kNow).what, What::answer);
}

TEST(Slots, let_a_call_run_again_that_was_not_begun) {
  Slots slots;
  slots.give_up(slots.take(kCaller, 0, 1, kNow).ticket);
  const auto again = slots.take(kCaller, 0, 1, kNow);
  ASSERT_EQ(again.what, What::run);
  slots.end(again.ticket, answer_of(1), kNow);
}

TEST(Slots, take_the_next_call_while_one_that_was_given_up_still_runs) {
  Slots slots;
  const auto left = slots.take(kCaller, 0, 1, kNow);
  const auto next = slots.take(kCaller, 0, 2, kNow);
  ASSERT_EQ(next.what, What::run);
  EXPECT_EQ(slots.take(kCaller, 0, 1, kNow).what, What::old);
  slots.end(left.ticket, answer_of(7), kNow);
  EXPECT_EQ(slots.take(kCaller, 0, 2, kNow).what, What::wait);
  slots.end(next.ticket, answer_of(9), kNow);
  EXPECT_EQ(slots.take(kCaller, 0, 2, kNow).answer->size(), 9u);
  EXPECT_EQ(slots.kept_bytes(), 9u);
}

TEST(Slots, say_that_an_answer_found_no_room) {
  Slots slots;
  const size_t large = limits::kAnswerBytesMax;
  for (uint32_t slot = 0; slot < 3; ++slot) {
    slots.end(slots.take(kCaller, slot, 1, kNow).ticket, answer_of(large), kNow);
  }
  EXPECT_EQ(slots.take(kCaller, 0, 1, kNow).what, What::answer);
  EXPECT_EQ(slots.take(kCaller, 2, 1, kNow).what, What::unknown);
  EXPECT_LE(slots.kept_bytes(), limits::kKeptBytesPerNode);
  // Of another node there is room.
  const Slots::Name other{NodeId{2}, 0, 1};
  slots.end(slots.take(other, 0, 1, kNow).ticket, answer_of(large), kNow);
  EXPECT_EQ(slots.take(other, 0, 1, kNow).what, What::answer);
  slots.end(slots.take(kCaller, 2, 2, kNow).ticket, answer_of(1), kNow);
}

TEST(Slots, have_room_for_so_many_callers_of_a_node_until_some_are_idle) {
  Slots slots;
  const auto end = [&](uint64_t caller, engine::Time now) {
    const auto taken = slots.take({NodeId{1}, 0, caller}, 0, 1, now);
    if (taken.what == What::run) slots.end(taken.ticket, answer_of(1), now);
    return taken.what;
  };
  for (uint64_t caller = 1; caller <= limits::kCallersPerNode; ++caller) {
    EXPECT_EQ(end(caller, kNow), What::run);
  }
  EXPECT_EQ(end(1000, kNow), What::busy);
  const auto other = slots.take({NodeId{2}, 0, 1}, 0, 1, kNow);
  EXPECT_EQ(other.what, What::run) << "another node is not kept out";
  const engine::Time later = kNow + limits::kCallerIdle;
  EXPECT_EQ(end(1000, later), What::run);
  EXPECT_EQ(slots.callers(), 2u) << "one that still runs stays";
  slots.end(other.ticket, answer_of(1), later);
}

}  // namespace
}  // namespace penstock::meta_net
