#include "penstock.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "penstock/bench.h"
#include "penstock/console.h"
#include "penstock/json.h"

namespace penstock::bench {
namespace {

std::string figure(double value, const std::string& unit) {
  if (unit == "IOPS") return console::human_count(value) + "/s";
  if (unit == "MB/s") return console::human_rate(value * 1e6);
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, value < 10 ? "%.3g %s" : "%.0f %s", value, unit.c_str());
  return buffer;
}

std::string fixed(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2f", value);
  return buffer;
}

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

void print_report(const std::vector<BenchLine>& lines) {
  console::Table table({"", "Penstock", "reference", "ratio", "budget", "p50 / p99 / p99.9",
                        "CPU s/GB", "ref.", "calls/op", "allocs/op"});
  for (const BenchLine& line : lines) {
    std::string budget;
    if (line.budget) {
      budget = line.ratio ? "≥ " + fixed(*line.budget) : "≤ " + figure(*line.budget, line.unit);
      budget += line.met() ? " ok" : " missed";
    }
    table.add({line.title, figure(line.value, line.unit),
               line.reference ? figure(*line.reference, line.unit) : "-",
               line.ratio ? fixed(*line.ratio) : "-", budget, line.latency, line.cpu_per_gb,
               line.reference_cpu_per_gb, line.system_calls, line.allocations});
  }
  std::printf("%s", table.text().c_str());
  std::string notes;
  for (const BenchLine& line : lines) {
    if (!line.note.empty() && notes.find(line.note) == std::string::npos) {
      notes += "  " + line.note + "\n";
    }
  }
  if (!notes.empty()) std::printf("\nReferences:\n%s", notes.c_str());
}

Outcome<void> write_report(const std::string& file, const std::vector<BenchLine>& lines) {
  Json list = Json::array();
  for (const BenchLine& line : lines) {
    list.push_back({{"name", line.name},
                    {"title", line.title},
                    {"value", line.value},
                    {"unit", line.unit},
                    {"reference", or_null(line.reference)},
                    {"ratio", or_null(line.ratio)},
                    {"budget", or_null(line.budget)},
                    {"met", line.met()},
                    {"note", line.note},
                    {"version", penstock_version()},
                    {"machine", describe_machine()}});
  }
  std::ofstream out(file);
  out << list.dump(2) << "\n";
  out.close();
  if (!out) return Failure{Code::io_error, file + ": cannot be written: " + std::strerror(errno)};
  return {};
}

Outcome<std::vector<BenchLine>> read_report(const std::string& file) {
  std::ifstream in(file);
  const Json list = Json::parse(in, nullptr, false);
  if (!list.is_array()) return Failure{Code::io_error, file + ": has no lines of a benchmark"};
  const auto number = [](const Json& one, const char* key) -> std::optional<double> {
    const auto found = one.find(key);
    if (found == one.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
  };
  std::vector<BenchLine> lines;
  for (const Json& one : list) {
    BenchLine line;
    line.name = text_at(one, "name");
    line.title = text_at(one, "title");
    line.unit = text_at(one, "unit");
    line.value = number(one, "value").value_or(0);
    line.reference = number(one, "reference");
    line.ratio = number(one, "ratio");
    line.budget = number(one, "budget");
    line.note = text_at(one, "note");
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string describe_machine() {
  utsname name{};
  ::uname(&name);
  struct sysinfo info {};
  ::sysinfo(&info);
  std::string processor = "unknown processor";
  int count = 0;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    processor = line.substr(line.find(':') + 2);
    ++count;
  }
  const double memory = static_cast<double>(info.totalram) * info.mem_unit;
  return std::to_string(count) + " x " + processor + ", " + console::human_bytes(memory) +
         ", Linux " + name.release;
}

}  // namespace penstock::bench
