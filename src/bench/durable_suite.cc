#include "durable_suite.h"

#include "comparison.h"

#include <cstdio>

#include "penstock/bench.h"

namespace penstock::bench {
namespace {

constexpr double kBudget = 0.8;

// Random offsets of a file that exists already: each write replaces bytes, ours and fio's, so
// neither side is spared by a file that still grows, and no two neighbours share a write.
Workload random_writes(const BenchOptions& options, uint64_t block_bytes, uint32_t depth) {
  Workload workload;
  workload.write = true;
  workload.random = true;
  workload.block_bytes = block_bytes;
  workload.depth = depth;
  workload.file_bytes = options.file_bytes;
  workload.seconds = options.seconds;
  return workload;
}

Outcome<BenchLine> compare(penstock_session* session, const std::string& plain,
                           const Workload& workload, uint32_t rounds) {
  std::fprintf(stderr, "%s ", workload.name().c_str());
  Comparison comparison(rounds);
  TRY(comparison.run([&] { return run_on_ring(session, "/data", workload); },
                     [&] { return reference_run(plain, workload); }));
  BenchLine line = comparison.line(workload, workload.block_bytes < 64 * kKiB);
  line.name = stable_name("durable", workload);
  line.title = "durable: " + line.title;
  line.budget = kBudget;
  line.note = reference_note();
  std::fprintf(stderr, " %.2f\n", line.ratio.value_or(0));
  return line;
}

}  // namespace

Outcome<void> durable_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  // The file twice, and as much again for blocks that wait for their commit.
  auto scratch = Scratch::create(options.directory, options.file_bytes * 3 + kGiB);
  if (!scratch) return scratch.error();
  const std::string plain = scratch->path() + "/reference.dat";
  TRY(make_plain_file(plain, options.file_bytes));
  TRY_ASSIGN(const console::Session session,
             console::open_store_session(scratch->path() + "/store", true));
  TRY(make_ring_file(session.get(), "/data", options.file_bytes));
  const Workload workloads[] = {
      random_writes(options, 4 * kKiB, 1),
      random_writes(options, 4 * kKiB, 64),
      random_writes(options, kMiB, 1),
      random_writes(options, kMiB, 8),
  };
  for (const Workload& workload : workloads) {
    TRY_ASSIGN(BenchLine line, compare(session.get(), plain, workload, options.rounds));
    lines->push_back(std::move(line));
  }
  return {};
}

}  // namespace penstock::bench
