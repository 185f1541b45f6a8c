// A node in a process of its own, for tests that kill it: test_agent DIRECTORY. Says "ready" and
// serves until its input ends.
#include <cstdio>
#include <unistd.h>

#include "penstock/agent.h"

int main(int count, char** arguments) {
  if (count != 2) return 2;
  penstock::agent::AgentConfig config;
  config.directory = arguments[1];
  auto agent = penstock::agent::Agent::start(config);
  if (!agent) {
    std::fprintf(stderr, "%s\n", agent.error().message.c_str());
    return 1;
  }
  std::puts("ready");
  std::fflush(stdout);
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  (*agent)->stop();
  return 0;
}
