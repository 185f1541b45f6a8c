#include "rows.h"

#include <cstdlib>

#include "penstock/bench/measure.h"

namespace penstock::bench {
namespace {

// From here on bytes per second say more than the time of a call.
constexpr uint64_t kLargeBytes = 64 * kKiB;

std::vector<double> ratios_of(const CallTimes& times, bool of_rates) {
  std::vector<double> ratios;
  for (size_t i = 0; i < times.references.size(); ++i) {
    const double ratio = times.ours[i] / times.references[i];
    ratios.push_back(of_rates ? 1 / ratio : ratio);
  }
  return ratios;
}

}  // namespace

Outcome<void> SymmBench::meet(const std::string& name) const {
  TRY(tell_others(member, name, all_ranks(member), ""));
  return {};
}

Outcome<uint64_t> SymmBench::number_of_first(const std::string& name, uint64_t number) const {
  TRY_ASSIGN(const auto told, tell_others(member, name, all_ranks(member), std::to_string(number)));
  return std::strtoull(told.front().c_str(), nullptr, 10);
}

std::string short_size(uint64_t bytes) {
  if (bytes >= kMiB) return fmt::format("{}m", bytes / kMiB);
  return bytes >= kKiB ? fmt::format("{}k", bytes / kKiB) : std::to_string(bytes);
}

std::string long_size(uint64_t bytes) {
  if (bytes >= kMiB) return fmt::format("{} MiB", bytes / kMiB);
  return bytes >= kKiB ? fmt::format("{} KiB", bytes / kKiB) : fmt::format("{} B", bytes);
}

std::vector<uint64_t> sizes_up_to(uint64_t largest) {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = 8; bytes < largest; bytes *= 8) sizes.push_back(bytes);
  sizes.push_back(largest);
  return sizes;
}

BenchLine line_of_time(const std::string& name, const std::string& title, const CallTimes& times,
                       const char* note) {
  BenchLine line;
  line.name = "symm." + name;
  line.title = title;
  const double value = median(times.ours);
  const bool is_short = value < 1e-6;
  const double unit = is_short ? 1e9 : 1e6;
  line.unit = is_short ? "ns" : "us";
  line.value = value * unit;
  if (!times.references.empty()) {
    line.reference = median(times.references) * unit;
    line.ratio = median(ratios_of(times, false));
    line.note = note;
  }
  return line;
}

BenchLine line_of_bytes(const std::string& name, const std::string& title, uint64_t bytes,
                        const CallTimes& times, const char* note) {
  const std::string whole_name = name + "." + short_size(bytes);
  const std::string whole_title = title + ", " + long_size(bytes);
  if (bytes < kLargeBytes) return line_of_time(whole_name, whole_title, times, note);
  BenchLine line;
  line.name = "symm." + whole_name;
  line.title = whole_title;
  line.unit = "MB/s";
  const double mega_bytes = static_cast<double>(bytes) / 1e6;
  line.value = mega_bytes / median(times.ours);
  if (!times.references.empty()) {
    line.reference = mega_bytes / median(times.references);
    line.ratio = median(ratios_of(times, true));
    line.note = note;
  }
  return line;
}

}  // namespace penstock::bench
