// What the requests of this process's mounts took, by operation, and how those failed that did.
#pragma once

#include <chrono>

#include "penstock/telemetry.h"

namespace penstock::fuse {

// Of one operation, over all mounts. Thread safe; lives for ever.
struct RequestFigures {
  const char* name = nullptr;
  telemetry::Latency latency;
};

// Makes an operation's figures known under its name, once, before the first request.
void name_figures(RequestFigures& figures, const char* name);

// A request was answered with this error number.
void count_error(int error);

// The time from here to the end of the scope, in which a worker serves a request.
class Served {
 public:
  explicit Served(RequestFigures& figures)
      : figures_(figures), begun_(std::chrono::steady_clock::now()) {}
  ~Served() {
    const auto took = std::chrono::steady_clock::now() - begun_;
    figures_.latency.record_shared(static_cast<uint64_t>(took.count()));
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

 private:
  RequestFigures& figures_;
  const std::chrono::steady_clock::time_point begun_;
};

}  // namespace penstock::fuse
