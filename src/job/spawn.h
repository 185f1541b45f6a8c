// Starts the processes of a job, and finds the program that they run.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "penstock/base.h"

namespace penstock::job {

using Environment = std::vector<std::pair<std::string, std::string>>;

// This process's environment, with `changes` in it.
std::vector<std::string> environment_with(const Environment& changes);
// The file that `name` means, as a shell finds it: by PATH of `environment`, or from `directory`.
// not_found or access_denied, with a message.
Outcome<std::string> find_program(const std::string& name, const std::string& directory,
                                  const std::vector<std::string>& environment);

struct Spawn {
  std::string program;  // as find_program() found it
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::string directory;  // empty: this process's
  int input = -1;
  int output = -1;
  int errors = -1;
  int kept = -1;      // stays open under its number
  int failures = -1;  // close-on-exec: a SpawnFailure is written there when it does not start
  uint32_t rank = 0;
  sigset_t signals{};  // its mask
  rlimit files{};      // its limit of open files
};

struct SpawnFailure {
  uint32_t rank = 0;
  int32_t error = 0;
  int32_t stage = 0;  // 0: the directory, 1: the program
};

// Makes a process in a process group of its own, which is killed when the calling thread ends.
Result<pid_t> spawn(const Spawn& what);

}  // namespace penstock::job
