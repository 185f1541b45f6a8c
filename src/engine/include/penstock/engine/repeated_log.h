// Warnings that clients and peers can cause as often as they like: one line per cause and minute,
// which says how many there were since the one before.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "penstock/base.h"
#include "penstock/engine/clock.h"
#include "penstock/engine/threads.h"

namespace penstock::engine {

// Thread safe.
class RepeatedLog {
 public:
  using Write = void (*)(log::Level, std::string_view);
  explicit RepeatedLog(const Clock& clock = system_clock(), Write write = log::write)
      : clock_(clock), write_(write) {}

  // `cause` tells what counts as the same; keep it free of numbers that change with each event.
  void warning(const std::string& cause, const std::string& message);

 private:
  struct Cause {
    Time said;
    uint64_t unsaid = 0;
  };
  const Clock& clock_;
  const Write write_;
  Mutex mutex_;
  std::map<std::string, Cause> causes_;
};

}  // namespace penstock::engine
