#include <gtest/gtest.h>
#include <vector>

#include "penstock/testing_cluster.h"

namespace penstock::test {

using engine::Thread;
using std::chrono::milliseconds;
using std::chrono::seconds;

FaultyPair::FaultyPair(uint64_t seed) : world_(seed), network_(world_) {
  world_.set_time_limit(std::chrono::hours(24));
  for (const uint32_t number : {1U, 2U}) {
    const std::vector<engine::Address> others{{NodeId{3 - number}, 0}};
    nodes_[number - 1] = std::make_unique<SimNode>(network_, world_, number, others);
  }
}

void FaultyPair::run(size_t programs, const Hooks& hooks) {
  start_both(hooks);
  std::vector<Thread> threads;
  for (size_t i = 0; i < programs; ++i) {
    threads.emplace_back("program", [this, i, &hooks] { run_program(i, hooks); });
  }
  inject_faults(hooks);
  heal();
  for (Thread& thread : threads) thread.join();
}

void FaultyPair::stop() {
  for (const auto& node : nodes_) node->stop();
}

// Both open their file systems at once, each of which asks the other node's target.
void FaultyPair::start_both(const Hooks& hooks) {
  for (const auto& node : nodes_) ASSERT_TRUE(node->start_store().ok()) << where();
  std::vector<Thread> starts;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    starts.emplace_back("start", [this, i, &hooks] {
      const Status mounted = nodes_[i]->start_mount();
      EXPECT_TRUE(mounted.ok()) << mounted.name() << " " << where();
      hooks.started(i);
    });
  }
  for (Thread& start : starts) start.join();
}

void FaultyPair::run_program(size_t program, const Hooks& hooks) {
  constexpr int kSteps = 40;
  constexpr int kStepsAfterFaults = 5;
  engine::SeededRandom random(world_.seed() * 16 + program);
  int after_faults = 0;
  for (int step = 0; step < kSteps || after_faults < kStepsAfterFaults; ++step) {
    const bool faults_are_over = healed_;
    const bool well = hooks.step(program % nodes_.size(), program, random);
    if (faults_are_over) {
      ++after_faults;
      EXPECT_TRUE(well) << "no progress " << where();
    }
    world_.run_for(milliseconds(random.below(well ? 50 : 2000)));
  }
}

void FaultyPair::inject_faults(const Hooks& hooks) {
  engine::Random& random = world_.random();
  network_.faults.drop_permille = random.chance(1, 2) ? 10 : 0;
  network_.faults.duplicate_permille = random.chance(1, 2) ? 10 : 0;
  if (random.chance(1, 3)) network_.faults.delay_max = milliseconds(20);
  for (uint64_t left = 1 + random.below(4); left > 0; --left) {
    world_.run_for(milliseconds(random.below(3000)));
    if (random.chance(1, 2)) {
      network_.set_partitioned(NodeId{1}, NodeId{2}, true);
      world_.run_for(milliseconds(random.below(8000)));
      network_.heal();
    } else {
      restart(random.below(2), hooks);
    }
  }
}

void FaultyPair::kill(size_t index, bool power_cut, const Hooks& hooks) {
  SimNode& node = *nodes_[index];
  Thread death("death", [&node, power_cut] { node.die(power_cut); });
  hooks.dying(index);
  death.join();
  hooks.dead(index, power_cut);
}

void FaultyPair::cut_power(const Hooks& hooks) {
  for (size_t i = 0; i < nodes_.size(); ++i) kill(i, true, hooks);
  start_both(hooks);
}

void FaultyPair::restart(size_t index, const Hooks& hooks) {
  SimNode& node = *nodes_[index];
  kill(index, world_.random().chance(1, 2), hooks);
  world_.run_for(milliseconds(world_.random().below(2000)));
  ASSERT_TRUE(node.start_store().ok()) << where();
  // As long as messages to the other node are lost there may be no mount.
  for (Status mounted = node.start_mount(); !mounted.ok(); mounted = node.start_mount()) {
    ASSERT_TRUE(network_.faults.drop_permille != 0) << mounted.name() << " " << where();
    world_.run_for(milliseconds(500));
  }
  hooks.started(index);
}

void FaultyPair::heal() {
  network_.heal();
  network_.faults = {};
  // What was lost before is found out by then.
  world_.run_for(seconds(10));
  healed_ = true;
}

}  // namespace penstock::test
