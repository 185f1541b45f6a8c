// Starts and kills test_agent.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base.h"

extern char** environ;

namespace penstock::api {

class AgentProcess {
 public:
  explicit AgentProcess(std::string store, uint64_t cache_bytes = 0)
      : store_(std::move(store)), cache_bytes_(std::to_string(cache_bytes)) {}
  ~AgentProcess() { kill(); }

  // True when it serves.
  bool start() {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) return false;
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::string program = TEST_AGENT;
    char* arguments[] = {program.data(), store_.data(), cache_bytes_.data(), nullptr};
    const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    input_.reset(in[1]);
    UniqueFd output(out[0]);
    char byte;
    return error == 0 && ::read(output.get(), &byte, 1) == 1;
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
    input_.reset();
  }
  // It lives, but does nothing until resume().
  void pause() const {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);  // until one thread has taken the signal, the others go on
  }
  void resume() const { ::kill(pid_, SIGCONT); }

 private:
  std::string store_;
  std::string cache_bytes_;
  pid_t pid_ = 0;
  UniqueFd input_;
};

}  // namespace penstock::api
