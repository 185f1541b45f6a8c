// Scenarios of PEs in real processes of a job (pes.cc), with as many PEs as there are processors,
// fewer, and more.
#include <algorithm>
#include <gtest/gtest.h>
#include <ostream>

#include "penstock/job.h"

namespace penstock::symm {
namespace {

// The exit code of a job of so many PEs.
int run(uint32_t pes, const std::string& scenario, const std::string& nodes = "",
        bool keep_going = false) {
  job::LaunchOptions options;
  if (!nodes.empty()) options.environment = {{"PENSTOCK_JOB_NODES", nodes}};
  options.size = pes;
  options.command = {PENSTOCK_PES_PATH, scenario};
  options.keep_going = keep_going;
  options.signals = false;
  const auto code = job::launch(options);
  EXPECT_TRUE(code) << code.error().message;
  return code ? *code : -1;
}

struct Case {
  std::string scenario;
  uint32_t pes;
  std::string nodes = {};  // empty: all are on one
  friend void PrintTo(const Case& one, std::ostream* out) {
    *out << one.scenario << " of " << one.pes << " on nodes " << one.nodes;
  }
};

std::string name_of(const Case& one) {
  std::string name = one.scenario + "_of_" + std::to_string(one.pes);
  if (!one.nodes.empty()) name += "_on_" + one.nodes;
  std::replace(name.begin(), name.end(), ',', '_');
  return name;
}

class GroupTest : public testing::TestWithParam<Case> {};

TEST_P(GroupTest, does_what_is_promised) {
  EXPECT_EQ(run(GetParam().pes, GetParam().scenario, GetParam().nodes), 0);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* scenario :
       {"bytes",       "variables", "children",    "words",     "signals",    "lock",
        "sync",        "world",     "active_sets", "same_bits", "small_many", "small_root",
        "small_again", "set_team",  "parts",       "rows",      "again",      "too_many",
        "groups",      "pinned",    "deadline"}) {
    for (const uint32_t pes : {1, 2, 3, 4}) all.push_back({scenario, pes});
    // Each PE on a node of its own, nodes with several, and such that are no rows.
    all.push_back({scenario, 2, "2"});
    all.push_back({scenario, 3, "3"});
    all.push_back({scenario, 4, "2"});
    all.push_back({scenario, 5, "0,0,1,0,2"});
  }
  for (const char* scenario : {"computes", "by_themselves", "at_once", "threads", "strides",
                               "questions", "random", "strangers", "third"}) {
    all.push_back({scenario, 2});
    all.push_back({scenario, 2, "2"});
    all.push_back({scenario, 3, "3"});
    all.push_back({scenario, 3, "0,1,1"});
    all.push_back({scenario, 4, "0,1,1,0"});
  }
  all.push_back({"once", 1});
  all.push_back({"once", 2});
  all.push_back({"once", 2, "2"});
  all.push_back({"many", 16, "4"});
  all.push_back({"many", 17, "0,1,2,3,3,2,1,0,4,4,4,4,4,4,4,1,0"});
  all.push_back({"far_kernels", 2, "2"});
  all.push_back({"far_kernels", 3, "0,1,1"});  // near ones are asked by mail, too
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, GroupTest, testing::ValuesIn(cases()),
                         [](const auto& one) { return name_of(one.param); });

TEST(LeaveTest, ends_the_waits_of_those_who_wait_for_one_that_left) {
  EXPECT_EQ(run(2, "leaves"), 0);
  EXPECT_EQ(run(2, "leaves", "2"), 0);
}

class EndTest : public testing::TestWithParam<Case> {};

TEST_P(EndTest, ends_the_waits_of_the_others_who_go_on) {
  // The killed PE's code is the job's; those who go on would fail with 1.
  EXPECT_EQ(run(GetParam().pes, GetParam().scenario, GetParam().nodes, true), 128 + 9);
}

INSTANTIATE_TEST_SUITE_P(
    All, EndTest,
    testing::Values(Case{"in_sync", 2}, Case{"in_sync", 4}, Case{"in_wait", 3}, Case{"in_small", 2},
                    Case{"in_small", 4}, Case{"ahead", 2}, Case{"ahead", 4}, Case{"with_lock", 2},
                    Case{"with_lock", 4}, Case{"in_sync", 2, "2"}, Case{"in_sync", 4, "2"},
                    Case{"in_wait", 3, "3"}, Case{"in_sync", 16, "4"}, Case{"with_lock", 2, "2"},
                    Case{"in_put", 2, "2"}, Case{"in_put", 3, "0,1,2"}, Case{"in_get", 2, "2"},
                    Case{"in_get", 3, "0,0,1"}, Case{"in_quiet", 2, "2"},
                    Case{"in_quiet", 3, "0,0,1"}, Case{"with_lock", 4, "0,1,1,0"}),
    [](const auto& one) { return name_of(one.param); });

}  // namespace
}  // namespace penstock::symm
