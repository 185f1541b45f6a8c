// Real processes, started, killed and told of one another.

#include "launched.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::job::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(Launch, ranks_meet_and_bring_bytes_and_descriptors) {
  const Launched job = launched(ranks(5, {"join", "all", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.err, "");
}

TEST(Launch, sets_overlap_and_names_repeat) {
  const Launched job = launched(ranks(4, {"join", "sets", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST(Launch, others_hear_of_a_rank_that_is_killed_while_they_wait_for_it) {
  const Launched job =
      launched(ranks(3, {"join", "1:nap", "1:killed", "meet", "trouble", "leave"}));
  EXPECT_EQ(job.exit_code, 128 + 9);
  EXPECT_EQ(job.err, "penstock run: rank 1 was killed by signal 9 (Killed)\n");
  EXPECT_THAT(job.lines(), SizeIs(4)) << job.out;
  EXPECT_THAT(job.lines(), Each(HasSubstr("rank 1 was killed by signal 9")));
}

}  // namespace
}  // namespace penstock::job::test
