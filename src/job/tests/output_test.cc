// What ranks print, the signals that a launcher gets, and its own end.

#include "launcher_process.h"

#include <csignal>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sys/wait.h>

namespace penstock::job::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

LaunchOptions bash(uint32_t size, const std::string& text, bool label = false) {
  LaunchOptions options;
  options.size = size;
  options.command = {"bash", "-c", text};
  options.label = label;
  return options;
}

TEST(Output, is_labelled_in_whole_lines) {
  LaunchOptions options = ranks(4, {"say"});
  options.label = true;
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 0);
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

TEST(Output, labels_errors_and_leaves_nothing_out_at_the_end) {
  LaunchOptions options = bash(2, "echo out; echo err >&2; exit $((PENSTOCK_RANK * 5))", true);
  const Launched job = launched(options);
  EXPECT_EQ(job.exit_code, 5);
  EXPECT_THAT(job.lines(), UnorderedElementsAre("[0] out", "[1] out"));
  EXPECT_THAT(job.err, HasSubstr("[1] err\n"));
  EXPECT_THAT(job.err, HasSubstr("penstock run: rank 1 ended with exit code 5\n"));
}

TEST(Output, waits_for_no_process_that_a_rank_left_behind) {
  const Launched job = launched(bash(1, "sleep 30 & echo $!", true));
  EXPECT_EQ(job.exit_code, 0);
  ASSERT_EQ(job.lines().size(), 1U);
  const auto left = static_cast<pid_t>(std::stol(job.lines()[0].substr(4)));
  EXPECT_EQ(::kill(left, SIGKILL), 0) << "a job that went well ends nothing";
}

// More than all pipes and buffers take.
constexpr const char* kMuch =
    "head -c 3000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; echo done";

TEST(Output, holds_ranks_back_until_it_is_read) {
  LauncherProcess launcher(bash(3, kMuch, true));
  ::usleep(300'000);
  const std::string all = launcher.read_all();
  EXPECT_EQ(launcher.wait(), 0);
  EXPECT_GT(all.size(), 9'000'000U);
  for (const char* rank : {"0", "1", "2"})
    EXPECT_THAT(all, HasSubstr(std::string("[") + rank + "] done"));
}

TEST(Output, without_a_reader_is_told_to_ranks_as_if_they_wrote_themselves) {
  for (const bool label : {false, true}) {
    LauncherProcess launcher(bash(1, "exec yes", label));
    launcher.read_until("y\n");
    launcher.stop_reading();
    EXPECT_EQ(launcher.wait(), 128 + SIGPIPE) << label;
  }
}

TEST(Output, that_nobody_reads_keeps_no_launcher_that_is_to_end) {
  LauncherProcess launcher(
      bash(1, "trap '' PIPE; head -c 200000 /dev/zero | tr '\\0' 'x' | fold", true));
  ::usleep(200'000);
  // Its rank has ended; what it printed waits.
  for (int turn = 0; turn < 3; ++turn) {
    launcher.kill(SIGTERM);
    ::usleep(100'000);
  }
  const int code = launcher.wait();
  EXPECT_TRUE(code == 0 || code == 128 + SIGTERM) << code;
}

TEST(Signals, are_passed_on) {
  for (const int signal : {SIGUSR1, SIGUSR2, SIGHUP, SIGINT, SIGTERM}) {
    LauncherProcess launcher(bash(2,
                                  "trap 'echo got; exit 0' USR1 USR2 HUP INT TERM; echo ready; "
                                  "while :; do sleep 0.01; done"));
    std::string printed = launcher.read_until("ready\nready\n");
    launcher.kill(signal);
    printed = launcher.read_all();
    // The shell also says what became of its sleep, which is of its group.
    EXPECT_THAT(printed, testing::ContainsRegex("got\n(.*\n)?got\n")) << signal;
    EXPECT_EQ(launcher.wait(), 0);
  }
}

TEST(Signals, that_ranks_do_not_take_end_them_and_say_so) {
  LauncherProcess launcher(bash(2, "echo ready; exec sleep 100"));
  launcher.read_until("ready\nready\n");
  launcher.kill(SIGTERM);
  EXPECT_EQ(launcher.wait(), 128 + SIGTERM);
  EXPECT_THAT(launcher.read_all(), HasSubstr("was killed by signal 15 (Terminated)\n"));
}

TEST(Signals, stop_all_and_let_them_go_on) {
  LauncherProcess launcher(bash(2, "echo ready; while :; do echo tick; sleep 0.01; done"));
  launcher.read_until("ready");
  launcher.kill(SIGTSTP);
  ::usleep(200'000);
  launcher.kill(SIGCONT);
  launcher.read_until("tick");
  launcher.kill(SIGTERM);
  EXPECT_EQ(launcher.wait(), 128 + SIGTERM);
}

TEST(Launcher, takes_all_ranks_with_it_when_it_is_killed) {
  LauncherProcess launcher(ranks(3, {"join", "stubborn", "pid", "sleep"}));
  launcher.read_lines(3);
  launcher.kill(SIGKILL);
  EXPECT_EQ(launcher.wait(), 128 + SIGKILL);
  // The end of the pipe: nobody has it any more, long before they would have slept enough.
  const auto begun = std::chrono::steady_clock::now();
  launcher.read_all();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
}

TEST(Launcher, that_is_killed_is_told_to_members) {
  // Below a shell, which dies instead of them.
  LaunchOptions options = bash(2, std::string(JOB_RANK) + " join meet trouble; echo never");
  LauncherProcess launcher(options);
  launcher.read_until("ok\nok\n");
  launcher.kill(SIGKILL);
  EXPECT_THAT(launcher.read_all(), HasSubstr("the room of the job is gone\n"));
}

TEST(Input, of_a_terminal_is_passed_on_to_the_first_rank) {
  const UniqueFd terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(terminal);
  ASSERT_EQ(::grantpt(terminal.get()), 0);
  ASSERT_EQ(::unlockpt(terminal.get()), 0);
  const std::string name = ::ptsname(terminal.get());
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    from.reset();
    ::setsid();  // so that it becomes this one's terminal, and the foreground
    const UniqueFd own(::open(name.c_str(), O_RDWR | O_CLOEXEC));
    LaunchOptions options =
        bash(2, "while read line; do echo $PENSTOCK_RANK $line; done; echo end");
    options.input = own.get();
    options.output = options.errors = to.get();
    const auto code = launch(options);
    ::_exit(code ? *code : 99);
  }
  to.reset();
  ASSERT_EQ(::write(terminal.get(), "typed\n\004", 7), 7);  // a line, and the end
  std::string printed;
  std::string buffer(1000, 0);
  for (ssize_t got = 1; got > 0;) {
    got = ::read(from.get(), buffer.data(), buffer.size());
    if (got > 0) printed.append(buffer, 0, static_cast<size_t>(got));
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(printed, HasSubstr("0 typed\n"));
}

}  // namespace
}  // namespace penstock::job::test
