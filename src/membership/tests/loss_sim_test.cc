// One thing is lost at a time: clients go on within the time that is promised.
#include "cluster_story.h"

#include <gtest/gtest.h>

namespace penstock::membership {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kWithin = seconds(10);
constexpr auto kWithinWithController = seconds(20);

class Loss : private ClusterStory {
 public:
  explicit Loss(uint64_t seed) : ClusterStory(seed, false) {}

  void run() {
    begin();
    if (testing::Test::HasFailure()) return;
    write_all(kWithin);
    if (late_ != nullptr) one_more();
    for (int left = 3; left > 0 && !testing::Test::HasFailure(); --left) {
      wait(seconds(3));
      one_loss();
      settle();
    }
    EXPECT_EQ(history_.check(), "") << where();
    if (!testing::Test::HasFailure()) check_copies();
    leave_all();
    stop();
  }

 private:
  // Each chain takes a write within this time from `since`.
  void write_all(engine::Duration within) { write_all(world_.now(), within); }
  void write_all(engine::Time since, engine::Duration within) {
    for (uint64_t chunk = 0; chunk < kChains; ++chunk) {
      while (!registers_[chunk % 2]->write({chunk, 0})) {
        if (world_.now() - since > seconds(60)) break;
      }
    }
    EXPECT_LE(world_.now() - since, within) << what_ << " " << where();
  }

  // Copies move to it meanwhile.
  void one_more() {
    what_ = "a node joins";
    let_late_one_join();
    for (int left = 8; left > 0; --left) {
      write_all(world_.now(), kWithin);
      world_.run_for(milliseconds(500));
    }
    settle();
  }

  void one_loss() {
    const engine::Time since = world_.now();
    SimNode& node = any_storage();
    SimNode& other = any_storage();
    switch (world_.random().below(7)) {
      case 0:
        what_ = "a node is killed";
        node.die(world_.chance(500));
        write_all(since, kWithin);
        return node.start();
      case 1:
        what_ = "the controller's process is killed, and begins again at once";
        controller().die(world_.chance(500));
        controller().start();
        return write_all(since + seconds(2), kWithinWithController);
      case 2:
        what_ = "the controller is away for long";
        controller().die(false);
        world_.run_for(seconds(30));
        controller().start();
        return write_all(world_.now(), kWithinWithController);
      case 3:
        what_ = "a node is cut off";
        for (const auto& one : nodes_) {
          if (one.get() != &node) network_.set_partitioned(one->id(), node.id(), true);
        }
        break;
      case 4:
        what_ = "a node does not hear the controller";
        network_.set_cut(controller().id(), node.id(), true);
        break;
      case 5:
        what_ = "the controller does not hear a node";
        network_.set_cut(node.id(), controller().id(), true);
        break;
      default:
        what_ = "two nodes do not reach each other";
        if (&node != &other) network_.set_partitioned(node.id(), other.id(), true);
        break;
    }
    write_all(since, kWithin);
    world_.run_for(seconds(2));
    write_all(since, kWithin + seconds(2) + milliseconds(500));
    network_.heal();
  }

  // In order: each is let go at once, the controller last.
  void leave_all() {
    for (auto it = nodes_.rbegin(); it != nodes_.rend(); ++it) {
      if (!(*it)->has_storage()) continue;
      const Status left = (*it)->leave();
      EXPECT_TRUE(left.ok()) << left.name() << " node " << (*it)->number() << " " << where();
    }
  }

  std::string what_;
};

TEST(MembershipSim, clients_go_on_in_time_after_each_single_loss) {
  const sim::SeedRange seeds = sim::seed_range(150);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Loss(seed).run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::membership
