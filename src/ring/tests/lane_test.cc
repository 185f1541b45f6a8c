#include "ring_memory.h"

#include <gtest/gtest.h>

namespace penstock::ring {
namespace {

class Lane : public testing::Test {
 protected:
  void submit(uint64_t user_data) {
    app.push(submission_of(user_data));
    app.publish();
  }
  uint32_t taken_by_agent() {
    const Result<uint32_t> count = agent.take(entries, 16);
    EXPECT_TRUE(count);
    return count ? *count : 0;
  }
  void answer(uint64_t user_data) {
    agent.post(completion_of(user_data));
    agent.publish();
  }

  TestMemory shared{{4, 2}};
  AppLane app{shared.memory, 1};
  AgentLane agent{shared.memory, 1};
  Submission entries[16];
  Completion completions[16];
};

TEST_F(Lane, shows_entries_to_the_agent_only_when_published) {
  app.push(submission_of(7));
  EXPECT_EQ(taken_by_agent(), 0u);
  EXPECT_EQ(app.unpublished(), 1u);
  app.publish();
  EXPECT_TRUE(agent.has_work());
  ASSERT_EQ(taken_by_agent(), 1u);
  EXPECT_EQ(entries[0].user_data, 7u);
  EXPECT_FALSE(agent.has_work());
}

TEST_F(Lane, publishes_as_many_as_asked_for_and_oldest_first) {
  for (uint64_t i = 0; i < 3; ++i) app.push(submission_of(i));
  app.publish(2);
  EXPECT_EQ(app.unpublished(), 1u);
  ASSERT_EQ(taken_by_agent(), 2u);
  EXPECT_EQ(entries[1].user_data, 1u);
  app.publish(100);
  EXPECT_EQ(app.unpublished(), 0u);
  ASSERT_EQ(taken_by_agent(), 1u);
  EXPECT_EQ(entries[0].user_data, 2u);
}

TEST_F(Lane, shows_completions_to_the_application_only_when_published) {
  submit(1);
  ASSERT_EQ(taken_by_agent(), 1u);
  agent.post(completion_of(9));
  EXPECT_EQ(app.ready(), 0u);
  agent.publish();
  ASSERT_EQ(app.take(completions, 16), 1u);
  EXPECT_EQ(completions[0].user_data, 9u);
  EXPECT_EQ(app.take(completions, 16), 0u);
}

TEST_F(Lane, leaves_submissions_in_the_queue_while_completions_have_no_room) {
  // An application that reaps nothing but submits again and again.
  for (uint64_t i = 0; i < 4; ++i) submit(i);
  ASSERT_EQ(taken_by_agent(), 4u);
  for (uint64_t i = 0; i < 4; ++i) answer(i);
  submit(4);
  EXPECT_EQ(taken_by_agent(), 0u);
  EXPECT_FALSE(agent.has_work());
  ASSERT_EQ(app.take(completions, 1), 1u);
  EXPECT_TRUE(agent.has_work());
  EXPECT_EQ(taken_by_agent(), 1u);
}

TEST_F(Lane, ends_when_the_tail_is_impossible) {
  Word tail(shared.memory.control(1).submission_tail);
  for (const uint32_t lie : {5u, 1000u, UINT32_MAX, 0x80000000u}) {
    tail.store(lie);
    const Result<uint32_t> count = agent.take(entries, 16);
    ASSERT_FALSE(count);
    EXPECT_EQ(count.error(), Code::bad_message);
  }
}

TEST_F(Lane, takes_no_more_than_entries_whatever_the_head_says) {
  Word head(shared.memory.control(1).completion_head);
  for (uint64_t i = 0; i < 4; ++i) submit(i);
  for (const uint32_t lie : {1u, 5u, 1000u, UINT32_MAX - 10, 0x80000000u}) {
    head.store(lie);
    AgentLane fresh(shared.memory, 1);
    const Result<uint32_t> count = fresh.take(entries, 16);
    ASSERT_TRUE(count);
    EXPECT_LE(*count, 4u);
  }
}

TEST_F(Lane, has_no_more_in_progress_than_entries_when_the_head_runs_ahead) {
  for (uint64_t i = 0; i < 4; ++i) submit(i);
  ASSERT_EQ(taken_by_agent(), 4u);
  // As if all that was taken had been answered, and read.
  Word(shared.memory.control(1).completion_head).store(4);
  for (uint64_t i = 4; i < 8; ++i) submit(i);
  EXPECT_FALSE(agent.has_work());
  EXPECT_EQ(taken_by_agent(), 0u);
  answer(0);
  EXPECT_EQ(taken_by_agent(), 1u);
  EXPECT_EQ(agent.in_progress(), 4u);
}

TEST_F(Lane, is_not_moved_by_a_header_that_changes_after_setup) {
  Header& header = shared.memory.header();
  header.entries = 1u << 30;
  header.lanes = 0;
  header.lane_bytes = UINT64_MAX;
  header.magic = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    submit(i);
    ASSERT_EQ(taken_by_agent(), 1u);
    EXPECT_EQ(entries[0].user_data, i);
    answer(i);
    ASSERT_EQ(app.take(completions, 16), 1u);
  }
}

TEST_F(Lane, is_not_moved_by_writes_to_words_that_are_the_agents) {
  LaneControl& control = shared.memory.control(1);
  for (uint64_t i = 0; i < 100; ++i) {
    submit(i);
    control.submission_head = 0xdeadbeef;
    control.completion_tail = 0xdeadbeef;
    ASSERT_EQ(taken_by_agent(), 1u);
    answer(i);
    ASSERT_EQ(app.take(completions, 16), 1u);
    EXPECT_EQ(completions[0].user_data, i);
  }
}

TEST_F(Lane, bounds_ready_when_the_agent_lies) {
  Word(shared.memory.control(1).completion_tail).store(1000);
  EXPECT_EQ(app.ready(), 4u);
  EXPECT_EQ(app.take(completions, 16), 4u);
}

TEST_F(Lane, asks_for_a_wake_once_per_sleep_of_the_agent) {
  AgentRing ring(shared.memory);
  AppLane other(shared.memory, 0);
  app.push(submission_of(1));
  EXPECT_FALSE(app.publish());
  ring.arm();
  app.push(submission_of(2));
  EXPECT_TRUE(app.publish());
  other.push(submission_of(3));
  EXPECT_FALSE(other.publish());
  ring.arm();
  ring.disarm();
  app.push(submission_of(4));
  EXPECT_FALSE(app.publish());
}

TEST_F(Lane, wakes_a_sleeper_only_when_enough_is_ready) {
  LaneControl& control = shared.memory.control(1);
  for (uint64_t i = 0; i < 3; ++i) submit(i);
  ASSERT_EQ(taken_by_agent(), 3u);
  // What AppLane::sleep(2) would have written.
  Word(control.wake_at).store(2);
  Word(control.waiting).store(1);
  agent.post(completion_of(0));
  EXPECT_FALSE(agent.publish());
  agent.post(completion_of(1));
  EXPECT_TRUE(agent.publish());
  agent.post(completion_of(2));
  EXPECT_FALSE(agent.publish());
}

TEST_F(Lane, sleeps_until_the_deadline_and_says_so) {
  const std::atomic<bool> stop{false};
  EXPECT_FALSE(app.sleep(1, 1, stop));
  EXPECT_EQ(shared.memory.control(1).waiting, 0u);
}

TEST_F(Lane, does_not_sleep_when_stopped_or_ready) {
  const std::atomic<bool> stop{true};
  EXPECT_TRUE(app.sleep(1, kForever, stop));
  submit(1);
  ASSERT_EQ(taken_by_agent(), 1u);
  answer(1);
  const std::atomic<bool> go_on{false};
  EXPECT_TRUE(app.sleep(1, kForever, go_on));
}

TEST_F(Lane, counts_announced_lanes_within_the_geometry) {
  AgentRing ring(shared.memory);
  EXPECT_EQ(ring.lanes_used(), 0u);
  app.announce();
  EXPECT_EQ(ring.lanes_used(), 2u);
  AppLane(shared.memory, 0).announce();
  EXPECT_EQ(ring.lanes_used(), 2u);
  Word(shared.memory.header().lanes_used).store(UINT32_MAX);
  EXPECT_EQ(ring.lanes_used(), 2u);
}

}  // namespace
}  // namespace penstock::ring
