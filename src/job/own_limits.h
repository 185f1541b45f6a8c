// What a launcher changes of its own process while a job runs, and puts back.
#pragma once

#include "loop.h"

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <sys/resource.h>

#include "penstock/base.h"

namespace penstock::job {

// The limit of open files: as high as it may be.
class FileLimit {
 public:
  FileLimit() = default;
  ~FileLimit();
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

  // busy where `wanted` are not allowed; `what` takes them, for the message.
  Result<void, Failure> raise(uint64_t wanted, const std::string& what);
  // For processes that are started.
  const rlimit& before() const { return before_; }

 private:
  rlimit before_{};
};

// Signals that the launcher passes on instead of ending by them, of the calling thread.
class CaughtSignals {
 public:
  explicit CaughtSignals(Loop& loop) : loop_(loop) {}
  ~CaughtSignals();
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;

  // Without `all`, none but that a reader of the output is gone, which is no end of this process.
  Result<void, Failure> begin(bool all, std::function<void(int)> caught);
  // The mask for processes that are started.
  const sigset_t& before() const { return before_; }

 private:
  void take();

  Loop& loop_;
  std::function<void(int)> caught_;
  UniqueFd signals_;
  sigset_t before_{};
  sigset_t blocked_{};
  bool masked_ = false;
  std::optional<struct sigaction> of_children_;  // as it was, where it kept ends from being told
};

}  // namespace penstock::job
