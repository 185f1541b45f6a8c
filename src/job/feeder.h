// Standard input of rank 0 where it is a terminal: a process in a process group of its own must not
// read it, so the launcher does, as long as it is in the foreground itself.
#pragma once

#include "loop.h"

#include <string>

#include "penstock/base.h"

namespace penstock::job {

// Of the loop's thread.
class Feeder {
 public:
  // `terminal` is lent.
  Feeder(Loop& loop, int terminal) : loop_(loop), terminal_(terminal) {}
  ~Feeder();

  // The end for the rank's process.
  Result<UniqueFd> open();

 private:
  void wait_for_input();
  void take_input();
  void give();
  void stop();

  Loop& loop_;
  const int terminal_;
  UniqueFd to_;
  Loop::Token from_token_ = 0;
  Loop::Token to_token_ = 0;
  Loop::Token again_ = 0;
  std::string typed_;
};

}  // namespace penstock::job
