// Figures in the text format of Prometheus, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/telemetry/latency.h"

namespace penstock::telemetry {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Writes families of samples, one after another. Names are the caller's to choose well: counters
// end in _total, and units are base units (seconds, bytes). No name twice. Not thread safe.
class Exposition {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  // Begins a family; its samples follow. One without any leaves no trace.
  void counter(std::string_view name, std::string_view help) { begin(name, help, "counter"); }
  void gauge(std::string_view name, std::string_view help) { begin(name, help, "gauge"); }
  void histogram(std::string_view name, std::string_view help) { begin(name, help, "histogram"); }

  // Of a counter or gauge.
  void sample(const Labels& labels, double value);
  void sample(const Labels& labels, uint64_t value);
  void sample(double value) { sample({}, value); }
  void sample(uint64_t value) { sample(Labels(), value); }
  // Of a histogram of seconds.
  void sample(const Labels& labels, const LatencySample& value);

  const std::string& text() const { return text_; }

 private:
  void begin(std::string_view name, std::string_view help, const char* type);
  void line(std::string_view suffix, const Labels& labels, std::string_view le,
            const std::string& value);

  std::string text_;
  std::string name_;
  std::string head_;  // HELP and TYPE of the family, until its first sample
};

}  // namespace penstock::telemetry
