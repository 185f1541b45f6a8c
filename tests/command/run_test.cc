// penstock run, as users call it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Output run(std::vector<std::string> words) {
  words.insert(words.begin(), "run");
  return penstock(words);
}

TEST(RunCommand, starts_ranks_that_meet) {
  const Output output = run({"-n", "4", JOB_RANK, "join", "all", "leave"});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_EQ(output.err, "");
}

TEST(RunCommand, leaves_what_follows_the_program_to_it) {
  for (const char* how_many : {"-n", "-np", "--np"}) {
    EXPECT_EQ(run({how_many, "2", "printf", "%s,", "-n", "--label", "-x"}).out,
              "-n,--label,-x,-n,--label,-x,");
  }
  EXPECT_EQ(run({"-n2", "--", "printf", "a"}).out, "aa");
  EXPECT_EQ(run({"printf", "%s", "--", "--help"}).out, "----help");
  EXPECT_EQ(run({"-ppn", "3", "--np=2", "-wdir", "/usr", "pwd"}).out, "/usr\n/usr\n");
}

TEST(RunCommand, sets_variables) {
  EXPECT_EQ(
      run({"-x", "A=1 2", "-x", "B=", "-x", "PATH", "bash", "-c", "echo \"$A,$B,${PATH:+p}\""}).out,
      "1 2,,p\n");
  const Output unknown = run({"-x", "NO_SUCH_VARIABLE", "true"});
  EXPECT_EQ(unknown.exit_code, 0);
  EXPECT_THAT(unknown.err, HasSubstr("-x NO_SUCH_VARIABLE: there is no such variable here"));
  EXPECT_EQ(run({"-x", "=1", "true"}).exit_code, 2);
}

TEST(RunCommand, labels_output) {
  const Output output =
      run({"-n", "3", "--label", "bash", "-c", "echo $PENSTOCK_RANK; echo e >&2"});
  for (const char* line : {"[0] 0\n", "[1] 1\n", "[2] 2\n"})
    EXPECT_THAT(output.out, HasSubstr(line));
  EXPECT_EQ(output.out.size(), 18U);
  EXPECT_THAT(output.err, AllOf(HasSubstr("[0] e\n"), HasSubstr("[2] e\n")));
}

TEST(RunCommand, ends_as_the_rank_that_failed_first) {
  EXPECT_EQ(run({"-n", "2", "bash", "-c", "exit $((PENSTOCK_RANK * 17))"}).exit_code, 17);
  const Output killed = run({"bash", "-c", "kill -SEGV $$"});
  EXPECT_EQ(killed.exit_code, 128 + 11);
  EXPECT_THAT(killed.err, HasSubstr("penstock run: rank 0 was killed by signal 11"));
  const Output aborted = run({"-n", "3", JOB_RANK, "join", "2:abort", "sleep"});
  EXPECT_EQ(aborted.exit_code, 42);
  EXPECT_THAT(aborted.err, StartsWith("penstock run: rank 2 ended the job with exit code 42"));
}

TEST(RunCommand, lets_others_go_on_where_it_is_to) {
  const Output output = run({"-n", "2", "--keep-going", "bash", "-c",
                             "((PENSTOCK_RANK)) || exit 4; sleep 1; echo went on"});
  EXPECT_EQ(output.exit_code, 4);
  EXPECT_EQ(output.out, "went on\n");
}

TEST(RunCommand, says_what_it_cannot_do) {
  EXPECT_EQ(run({"/etc/passwd"}).exit_code, 126);
  EXPECT_THAT(run({"/etc/passwd"}).err, HasSubstr("is no program that may be run"));
  EXPECT_EQ(run({"--wdir", "/nowhere", "true"}).exit_code, 127);
  EXPECT_EQ(run({"-n", "0", "true"}).exit_code, 2);
  EXPECT_EQ(run({"-n", "65537", "true"}).exit_code, 2);
  EXPECT_EQ(run({"-n", "some", "true"}).exit_code, 2);
  EXPECT_EQ(run({"--nonsense", "true"}).exit_code, 2);
  const Output several = run({"-n", "4", "--ppn", "2", "true"});
  EXPECT_EQ(several.exit_code, 2);
  EXPECT_THAT(several.err, HasSubstr("take several nodes; there is one"));
}

}  // namespace
}  // namespace penstock::test
