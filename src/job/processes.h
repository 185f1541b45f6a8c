// The processes of a node's ranks, from the first one's start to the last one's end.
#pragma once

#include "feeder.h"
#include "labels.h"
#include "loop.h"
#include "room.h"
#include "spawn.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/job/place.h"

namespace penstock::job {

// Open files that a launcher has for each rank: its connection, its process, and its output twice.
inline constexpr uint64_t kFilesPerRank = 4;
inline constexpr uint64_t kFilesBesides = 64;

// Above the standard ones, so that it can be put in the place of those; close-on-exec.
UniqueFd above_standard(int fd);

// Of the thread that launches: processes are killed with it.
class Processes {
 public:
  struct Options {
    uint32_t size = 1;   // of the job
    uint32_t first = 0;  // the first rank of this node, which has `count` in a row
    uint32_t count = 1;
    std::vector<std::string> command;
    Environment environment;  // besides this process's own
    std::string directory;    // empty: this process's
    bool label = false;
    int input = 0;   // lent, all three; that of rank 0
    int output = 1;  // of all
    int errors = 2;
  };

  // `ended` is called for each.
  Processes(Loop& loop, Options options, std::function<void(const End&)> ended);
  // Kills what still runs.
  ~Processes();

  // Whether the program is there: not_found or access_denied.
  Result<void, Failure> find();
  // When the loop is open.
  Result<void, Failure> open_streams();
  // All that was started is to be ended by the destructor when it fails.
  Result<void, Failure> start_all(Room& room, const sigset_t& mask, const rlimit& files);

  uint32_t running() const { return running_; }
  void signal_all(int number);
  void signal(uint32_t rank, int number);
  // Where output is labelled, for a line of the launcher's own; else none.
  LabelledOutput* labelled_errors() { return labelled_errors_.get(); }
  // All have ended: what is left in pipes goes to the outputs, as fast as those take it.
  void finish_output();
  bool is_output_written() const;

 private:
  struct Process {
    pid_t pid = 0;
    UniqueFd ends;  // a pidfd: readable when it ended
    Loop::Token token = 0;
    bool ended = false;
  };
  struct Inherited {
    const sigset_t& mask;
    const rlimit& files;
  };

  Result<void, Failure> start(Room& room, uint32_t rank, const Inherited& own, UniqueFd failures);
  Status open_streams_of(uint32_t rank, UniqueFd* input, UniqueFd* output, UniqueFd* errors);
  std::optional<Failure> failure_of_start(int failures) const;
  void take_end(uint32_t rank);
  static void signal(const Process& process, int number);

  Loop& loop_;
  const Options options_;
  const std::function<void(const End&)> ended_;
  std::unique_ptr<LabelledOutput> labelled_output_;  // none: ranks write themselves
  std::unique_ptr<LabelledOutput> labelled_errors_;
  std::unique_ptr<Feeder> feeder_;
  std::vector<Process> processes_;  // of first, first + 1, ...
  uint32_t running_ = 0;
  std::string program_;
  UniqueFd nothing_;  // /dev/null
  UniqueFd input_, output_, errors_;
};

}  // namespace penstock::job
