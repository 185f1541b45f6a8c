// An agent without mount and command around it, for tests that kill it.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>

#include "penstock/base.h"

namespace penstock::test {

// Runs the program test_agent. One thread at a time may use it.
class AgentProcess {
 public:
  explicit AgentProcess(std::string store, uint64_t cache_bytes = 0);
  ~AgentProcess();  // kill()
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  // True when it serves. Also after kill(), on the same store.
  bool start();
  void kill();
  // It lives, but does nothing until resume().
  void pause() const;
  void resume() const;

 private:
  std::string store_;
  std::string cache_bytes_;
  pid_t pid_ = 0;
  UniqueFd input_;  // it ends when this does
};

}  // namespace penstock::test
