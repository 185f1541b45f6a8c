// Launcher: starts the processes of a job and stays until the last one has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base.h"

namespace penstock::job {

struct LaunchOptions {
  uint32_t size = 1;
  std::vector<std::string> command;                              // the program and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  // besides the launcher's own
  std::string directory;                                         // where they run; empty: here
  bool label = false;       // output in whole lines, each with its rank before it
  bool keep_going = false;  // a rank's end does not end the others
  // After a rank has failed, the others have this long to end by themselves; then they are asked to
  // (SIGTERM), and a while later made to (SIGKILL).
  std::chrono::milliseconds until_asked{500};
  std::chrono::milliseconds until_killed{2000};
  int input = 0;        // standard input of rank 0; the others have /dev/null
  int output = 1;       // lent: standard output of all
  int errors = 2;       // lent: standard error of all, and of what the launcher says
  bool signals = true;  // passes on INT, TERM, HUP, QUIT, USR1, USR2, TSTP, CONT that it gets
};

// Runs the job in the calling thread, which must not end before it returns (the processes are
// killed with the thread that started them). The exit code: 0, or that of the rank that failed
// first, 128 + N for signal N. It fails, with nothing started or all that was started ended, when
// the job cannot be started: not_found (the program, exit code 127), access_denied (126), busy (too
// few processes or open files; the message says how to raise the limit).
//
// With `signals` they are blocked in the calling thread meanwhile: other threads must block them.
Outcome<int> launch(const LaunchOptions& options);

}  // namespace penstock::job
