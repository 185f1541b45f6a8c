// Two threads, as application and agent, that really sleep and wake each other.
#include "ring_memory.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <thread>
#include <vector>

namespace penstock::ring {
namespace {

constexpr uint64_t kOperations = 40'000;

struct Counts {
  uint64_t eventfd_writes = 0;
  uint64_t agent_sleeps = 0;
  uint64_t futex_wakes = 0;
};

class Pair {
 public:
  Pair(uint32_t entries, uint32_t lanes)
      : shared_({entries, lanes}), wake_(::eventfd(0, EFD_CLOEXEC)) {}

  // Serves until every lane has had kOperations; completes each entry after all of its batch were
  // taken, last first.
  void agent(Counts* counts) {
    const uint32_t lanes = shared_.memory.geometry().lanes;
    AgentRing ring(shared_.memory);
    std::vector<AgentLane> sides;
    for (uint32_t i = 0; i < lanes; ++i) sides.emplace_back(shared_.memory, i);
    uint64_t served = 0;
    Submission batch[16];
    while (served < kOperations * lanes) {
      bool worked = false;
      for (uint32_t lane = 0; lane < ring.lanes_used(); ++lane) {
        const Result<uint32_t> count = sides[lane].take(batch, 16);
        ASSERT_TRUE(count);
        for (uint32_t i = *count; i > 0; --i) {
          sides[lane].post(completion_of(batch[i - 1].user_data));
        }
        counts->futex_wakes += sides[lane].publish() ? 1 : 0;
        served += *count;
        worked = worked || *count > 0;
      }
      if (!worked) sleep(ring, sides, counts);
    }
  }

  // Keeps `depth` operations in flight and waits for `min` of them at a time.
  void app(uint32_t lane, uint32_t depth, uint32_t min, uint64_t* sum, uint64_t* writes) {
    AppLane side(shared_.memory, lane);
    side.announce();
    const std::atomic<bool> stop{false};
    uint64_t pushed = 0, taken = 0;
    std::vector<Completion> completions(depth);
    while (taken < kOperations) {
      while (pushed < kOperations && pushed - taken < depth) {
        side.push(submission_of(++pushed));
      }
      if (side.publish()) {
        ++*writes;
        ASSERT_EQ(::eventfd_write(wake_.get(), 1), 0);
      }
      const uint32_t wanted = static_cast<uint32_t>(std::min<uint64_t>(min, pushed - taken));
      while (side.ready() < wanted) side.sleep(wanted, kForever, stop);
      const uint32_t count = side.take(completions.data(), depth);
      for (uint32_t i = 0; i < count; ++i) *sum += completions[i].user_data;
      taken += count;
    }
  }

 private:
  void sleep(AgentRing& ring, std::vector<AgentLane>& sides, Counts* counts) {
    ring.arm();
    bool quiet = true;
    for (const AgentLane& side : sides) quiet = quiet && !side.has_work();
    if (quiet) {
      // A lost wake-up would leave this read, and the test, waiting for ever.
      ++counts->agent_sleeps;
      eventfd_t value = 0;
      ASSERT_EQ(::eventfd_read(wake_.get(), &value), 0);
    }
    ring.disarm();
  }

  TestMemory shared_;
  UniqueFd wake_;
};

void run(uint32_t entries, uint32_t lanes, uint32_t depth, uint32_t min, Counts* counts) {
  Pair pair(entries, lanes);
  std::vector<uint64_t> sums(lanes, 0), writes(lanes, 0);
  std::thread agent([&] { pair.agent(counts); });
  std::vector<std::thread> apps;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    apps.emplace_back([&, lane] { pair.app(lane, depth, min, &sums[lane], &writes[lane]); });
  }
  for (std::thread& app : apps) app.join();
  agent.join();
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    EXPECT_EQ(sums[lane], kOperations * (kOperations + 1) / 2);
    counts->eventfd_writes += writes[lane];
  }
}

TEST(LaneStress, loses_no_wake_up_when_both_sides_sleep_after_every_operation) {
  Counts counts;
  run(1, 1, 1, 1, &counts);
  EXPECT_GE(counts.eventfd_writes, counts.agent_sleeps);
}

TEST(LaneStress, keeps_every_operation_with_deep_queues) {
  Counts counts;
  run(64, 1, 64, 16, &counts);
  EXPECT_LE(counts.futex_wakes, kOperations / 8);
}

TEST(LaneStress, serves_several_lanes_with_one_agent) {
  Counts counts;
  run(16, 4, 16, 4, &counts);
}

}  // namespace
}  // namespace penstock::ring
