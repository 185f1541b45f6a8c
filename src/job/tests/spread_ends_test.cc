// Jobs over several hosts: ends of whatever may end, signals, and standard streams.

#include "hosts_launched.h"
#include "launcher_process.h"

#include <chrono>
#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <thread>

namespace penstock::job::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Leaves the number of what runs a host's part in a file. The second lets another process be
// between, as ssh is.
constexpr const char* kTellPart = "echo $$ > ${0%/*}/$host.new; mv ${0%/*}/$host.new ${0%/*}/$host";
constexpr const char* kBeBetween =
    "bash --norc -c \"$*\" <&0 & echo $$ > ${0%/*}/$host.new; mv ${0%/*}/$host.new ${0%/*}/$host; "
    "wait "
    "$!; "
    "exit $?";

pid_t number_in(const std::string& path) {
  std::ifstream file(path);
  pid_t number = 0;
  file >> number;
  EXPECT_GT(number, 1) << path;
  return number > 1 ? number : -1;
}

void wait_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(60);
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(milliseconds(1));
  }
}

class Host : public testing::TestWithParam<const char*> {};

TEST_P(Host, that_is_lost_ends_the_job_and_is_named) {
  const FakeShell shell(GetParam());
  LauncherProcess launcher(on_hosts(ranks(0, {"join", "meet", "trouble", "sleep"}), shell,
                                    {{"a", 1}, {"b", 2}, {"localhost", 1}}));
  launcher.read_until("ok\nok\nok\nok\n");
  ASSERT_EQ(::kill(number_in(shell.directory() + "/b"), SIGKILL), 0);
  const std::string printed = launcher.read_all();
  EXPECT_EQ(launcher.wait(), 1);
  EXPECT_THAT(printed, HasSubstr("penstock run: ranks 1 to 2 are lost: host b: shell ended by "
                                 "signal 9\n"));
  // Which of the two is told first is the others' first end.
  EXPECT_THAT(printed, HasSubstr(" is lost: b: shell ended by signal 9\n"));
}

INSTANTIATE_TEST_SUITE_P(, Host, testing::Values(kTellPart, kBeBetween), [](const auto& each) {
  return each.index == 0 ? "by_its_part" : "by_its_shell";
});

TEST(LostHost, leaves_others_where_they_are_to_go_on) {
  const FakeShell shell(kTellPart);
  LaunchOptions options =
      on_hosts(ranks(0, {"join", "meet", "trouble", "nap", "nap", "nap", "meet-node", "leave"}),
               shell, {{"a", 1}, {"b", 1}});
  options.keep_going = true;
  LauncherProcess launcher(options);
  launcher.read_until("ok\nok\n");
  ASSERT_EQ(::kill(number_in(shell.directory() + "/b"), SIGKILL), 0);
  EXPECT_THAT(launcher.read_all(), HasSubstr("rank 1 is lost: b: shell ended by signal 9\nok\n"));
  EXPECT_EQ(launcher.wait(), 1);
}

TEST(SpreadLauncher, takes_all_ranks_with_it_when_it_is_killed) {
  const FakeShell shell;
  LauncherProcess launcher(on_hosts(ranks(0, {"join", "stubborn", "pid", "sleep"}), shell,
                                    {{"a", 2}, {"b", 1}, {"localhost", 1}}));
  launcher.read_lines(4);
  std::istringstream lines(launcher.read_until("\n"));
  launcher.kill(SIGKILL);
  EXPECT_EQ(launcher.wait(), 128 + SIGKILL);
  for (pid_t rank = 0; lines >> rank;) {
    for (int turn = 0; turn < 2000 && ::kill(rank, 0) == 0; ++turn) ::usleep(10'000);
    EXPECT_NE(::kill(rank, 0), 0) << "a rank lives on";
  }
}

TEST(SpreadLauncher, may_be_ended_while_hosts_are_being_reached) {
  const FakeShell shell("echo reaching >&2; exec sleep 100");
  LauncherProcess launcher(on_hosts(bash_line("echo never"), shell, {{"a", 1}, {"b", 1}}));
  launcher.read_until("reaching");
  launcher.kill(SIGINT);
  EXPECT_EQ(launcher.wait(), 128 + SIGINT);
  EXPECT_THAT(launcher.read_all(), Not(HasSubstr("never")));
}

TEST(SpreadSignals, are_passed_on) {
  const FakeShell shell;
  for (const int signal : {SIGUSR1, SIGINT, SIGTERM}) {
    LauncherProcess launcher(
        on_hosts(bash_line("trap 'echo got; exit 0' USR1 INT TERM; echo ready; "
                           "while :; do sleep 0.01; done 2>/dev/null"),
                 shell, {{"a", 1}, {"b", 1}}));
    launcher.read_until("ready\nready\n");
    launcher.kill(signal);
    EXPECT_THAT(launcher.read_all(), testing::ContainsRegex("got\n(.*\n)?got\n")) << signal;
    EXPECT_EQ(launcher.wait(), 0);
  }
}

TEST(SpreadSignals, stop_all_and_let_them_go_on) {
  const FakeShell shell;
  LauncherProcess launcher(
      on_hosts(bash_line("echo ready; while :; do echo tick; sleep 0.01; done"), shell,
               {{"a", 1}, {"b", 1}}));
  launcher.read_until("ready");
  launcher.kill(SIGTSTP);
  ::usleep(200'000);
  launcher.kill(SIGCONT);
  launcher.read_until("tick");
  launcher.kill(SIGTERM);
  EXPECT_EQ(launcher.wait(), 128 + SIGTERM);
}

TEST(SpreadOutput, is_labelled_in_whole_lines) {
  const FakeShell shell;
  LaunchOptions options = ranks(0, {"say"});
  options.label = true;
  const Launched job = launched(on_hosts(options, shell, {{"a", 2}, {"b", 2}}));
  EXPECT_EQ(job.exit_code, 0) << job.err << job.failure.message;
  std::map<std::string, int> next;
  for (const std::string& line : job.lines()) {
    const std::string rank = line.substr(1, 1);
    const int number = next[rank]++;
    const std::string text = number < 500 ? rank + " says " + std::to_string(number) : "no end";
    EXPECT_EQ(line, "[" + rank + "] " + text);
  }
  EXPECT_EQ(next.size(), 4U);
  for (const auto& [rank, count] : next) EXPECT_EQ(count, 501);
}

TEST(SpreadOutput, of_a_hundred_megabytes_comes_whole_and_holds_ranks_back) {
  const FakeShell shell;
  LauncherProcess launcher(
      on_hosts(bash_line("head -c 50000000 /dev/zero | tr '\\0' \"$PENSTOCK_RANK\"; echo err >&2"),
               shell, {{"a", 1}, {"b", 1}}));
  ::usleep(300'000);  // nobody reads
  const std::string all = launcher.read_all();
  EXPECT_EQ(launcher.wait(), 0);
  EXPECT_EQ(std::count(all.begin(), all.end(), '0'), 50'000'000);
  EXPECT_EQ(std::count(all.begin(), all.end(), '1'), 50'000'000);
  EXPECT_EQ(all.size(), 100'000'008U);
}

TEST(SpreadOutput, of_long_lines_without_an_end_comes_whole) {
  const FakeShell shell;
  LaunchOptions options = bash_line("head -c 300000 /dev/zero | tr '\\0' 'x'", true);
  const Launched job = launched(on_hosts(options, shell, {{"a", 1}, {"b", 1}}));
  EXPECT_EQ(std::count(job.out.begin(), job.out.end(), 'x'), 600'000);
  for (const std::string& line : job.lines())
    EXPECT_THAT(line, testing::MatchesRegex("\\[[01]\\] x+"));
}

TEST(SpreadOutput, without_a_reader_is_told_to_ranks) {
  const FakeShell shell;
  for (const bool label : {false, true}) {
    LauncherProcess launcher(on_hosts(bash_line("exec yes", label), shell, {{"b", 1}}));
    launcher.read_until("y\n");
    launcher.stop_reading();
    EXPECT_EQ(launcher.wait(), 128 + SIGPIPE) << label;
  }
}

TEST(SpreadOutput, that_nobody_reads_keeps_no_launcher_that_is_to_end) {
  const FakeShell shell;
  const std::string told = shell.directory() + "/rank";
  LauncherProcess launcher(
      on_hosts(bash_line("trap '' PIPE; head -c 200000 /dev/zero | tr '\\0' 'x'; echo err >&2; "
                         "echo $$ > " +
                         told + ".new; mv " + told + ".new " + told),
               shell, {{"b", 1}}));
  wait_until([&] { return std::filesystem::exists(told); });
  const pid_t rank = number_in(told);
  wait_until([&] { return ::kill(rank, 0) != 0; });
  // What it printed waits.
  for (int turn = 0; turn < 3; ++turn) {
    launcher.kill(SIGTERM);
    ::usleep(100'000);
  }
  EXPECT_EQ(launcher.wait(), 0);
}

TEST(SpreadOutput, waits_for_no_process_that_a_rank_left_behind) {
  const FakeShell shell;
  const Launched job = launched(on_hosts(bash_line("sleep 30 & echo $!"), shell, {{"b", 1}}));
  EXPECT_EQ(job.exit_code, 0);
  ASSERT_EQ(job.lines().size(), 1U);
  EXPECT_EQ(::kill(static_cast<pid_t>(std::stol(job.lines()[0])), SIGKILL), 0)
      << "a job that went well ends nothing";
}

TEST(SpreadInput, goes_to_the_first_rank_wherever_it_is) {
  const FakeShell shell;
  const UniqueFd file(::memfd_create("input", MFD_CLOEXEC));
  std::string text;
  for (int line = 0; line < 200'000; ++line) text += std::to_string(line) + "\n";
  ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  LaunchOptions options = on_hosts(bash_line("sleep 0.2; cat"), shell, {{"a", 1}, {"b", 1}});
  ::lseek(file.get(), 0, SEEK_SET);
  options.input = file.get();
  EXPECT_EQ(launched(options).out, text) << "of a file";

  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd from(ends[0]);
  std::thread writer([&] {
    (void)!::write(ends[1], text.data(), text.size());
    ::close(ends[1]);
  });
  options.input = from.get();
  EXPECT_EQ(launched(options).out, text) << "of a pipe";
  writer.join();
}

TEST(SpreadInput, that_the_first_rank_does_not_read_is_left) {
  const FakeShell shell;
  const UniqueFd zeros(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  LaunchOptions options = on_hosts(bash_line("((PENSTOCK_RANK)) || head -c 200000 | wc -c"), shell,
                                   {{"a", 1}, {"b", 1}});
  options.input = zeros.get();
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.out, "200000\n");
}

// A node in a network namespace of its own, whose network then is no more.
TEST(LostHost, without_a_word_is_told_of_in_time) {
  const std::string a = "penstock-hosts-a" + std::to_string(::getpid());
  const std::string b = "penstock-hosts-b" + std::to_string(::getpid());
  const auto run = [](const std::string& command) {
    return std::system((command + " 2>/dev/null").c_str()) == 0;
  };
  if (::geteuid() != 0 || !run("ip netns add " + a) || !run("ip netns add " + b)) {
    GTEST_SKIP() << "no network namespace can be made here";
  }
  ASSERT_TRUE(run("ip link add va netns " + a + " type veth peer name vb netns " + b));
  ASSERT_TRUE(run("ip -n " + a + " addr add 10.77.1.1/24 dev va"));
  ASSERT_TRUE(run("ip -n " + b + " addr add 10.77.1.2/24 dev vb"));
  ASSERT_TRUE(run("ip -n " + a + " link set va up"));
  ASSERT_TRUE(run("ip -n " + a + " link set lo up"));
  ASSERT_TRUE(run("ip -n " + b + " link set vb up"));
  {
    const FakeShell shell("exec nsenter --net=/run/netns/" + b + " bash --norc -c \"$*\"");
    LauncherProcess launcher(
        on_hosts(ranks(0, {"join", "meet", "pid", "trouble", "sleep"}), shell,
                 {{"localhost", 1}, {"b", 1}}),
        [&] {
          const UniqueFd space(::open(("/run/netns/" + a).c_str(), O_RDONLY | O_CLOEXEC));
          ASSERT_EQ(::setns(space.get(), CLONE_NEWNET), 0);
        });
    launcher.read_lines(4);
    std::istringstream words(launcher.read_until("ok\n"));
    ASSERT_TRUE(run("ip -n " + a + " link set va down"));
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_THAT(launcher.read_all(),
                AllOf(HasSubstr("penstock run: rank 1 is lost: host b: it is not reached any more"),
                      HasSubstr("rank 1 is lost: b: ")));
    EXPECT_EQ(launcher.wait(), 1);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(30));
    for (std::string word; words >> word;) {
      if (word == "ok") continue;
      const auto rank = static_cast<pid_t>(std::stol(word));
      for (int turn = 0; turn < 3000 && ::kill(rank, 0) == 0; ++turn) ::usleep(10'000);
      EXPECT_NE(::kill(rank, 0), 0) << "a rank lives on beyond the cut";
    }
  }
  run("ip netns del " + a);
  run("ip netns del " + b);
}

}  // namespace
}  // namespace penstock::job::test
