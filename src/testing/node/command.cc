#include "penstock/testing_node/command.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <unistd.h>

#include "penstock/base.h"
#include "penstock/testing.h"

extern char** environ;

namespace penstock::test {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
  UniqueFd reader;
  UniqueFd writer;
};

// 0 if it cannot be started.
pid_t spawn(std::vector<std::string> words, const posix_spawn_file_actions_t& actions) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t pid = 0;
  const bool spawned =
      ::posix_spawn(&pid, pointers[0], &actions, nullptr, pointers.data(), environ) == 0;
  return spawned ? pid : 0;
}

// Everything that comes out of both, until both end.
void read_all(std::array<UniqueFd, 2> ends, const std::array<std::string*, 2>& texts) {
  while (ends[0] || ends[1]) {
    pollfd ready[2] = {{ends[0].get(), POLLIN, 0}, {ends[1].get(), POLLIN, 0}};
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < 2; ++i) {
      if (!ends[i] || ready[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t n = ::read(ends[i].get(), buffer, sizeof buffer);
      if (n > 0) {
        texts[i]->append(buffer, static_cast<size_t>(n));
      } else if (n == 0 || errno != EINTR) {
        ends[i].reset();
      }
    }
  }
}

std::vector<std::string> with_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), command_path());
  return arguments;
}

}  // namespace

std::string command_path() {
  const char* const named = std::getenv("PENSTOCK_PROGRAM");
  return named != nullptr ? named : PENSTOCK_COMMAND;
}

Output run(const std::vector<std::string>& words) {
  Pipe out, err;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, out.writer.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err.writer.get(), STDERR_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const pid_t pid = spawn(words, actions);
  ::posix_spawn_file_actions_destroy(&actions);
  out.writer.reset();
  err.writer.reset();
  Output result;
  if (pid == 0) return result;
  read_all({std::move(out.reader), std::move(err.reader)}, {&result.out, &result.err});
  result.exit_code = ending_of(pid);
  return result;
}

Output penstock(const std::vector<std::string>& arguments) {
  return run(with_command(arguments));
}

pid_t start_penstock(const std::vector<std::string>& arguments) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  }
  const pid_t pid = spawn(with_command(arguments), actions);
  ::posix_spawn_file_actions_destroy(&actions);
  return pid;
}

}  // namespace penstock::test
