// The lines of a benchmark, for people and for machines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::bench {

struct BenchLine {
  std::string name;  // stable: "ring.read.4k.random.qd64"
  std::string title;
  std::string unit;  // "IOPS", "MB/s", "ns", ...
  double value = 0;
  std::optional<double> reference;
  std::optional<double> ratio;   // value / reference, the median over the rounds
  std::optional<double> budget;  // of the ratio if there is one, else the most that value may be
  std::string note;              // what the reference is
  // For the table only; empty where not known.
  std::string latency;
  std::string cpu_per_gb;
  std::string reference_cpu_per_gb;
  std::string system_calls;
  std::string allocations;

  bool met() const {
    if (!budget) return true;
    return ratio ? *ratio >= *budget : value <= *budget;
  }
};

void print_report(const std::vector<BenchLine>& lines);
// A list of {"name", "value", "unit", "reference", "ratio", "budget", ...}.
Outcome<void> write_report(const std::string& file, const std::vector<BenchLine>& lines);
// What was written, by this build; what is for the table only is not there.
Outcome<std::vector<BenchLine>> read_report(const std::string& file);

// Kernel, processor, memory and disk in one line, to go with every kept result.
std::string describe_machine();

}  // namespace penstock::bench
