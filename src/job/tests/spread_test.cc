// Jobs over several hosts, each of which is a process of this machine: what they do, and what is
// said when they cannot.

#include "hosts_launched.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::job::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

TEST(Spread, ranks_of_several_hosts_meet) {
  const FakeShell shell;
  const Launched job = launched(on_hosts(ranks(0, {"join", "all", "sets", "leave"}), shell,
                                         {{"a", 2}, {"localhost", 1}, {"b", 2}}));
  EXPECT_EQ(job.exit_code, 0) << job.err << job.failure.message;
  EXPECT_EQ(job.err, "");
}

TEST(Spread, ranks_know_their_place) {
  const FakeShell shell;
  const Launched job = launched(on_hosts(
      bash_line("echo $PENSTOCK_RANK/$PENSTOCK_SIZE $PENSTOCK_LOCAL_RANK/$PENSTOCK_LOCAL_SIZE"),
      shell, {{"a", 1}, {"b", 2}}));
  EXPECT_EQ(job.exit_code, 0) << job.err << job.failure.message;
  EXPECT_THAT(job.lines(), UnorderedElementsAre("0/3 0/1", "1/3 0/2", "2/3 1/2"));
}

TEST(Spread, over_a_hundred_hosts) {
  const FakeShell shell;
  std::vector<std::pair<std::string, uint32_t>> hosts;
  for (int host = 0; host < 100; ++host) hosts.emplace_back("h" + std::to_string(host), 1);
  const Launched job = launched(on_hosts(ranks(0, {"join", "all", "leave"}), shell, hosts));
  EXPECT_EQ(job.exit_code, 0) << job.err << job.failure.message;
}

TEST(Spread, arguments_come_as_they_are) {
  const FakeShell shell;
  LaunchOptions options = on_hosts(bash_line("printf '%s|' \"$@\"; echo ${#2}"), shell, {{"b", 1}});
  options.command.insert(options.command.end(),
                         {"_", "it's \"a\" $HOME\nline \\ *", std::string(100'000, 'x'), ""});
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 0) << job.err << job.failure.message;
  EXPECT_EQ(job.out, "it's \"a\" $HOME\nline \\ *|" + std::string(100'000, 'x') + "||100000\n");
}

TEST(Spread, hosts_get_the_variables_that_are_passed_and_no_others) {
  const FakeShell shell("exec env -i OF_HOST=1 /bin/bash --norc -c \"$*\"");
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"TEST_PASSED", "a b"}, {"TEST_OTHER", "x"}, {"TESTS_ALL_1", "c\nd"}}) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  LaunchOptions options = on_hosts(
      bash_line("echo $TEST_PASSED,$TEST_OTHER,\"$TESTS_ALL_1\",$SET,$OF_HOST"), shell, {{"b", 1}});
  options.environment = {{"SET", "s"}};
  options.remote.passed = {"PATH", "TEST_PASSED", "TESTS_*", "TEST_NOT_SET"};
  const Launched job = launched(options);
  for (const char* name : {"TEST_PASSED", "TEST_OTHER", "TESTS_ALL_1"}) ::unsetenv(name);
  EXPECT_EQ(job.out, "a b,,c\nd,s,1\n") << job.err << job.failure.message;
}

TEST(Spread, runs_in_the_launchers_directory_or_another) {
  const FakeShell shell("cd /");
  LaunchOptions options = on_hosts(bash_line("pwd"), shell, {{"b", 1}});
  EXPECT_EQ(launched(options).out, std::filesystem::current_path().string() + "\n");
  options.directory = "/usr";
  EXPECT_EQ(launched(options).out, "/usr\n");
  options.directory = "/no/such/directory";
  const Launched job = launched(options);
  EXPECT_EQ(job.failure.status.code(), Code::not_found);
  EXPECT_THAT(job.failure.message,
              HasSubstr("b: /no/such/directory: No such file or directory (say --wdir"));
}

TEST(Spread, nothing_runs_anywhere_when_the_program_is_missing_on_one_host) {
  const FakeShell shell("[[ $host == b ]] && export PATH=/none; exec /bin/bash --norc -c \"$*\"");
  LaunchOptions options = on_hosts(bash_line("echo it ran"), shell, {{"a", 1}, {"b", 1}});
  options.remote.passed = {};
  const Launched job = launched(options);
  EXPECT_EQ(job.failure.status.code(), Code::not_found);
  EXPECT_EQ(job.failure.message, "b: bash: there is no such program (PATH was searched)");
  EXPECT_EQ(job.out, "");
}

// Of a job on hosts a and b.
Launched on_a_and_b(const std::string& shell_text,
                    const std::function<void(LaunchOptions&)>& change = {}) {
  const FakeShell shell(shell_text);
  LaunchOptions options = on_hosts(bash_line("echo it ran"), shell, {{"a", 1}, {"b", 1}});
  if (change) change(options);
  Launched job = launched(options);
  EXPECT_EQ(job.failure.status.code(), Code::peer_gone);
  EXPECT_EQ(job.out, "");
  return job;
}

TEST(Spread, hosts_that_are_not_reached_are_named_with_what_was_said) {
  const Launched job = on_a_and_b("[[ $host == b ]] && { echo no route >&2; exit 255; }");
  EXPECT_EQ(job.err, "b: no route\n");
  EXPECT_EQ(job.failure.message,
            "b: shell ended with exit code 255, before anything was heard from there");
}

TEST(Spread, hosts_without_the_program_that_has_the_part_are_told_of) {
  const Launched job = on_a_and_b(
      "", [](LaunchOptions& options) { options.remote.remote_program = "/no/where's that"; });
  EXPECT_THAT(job.err, HasSubstr(": bash: line 1: /no/where's that: No such file or directory"));
  EXPECT_THAT(job.failure.message,
              HasSubstr("there is no /no/where's that there (say --remote-penstock"));
  EXPECT_THAT(
      on_a_and_b("", [](LaunchOptions& options) { options.remote.remote_program = "/etc/passwd"; })
          .failure.message,
      HasSubstr("/etc/passwd may not be run there"));
}

TEST(Spread, hosts_with_another_version_are_told_of) {
  const Launched job = on_a_and_b("[[ $host == b ]] && export TEST_VERSION=0.9");
  EXPECT_THAT(job.err, HasSubstr("b: penstock here is 0.9, and 1 where the job was started"));
  EXPECT_THAT(job.failure.message, HasSubstr("b: shell ended with exit code 1"));
}

TEST(Spread, hosts_that_say_nothing_are_waited_for_so_long) {
  const Launched job = on_a_and_b("[[ $host == b ]] && exec sleep 100", [](LaunchOptions& options) {
    options.remote.until_reached = std::chrono::milliseconds(1000);
  });
  EXPECT_EQ(job.failure.message, "b: nothing was heard from there within 1 s");
}

TEST(Spread, without_what_reaches_hosts_or_an_address) {
  const Launched job =
      on_a_and_b("", [](LaunchOptions& options) { options.remote.shell = {"no-such-shell"}; });
  EXPECT_THAT(job.failure.message, HasSubstr("no-such-shell: there is no such program"));
  const FakeShell shell;
  LaunchOptions options = on_hosts(bash_line("true"), shell, {{"a", 1}});
  options.remote.address = "nosuch9";
  EXPECT_THAT(launched(options).failure.message, HasSubstr("no such address"));
  options.remote.address = "lo";
  EXPECT_EQ(launched(options).exit_code, 0);
  options.remote.address = "127.0.0.1";
  EXPECT_EQ(launched(options).exit_code, 0);
}

TEST(Spread, a_rank_that_is_killed_is_told_to_others_and_ends_the_job) {
  const FakeShell shell;
  const Launched job = launched(on_hosts(ranks(0, {"join", "2:nap", "2:killed", "meet", "trouble"}),
                                         shell, {{"a", 2}, {"b", 1}}));
  EXPECT_EQ(job.exit_code, 128 + 9);
  EXPECT_EQ(job.err, "penstock run: rank 2 was killed by signal 9 (Killed), on b\n");
  EXPECT_THAT(job.lines(), AllOf(SizeIs(4), Each(HasSubstr("rank 2 was killed by signal 9"))));
}

TEST(Spread, ranks_that_do_not_end_are_ended) {
  const FakeShell shell;
  LaunchOptions options =
      on_hosts(ranks(0, {"0:fail", "1:stubborn", "sleep"}), shell, {{"a", 1}, {"b", 2}});
  options.until_asked = std::chrono::milliseconds(20);
  options.until_killed = std::chrono::milliseconds(200);
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 7);
  EXPECT_EQ(job.err, "penstock run: rank 0 ended with exit code 7, on a\n");
}

TEST(Spread, a_rank_ends_the_job) {
  const FakeShell shell;
  LaunchOptions options =
      on_hosts(ranks(0, {"join", "1:abort", "trouble", "sleep"}), shell, {{"a", 1}, {"b", 1}});
  options.keep_going = true;
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 42);
  const std::string why = "rank 1 ended the job with exit code 42: it was asked to";
  EXPECT_EQ(job.err, "penstock run: " + why + ", on b\n");
  EXPECT_THAT(job.lines(), ElementsAre(why, why));
}

TEST(Spread, ends_of_ranks_that_never_joined_or_left_are_told) {
  const FakeShell shell;
  EXPECT_THAT(
      launched(on_hosts(ranks(0, {"1:exit", "join", "meet", "leave"}), shell, {{"a", 1}, {"b", 1}}))
          .lines(),
      ElementsAre(HasSubstr("peer gone: rank 1")));
  EXPECT_THAT(
      launched(on_hosts(ranks(0, {"join", "0:leave", "0:exit", "hear-of-0", "meet", "leave"}),
                        shell, {{"a", 1}, {"b", 1}}))
          .lines(),
      ElementsAre("peer gone: rank 0 has left the job"));
}

TEST(Spread, who_gives_up_is_told_who_had_not_come) {
  const FakeShell shell;
  const Launched job =
      launched(on_hosts(ranks(0, {"join", "1:nap", "1:nap", "0:meet-briefly", "1:meet", "leave"}),
                        shell, {{"a", 1}, {"b", 1}}));
  EXPECT_EQ(job.exit_code, 0) << job.err << job.failure.message;
  EXPECT_THAT(job.out, AllOf(HasSubstr("timed out: meeting 'meet': in time had not come: rank 1"),
                             HasSubstr("cancelled: meeting 'meet': rank 0 waited no longer")));
}

TEST(Spread, what_scripts_started_ends_with_a_job_that_failed) {
  const FakeShell shell;
  LaunchOptions options = on_hosts(
      bash_line("if ((PENSTOCK_RANK)); then sleep 100 & echo $!; sleep 101; fi; sleep 0.2; exit 9"),
      shell, {{"a", 1}, {"b", 1}});
  options.until_asked = std::chrono::milliseconds(20);
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 9);
  ASSERT_THAT(job.lines(), SizeIs(1));
  const auto child = static_cast<pid_t>(std::stol(job.lines()[0]));
  for (int turn = 0; turn < 1000 && ::kill(child, 0) == 0; ++turn) ::usleep(10'000);
  EXPECT_NE(::kill(child, 0), 0) << "sleep goes on";
}

class HostilePart : public testing::TestWithParam<const char*> {};

TEST_P(HostilePart, is_found_out) {
  const FakeShell shell("[[ $host == b ]] && exec " JOB_RANK " pose-as-part " +
                        std::string(GetParam()));
  LaunchOptions options =
      on_hosts(ranks(0, {"join", "meet", "leave"}), shell, {{"a", 1}, {"b", 1}});
  options.until_asked = std::chrono::milliseconds(20'000);
  const Launched job = launched(options);
  const std::string said = job.err + job.failure.message;
  EXPECT_THAT(said, HasSubstr("b: "));
  const std::string how = GetParam();
  if (how == "wrong-secret" || how == "no-such-host") {
    EXPECT_THAT(said, HasSubstr("shell ended with exit code 3, before anything was heard"));
  } else if (how == "others-end") {
    EXPECT_EQ(job.exit_code, 1);
    EXPECT_EQ(job.err, "penstock run: rank 1 is lost: host b: its part there broke the protocol\n");
    EXPECT_EQ(job.out, "peer gone: rank 1 is lost: b: its part there broke the protocol\n");
  } else {
    EXPECT_EQ(job.failure.message, "b: its part there broke the protocol");
  }
}

INSTANTIATE_TEST_SUITE_P(, HostilePart,
                         testing::Values("wrong-secret", "no-such-host", "garbage", "early-done",
                                         "input-word", "other-stream", "too-long", "others-end"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock::job::test
