// Programs that call everything, with one to four PEs.
#include "jobs.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <ostream>

namespace penstock::shmem::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Layout {
  unsigned pes;
  std::string nodes = "1";  // as PENSTOCK_JOB_NODES
  friend void PrintTo(const Layout& layout, std::ostream* out) {
    *out << layout.pes << " PEs on nodes " << layout.nodes;
  }
};

class EveryFunction : public ::testing::TestWithParam<Layout> {
 protected:
  static void succeeds(const char* program) {
    const Layout& layout = GetParam();
    const Ended ended = run({layout.pes, {program}, {{"PENSTOCK_JOB_NODES", layout.nodes}}});
    EXPECT_EQ(ended.code, 0) << ended.errors;
    EXPECT_THAT(ended.output, HasSubstr("with " + std::to_string(layout.pes) + " PEs"));
  }
};

TEST_P(EveryFunction, does_with_every_type_what_it_says) {
  succeeds(SHMEM_every_function);
}

TEST_P(EveryFunction, is_selected_by_type_in_c) {
  succeeds(SHMEM_every_selection);
}

TEST_P(EveryFunction, is_overloaded_in_cxx) {
  succeeds(SHMEM_every_overload);
}

TEST_P(EveryFunction, does_what_it_says_without_a_type) {
  succeeds(SHMEM_every_other_function);
}

std::string name_of(const ::testing::TestParamInfo<Layout>& tried) {
  std::string name = std::to_string(tried.param.pes) + "_on_" + tried.param.nodes;
  std::replace(name.begin(), name.end(), ',', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Pes, EveryFunction,
                         ::testing::Values(Layout{1}, Layout{2}, Layout{3}, Layout{4}), name_of);
// Each PE alone, nodes of several, and such whose PEs are no neighbours.
INSTANTIATE_TEST_SUITE_P(OverNodes, EveryFunction,
                         ::testing::Values(Layout{2, "2"}, Layout{3, "3"}, Layout{4, "2"},
                                           Layout{4, "0,1,2,0"}),
                         name_of);

TEST(WithoutALauncher, program_is_a_job_of_one) {
  const Ended ended = run_shell(SHMEM_every_other_function);
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.output, HasSubstr("with 1 PEs"));
  EXPECT_EQ(run_shell(std::string(SHMEM_misuse) + " no_such_pe").code, 70);
  EXPECT_EQ(run_shell(std::string(SHMEM_misuse) + " global_exit").code, 7);
}

TEST(Profiling, own_definition_takes_the_place_of_a_call) {
  const Ended ended = run({1, {SHMEM_profiled}});
  EXPECT_EQ(ended.code, 0) << ended.errors;
}

TEST(Cxx, takes_what_comes_from_c) {
  const Ended ended = run({2, {SHMEM_c_in_cxx}});
  EXPECT_EQ(ended.code, 0) << ended.errors;
}

TEST(LargeArrays, cost_nothing_before_they_are_touched) {
  const Ended ended = run({2, {SHMEM_large_arrays}});
  EXPECT_EQ(ended.code, 0) << ended.errors;
}

TEST(Environment, tells_version_and_variables_when_asked) {
  const Ended ended =
      run({2, {SHMEM_misuse}, {{"SHMEM_VERSION", ""}, {"SMA_INFO", "1"}, {"SHMEM_DEBUG", "1"}}});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.output, HasSubstr("OpenSHMEM 1.5\n"));
  EXPECT_THAT(ended.output, HasSubstr("SHMEM_SYMMETRIC_SIZE  "));
  // Of one PE only.
  EXPECT_EQ(ended.output.find("OpenSHMEM 1.5"), ended.output.rfind("OpenSHMEM 1.5"));
  EXPECT_THAT(ended.errors, HasSubstr("PE 1 of 2"));
}

TEST(Environment, refuses_a_size_that_is_none) {
  const Ended ended = run({1, {SHMEM_misuse}, {{"SHMEM_SYMMETRIC_SIZE", "20kk"}}});
  EXPECT_EQ(ended.code, 70);
  EXPECT_THAT(ended.errors, HasSubstr("shmem_init: SHMEM_SYMMETRIC_SIZE: '20kk' is no size"));
}

}  // namespace
}  // namespace penstock::shmem::testing
