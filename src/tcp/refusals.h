// Who is not let in, and who is not reached, for logs and metrics: strangers may be many, tries are
// repeated, and a log is for people.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "penstock/base.h"
#include "penstock/engine.h"

namespace penstock::tcp::internal {

// Thread safe.
class Refusals {
 public:
  // `what` begins each line; `counter` is a metric.
  Refusals(std::string_view what, std::string_view counter) : what_(what), count_(counter) {}

  // Counts it, and logs one of each cause a minute, with how many there were since the last.
  void note(std::string_view cause, std::string_view text, engine::Time now);

 private:
  struct Cause {
    engine::Time logged_at{};
    uint64_t since = 0;  // it was logged
  };

  const std::string what_;
  metrics::Counter count_;
  engine::Mutex mutex_;
  std::map<std::string, Cause, std::less<>> causes_;
};

}  // namespace penstock::tcp::internal
