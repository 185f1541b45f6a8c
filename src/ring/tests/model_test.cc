// Random steps of both sides against two plain queues.
#include "ring_memory.h"

#include <deque>
#include <gtest/gtest.h>

namespace penstock::ring {
namespace {

class Model {
 public:
  Model(uint64_t seed, Geometry geometry, uint32_t first)
      : state_(seed),
        shared_(geometry),
        app_(shared_.memory, 0, first),
        agent_(shared_.memory, 0, first),
        entries_(geometry.entries) {
    // A ring that has run for long: its words stand at `first`.
    LaneControl& control = shared_.memory.control(0);
    control.submission_tail = control.submission_head = first;
    control.completion_tail = control.completion_head = first;
  }

  void step() {
    switch (below(5)) {
      case 0:
        return push();
      case 1:
        app_.publish();
        while (!unpublished_.empty()) {
          visible_.push_back(unpublished_.front());
          unpublished_.pop_front();
        }
        return;
      case 2:
        return agent_takes();
      case 3:
        return agent_posts();
      default:
        return app_takes();
    }
  }

 private:
  uint64_t below(uint64_t bound) { return (state_ = mix64(state_)) % bound; }

  void push() {
    if (in_flight_ == entries_) return;
    ++in_flight_;
    app_.push(submission_of(++last_));
    unpublished_.push_back(last_);
  }

  void agent_takes() {
    Submission taken[8];
    const uint32_t max = static_cast<uint32_t>(below(8)) + 1;
    const Result<uint32_t> count = agent_.take(taken, max);
    ASSERT_TRUE(count);
    ASSERT_EQ(*count, std::min<size_t>(visible_.size(), max));
    for (uint32_t i = 0; i < *count; ++i) {
      ASSERT_EQ(taken[i].user_data, visible_.front());
      visible_.pop_front();
      working_.push_back(taken[i].user_data);
    }
    ASSERT_EQ(agent_.has_work(), !visible_.empty());
    ASSERT_EQ(agent_.in_progress(), working_.size());
  }

  void agent_posts() {
    // In any order, as a disk would.
    for (uint64_t n = below(4); n > 0 && !working_.empty(); --n) {
      const auto chosen = working_.begin() + static_cast<long>(below(working_.size()));
      agent_.post(completion_of(*chosen));
      posted_.push_back(*chosen);
      working_.erase(chosen);
    }
    if (below(2) == 0) return;
    agent_.publish();
    done_.insert(done_.end(), posted_.begin(), posted_.end());
    posted_.clear();
  }

  void app_takes() {
    Completion taken[8];
    ASSERT_EQ(app_.ready(), done_.size());
    const uint32_t max = static_cast<uint32_t>(below(8)) + 1;
    const uint32_t count = app_.take(taken, max);
    ASSERT_EQ(count, std::min<size_t>(done_.size(), max));
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(taken[i].user_data, done_.front());
      done_.pop_front();
      --in_flight_;
    }
  }

  uint64_t state_;
  TestMemory shared_;
  AppLane app_;
  AgentLane agent_;
  const uint32_t entries_;
  uint32_t in_flight_ = 0;
  uint64_t last_ = 0;
  std::deque<uint64_t> unpublished_, visible_, working_, posted_, done_;
};

TEST(LaneModel, agrees_with_plain_queues_for_random_steps) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    for (const uint32_t entries : {1u, 2u, 8u, 64u}) {
      // Half of the runs cross the point where the 32-bit counts wrap around.
      const uint32_t first = seed % 2 == 0 ? 0 : UINT32_MAX - 100;
      Model model(seed, {entries, 1}, first);
      for (int i = 0; i < 2000; ++i) {
        model.step();
        if (HasFatalFailure()) FAIL() << "seed " << seed << " entries " << entries << " step " << i;
      }
    }
  }
}

}  // namespace
}  // namespace penstock::ring
