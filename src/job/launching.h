// One launch() on this machine: its processes, from the first one's start to the last one's end.
#pragma once

#include "ending.h"
#include "loop.h"
#include "own_limits.h"
#include "processes.h"
#include "room.h"

#include <memory>
#include <string>

#include "penstock/base.h"
#include "penstock/job/launcher.h"

namespace penstock::job {

// Of the thread that launches.
class Launching {
 public:
  explicit Launching(const LaunchOptions& options);

  Result<void, Failure> prepare();
  Result<void, Failure> start_all();
  // The exit code of the job.
  int run();

 private:
  void take_signal(int number);
  void take_end(const End& end);
  void failed(const End& end);
  void say(const std::string& text);
  void write_rest();

  const LaunchOptions& options_;
  Loop loop_;
  FileLimit files_;
  CaughtSignals signals_;
  Ending ending_;
  std::unique_ptr<Room> room_;
  std::unique_ptr<Processes> processes_;
  bool stopped_ = false;  // by a signal, when only output was left
};

// What both kinds of launch take. invalid_argument.
Result<void, Failure> check(const LaunchOptions& options);

}  // namespace penstock::job
