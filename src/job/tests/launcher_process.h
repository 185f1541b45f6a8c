// A launcher that is killed, stopped, and read from as a user does.
#pragma once

#include "launched.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/wait.h>

namespace penstock::job::test {

// A launcher in a process of its own, whose output is read from a pipe.
class LauncherProcess {
 public:
  // `before` is called in that process.
  explicit LauncherProcess(LaunchOptions options, const std::function<void()>& before = {}) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    from_.reset(ends[0]);
    UniqueFd to(ends[1]);
    options.output = options.errors = to.get();
    const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (options.input == 0) options.input = nothing.get();
    pid_ = ::fork();
    if (pid_ != 0) return;
    from_.reset();
    if (before) before();
    const auto code = launch(options);
    if (!code) (void)!::write(to.get(), code.error().message.data(), code.error().message.size());
    ::_exit(code ? *code : 99);
  }
  ~LauncherProcess() {
    if (pid_ > 0) kill(SIGKILL);
    if (pid_ > 0) wait();
  }

  // Waits for it, in what is printed.
  std::string read_until(const std::string& text) {
    while (printed_.find(text) == std::string::npos) {
      if (!read_more()) break;
    }
    EXPECT_THAT(printed_, testing::HasSubstr(text));
    return printed_;
  }
  void read_lines(ptrdiff_t count) {
    while (std::count(printed_.begin(), printed_.end(), '\n') < count && read_more()) {
    }
  }
  // Until all that could print have ended.
  std::string read_all() {
    while (read_more()) {
    }
    return printed_;
  }
  void stop_reading() { from_.reset(); }
  void kill(int signal) const { ::kill(pid_, signal); }
  // The exit code, or 128 + the signal.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  bool read_more() {
    pollfd ready{from_.get(), POLLIN, 0};
    if (::poll(&ready, 1, 60'000) != 1) {
      ADD_FAILURE() << "nothing comes, and no end";
      return false;
    }
    std::string buffer(65536, 0);
    const ssize_t got = ::read(from_.get(), buffer.data(), buffer.size());
    if (got <= 0) return false;
    printed_.append(buffer, 0, static_cast<size_t>(got));
    return true;
  }

  UniqueFd from_;
  pid_t pid_ = 0;
  std::string printed_;
};

}  // namespace penstock::job::test
