// Real processes, started, killed and told of one another.

#include "launched.h"

#include <algorithm>
#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::job::test {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;

// What a script of bash does as each rank.
LaunchOptions script(uint32_t size, const std::string& text) {
  LaunchOptions options;
  options.size = size;
  options.command = {"bash", "-c", text};
  return options;
}

TEST(Launch, ranks_meet_and_bring_bytes_and_descriptors) {
  const Launched job = launched(ranks(5, {"join", "all", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.err, "");
}

TEST(Launch, many_ranks_meet) {
  // More descriptors than one message of the kernel takes.
  const Launched job = launched(ranks(100, {"join", "all", "all", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST(Launch, sets_overlap_and_names_repeat) {
  const Launched job = launched(ranks(4, {"join", "sets", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST(Launch, a_process_joins_once_and_its_child_by_fork_is_no_member) {
  const Launched job = launched(ranks(2, {"join", "again", "forked", "meet", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_THAT(job.lines(), ElementsAre("ok", "ok"));
}

TEST(Launch, others_hear_of_a_rank_that_is_killed_while_they_wait_for_it) {
  const Launched job =
      launched(ranks(3, {"join", "1:nap", "1:killed", "meet", "trouble", "leave"}));
  EXPECT_EQ(job.exit_code, 128 + 9);
  EXPECT_EQ(job.err, "penstock run: rank 1 was killed by signal 9 (Killed)\n");
  EXPECT_THAT(job.lines(), SizeIs(4)) << job.out;
  EXPECT_THAT(job.lines(), Each(HasSubstr("rank 1 was killed by signal 9")));
}

TEST(Launch, others_hear_of_a_rank_that_fails) {
  const Launched job = launched(ranks(2, {"join", "0:fail", "meet", "trouble", "leave"}));
  EXPECT_EQ(job.exit_code, 7);
  EXPECT_THAT(job.lines(), ElementsAre("peer gone: rank 0 ended with exit code 7",
                                       "rank 0 ended with exit code 7"));
}

TEST(Launch, an_end_without_leaving_is_told_but_ends_nobody) {
  const Launched job = launched(ranks(2, {"join", "0:exit", "meet", "trouble", "nap", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_THAT(job.lines(), Each(HasSubstr("rank 0 ended with exit code 0 before it left the job")));
}

TEST(Launch, a_rank_that_never_joined_ends_the_waits_of_others) {
  const Launched job = launched(ranks(3, {"2:exit", "join", "meet", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_THAT(job.lines(), AllOf(SizeIs(2), Each(StartsWith("peer gone: rank 2"))));
}

TEST(Launch, who_left_is_no_trouble_but_meets_nobody) {
  const Launched job =
      launched(ranks(2, {"join", "0:leave", "0:exit", "hear-of-0", "meet", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_THAT(job.lines(), ElementsAre("peer gone: rank 0 has left the job"));
}

TEST(Launch, words_count_who_left_after_their_time) {
  const Launched job = launched(
      ranks(3, {"join", "0:meet-followed", "0:leave", "0:exit", "follow-leaving", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST(Launch, who_lets_the_connection_go_is_lost) {
  const Launched job = launched(ranks(2, {"join", "0:drop", "0:sleep", "meet", "trouble", "fail"}));
  EXPECT_EQ(job.exit_code, 7);
  EXPECT_THAT(job.lines(), ElementsAre("peer gone: rank 0 lost its connection to the job",
                                       "rank 0 lost its connection to the job"));
}

TEST(Launch, who_gives_up_is_told_who_had_not_come_and_others_that_it_did) {
  const Launched job =
      launched(ranks(3, {"join", "2:nap", "2:nap", "0:meet-briefly", "!0:meet", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
  const std::string told = "cancelled: meeting 'meet': rank 0 waited no longer; had not come: ";
  auto lines = job.lines();
  std::sort(lines.begin(), lines.end());
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[0], StartsWith(told)) << "rank 1 is told while it waits";
  EXPECT_THAT(lines[1], StartsWith(told)) << "rank 2 is told when it comes";
  EXPECT_THAT(lines[2], StartsWith("timed out: meeting 'meet': in time had not come: rank"));
}

TEST(Launch, who_meets_others_instead_is_told_of) {
  const Launched job = launched(ranks(2, {"join", "0:meet-briefly", "1:meet-first-two", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_THAT(job.lines(),
              testing::Contains("timed out: meeting 'meet': in time had not come: rank 1 (waits in "
                                "'two' of 2 ranks)"));
}

TEST(Launch, after_a_meeting_that_failed_all_meet_again) {
  const Launched job = launched(
      ranks(3, {"join", "2:nap", "2:nap", "0:meet-briefly", "!0:meet", "meet", "meet", "leave"}));
  EXPECT_EQ(job.exit_code, 0) << job.err;
  const auto lines = job.lines();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "ok"), 6) << job.out;
}

TEST(Launch, ranks_that_do_not_end_are_ended) {
  LaunchOptions options = ranks(3, {"0:fail", "1:stubborn", "sleep"});
  options.until_asked = milliseconds(20);
  options.until_killed = milliseconds(200);
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 7);
  EXPECT_EQ(job.err, "penstock run: rank 0 ended with exit code 7\n");
}

TEST(Launch, what_scripts_started_ends_with_them) {
  LaunchOptions options =
      script(2, "if ((PENSTOCK_RANK)); then sleep 100 & echo $!; sleep 101; fi; sleep 0.2; exit 9");
  options.until_asked = milliseconds(20);
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 9);
  ASSERT_THAT(job.lines(), SizeIs(1));
  const auto child = static_cast<pid_t>(std::stol(job.lines()[0]));
  for (int turn = 0; turn < 1000 && ::kill(child, 0) == 0; ++turn) ::usleep(10'000);
  EXPECT_NE(::kill(child, 0), 0) << "sleep goes on";
}

TEST(Launch, others_go_on_where_they_are_to) {
  LaunchOptions options =
      ranks(3, {"join", "0:killed", "trouble", "nap", "nap", "nap", "pid", "leave"});
  options.keep_going = true;
  options.until_asked = milliseconds(1);
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 137);
  EXPECT_THAT(job.lines(), SizeIs(4)) << job.out;
}

TEST(Launch, a_rank_ends_the_job) {
  LaunchOptions options = ranks(3, {"join", "1:abort", "trouble", "sleep"});
  options.until_asked = milliseconds(300);
  options.keep_going = true;
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 42);
  const std::string why = "rank 1 ended the job with exit code 42: it was asked to";
  EXPECT_EQ(job.err, "penstock run: " + why + "\n");
  EXPECT_THAT(job.lines(), ElementsAre(why, why, why));
}

TEST(Launch, exit_codes_of_the_first_that_fails) {
  EXPECT_EQ(
      launched(script(3, "sleep 0.$((3 - PENSTOCK_RANK)); exit $((PENSTOCK_RANK + 10))")).exit_code,
      12);
  EXPECT_EQ(launched(script(1, "kill -TERM $$")).exit_code, 128 + 15);
  EXPECT_EQ(launched(script(4, "true")).exit_code, 0);
}

TEST(Launch, programs_that_are_not_there_or_may_not_be_run) {
  const auto code_of = [](const std::string& program, const std::string& directory = "") {
    LaunchOptions options;
    options.size = 2;
    options.command = {program};
    options.directory = directory;
    const Launched job = launched(options);
    EXPECT_NE(job.failure.message, "") << program;
    return job.failure.status.code();
  };
  EXPECT_EQ(code_of("no-such-program-anywhere"), Code::not_found);
  EXPECT_EQ(code_of("/no/such/program"), Code::not_found);
  EXPECT_EQ(code_of(""), Code::not_found);
  EXPECT_EQ(code_of("/etc"), Code::access_denied);
  EXPECT_EQ(code_of("/etc/passwd"), Code::access_denied);
  EXPECT_EQ(code_of("true", "/no/such/directory"), Code::not_found);
}

TEST(Launch, environment_and_directory) {
  LaunchOptions options =
      script(2, "echo $PENSTOCK_RANK $PENSTOCK_SIZE $PENSTOCK_LOCAL_RANK $MINE $PWD");
  options.environment = {{"MINE", "a b"}};
  options.directory = "/usr";
  EXPECT_THAT(launched(options).lines(), UnorderedElementsAre("0 2 0 a b /usr", "1 2 1 a b /usr"));
}

TEST(Launch, input_is_of_the_first_rank) {
  const UniqueFd input(::memfd_create("input", MFD_CLOEXEC));
  ASSERT_EQ(::write(input.get(), "typed\n", 6), 6);
  ::lseek(input.get(), 0, SEEK_SET);
  LaunchOptions options = script(3, "read line; echo $PENSTOCK_RANK $line");
  options.input = input.get();
  EXPECT_THAT(launched(options).lines(), UnorderedElementsAre("0 typed", "1", "2"));
}

TEST(Launch, a_rank_has_none_of_the_launchers_files) {
  // What this process was started with may be anybody's.
  int others = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) ++others;
  }
  // Standard ones, the connection, and the directory that ls reads.
  const Launched job = launched(script(3, "ls /proc/self/fd | wc -l"));
  EXPECT_THAT(job.lines(), Each(std::to_string(5 + others)));
}

TEST(Launch, a_program_of_a_rank_is_no_rank) {
  LaunchOptions options = ranks(2, {"0:join", "meet"});
  // The shell closes the connection.
  options.command = {"bash", "-c", "exec {PENSTOCK_JOB_FD}>&-; \"$0\" join", JOB_RANK};
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 1);
  EXPECT_THAT(job.err, HasSubstr("is not the socket of the job"));
}

TEST(Launch, a_job_is_joined_once_by_each_rank) {
  LaunchOptions options;
  options.size = 2;
  options.command = {"bash", "-c", "\"$0\" join all leave && \"$0\" join", JOB_RANK};
  options.keep_going = true;
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 1);
  EXPECT_THAT(job.err, HasSubstr("rank 1 has joined and left the job already"));
}

TEST(Launch, ends_are_told_to_a_launcher_that_was_to_hear_of_none) {
  ::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(launched(ranks(2, {"1:fail"})).exit_code, 7);
  EXPECT_EQ(::signal(SIGCHLD, SIG_DFL), SIG_IGN) << "it is as it was";
}

class HostileMember : public testing::TestWithParam<const char*> {};

TEST_P(HostileMember, is_dropped_and_others_hear_of_it) {
  LaunchOptions options = ranks(
      3, {"join", "all", std::string("1:") + GetParam(), "1:sleep", "trouble", "meet", "leave"});
  options.until_asked = std::chrono::seconds(20);
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 1);
  const std::string what = "rank 1 sent what no member of a job sends, and is taken for ended";
  EXPECT_EQ(job.err, "penstock run: " + what + "\n");
  EXPECT_THAT(job.lines(), AllOf(SizeIs(4), Each(HasSubstr(what))));
}

INSTANTIATE_TEST_SUITE_P(, HostileMember,
                         testing::Values("garbage", "too-long", "claim", "hello-twice", "nowhere",
                                         "elsewhere", "flood"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock::job::test
