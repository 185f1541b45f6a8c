// Sessions that are fenced while they go on writing, whatever fails.
#include "fence_story.h"

#include <gtest/gtest.h>

namespace penstock::chain {
namespace {

TEST(FenceSim, nothing_of_a_fenced_session_is_applied_whatever_fails) {
  const sim::SeedRange seeds = sim::seed_range(150);
  size_t refused = 0;
  size_t written = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    FenceStory story(seed, Without::nothing);
    ASSERT_EQ(story.run(), "");
    refused += story.refused();
    written += story.written();
  }
  EXPECT_GT(refused, seeds.count);
  EXPECT_GT(written, seeds.count);
}

// How many of the first seeds find that something is left out.
size_t found_without(Without what, uint64_t seeds) {
  size_t found = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    if (!FenceStory(seed, what).run().empty()) ++found;
  }
  testing::Test::RecordProperty("found", std::to_string(found));
  return found;
}

TEST(FenceSim, heads_that_do_not_look_at_fences_are_found) {
  EXPECT_GT(found_without(Without::looking, 10), 5U);
}

TEST(FenceSim, who_does_not_wait_until_a_fence_is_in_force_is_found) {
  EXPECT_GT(found_without(Without::waiting, 20), 0U);
}

TEST(FenceSim, who_does_not_ask_heads_what_is_pending_is_found) {
  EXPECT_GT(found_without(Without::asking, 100), 0U);
}

TEST(FenceSim, the_same_seed_leaves_the_same_trace) {
  const auto hash_of = [](uint64_t seed) {
    FenceStory story(seed, Without::nothing);
    EXPECT_EQ(story.run(), "");
    return story.trace_hash();
  };
  EXPECT_EQ(hash_of(3), hash_of(3));
}

}  // namespace
}  // namespace penstock::chain
