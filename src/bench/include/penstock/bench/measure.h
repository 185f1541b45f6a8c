// What one measurement of a benchmark yields, and the counters of this process around it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::bench {

struct Measurement {
  uint64_t operations = 0;
  uint64_t bytes = 0;
  double seconds = 0;
  double user_seconds = 0;  // CPU time of both sides, kernel threads not included
  double system_seconds = 0;
  uint64_t latency_p50_ns = 0;
  uint64_t latency_p99_ns = 0;
  uint64_t latency_p999_ns = 0;
  std::optional<uint64_t> system_calls;  // where the kernel lets us count them
  std::optional<uint64_t> allocations;

  double iops() const { return seconds > 0 ? static_cast<double>(operations) / seconds : 0; }
  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
  double cpu_seconds_per_gb() const {
    return bytes > 0 ? (user_seconds + system_seconds) * 1e9 / static_cast<double>(bytes) : 0;
  }
};

// Counts of this process from construction to stop(): CPU time, operator new, system calls.
class ProcessMeter {
 public:
  ProcessMeter();
  // Fills the process figures of `measurement`.
  void stop(Measurement* measurement) const;

 private:
  double user_ = 0;
  double system_ = 0;
  uint64_t allocations_ = 0;
  std::optional<uint64_t> system_calls_;
  int64_t started_ = 0;
};

// Counts system calls of this process and the threads made after this call, through the kernel's
// raw_syscalls tracepoint; false where that is not allowed (it needs root and tracefs).
bool start_counting_system_calls();

// What verifying one 4 KiB block costs here.
double crc_nanoseconds_per_block();

double median(std::vector<double> values);

}  // namespace penstock::bench
