// Teams whose PEs find one another by an id, in real processes (team_pes.cc).
#include <gtest/gtest.h>

#include "penstock/job.h"

namespace penstock::nvshmem {
namespace {

// `nodes`: those that the PEs count as being on; empty: one.
int run(uint32_t pes, const std::string& scenario, const std::string& nodes = "") {
  job::LaunchOptions options;
  if (!nodes.empty()) options.environment = {{"PENSTOCK_JOB_NODES", nodes}};
  options.size = pes;
  options.command = {TEAM_PES, scenario};
  options.signals = false;
  const auto code = job::launch(options);
  EXPECT_TRUE(code) << code.error().message;
  return code ? *code : -1;
}

TEST(TeamMeetings, make_teams_in_the_order_of_indices) {
  for (const uint32_t pes : {1, 2, 5}) EXPECT_EQ(run(pes, "backwards"), 0) << pes;
}
TEST(TeamMeetings, make_teams_over_nodes) {
  for (const uint32_t pes : {2, 5}) EXPECT_EQ(run(pes, "backwards", "2"), 0) << pes;
  EXPECT_EQ(run(5, "odd_and_even", "0,0,1"), 0);
  EXPECT_EQ(run(4, "no_row", "2"), 0);
  EXPECT_EQ(run(3, "again", "3"), 0);
  EXPECT_EQ(run(2, "mistakes", "2"), 0);
}
TEST(TeamMeetings, make_several_teams_of_one_number_at_once) {
  EXPECT_EQ(run(5, "odd_and_even"), 0);
}
TEST(TeamMeetings, refuse_what_is_no_row_on_all_of_it) {
  EXPECT_EQ(run(4, "no_row"), 0);
}
TEST(TeamMeetings, use_tables_again_and_refuse_old_ids) {
  EXPECT_EQ(run(3, "again"), 0);
}
TEST(TeamMeetings, refuse_mistakes_and_wait_no_longer_than_told) {
  EXPECT_EQ(run(2, "mistakes"), 0);
}

}  // namespace
}  // namespace penstock::nvshmem
