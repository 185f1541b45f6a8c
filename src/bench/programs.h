// Programs that a benchmark runs beside it.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "penstock/base.h"

namespace penstock::bench {

// Runs a program without a shell, and returns what it printed; nullopt if it failed. What it says
// on standard error is dropped.
std::optional<std::string> output_of(const std::vector<std::string>& arguments);

// A program that runs until this object ends, or the process does, however that ends: it reads a
// line from its standard input, and ends when there is one or no more can come.
class Companion {
 public:
  // Returns when it has printed its first line. Fails if it ends before.
  static Outcome<Companion> start(const std::vector<std::string>& arguments);
  Companion(Companion&& other) noexcept
      : input_(std::move(other.input_)), pid_(std::exchange(other.pid_, 0)) {}
  Companion& operator=(Companion&&) = delete;
  ~Companion();

 private:
  Companion(UniqueFd input, pid_t pid) : input_(std::move(input)), pid_(pid) {}

  UniqueFd input_;
  pid_t pid_;
};

}  // namespace penstock::bench
