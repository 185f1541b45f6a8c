// The suites of the benchmark, and how they are to measure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/bench/report.h"

namespace penstock::job {
class Member;
}

namespace penstock::bench {

struct BenchOptions {
  std::string directory;    // where scratch stores and reference files go; empty: the machine's
  std::string passthrough;  // libfuse's passthrough_ll, the mount's reference
  uint64_t file_bytes = 0;  // 0: by `quick`, as are rounds and seconds
  uint32_t rounds = 0;
  double seconds = 0;  // of one measurement
  uint32_t depth = 64;
  uint32_t threads = 1;
  bool quick = false;
  bool full = false;
  // symm: this process as one of a job, whose rank 0 has the lines; null: `pes` processes are
  // started for it (0: one for each GPU, two at least).
  job::Member* member = nullptr;
  uint32_t pes = 0;
};

// What was left open, by `quick` and the environment.
BenchOptions with_defaults(BenchOptions options);

// Every name that run_suite() knows, and those that are run when none is given.
const std::vector<std::string>& suite_names();
const std::vector<std::string>& default_suite_names();

// Runs one suite, of with_defaults() options, and appends what it measured; its progress goes to
// standard error. What it measured before it failed is there, too. One suite at a time.
Outcome<void> run_suite(const std::string& name, const BenchOptions& options,
                        std::vector<BenchLine>* lines);

}  // namespace penstock::bench
