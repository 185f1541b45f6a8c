#include "story.h"

namespace penstock::client {
namespace {

TEST(CrashSimTest, keeps_what_was_synced_and_leaks_nothing_when_killed_at_any_moment) {
  const sim::SeedRange seeds = sim::seed_range(1000);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("PENSTOCK_SEED=" + std::to_string(seed));
    Story(seed).run();
    if (HasFailure()) return;
  }
}

TEST(CrashSimTest, runs_the_same_way_again_when_the_seed_is_the_same) {
  const sim::SeedRange seeds = sim::seed_range(3);
  for (uint64_t seed = seeds.first; seed < seeds.first + std::min<uint64_t>(seeds.count, 3);
       ++seed) {
    EXPECT_EQ(Story(seed).run(), Story(seed).run());
  }
}

}  // namespace
}  // namespace penstock::client
