#include "comparison.h"

#include <cstdio>

namespace penstock::bench {

namespace {

std::string fixed(double value, const char* pattern) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, pattern, value);
  return buffer;
}

// "4k", "1m": sizes in the stable names.
std::string short_size(uint64_t bytes) {
  return bytes >= kMiB ? std::to_string(bytes / kMiB) + "m" : std::to_string(bytes / kKiB) + "k";
}

}  // namespace

Outcome<void> Comparison::run(const Run& ours, const Run& reference) {
  for (uint32_t round = 0; round < rounds_; ++round) {
    std::fprintf(stderr, ".");
    TRY_ASSIGN(const Measurement a, ours());
    ours_.push_back(a);
    TRY_ASSIGN(const Measurement b, reference());
    reference_.push_back(b);
  }
  return {};
}

BenchLine Comparison::line(const Workload& workload, bool per_operation) const {
  const auto rate = [&](const Measurement& m) {
    return per_operation ? m.iops() : m.bytes_per_second() / 1e6;
  };
  BenchLine line;
  line.title = workload.name();
  line.unit = per_operation ? "IOPS" : "MB/s";
  line.value = median_of(ours_, rate);
  line.reference = median_of(reference_, rate);
  std::vector<double> ratios;
  for (size_t i = 0; i < ours_.size(); ++i) ratios.push_back(rate(ours_[i]) / rate(reference_[i]));
  line.ratio = median(ratios);
  const auto micro = [&](auto field) { return median_of(ours_, field) / 1000.0; };
  line.latency =
      fixed(micro([](const Measurement& m) { return static_cast<double>(m.latency_p50_ns); }),
            "%.0f") +
      " / " +
      fixed(micro([](const Measurement& m) { return static_cast<double>(m.latency_p99_ns); }),
            "%.0f") +
      " / " +
      fixed(micro([](const Measurement& m) { return static_cast<double>(m.latency_p999_ns); }),
            "%.0f") +
      " µs";
  const auto cpu = [](const Measurement& m) { return m.cpu_seconds_per_gb(); };
  line.cpu_per_gb = fixed(median_of(ours_, cpu), "%.3f");
  line.reference_cpu_per_gb = fixed(median_of(reference_, cpu), "%.3f");
  const Measurement& last = ours_.back();
  const auto operations = static_cast<double>(std::max<uint64_t>(last.operations, 1));
  if (last.system_calls) {
    line.system_calls = fixed(static_cast<double>(*last.system_calls) / operations, "%.2f");
  }
  if (last.allocations) {
    line.allocations = fixed(static_cast<double>(*last.allocations) / operations, "%.3f");
  }
  return line;
}

std::string stable_name(const char* suite, const Workload& w) {
  return std::string(suite) + (w.write ? ".write." : ".read.") + short_size(w.block_bytes) +
         (w.random ? ".random" : ".sequential") + ".qd" + std::to_string(w.depth) +
         (w.threads > 1 ? ".t" + std::to_string(w.threads) : "");
}

Outcome<Measurement> reference_run(const std::string& file, const Workload& workload) {
  return fio_present() ? run_fio(file, workload, "io_uring", true) : run_raw(file, workload);
}

const char* reference_note() {
  return fio_present()
             ? "fio, io_uring, O_DIRECT, a plain file on the same disk; writes with O_DSYNC"
             : "a raw io_uring loop (fio is not installed), O_DIRECT, a plain file on the "
               "same disk; a sync after each write";
}

}  // namespace penstock::bench
