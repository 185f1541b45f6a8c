// The rows of `penstock bench symm`, a part for each kind of memory.
#pragma once

#include "gpus.h"
#include "host.h"
#include "pes.h"

#include <string>
#include <vector>

#include "penstock/bench/suites.h"

namespace penstock::bench {

// What all parts have. Functions that get it are called by all PEs of the job, who do their part,
// and add lines at PE 0.
struct SymmBench {
  job::Member& member;
  uint32_t rounds;
  double seconds;  // of one measurement
  std::vector<PeFacts> pes;
  std::vector<BenchLine>* lines;

  uint32_t me() const { return member.place().rank; }
  // All PEs, asleep.
  Outcome<void> meet(const std::string& name) const;
  // What PE 0 says.
  Outcome<uint64_t> number_of_first(const std::string& name, uint64_t number) const;
};

// A size in names and titles: "8", "4k", "64m"; "8 B", "4 KiB", "64 MiB".
std::string short_size(uint64_t bytes);
std::string long_size(uint64_t bytes);

// Sizes that are measured, up to the largest.
std::vector<uint64_t> sizes_up_to(uint64_t largest);

// Seconds of one call, of ours and of the reference in turn.
struct CallTimes {
  std::vector<double> ours;
  std::vector<double> references;  // empty: there is none
};

// A line of calls that move so many bytes: small ones by their time, large ones by bytes per
// second.
BenchLine line_of_bytes(const std::string& name, const std::string& title, uint64_t bytes,
                        const CallTimes& times, const char* note);
// A line of what takes time.
BenchLine line_of_time(const std::string& name, const std::string& title, const CallTimes& times,
                       const char* note);

// Both in turn, so many times; each fills the time.
template <class Ours, class Reference>
Outcome<CallTimes> in_turn(const SymmBench& bench, Ours&& ours, Reference&& reference) {
  CallTimes times;
  TRY_ASSIGN(const uint64_t calls, calls_in(bench.seconds, ours));
  TRY_ASSIGN(const uint64_t others, calls_in(bench.seconds, reference));
  for (uint32_t round = 0; round < bench.rounds; ++round) {
    TRY_ASSIGN(const double one, seconds_per_call(calls, ours));
    times.ours.push_back(one);
    TRY_ASSIGN(const double other, seconds_per_call(others, reference));
    times.references.push_back(other);
  }
  return times;
}
template <class Ours>
Outcome<CallTimes> in_rounds(const SymmBench& bench, Ours&& ours) {
  CallTimes times;
  TRY_ASSIGN(const uint64_t calls, calls_in(bench.seconds, ours));
  for (uint32_t round = 0; round < bench.rounds; ++round) {
    TRY_ASSIGN(const double one, seconds_per_call(calls, ours));
    times.ours.push_back(one);
  }
  return times;
}

// PE 0 and another one of its node, `near`.
Outcome<void> host_rows(const SymmBench& bench, SymmHost& host, uint32_t near);
// All PEs.
Outcome<void> host_rows_together(const SymmBench& bench, SymmHost& host);
// PE 0 and one of another node.
Outcome<void> far_rows(const SymmBench& bench, SymmHost& host, uint32_t far);
// PEs of the first node; all others wait.
Outcome<void> gpu_rows(const SymmBench& bench);

}  // namespace penstock::bench
