#include "ring_suite.h"

#include "comparison.h"

#include <cstdio>

#include "penstock/bench.h"
#include "penstock/console.h"

namespace penstock::bench {
namespace {

struct Planned {
  Workload workload;
  std::optional<double> budget;
};

std::vector<Planned> ring_plan(const BenchOptions& options) {
  const uint32_t large_depth = std::min(options.depth, 16u);
  Workload base;
  base.file_bytes = options.file_bytes;
  base.seconds = options.seconds;
  base.threads = options.threads;
  const auto with = [&](bool write, bool random, uint64_t block, uint32_t depth) {
    Workload w = base;
    w.write = write;
    w.random = random;
    w.block_bytes = block;
    w.depth = depth;
    return w;
  };
  // The budgets are stated for a depth of 64 and one thread.
  const bool stated = options.depth == 64 && options.threads == 1;
  const auto budget = [&](double value) { return stated ? std::optional(value) : std::nullopt; };
  std::vector<Planned> plan = {
      {with(false, true, 4 * kKiB, options.depth), budget(0.95)},
      {with(false, true, kMiB, large_depth), budget(0.97)},
      {with(true, true, kMiB, large_depth), budget(0.8)},
  };
  if (!options.full) return plan;
  for (const bool write : {false, true}) {
    for (const bool random : {true, false}) {
      for (const uint64_t block : {4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB}) {
        const Workload w =
            with(write, random, block, block <= 64 * kKiB ? options.depth : large_depth);
        const bool planned_already = random && (block == kMiB || (block == 4 * kKiB && !write));
        if (!planned_already) plan.push_back({w, std::nullopt});
      }
    }
  }
  return plan;
}

BenchLine cost(const char* name, const char* title, double value, const char* unit,
               std::optional<double> budget = {}) {
  BenchLine line;
  line.name = name;
  line.title = title;
  line.value = value;
  line.unit = unit;
  line.budget = budget;
  return line;
}

double user_nanoseconds(const Measurement& m) {
  return m.user_seconds * 1e9 / static_cast<double>(m.operations);
}

// What a small read from the disk costs, both sides together, where the application takes and
// submits sixteen at a time.
Outcome<void> measure_costs(penstock_session* session, const BenchOptions& options,
                            std::vector<BenchLine>* lines) {
  Workload workload;
  workload.file_bytes = options.file_bytes;
  workload.seconds = options.seconds;
  workload.batch = 16;
  std::vector<double> user, calls, allocations;
  std::fprintf(stderr, "costs of a batch of %u ", workload.batch);
  for (uint32_t round = 0; round < options.rounds; ++round) {
    std::fprintf(stderr, ".");
    TRY_ASSIGN(const Measurement m, run_on_ring(session, "/data", workload));
    const auto operations = static_cast<double>(m.operations);
    user.push_back(user_nanoseconds(m));
    allocations.push_back(static_cast<double>(m.allocations.value_or(0)) / operations);
    if (m.system_calls) {
      calls.push_back(static_cast<double>(*m.system_calls) / operations * workload.batch);
    }
  }
  std::fprintf(stderr, "\n");
  const double crc = crc_nanoseconds_per_block();
  lines->push_back(cost("ring.read.4k.user_ns", "user CPU per 4 KiB read, both sides, without CRC",
                        median(user) - crc, "ns", 1000.0));
  lines->push_back(cost("ring.crc32c.4k_ns", "CRC-32C of 4 KiB", crc, "ns"));
  lines->push_back(cost("ring.read.4k.allocations", "allocations per 4 KiB read",
                        median(allocations), "/op", 0.001));
  if (!calls.empty()) {
    lines->push_back(cost("ring.read.4k.system_calls",
                          "system calls per batch of 16 reads of 4 KiB, both sides", median(calls),
                          "/batch", 1.0));
  }
  return {};
}

}  // namespace

Outcome<void> ring_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  auto scratch = Scratch::create(options.directory, options.file_bytes * 3 + kGiB);
  if (!scratch) return scratch.error();
  const std::string plain = scratch->path() + "/reference.dat";
  TRY(make_plain_file(plain, options.file_bytes));
  TRY_ASSIGN(const console::Session session,
             console::open_store_session(scratch->path() + "/store", true));
  TRY(make_ring_file(session.get(), "/data", options.file_bytes));
  for (const Planned& planned : ring_plan(options)) {
    const Workload& workload = planned.workload;
    std::fprintf(stderr, "%s ", workload.name().c_str());
    Comparison comparison(options.rounds);
    TRY(comparison.run([&] { return run_on_ring(session.get(), "/data", workload); },
                       [&] { return reference_run(plain, workload); }));
    BenchLine line = comparison.line(workload, workload.block_bytes < 64 * kKiB);
    line.name = stable_name("ring", workload);
    line.title = "ring: " + line.title;
    line.budget = planned.budget;
    line.note = reference_note();
    lines->push_back(line);
    std::fprintf(stderr, " %.2f\n", line.ratio.value_or(0));
  }
  return measure_costs(session.get(), options, lines);
}

Outcome<void> store_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  const uint64_t file_bytes = std::min<uint64_t>(options.file_bytes, kGiB);
  auto scratch = Scratch::create("/dev/shm", file_bytes * 3 + kGiB);
  if (!scratch) return scratch.error();
  const std::string plain = scratch->path() + "/reference.dat";
  TRY(make_plain_file(plain, file_bytes));
  TRY_ASSIGN(const console::Session session,
             console::open_store_session(scratch->path() + "/store", true));
  TRY(make_ring_file(session.get(), "/data", file_bytes));
  Workload workload;
  workload.file_bytes = file_bytes;
  workload.seconds = options.seconds;
  workload.depth = options.depth;
  std::fprintf(stderr, "tmpfs: %s ", workload.name().c_str());

  Comparison comparison(options.rounds);
  TRY(comparison.run([&] { return run_on_ring(session.get(), "/data", workload); },
                     [&] { return reference_run(plain, workload); }));
  BenchLine line = comparison.line(workload, true);
  line.name = "store.tmpfs.read.4k.random.qd" + std::to_string(options.depth);
  line.title = "tmpfs: " + line.title;
  line.note = "on tmpfs: the same reference on a file there";
  lines->push_back(line);
  lines->push_back(cost("store.tmpfs.read.4k.user_ns",
                        "tmpfs: user CPU per 4 KiB read, both sides, with CRC",
                        median_of(comparison.ours(), user_nanoseconds), "ns"));
  std::fprintf(stderr, " %.2f\n", line.ratio.value_or(0));
  return {};
}

}  // namespace penstock::bench
