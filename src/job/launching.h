// One launch(): its processes, from the first one's start to the last one's end.
#pragma once

#include "feeder.h"
#include "labels.h"
#include "loop.h"
#include "room.h"
#include "spawn.h"

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "penstock/base.h"
#include "penstock/job/launcher.h"

namespace penstock::job {

// Of the thread that launches.
class Launching {
 public:
  explicit Launching(const LaunchOptions& options);
  // Kills what still runs.
  ~Launching();

  Result<void, Failure> prepare();
  Result<void, Failure> start_all();
  // The exit code of the job.
  int run();

 private:
  struct Process {
    pid_t pid = 0;
    UniqueFd ends;  // a pidfd: readable when it ended
    Loop::Token token = 0;
    bool ended = false;
  };

  Result<void, Failure> raise_limits();
  Result<void, Failure> start(uint32_t rank, UniqueFd failures);
  Status open_streams(uint32_t rank, UniqueFd* input, UniqueFd* output, UniqueFd* errors);
  Result<void, Failure> watch_signals();
  std::optional<Failure> failure_of_start(int failures) const;
  void take_signals();
  void take_end(uint32_t rank);
  void failed(const End& end);
  void end_others();
  void signal_all(int number);
  static void signal(const Process& process, int number);
  void say(const std::string& text);
  void write_rest();

  const LaunchOptions& options_;
  Loop loop_;
  std::unique_ptr<Room> room_;
  std::unique_ptr<LabelledOutput> labelled_output_,
      labelled_errors_;  // none: ranks write themselves
  std::unique_ptr<Feeder> feeder_;
  std::vector<Process> processes_;
  uint32_t running_ = 0;
  std::optional<int> exit_code_;  // of the first that failed
  bool ending_ = false;
  bool stopped_ = false;  // by a signal, when only output was left
  std::string program_;
  UniqueFd nothing_;  // /dev/null
  UniqueFd input_, output_, errors_;
  UniqueFd signals_;
  sigset_t mask_{};  // as it was before
  sigset_t blocked_{};
  bool masked_ = false;
  std::optional<struct sigaction> of_children_;  // as it was, where it kept ends from being told
  rlimit files_{};                               // the same
};

}  // namespace penstock::job
