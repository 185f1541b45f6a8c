// Calls that make no sense, and programs that end in other ways than by shmem_finalize().
#include "jobs.h"

#include <gmock/gmock.h>

namespace penstock::shmem::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kFault = 70;  // limits.h

struct Misuse {
  const char* name;
  const char* message;
};

class IsFound : public ::testing::TestWithParam<Misuse> {};

TEST_P(IsFound, and_ends_the_job_with_one_line) {
  const Ended ended = run({2, {SHMEM_misuse, GetParam().name}});
  EXPECT_EQ(ended.code, kFault);
  EXPECT_THAT(ended.errors, HasSubstr(GetParam().message));
}

constexpr const char* kNotSymmetric =
    ": not symmetric (neither of shmem_malloc() nor a global or static variable";

INSTANTIATE_TEST_SUITE_P(
    Misuse, IsFound,
    ::testing::Values(
        Misuse{"before_init", "penstock: shmem_my_pe: called before shmem_init()\n"},
        Misuse{"put_before_init", "penstock: shmem_long_p: called before shmem_init()\n"},
        Misuse{"finalize_before_init", "penstock: shmem_finalize: called before shmem_init()\n"},
        Misuse{"after_finalize", "penstock: shmem_barrier_all: called after shmem_finalize()\n"},
        Misuse{"init_after_finalize", "penstock: shmem_init: called after shmem_finalize()\n"},
        Misuse{"no_such_pe", ": shmem_long_p: there is no PE 2: PEs are 0 to 1\n"},
        Misuse{"negative_pe", ": shmem_long_g: there is no PE -1: PEs are 0 to 1\n"},
        Misuse{"nothing_at_no_pe", ": shmem_long_put: there is no PE 2: PEs are 0 to 1\n"},
        Misuse{"not_symmetric", kNotSymmetric},
        Misuse{"null", ": shmem_long_get: PE 0, address 0x0: not symmetric"},
        Misuse{"beyond_the_end",
               ": 1125899906842624 bytes from there reach beyond the end of symmetric memory\n"},
        Misuse{"too_many", "elements of 8 bytes are more than there are addresses\n"},
        Misuse{"not_aligned", "4: not a multiple of 8\n"},
        Misuse{"stride", ": shmem_long_iput: stride -1: must be 1 or more\n"},
        Misuse{"comparison",
               ": shmem_long_wait_until: comparison 17 is none of SHMEM_CMP_EQ to SHMEM_CMP_LE\n"},
        Misuse{"wait_for_local", kNotSymmetric},
        Misuse{"signal_operation",
               ": signal operation 5 is neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD\n"},
        Misuse{"signal_address", kNotSymmetric},
        Misuse{"free_of_local", ": nothing that shmem_malloc() gave begins there\n"},
        Misuse{"free_twice", ": nothing that shmem_malloc() gave begins there\n"},
        Misuse{"lock", kNotSymmetric}, Misuse{"lock_not_aligned", "4: not a multiple of 8\n"},
        Misuse{"broadcast_of_local", kNotSymmetric}, Misuse{"reduce_into_local", kNotSymmetric},
        Misuse{"root", ": shmem_long_broadcast: there is no PE 2: PEs are 0 to 1\n"},
        Misuse{"active_set", ": shmem_barrier: active set of 3 PEs from 0"},
        Misuse{"destroyed_context", ": shmem_ctx_long_p: there is no such context\n"},
        Misuse{"invalid_context", ": shmem_ctx_long_p: there is no such context\n"},
        Misuse{"no_context", ": shmem_ctx_long_p: there is no such context\n"},
        Misuse{"context_of_destroyed_team", ": shmem_ctx_long_p: there is no such context\n"},
        Misuse{"destroyed_team", ": shmem_team_sync: there is no team 0x"},
        Misuse{"world_destroyed",
               ": shmem_team_destroy: SHMEM_TEAM_WORLD and SHMEM_TEAM_SHARED stay\n"},
        Misuse{"pe_of_context", ": shmem_ctx_long_p: there is no PE 2: PEs are 0 to 1\n"}),
    [](const auto& tried) { return tried.param.name; });

// The barrier of one that finalizes is a barrier to the others; then it is gone, on another node at
// once.
TEST(Finalize, by_one_ends_the_wait_of_others_with_a_message) {
  const Ended ended = run({2, {SHMEM_misuse, "finalized_early"}, {{"PENSTOCK_JOB_NODES", "2"}}});
  EXPECT_EQ(ended.code, kFault);
  EXPECT_THAT(ended.errors,
              HasSubstr("PE 0: shmem_finalize: PE 1 has finalized, which this waits for\n"));
}

class IsFoundByChecking : public ::testing::TestWithParam<Misuse> {};

TEST_P(IsFoundByChecking, and_told_with_both_places) {
  const Ended ended = run({2,
                           {SHMEM_misuse, GetParam().name},
                           {{"PENSTOCK_CHECK", "1"}, {"PENSTOCK_CHECK_SECONDS", "1"}}});
  EXPECT_EQ(ended.code, kFault);
  EXPECT_THAT(ended.errors, ::testing::ContainsRegex(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Misuse, IsFoundByChecking,
    ::testing::Values(
        Misuse{"beyond_allocation",
               "shmem_long_put: PE [01], address 0x[0-9a-f]+: 64 bytes from there reach beyond the "
               "end of the 64 that shmem_malloc.. gave, 56 bytes further"},
        Misuse{"row_beyond_allocation",
               "shmem_long_iget: PE [01], address 0x[0-9a-f]+: 80 bytes from there reach beyond"},
        Misuse{"in_no_allocation",
               "shmem_long_get: PE [01], address 0x[0-9a-f]+: in nothing that shmem_malloc.. has"},
        Misuse{"other_call",
               "shmem_barrier_all: called at program.0x[0-9a-f]+, but PE 1 calls "
               "shmem_long_broadcast at program.0x[0-9a-f]+ with 8 bytes"
               "|shmem_long_broadcast: called at program.0x[0-9a-f]+ with 8 bytes, but "
               "PE 0 calls shmem_barrier_all at program.0x"},
        Misuse{"other_size",
               "shmem_malloc: called at program.0x[0-9a-f]+ with 10[01] bytes, but PE "
               "[01] calls shmem_malloc at program.0x[0-9a-f]+ with 10"},
        Misuse{"other_order",
               "shmem_long_sum_reduce: called at .*, but PE [01] calls "
               "shmem_long_sum_reduce at program"},
        Misuse{"no_call",
               "shmem_sync_all: called at program.0x[0-9a-f]+: PE 0 has not come within 1 "
               "s; its call before was shmem_team_split_strided at program"},
        Misuse{"finalized_early",
               "shmem_(barrier_all|finalize): called at .*, but PE [01] calls "
               "shmem_(barrier_all|finalize) at program"}),
    [](const auto& tried) { return tried.param.name; });

class IsFoundInActiveSets : public ::testing::TestWithParam<Misuse> {};

TEST_P(IsFoundInActiveSets, and_told_with_the_set) {
  const Ended ended = run({3,
                           {SHMEM_misuse, GetParam().name},
                           {{"PENSTOCK_CHECK", "1"}, {"PENSTOCK_CHECK_SECONDS", "1"}}});
  EXPECT_EQ(ended.code, kFault);
  EXPECT_THAT(ended.errors, ::testing::ContainsRegex(GetParam().message));
}

// Which of two PEs tells it is not known.
INSTANTIATE_TEST_SUITE_P(
    Misuse, IsFoundInActiveSets,
    ::testing::Values(
        Misuse{"set_call",
               "shmem_(barrier|broadcast64): called at program.0x[0-9a-f]+ .*of the active set of "
               "2 PEs from 0 in steps of 1, but PE [01] calls shmem_(barrier|broadcast64) at "
               "program.*of the active set of 2 PEs"},
        Misuse{"set_size",
               "shmem_broadcast64: called at .* with (8|16) bytes of the active set of 2 PEs .*, "
               "but PE [01] calls shmem_broadcast64 at .* with (8|16) bytes"},
        Misuse{"set_order",
               "shmem_(sync|broadcast64): called at .*of the active set of 2 PEs from 0 in steps "
               "of 1: PE [01] has not come within 1 s"},
        // A set of all PEs has a team.
        Misuse{"set_other", "shmem_broadcast64: called at .*: PE [01] has not come within 1 s"},
        Misuse{"set_words",
               "PE 0: shmem_broadcast64: called at .*: its pSync array has not SHMEM_SYNC_VALUE"}),
    [](const auto& tried) { return tried.param.name; });

TEST(Checking, finds_no_differences_where_there_are_none) {
  const Ended ended = run({3, {SHMEM_every_other_function}, {{"PENSTOCK_CHECK", "1"}}});
  EXPECT_EQ(ended.code, 0) << ended.errors;
  EXPECT_EQ(run({2, {SHMEM_every_function}, {{"PENSTOCK_CHECK", "1"}}}).code, 0);
  // Where several threads may call, sets of all PEs have no team.
  const Ended with_sets =
      run({2, {SHMEM_every_function}, {{"PENSTOCK_CHECK", "1"}, {"EVERY_FUNCTION_THREADS", "1"}}});
  EXPECT_EQ(with_sets.code, 0) << with_sets.errors;
}

TEST(NothingToMove, may_stand_at_any_address) {
  const Ended ended = run({2, {SHMEM_misuse, "nothing_at_no_address"}});
  EXPECT_EQ(ended.code, 0) << ended.errors;
  EXPECT_EQ(ended.output, "fine\nfine\n");
}

TEST(HeapThatIsExhausted, gives_null_and_goes_on) {
  const Ended ended = run({2, {SHMEM_misuse, "exhausted"}});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.errors, HasSubstr("shmem_malloc: no room for 1099511627776 bytes: "));
  EXPECT_EQ(ended.output, "goes on\ngoes on\n");
}

TEST(PeThatIsKilled, ends_the_waits_of_others_and_the_job) {
  const Ended ended = run({3, {SHMEM_misuse, "killed"}});
  EXPECT_EQ(ended.code, 137);
  EXPECT_THAT(ended.errors,
              HasSubstr(": shmem_barrier_all: PE 2 has ended, which this waits for\n"));
}

TEST(PeThatFails, ends_the_job_with_its_code) {
  const Ended ended = run({2, {SHMEM_misuse, "exits_in_between"}});
  EXPECT_EQ(ended.code, 5);
}

TEST(GlobalExit, ends_all_with_its_code_and_what_was_printed) {
  const Ended ended = run({2, {SHMEM_misuse, "global_exit"}});
  EXPECT_EQ(ended.code, 7);
  // Also of the one that waits for the other.
  EXPECT_THAT(ended.output, HasSubstr("PE 0\n"));
  EXPECT_THAT(ended.output, HasSubstr("PE 1\n"));
  EXPECT_THAT(ended.errors, Not(HasSubstr("waits for")));
}

TEST(GlobalExit, of_zero_ends_all_well) {
  const Ended ended = run({3, {SHMEM_misuse, "global_exit_well"}});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.errors, "");
}

TEST(ExitWithoutFinalize, finalizes_and_ends_well) {
  const Ended ended = run({3, {SHMEM_misuse, "no_finalize"}});
  EXPECT_EQ(ended.code, 0) << ended.errors;
  EXPECT_EQ(ended.errors, "");
}

}  // namespace
}  // namespace penstock::shmem::testing
