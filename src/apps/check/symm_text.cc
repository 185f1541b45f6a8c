#include "check/symm_check.h"

#include <algorithm>
#include <map>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

std::string time_text(const std::optional<double>& seconds) {
  if (!seconds) return "-";
  if (*seconds < 1e-6) return fmt::format("{:.1f} ns", *seconds * 1e9);
  if (*seconds < 1e-3) return fmt::format("{:.2f} us", *seconds * 1e6);
  return fmt::format("{:.1f} ms", *seconds * 1e3);
}

std::string rate_text(const std::optional<double>& rate) {
  return rate ? console::human_rate(*rate) : "-";
}

// "0-3, 8"
std::string ranges_of(const std::vector<uint32_t>& ascending) {
  std::string text;
  for (size_t i = 0; i < ascending.size();) {
    size_t end = i + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(ascending[i]);
    if (end - i > 1) text += "-" + std::to_string(ascending[end - 1]);
    i = end;
  }
  return text;
}

// Where PEs are, those of one place in one line.
std::string places_of(const bench::SymmReport& report) {
  std::map<std::pair<uint32_t, std::string>, std::vector<uint32_t>> places;
  for (uint32_t pe = 0; pe < report.pes.size(); ++pe) {
    const bench::SymmPe& one = report.pes[pe];
    const std::string gpu =
        one.gpu ? fmt::format("GPU {} ({})", *one.gpu, one.gpu_name) : std::string("no GPU");
    places[{one.node, one.host + ", " + gpu}].push_back(pe);
  }
  std::string text;
  for (const auto& [place, pes] : places) {
    text += fmt::format("{} {}: node {}, {}\n", pes.size() > 1 ? "PEs" : "PE", ranges_of(pes),
                        place.first, place.second);
  }
  return text;
}

// By which card each PE's GPU goes to those of other nodes.
std::string rails_of(const bench::SymmReport& report) {
  if (report.rails.empty()) return "";
  console::Table table({"PE", "PE", "GPU", "card", "narrowest link", "why"}, {0, 1, 2, 4});
  for (const bench::SymmRail& rail : report.rails) {
    table.add({std::to_string(rail.from), std::to_string(rail.to), std::to_string(rail.gpu),
               rail.card.empty() ? "none" : rail.card,
               rail.bytes_per_second > 0 ? console::human_rate(rail.bytes_per_second) : "-",
               rail.why});
  }
  return "\nbetween GPUs of two nodes, the best GPU and card to leave by (not used yet: bytes go "
         "by "
         "the hosts):\n" +
         table.text();
}

}  // namespace

bool is_well(const bench::SymmReport& report) {
  return std::ranges::none_of(report.ways,
                              [](const bench::SymmWay& way) { return way.way.empty(); });
}

std::string text_of(const bench::SymmReport& report) {
  std::string text = places_of(report) + "\n";
  console::Table table(
      {"PE", "PE", "memory", "way", "put", "get", "8 B put", "8 B get", "signal", "note"},
      {2, 3, 9});
  uint64_t pairs = 0;
  std::pair<uint32_t, uint32_t> last{UINT32_MAX, UINT32_MAX};
  for (const bench::SymmWay& way : report.ways) {
    if (last != std::pair{way.from, way.to}) ++pairs;
    last = {way.from, way.to};
    table.add({std::to_string(way.from), std::to_string(way.to), way.memory,
               way.way.empty() ? "none" : way.way, rate_text(way.put_bytes_per_second),
               rate_text(way.get_bytes_per_second), time_text(way.put_seconds),
               time_text(way.get_seconds), time_text(way.signal_seconds), way.note});
  }
  text += table.text();
  text +=
      "\nby the first PE, large ones of 16 MiB (GPUs 64 MiB); 8 B put: until it is there (quiet); "
      "signal: one way\n";
  if (pairs < report.pairs) text += fmt::format("{} of {} pairs\n", pairs, report.pairs);
  text += rails_of(report);
  if (report.barrier_seconds) {
    text +=
        fmt::format("barrier of {} PEs: {}", report.pes.size(), time_text(report.barrier_seconds));
    if (report.stream_barrier_seconds)
      text += ", on streams of GPUs " + time_text(report.stream_barrier_seconds);
    text += "\n";
  }
  if (!report.gpus.empty()) text += "GPUs' memory was not measured: " + report.gpus + "\n";
  return text;
}

}  // namespace penstock::apps
