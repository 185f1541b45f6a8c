// Running the `penstock` command as a user would, and looking at what it said.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace penstock::test {

// The built command; PENSTOCK_PROGRAM in the environment names another.
std::string command_path();

struct Output {
  int exit_code = -1;  // 128 + signal when it was killed
  std::string out;
  std::string err;
};

// Runs a program, given by its path and arguments, to its end.
Output run(const std::vector<std::string>& words);
// Runs the command with these arguments to its end.
Output penstock(const std::vector<std::string>& arguments);

// Starts the command without waiting for it; its output goes nowhere. 0 if it cannot be started.
pid_t start_penstock(const std::vector<std::string>& arguments);

}  // namespace penstock::test
