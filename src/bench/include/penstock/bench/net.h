// What `penstock bench net` measures of a net, over loopback or to a node of a running cluster.
#pragma once

#include <string>
#include <vector>

#include "penstock/bench/report.h"
#include "penstock/probe.h"

namespace penstock::bench {

// One kind of calls.
struct NetRow {
  std::string name;   // "place.1m.qd8"
  std::string title;  // "1 MiB placed, 8 at once"
  probe::Workload workload;

  // A rate in the row's unit, or how long a small call takes.
  double value_of(const probe::Figures& figures) const;
  double value_of_rate(double calls_per_second) const;
  const char* unit() const;
};

// How often each is measured, in turn with the others: a median of fewer says little.
inline constexpr uint32_t kNetRoundsLeast = 5;

std::vector<NetRow> net_rows(engine::Duration each);

// Of `--seconds`, which is meant for disks: there are many rows, and nets settle soon.
engine::Duration net_time(double seconds);

// The line of a row by one transport, with medians of all rounds; without references there is no
// ratio.
BenchLine net_line(const NetRow& row, const std::string& transport,
                   const std::vector<probe::Figures>& ours, const std::vector<double>& references);

}  // namespace penstock::bench
