// How a job ends: the exit code of the rank that failed first, and the end of those that are left.
#pragma once

#include "loop.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "penstock/job/place.h"

namespace penstock::job {

// Of the loop's thread.
class Ending {
 public:
  struct Options {
    bool keep_going = false;  // a rank's end does not end the others
    std::chrono::milliseconds until_asked{};
    std::chrono::milliseconds until_killed{};
    std::function<void(int signal)> signal_all;
    std::function<void(const std::string&)> say;
  };

  Ending(Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {}
  ~Ending();
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

  // A rank ended not well, asked for the end of the job, or is of no use to it any more (lost).
  // `where` stands behind what is said of it.
  void failed(const End& end, const std::string& where = "");
  // The rest is asked to end, and made to, whatever is to go on.
  void end_others();

  // None: nothing failed.
  std::optional<int> exit_code() const { return exit_code_; }
  // Since when all that is left is made to end; none: it is not.
  std::optional<Loop::Moment> killed_at() const { return killed_at_; }

 private:
  Loop& loop_;
  const Options options_;
  std::optional<int> exit_code_;
  bool ending_ = false;
  std::optional<Loop::Moment> killed_at_;
  Loop::Token asking_ = 0;
  Loop::Token killing_ = 0;
};

}  // namespace penstock::job
