#include <fmt/format.h>

#include "penstock/base.h"
#include "penstock/telemetry.h"

namespace penstock::telemetry {
namespace {

// Backslashes and line ends are escaped, in values of labels quotes as well.
std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void Exposition::begin(std::string_view name, std::string_view help, const char* type) {
  name_ = name;
  head_ = fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, escaped(help, false), type);
}

void Exposition::line(std::string_view suffix, const Labels& labels, std::string_view le,
                      const std::string& value) {
  ASSERT(!name_.empty());
  text_ += head_;
  head_.clear();
  text_ += name_;
  text_ += suffix;
  char before = '{';
  const auto add = [&](std::string_view name, std::string_view text) {
    text_ += fmt::format("{}{}=\"{}\"", before, name, escaped(text, true));
    before = ',';
  };
  for (const auto& [name, text] : labels) add(name, text);
  if (!le.empty()) add("le", le);
  if (before == ',') text_ += '}';
  text_ += ' ';
  text_ += value;
  text_ += '\n';
}

void Exposition::sample(const Labels& labels, double value) {
  line("", labels, "", fmt::format("{}", value));
}

void Exposition::sample(const Labels& labels, uint64_t value) {
  line("", labels, "", fmt::format("{}", value));
}

void Exposition::sample(const Labels& labels, const LatencySample& value) {
  uint64_t sum = 0;
  for (size_t i = 0; i + 1 < Latency::kBuckets; ++i) {
    sum += value.counts[i];
    const double seconds = static_cast<double>(Latency::upper_nanoseconds(i)) / 1e9;
    line("_bucket", labels, fmt::format("{}", seconds), fmt::format("{}", sum));
  }
  sum += value.counts.back();
  line("_bucket", labels, "+Inf", fmt::format("{}", sum));
  line("_sum", labels, "", fmt::format("{}", static_cast<double>(value.sum_nanoseconds) / 1e9));
  line("_count", labels, "", fmt::format("{}", sum));
}

}  // namespace penstock::telemetry
