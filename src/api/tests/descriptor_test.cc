// Descriptors of lanes, in event loops.
#include "client.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <thread>

#include "penstock/testing_node.h"

namespace penstock::api {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

bool is_readable(int fd, int within_ms) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, within_ms) == 1 && (one.revents & POLLIN) != 0;
}

class Descriptor : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(agent_.start());
    ASSERT_EQ(client_.connect(scratch_.store()), 0) << penstock_last_error();
    client_.prepare();
    file_ = client_.open("/a", O_RDWR | O_CREAT);
    test::fill({client_.memory(), 65536}, 1);
    ASSERT_EQ(client_.run(client_.io(PENSTOCK_WRITE, file_, 0, 65536)), 65536);
    ASSERT_EQ(penstock_fsync(client_.session, file_), 0);
    descriptor_ = penstock_ring_descriptor(client_.ring);
    ASSERT_GE(descriptor_, 0) << penstock_last_error();
  }
  void submit_reads(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const penstock_io read = client_.io(PENSTOCK_READ, file_, i * 4096, 4096, i * 4096, i);
      ASSERT_EQ(penstock_prepare(client_.ring, &read), 0) << penstock_last_error();
    }
    ASSERT_EQ(penstock_submit(client_.ring), static_cast<int>(count));
  }
  int take(uint32_t max) { return penstock_wait(client_.ring, completions_, max, 0, 0); }
  // As an event loop does, until so many have come.
  void take_by_epoll(int count) {
    const UniqueFd loop(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    ASSERT_EQ(::epoll_ctl(loop.get(), EPOLL_CTL_ADD, descriptor_, &wanted), 0);
    for (int taken = 0; taken < count;) {
      epoll_event event{};
      ASSERT_EQ(::epoll_wait(loop.get(), &event, 1, 30'000), 1) << "after " << taken;
      const int some = take(3);
      ASSERT_GE(some, 0) << penstock_last_error();
      for (int i = 0; i < some; ++i) results_.push_back(completions_[i].result);
      taken += some;
    }
  }

  test::ScratchDirectory scratch_;
  test::AgentProcess agent_{scratch_.store()};
  Client client_;
  penstock_file file_ = -1;
  int descriptor_ = -1;
  penstock_completion completions_[64];
  std::vector<int64_t> results_;
};

TEST_F(Descriptor, is_readable_while_there_are_completions_and_only_then) {
  EXPECT_EQ(penstock_ring_descriptor(client_.ring), descriptor_);
  EXPECT_FALSE(is_readable(descriptor_, 50));
  submit_reads(4);
  ASSERT_TRUE(is_readable(descriptor_, 30'000));
  // A level: looking changes nothing.
  ASSERT_TRUE(is_readable(descriptor_, 0));
  int taken = 0;
  while (taken < 3) {
    ASSERT_TRUE(is_readable(descriptor_, 30'000));
    taken += take(1);
  }
  // One is left, which may still be on its way.
  ASSERT_TRUE(is_readable(descriptor_, 30'000));
  while (take(1) == 0) ASSERT_TRUE(is_readable(descriptor_, 30'000));
  // It may come to nothing once, by a thread that was late.
  while (is_readable(descriptor_, 50)) ASSERT_EQ(take(1), 0);
}

TEST_F(Descriptor, serves_a_loop_again_and_again) {
  for (int round = 0; round < 200 && !HasFatalFailure(); ++round) {
    submit_reads(1 + round % 16);
    take_by_epoll(1 + round % 16);
  }
  for (const int64_t result : results_) ASSERT_EQ(result, 4096);
  EXPECT_TRUE(test::is_content({client_.memory(), 4096}, 1));
}

TEST_F(Descriptor, leaves_a_wait_that_blocks_as_it_was) {
  submit_reads(16);
  ASSERT_EQ(penstock_wait(client_.ring, completions_, 16, 16, Client::in_seconds(60)), 16);
  // Nothing in flight, and then a time that passes.
  EXPECT_EQ(penstock_wait(client_.ring, completions_, 1, 1, Client::in_seconds(60)), 0);
  agent_.pause();
  submit_reads(1);
  const uint64_t began = penstock_now();
  EXPECT_EQ(penstock_wait(client_.ring, completions_, 1, 1, began + 30 * kMillisecond), 0);
  EXPECT_GE(penstock_now(), began + 30 * kMillisecond);
  agent_.resume();
  EXPECT_EQ(penstock_wait(client_.ring, completions_, 1, 1, Client::in_seconds(60)), 1);
}

TEST_F(Descriptor, gets_what_was_in_flight_when_the_agent_died_from_its_successor) {
  for (int round = 0; round < 3; ++round) {
    agent_.kill();
    submit_reads(16);
    EXPECT_FALSE(is_readable(descriptor_, 20));
    ASSERT_TRUE(agent_.start());
    // No call until it is readable: the lane moves without one.
    results_.clear();
    take_by_epoll(16);
    for (const int64_t result : results_) ASSERT_EQ(result, 4096) << round;
  }
}

// Sessions made later have no patience.
class DescriptorWithoutSuccessor : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("PENSTOCK_RECONNECT_SECONDS", "0", 1);
    ASSERT_TRUE(agent_.start());
    ASSERT_EQ(client_.connect(scratch_.store()), 0) << penstock_last_error();
    client_.prepare();
    file_ = client_.open("/a", O_RDWR | O_CREAT);
    ASSERT_EQ(penstock_lane_claim(client_.ring, &lane_), 0);
    descriptor_ = penstock_lane_descriptor(lane_);
    ASSERT_GE(descriptor_, 0) << penstock_last_error();
  }
  ~DescriptorWithoutSuccessor() override { ::unsetenv("PENSTOCK_RECONNECT_SECONDS"); }

  test::ScratchDirectory scratch_;
  test::AgentProcess agent_{scratch_.store()};
  Client client_;
  penstock_file file_ = -1;
  penstock_lane* lane_ = nullptr;
  int descriptor_ = -1;
  penstock_completion completion_{};
};

TEST_F(DescriptorWithoutSuccessor, tells_of_operations_that_end_with_the_agent) {
  agent_.pause();
  const penstock_io write = client_.io(PENSTOCK_WRITE, file_, 0, 4096);
  ASSERT_EQ(penstock_lane_prepare(lane_, &write), 0);
  ASSERT_EQ(penstock_lane_submit(lane_, 1), 1);
  EXPECT_FALSE(is_readable(descriptor_, 20));
  agent_.kill();
  ASSERT_TRUE(is_readable(descriptor_, 30'000));
  ASSERT_EQ(penstock_lane_wait(lane_, &completion_, 1, 0, 0), 1);
  EXPECT_EQ(completion_.result, -ECONNRESET);
}

TEST_F(DescriptorWithoutSuccessor, does_not_keep_a_wait_from_ending_with_the_agent) {
  std::thread killer([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    agent_.kill();
  });
  EXPECT_EQ(penstock_lane_wait(lane_, &completion_, 1, 1, PENSTOCK_FOREVER), -ECONNRESET);
  killer.join();
}

TEST_F(Descriptor, stays_with_the_process_that_made_it) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool closed = ::fcntl(descriptor_, F_GETFD) < 0;
    const bool refused = penstock_ring_descriptor(client_.ring) == -ECHILD;
    ::_exit(closed && refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  submit_reads(2);
  take_by_epoll(2);
}

TEST_F(Descriptor, ends_with_its_lane) {
  ASSERT_EQ(penstock_ring_leave(client_.ring), 0) << penstock_last_error();
  EXPECT_LT(::fcntl(descriptor_, F_GETFD), 0);
  // Another of the thread's next lane.
  descriptor_ = penstock_ring_descriptor(client_.ring);
  ASSERT_GE(descriptor_, 0);
  submit_reads(1);
  take_by_epoll(1);
  ASSERT_EQ(penstock_ring_destroy(client_.ring), 0);
  EXPECT_LT(::fcntl(descriptor_, F_GETFD), 0);
}

// What the node cache has is answered while it is submitted.
TEST(DescriptorOfCache, is_readable_for_what_was_answered_at_once) {
  test::ScratchDirectory scratch;
  test::AgentProcess agent(scratch.store(), 64 * kMiB);
  ASSERT_TRUE(agent.start());
  Client client;
  ASSERT_EQ(client.connect(scratch.store()), 0) << penstock_last_error();
  client.prepare();
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  test::fill({client.memory(), 65536}, 1);
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, 65536)), 65536);
  const int descriptor = penstock_ring_descriptor(client.ring);
  ASSERT_GE(descriptor, 0);
  penstock_route route = PENSTOCK_ROUTE_ANY;
  const uint64_t end = Client::in_seconds(60);
  while (std::string(penstock_route_name(route)) != "cache" && penstock_now() < end) {
    const penstock_io read = client.io(PENSTOCK_READ, file, 0, 4096);
    ASSERT_EQ(penstock_prepare(client.ring, &read), 0);
    ASSERT_EQ(penstock_submit(client.ring), 1);
    penstock_completion completion{};
    int taken = 0;
    while (taken == 0) {
      ASSERT_TRUE(is_readable(descriptor, 30'000));
      taken = penstock_wait(client.ring, &completion, 1, 0, 0);
    }
    ASSERT_EQ(taken, 1);
    ASSERT_EQ(completion.result, 4096);
    route = completion.route;
  }
  EXPECT_STREQ(penstock_route_name(route), "cache");
}

}  // namespace
}  // namespace penstock::api
