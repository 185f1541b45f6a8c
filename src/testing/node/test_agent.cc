// A node in a process of its own, for tests that kill it: test_agent DIRECTORY [CACHE_BYTES]. Says
// "ready" and serves until its input ends.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "penstock/agent.h"

int main(int count, char** arguments) {
  if (count < 2 || count > 3) return 2;
  penstock::agent::AgentConfig config;
  config.directory = arguments[1];
  if (count == 3) config.cache_bytes = std::strtoull(arguments[2], nullptr, 10);
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
