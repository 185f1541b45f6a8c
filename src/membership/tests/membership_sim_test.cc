// Clusters of three to five nodes with chunks and two clients, under a controller whose process
// ends and comes back, with faults from a seed; afterwards what the clients saw must be
// linearisable, all copies equal, and nothing left over.
#include "cluster_story.h"

#include <gtest/gtest.h>

namespace penstock::membership {
namespace {

using engine::Thread;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Storm : private ClusterStory {
 public:
  Storm(uint64_t seed, bool on_targets) : ClusterStory(seed, on_targets) {}

  uint64_t run() {
    begin();
    if (testing::Test::HasFailure()) return 0;
    std::vector<Thread> programs;
    for (size_t i = 0; i < registers_.size(); ++i) {
      programs.emplace_back("client", [this, i] { work(*registers_[i]); });
    }
    inject_faults();
    heal();
    ended_ = true;
    for (Thread& program : programs) program.join();
    if (world_.chance(200)) lose_all_power();
    settle();
    read_all();
    EXPECT_EQ(history_.check(), "") << where();
    EXPECT_GT(history_.ended(), 0U);
    if (!testing::Test::HasFailure()) check_copies();
    stop();
    return world_.trace_hash();
  }

 private:
  test::History::Register any_register() { return {world_.random().below(4), 0}; }

  // Some clients wait for changes of chains, and are at their quickest while these begin.
  void work(test::Registers& registers) {
    for (int step = 0; step < 100 && !ended_; ++step) {
      if (is_watchful_ && step % 6 == 0) await_change();
      if (world_.chance(500)) {
        registers.write(any_register());
      } else {
        registers.read(any_register());
      }
      wait(is_watchful_ ? milliseconds(6) : milliseconds(400));
    }
  }
  void await_change() {
    const auto version = [this] { return clients_[0]->member()->map().version(); };
    const controller::MapVersion seen = version();
    for (int left = 100; left > 0 && version() == seen && !ended_; --left) {
      world_.run_for(milliseconds(10));
    }
  }

  void inject_faults() {
    network_.faults.drop_permille = world_.chance(500) ? 20 : 0;
    network_.faults.duplicate_permille = world_.chance(500) ? 30 : 0;
    if (world_.chance(300)) network_.faults.delay_max = milliseconds(30);
    records_.faults.conflict_permille = world_.chance(300) ? 50 : 0;
    records_.faults.unknown_commit_permille = world_.chance(300) ? 30 : 0;
    records_.faults.unresolved_commit_permille = world_.chance(300) ? 10 : 0;
    if (world_.chance(200)) records_.faults.delay_max = milliseconds(200);
    const bool is_hasty = world_.chance(500);
    for (uint64_t left = 1 + world_.random().below(6); left > 0; --left) {
      wait(is_hasty ? milliseconds(1500) : seconds(6));
      one_fault();
    }
  }

  void one_fault() {
    SimNode& node = any_node();
    SimNode& other = any_node();
    switch (world_.random().below(8)) {
      case 7:
        return let_late_one_join();
      case 0:
        return network_.set_partitioned(node.id(), other.id(), &node != &other);
      case 1:
        if (&node != &other) network_.set_cut(node.id(), other.id(), true);
        return;
      case 2:
        return network_.heal();
      case 3:
        return restart(controller());
      case 4:
        return lose_all_power();
      default:
        return restart(any_storage());
    }
  }

  void restart(SimNode& node) {
    node.die(world_.chance(500));
    wait(world_.chance(300) ? seconds(8) : seconds(1));
    node.start();
  }

  void lose_all_power() {
    std::vector<Thread> deaths;
    for (const auto& node : nodes_) {
      if (!node->has_storage() || node.get() == late_) continue;
      deaths.emplace_back("death", [this, &node] {
        node->die(true);
        wait(seconds(1));
        node->start();
      });
    }
    for (Thread& death : deaths) death.join();
  }

  void heal() {
    network_.heal();
    network_.faults = {};
    network_.faults.detection = milliseconds(300);
    records_.faults = {};
    let_late_one_join();
  }

  void read_all() {
    for (uint64_t chunk = 0; chunk < 4; ++chunk) {
      // Some of its tries have little patience.
      bool is_read = false;
      for (int left = 20; left > 0 && !is_read; --left) is_read = registers_[0]->read({chunk, 0});
      EXPECT_TRUE(is_read) << where();
    }
  }

  const bool is_watchful_ = world_.chance(500);
  bool ended_ = false;
};

void run_storms(uint64_t usual_count, bool on_targets) {
  const sim::SeedRange seeds = sim::seed_range(usual_count);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Storm(seed, on_targets).run();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(MembershipSim, clients_see_one_chunk_whatever_fails) {
  run_storms(300, false);
}

TEST(MembershipSim, clients_see_one_chunk_on_targets_whatever_fails) {
  run_storms(40, true);
}

TEST(MembershipSim, the_same_seed_leaves_the_same_trace) {
  EXPECT_EQ(Storm(3, false).run(), Storm(3, false).run());
}

}  // namespace
}  // namespace penstock::membership
