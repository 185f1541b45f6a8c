#include "penstock/testing_node/agent_process.h"

#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace penstock::test {

AgentProcess::AgentProcess(std::string store, uint64_t cache_bytes)
    : store_(std::move(store)), cache_bytes_(std::to_string(cache_bytes)) {}

AgentProcess::~AgentProcess() {
  kill();
}

bool AgentProcess::start() {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) return false;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::string program = PENSTOCK_TEST_AGENT;
  char* arguments[] = {program.data(), store_.data(), cache_bytes_.data(), nullptr};
  const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  input_.reset(in[1]);
  const UniqueFd output(out[0]);
  char byte;
  return error == 0 && ::read(output.get(), &byte, 1) == 1;
}

void AgentProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
  input_.reset();
}

void AgentProcess::pause() const {
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);  // until one thread has taken the signal, the others go on
}

void AgentProcess::resume() const {
  ::kill(pid_, SIGCONT);
}

}  // namespace penstock::test
