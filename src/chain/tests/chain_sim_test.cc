// Chains of targets over simulated messages, whatever fails.
#include "chain_story.h"

namespace penstock::chain {
namespace {

void run_stories(uint64_t usual_count, bool on_targets, Kind kind = Kind::usual) {
  const sim::SeedRange seeds = sim::seed_range(usual_count);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    ChainStory(seed, on_targets, kind).run();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ChainSim, clients_see_one_chunk_whatever_fails) {
  run_stories(300, false);
}

TEST(ChainSim, clients_see_one_chunk_on_targets_whatever_fails) {
  run_stories(60, true);
}

void run_damaged_stories(uint64_t usual_count, bool on_targets) {
  const sim::SeedRange seeds = sim::seed_range(usual_count);
  uint64_t healed = 0;
  uint64_t lost = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    ChainStory story(seed, on_targets, Kind::damaged);
    story.run();
    if (testing::Test::HasFailure()) return;
    healed += story.healed();
    lost += story.lost();
  }
  // One seed may have nothing to heal.
  if (seeds.count < usual_count) return;
  testing::Test::RecordProperty("healed", std::to_string(healed));
  testing::Test::RecordProperty("lost", std::to_string(lost));
  EXPECT_GT(healed, seeds.count / 4);
  EXPECT_LT(lost, seeds.count / 4);
}

TEST(ChainSim, damaged_blocks_are_healed_whatever_fails) {
  run_damaged_stories(200, false);
}

TEST(ChainSim, damaged_blocks_are_healed_on_targets_whatever_fails) {
  run_damaged_stories(60, true);
}

TEST(ChainSim, a_disk_that_stalls_holds_nobody_up_for_long) {
  const sim::SeedRange seeds = sim::seed_range(40);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    ChainStory(seed, seed % 2 == 0).run_with_stall(false);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ChainSim, disks_that_stall_together_leave_the_chain_one) {
  const sim::SeedRange seeds = sim::seed_range(20);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    ChainStory(seed, seed % 2 == 0).run_with_stall(true);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ChainSim, clients_see_one_chunk_when_versions_come_late) {
  run_stories(150, false, Kind::late);
}

void run_removing_stories(uint64_t usual_count, bool on_targets, Kind kind = Kind::removing) {
  const sim::SeedRange seeds = sim::seed_range(usual_count);
  uint64_t dropped = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    ChainStory story(seed, on_targets, kind);
    story.run();
    if (testing::Test::HasFailure()) return;
    dropped += story.dropped();
  }
  testing::Test::RecordProperty("dropped", std::to_string(dropped));
  // One seed may have nothing to drop.
  if (seeds.count == usual_count) {
    EXPECT_GT(dropped, seeds.count / 4);
  }
}

TEST(ChainSim, removed_chunks_leave_no_name_whatever_fails) {
  run_removing_stories(200, false);
}

TEST(ChainSim, removed_chunks_leave_no_name_on_targets_whatever_fails) {
  run_removing_stories(60, true);
}

TEST(ChainSim, removed_chunks_leave_no_name_when_versions_come_late) {
  run_removing_stories(100, false, Kind::removing_late);
}

TEST(ChainSim, the_same_seed_leaves_the_same_trace) {
  for (const bool on_targets : {false, true}) {
    EXPECT_EQ(ChainStory(3, on_targets).run(), ChainStory(3, on_targets).run());
    EXPECT_EQ(ChainStory(4, on_targets, Kind::damaged).run(),
              ChainStory(4, on_targets, Kind::damaged).run());
  }
}

}  // namespace
}  // namespace penstock::chain
