#include "symm_suite.h"

#include "symm/rows.h"

#include <algorithm>
#include <cstdio>

#include "penstock/bench/symm.h"

namespace penstock::bench {
namespace {

constexpr uint64_t kHostLargest = 64 * kMiB;

// Of `--seconds`, which is meant for disks: there are many rows, and memory settles soon.
double seconds_of_row(double seconds) {
  constexpr double kShare = 80;
  return std::clamp(seconds / kShare, 0.001, 1.0);
}

// The same suite by processes that are started for it.
Outcome<void> in_a_job_of_its_own(const BenchOptions& options, std::vector<BenchLine>* lines) {
  TRY_ASSIGN(const Scratch scratch, Scratch::create(options.directory, kMiB));
  const std::string file = scratch.path() + "/lines.json";
  TRY(output_of_job(
      {"bench", "symm", "--json", file, "--dir", options.directory, "--rounds",
       std::to_string(options.rounds), "--seconds", fmt::format("{}", options.seconds)},
      options.pes));
  TRY_ASSIGN(std::vector<BenchLine> measured, read_report(file));
  std::ranges::move(measured, std::back_inserter(*lines));
  return {};
}

std::optional<uint32_t> first_other(const SymmBench& bench, bool of_own_node) {
  for (uint32_t pe = 1; pe < bench.pes.size(); ++pe) {
    if ((bench.pes[pe].node == bench.pes[0].node) == of_own_node) return pe;
  }
  return std::nullopt;
}

}  // namespace

Outcome<void> symm_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  if (options.member == nullptr) return in_a_job_of_its_own(options, lines);
  job::Member& member = *options.member;
  SymmBench bench{member, options.rounds, seconds_of_row(options.seconds), {}, lines};
  TRY_ASSIGN(bench.pes, exchange_facts(member, facts_of(member)));
  TRY_ASSIGN(const auto host, SymmHost::join(member, kHostLargest));
  if (const auto near = first_other(bench, true)) TRY(host_rows(bench, *host, *near));
  if (const auto far = first_other(bench, false)) TRY(far_rows(bench, *host, *far));
  TRY(host_rows_together(bench, *host));
  return gpu_rows(bench);
}

}  // namespace penstock::bench
