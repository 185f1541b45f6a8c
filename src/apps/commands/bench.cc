// `penstock bench`: our figures and the reference's, in turn, in one run.
#include "penstock/bench.h"

#include "commands.h"
#include "node/admin.h"
#include "node/network_admin.h"
#include "node/node_service.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>

namespace penstock::apps {
namespace {

// What a node answers of one row, in all rounds.
std::vector<probe::Figures> figures_of(const Json& figures, size_t row, size_t rows) {
  std::vector<probe::Figures> all;
  for (size_t i = row; i < figures.size(); i += rows) {
    const Json& one = figures[i];
    if (!one.is_object()) continue;
    const double rate = one.value("calls_per_second", 0.0);
    probe::Figures of;
    of.calls = rate > 0 ? 1 : 0;
    of.seconds = rate > 0 ? 1 / rate : 0;
    of.median = engine::Duration(one.value("median_ns", int64_t{0}));
    of.p99 = engine::Duration(one.value("p99_ns", int64_t{0}));
    all.push_back(of);
  }
  return all;
}

// The way that calls take, of all that were measured.
Outcome<Json> used_way(const Json& answer) {
  std::string trouble = "no way leads there";
  for (const Json& way : answer.value("ways", Json::array())) {
    if (way.value("used", false)) return way;
    trouble = way.value("to", "") + ": " + way.value("trouble", "");
  }
  return Failure{Code::peer_gone, trouble};
}

// The rows of `bench net`, from a running node to another one. Its own processor and its other work
// are in them, and nothing to compare them with: that is `bench net` without --to, on each machine.
Outcome<void> bench_to_node(const BenchOptions& given, const bench::BenchOptions& options,
                            std::vector<bench::BenchLine>* lines) {
  if (given.store.empty()) {
    return Failure{Code::invalid_argument,
                   "name the node that measures: --store DIR of one that runs, or PENSTOCK_STORE"};
  }
  const std::vector<bench::NetRow> rows = bench::net_rows(bench::net_time(options.seconds));
  std::vector<probe::Workload> plan;
  for (uint32_t round = 0; round < bench::kNetRoundsLeast; ++round) {
    for (const bench::NetRow& row : rows) plan.push_back(row.workload);
  }
  TRY_ASSIGN(const Json answer,
             ask_node(absolute_path(given.store), {{"command", "measure net"},
                                                   {"node", given.to},
                                                   {"workloads", workloads_json(plan)}}));
  if (answer.value("alone", false)) {
    return Failure{Code::not_found, given.store + ": this node is alone, of no cluster"};
  }
  TRY_ASSIGN(const Json way, used_way(answer));
  const Json figures = way.value("figures", Json::array());
  if (figures.size() != plan.size()) {
    return Failure{Code::peer_gone,
                   fmt::format("{}: {}", way.value("to", ""), "the measurement has ended early")};
  }
  std::printf("node %s at %s, over %s, TLS: %s\n\n", given.to.c_str(), way.value("to", "").c_str(),
              way.value("transport", "").c_str(), way.value("protection", "").c_str());
  for (size_t row = 0; row < rows.size(); ++row) {
    lines->push_back(bench::net_line(rows[row], way.value("transport", "") + ".to",
                                     figures_of(figures, row, rows.size()), {}));
  }
  return {};
}

Outcome<void> run_suite(const std::string& suite, const BenchOptions& given,
                        const bench::BenchOptions& options, std::vector<bench::BenchLine>* lines) {
  if (given.to.empty()) return bench::run_suite(suite, options, lines);
  return bench_to_node(given, options, lines);
}

// This process as one of a job that measures symmetric memory. Null: it measures what it was asked
// for by itself.
Outcome<std::unique_ptr<job::Member>> job_of(const BenchOptions& given) {
  if (std::ranges::find(given.suites, "symm") == given.suites.end())
    return std::unique_ptr<job::Member>();
  return bench::job_with_others();
}

bool has_usage_error(const BenchOptions& given, const job::Member* member) {
  const char* wrong = nullptr;
  if (!given.to.empty() && given.suites != std::vector<std::string>{"net"}) {
    wrong = "--to goes with 'penstock bench net' alone";
  } else if (member != nullptr && given.suites.size() > 1) {
    wrong = "in a job, 'penstock bench symm' goes alone";
  } else if (member != nullptr && given.how.pes != 0) {
    wrong = "-n goes without a job, whose processes are the PEs";
  }
  if (wrong != nullptr) std::fprintf(stderr, "penstock bench: %s\n", wrong);
  return wrong != nullptr;
}

// Rank 0 says what was measured.
int bench_as_another_pe(bench::BenchOptions options, job::Member& member) {
  options.member = &member;
  std::vector<bench::BenchLine> none;
  const Outcome<void> result = bench::run_suite("symm", options, &none);
  if (!result) return fail("bench", result.error());
  member.leave();
  return kExitOk;
}

}  // namespace

int run_bench(const BenchOptions& given) {
  bench::BenchOptions options = bench::with_defaults(given.how);
  const auto member = job_of(given);
  if (!member) return fail("bench", member.error());
  options.member = member->get();
  if (has_usage_error(given, options.member)) return kExitUsage;
  if (options.member != nullptr && options.member->place().rank != 0)
    return bench_as_another_pe(options, *options.member);
  // Now, and not when all was measured.
  if (!given.json_file.empty() && !std::ofstream(given.json_file, std::ios::app)) {
    return fail("bench", {Code::io_error, given.json_file + ": cannot be written"});
  }
  if (options.member == nullptr && !bench::start_counting_system_calls()) {
    std::fprintf(stderr, "system calls are not counted (needs root and a mounted tracefs)\n");
  }
  std::printf("%s; scratch space in %s\n\n", bench::describe_machine().c_str(),
              options.directory.c_str());
  std::fflush(stdout);
  std::vector<bench::BenchLine> lines;
  int exit_code = kExitOk;
  for (const std::string& suite :
       given.suites.empty() ? bench::default_suite_names() : given.suites) {
    const Outcome<void> result = run_suite(suite, given, options, &lines);
    // What was measured before is worth telling.
    if (!result) exit_code = fail("bench", result.error());
  }
  if (options.member != nullptr) options.member->leave();
  std::fprintf(stderr, "\n");
  // A list without lines, too, says what there is to read.
  if (!given.json_file.empty()) {
    const auto written = bench::write_report(given.json_file, lines);
    if (!written) exit_code = fail("bench", written.error());
  }
  if (!lines.empty()) {
    bench::print_report(lines);
  } else if (exit_code == kExitOk) {
    return fail("bench", {Code::not_supported, "nothing could be measured: see above why"});
  }
  return exit_code;
}

}  // namespace penstock::apps
