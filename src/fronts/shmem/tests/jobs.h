// Jobs of programs, and what they said.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace penstock::shmem::testing {

struct Ended {
  int code = -1;
  std::string output;
  std::string errors;
};

struct Job {
  unsigned pes = 1;
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// Runs it to its end, under the launcher.
Ended run(const Job& job);

// Runs a command line of a shell.
Ended run_shell(const std::string& line);

}  // namespace penstock::shmem::testing
