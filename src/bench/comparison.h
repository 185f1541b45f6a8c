// Ours and the reference, in turn.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "penstock/bench.h"

namespace penstock::bench {

// One workload, `rounds` times: ours, the reference, ours, the reference, ...
class Comparison {
 public:
  explicit Comparison(uint32_t rounds) : rounds_(rounds) {}

  using Run = std::function<Outcome<Measurement>()>;
  Outcome<void> run(const Run& ours, const Run& reference);

  // Medians over the rounds into a line; `per_operation` chooses IOPS over MB/s.
  BenchLine line(const Workload& workload, bool per_operation) const;
  const std::vector<Measurement>& ours() const { return ours_; }
  const std::vector<Measurement>& reference() const { return reference_; }

 private:
  const uint32_t rounds_;
  std::vector<Measurement> ours_, reference_;
};

template <class Field>
double median_of(const std::vector<Measurement>& all, Field field) {
  std::vector<double> values;
  for (const Measurement& one : all) values.push_back(field(one));
  return median(values);
}

// "ring.read.4k.random.qd64"
std::string stable_name(const char* suite, const Workload& workload);

// What a plain file on the same disk gives, by fio where it is installed, and how to call that.
Outcome<Measurement> reference_run(const std::string& file, const Workload& workload);
const char* reference_note();

}  // namespace penstock::bench
