// Rings of targets over simulated messages.
#include "ring_story.h"

namespace penstock::chain {
namespace {

TEST(RingSim, targets_that_follow_one_another_do_not_wait_in_a_ring) {
  const sim::SeedRange seeds = sim::seed_range(40);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    RingStory(seed).run(400, false);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RingSim, nor_do_they_where_chains_change) {
  const sim::SeedRange seeds = sim::seed_range(40);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    RingStory(seed).run(400, true);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RingSim, the_same_seed_leaves_the_same_trace) {
  EXPECT_EQ(RingStory(5).run(200, true), RingStory(5).run(200, true));
}

}  // namespace
}  // namespace penstock::chain
