#include "programs.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace penstock::bench {
namespace {

struct Pipe {
  UniqueFd read_end, write_end;
};

std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Those that are negative are this process's own. 0: it did not start.
pid_t spawn(const std::vector<std::string>& arguments, int input, int output, int errors) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (input >= 0) ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  if (errors >= 0) ::posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, pointers[0], &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : 0;
}

bool ended_well(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

std::optional<std::string> output_of(const std::vector<std::string>& arguments) {
  auto pipe = make_pipe();
  if (!pipe) return std::nullopt;
  const UniqueFd dropped(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const pid_t pid = spawn(arguments, -1, pipe->write_end.get(), dropped.get());
  pipe->write_end.reset();
  if (pid == 0) return std::nullopt;
  std::string text;
  char buffer[16384];
  ssize_t n = 0;
  while ((n = ::read(pipe->read_end.get(), buffer, sizeof buffer)) > 0 ||
         (n < 0 && errno == EINTR)) {
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
  }
  if (!ended_well(pid)) return std::nullopt;
  return text;
}

Outcome<Companion> Companion::start(const std::vector<std::string>& arguments) {
  const auto failure = [&](const char* why) {
    return Failure{Code::io_error, arguments[0] + ": " + why};
  };
  auto input = make_pipe();
  auto output = make_pipe();
  if (!input || !output) return failure(std::strerror(errno));
  const pid_t pid = spawn(arguments, input->read_end.get(), output->write_end.get(), -1);
  input->read_end.reset();
  output->write_end.reset();
  if (pid == 0) return failure("did not start");
  Companion companion(std::move(input->write_end), pid);
  char byte = 0;
  ssize_t n = 0;
  do {
    n = ::read(output->read_end.get(), &byte, 1);
  } while ((n < 0 && errno == EINTR) || (n > 0 && byte != '\n'));
  if (n <= 0) return failure("ended before it was ready");
  return companion;
}

Companion::~Companion() {
  input_.reset();
  if (pid_ > 0) (void)ended_well(pid_);
}

}  // namespace penstock::bench
