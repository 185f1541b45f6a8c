#include "fair_suite.h"

#include "comparison.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <thread>
#include <unistd.h>

#include "penstock/agent.h"
#include "penstock/bench.h"
#include "penstock/console.h"

namespace penstock::bench {
namespace {

constexpr uint64_t kFloodBytes = 4 * kMiB;
constexpr uint32_t kFloodDepth = 1000;
// What fio can keep in the kernel's queue. At the full depth it is busy with what does not fit
// there, and its small reader finds the drive idle (docs/decisions/0028).
constexpr uint32_t kFilledDepth = 16;
// A flood has its queue full for so long before anything is measured.
constexpr std::chrono::milliseconds kFillTime{500};

// Both sides keep the whole depth in memory: what is free for it of this machine's.
uint32_t flood_depth() {
  const long pages = ::sysconf(_SC_AVPHYS_PAGES);
  const uint64_t free = pages > 0 ? static_cast<uint64_t>(pages) * 4096 : 0;
  return static_cast<uint32_t>(std::clamp<uint64_t>(free / 3 / kFloodBytes, 16, kFloodDepth));
}

// A flood of our own for as long as `meanwhile` takes, once its queue is full; what it moved in
// that time. In a session of its own.
Outcome<Measurement> run_flood(const std::string& store, Workload flood, double seconds,
                               const std::function<Outcome<void>()>& meanwhile) {
  TRY_ASSIGN(const console::Session session, console::connect_session(store));
  std::promise<void> started;
  std::atomic<uint64_t> completed{0};
  flood.on_start = [&] { started.set_value(); };
  flood.completed = &completed;
  flood.seconds = seconds + std::chrono::duration<double>(kFillTime).count();
  auto ended =
      std::async(std::launch::async, [&] { return run_on_ring(session.get(), "/data", flood); });
  // One that cannot begin has ended.
  auto begun = started.get_future();
  while (begun.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready &&
         ended.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
  }
  std::this_thread::sleep_for(kFillTime);
  const engine::Time from = engine::system_clock().now();
  const uint64_t before = completed;
  const Outcome<void> done = meanwhile();
  Measurement result;
  result.operations = completed - before;
  result.seconds = std::chrono::duration<double>(engine::system_clock().now() - from).count();
  result.bytes = result.operations * flood.block_bytes;
  TRY(ended.get());
  if (!done) return done.error();
  return result;
}

double p99_microseconds(const Measurement& m) {
  return static_cast<double>(m.latency_p99_ns) / 1000;
}

double megabytes(const Measurement& m) {
  return m.bytes_per_second() / 1e6;
}

std::vector<double> ratios(const std::vector<Measurement>& a, const std::vector<Measurement>& b,
                           double (*field)(const Measurement&)) {
  std::vector<double> all;
  for (size_t i = 0; i < a.size(); ++i) all.push_back(field(a[i]) / field(b[i]));
  return all;
}

void report(const Comparison& comparison, const Workload& small, const Workload& flood,
            const std::vector<Measurement>& floods, const std::vector<Measurement>& fio_floods,
            const std::vector<Measurement>& fio_filled, const std::vector<Measurement>& alone,
            std::vector<BenchLine>* lines) {
  const std::string beside = " beside " + flood.name();
  BenchLine rate = comparison.line(small, true);
  rate.name = "fair.read.4k.qd1.beside_flood";
  rate.title = "fair: " + rate.title + beside;
  rate.budget = 0.5;
  rate.note = "fio's small reader beside fio's flood, io_uring, O_DIRECT, a plain file";
  lines->push_back(rate);

  const auto iops = [](const Measurement& m) { return m.iops(); };
  BenchLine filled = rate;
  filled.name = "fair.read.4k.qd1.beside_filled";
  filled.title =
      "fair: the same, of fio's beside its flood at depth " + std::to_string(kFilledDepth);
  filled.budget.reset();
  filled.reference = median_of(fio_filled, iops);
  filled.ratio = median(ratios(comparison.ours(), fio_filled, iops));
  filled.reference_cpu_per_gb.clear();
  lines->push_back(filled);

  BenchLine late;
  late.name = "fair.read.4k.qd1.beside_flood.p99";
  late.title = "fair: the same, 99th percentile (ratio: fio's / ours)";
  late.unit = "µs";
  late.value = median_of(comparison.ours(), p99_microseconds);
  late.reference = median_of(comparison.reference(), p99_microseconds);
  late.ratio = median(ratios(comparison.reference(), comparison.ours(), p99_microseconds));
  late.budget = 0.5;
  late.note = rate.note;
  lines->push_back(late);

  BenchLine kept;
  kept.name = "fair.flood.beside_small";
  kept.title = "fair: the flood meanwhile, of what it gets alone";
  kept.unit = "MB/s";
  kept.value = median_of(floods, megabytes);
  kept.reference = median_of(alone, megabytes);
  kept.ratio = median(ratios(floods, alone, megabytes));
  kept.budget = 0.5;
  kept.note = "our own flood without the small reader";
  lines->push_back(kept);

  BenchLine theirs;
  theirs.name = "fair.flood.beside_small.fio";
  theirs.title = "fair: fio's flood meanwhile";
  theirs.unit = "MB/s";
  theirs.value = median_of(fio_floods, megabytes);
  lines->push_back(theirs);
}

}  // namespace

Outcome<void> fair_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  if (!fio_present()) {
    std::fprintf(stderr, "fair: skipped: fio is not installed\n");
    return {};
  }
  auto scratch = Scratch::create(options.directory, options.file_bytes * 3 + kGiB);
  if (!scratch) return scratch.error();
  const std::string plain = scratch->path() + "/reference.dat";
  TRY(make_plain_file(plain, options.file_bytes));
  agent::AgentConfig config;
  config.directory = scratch->path() + "/store";
  TRY_ASSIGN(const std::unique_ptr<agent::Agent> agent, agent::Agent::start(config));
  {
    TRY_ASSIGN(const console::Session session, console::connect_session(config.directory));
    TRY(make_ring_file(session.get(), "/data", options.file_bytes));
  }
  Workload small;
  small.file_bytes = options.file_bytes;
  small.depth = 1;
  small.seconds = options.seconds;
  Workload flood = small;
  flood.block_bytes = kFloodBytes;
  flood.depth = flood_depth();
  std::fprintf(stderr, "fair: %s beside %s ", small.name().c_str(), flood.name().c_str());

  std::vector<Measurement> floods, fio_floods, fio_filled, alone;
  const auto ours = [&]() -> Outcome<Measurement> {
    const auto pause = [&]() -> Outcome<void> {
      std::this_thread::sleep_for(std::chrono::duration<double>(small.seconds));
      return {};
    };
    TRY_ASSIGN(const Measurement without, run_flood(config.directory, flood, small.seconds, pause));
    alone.push_back(without);
    Measurement result;
    const auto read = [&]() -> Outcome<void> {
      TRY_ASSIGN(const console::Session session, console::connect_session(config.directory));
      TRY_ASSIGN(result, run_on_ring(session.get(), "/data", small));
      return {};
    };
    TRY_ASSIGN(const Measurement beside, run_flood(config.directory, flood, small.seconds, read));
    floods.push_back(beside);
    return result;
  };
  const auto reference = [&]() -> Outcome<Measurement> {
    Measurement beside;
    TRY_ASSIGN(const Measurement alone_small, run_fio_beside(plain, small, flood, &beside));
    fio_floods.push_back(beside);
    Workload filling = flood;
    filling.depth = std::min(flood.depth, kFilledDepth);
    TRY_ASSIGN(const Measurement filled, run_fio_beside(plain, small, filling, &beside));
    fio_filled.push_back(filled);
    return alone_small;
  };
  Comparison comparison(options.rounds);
  TRY(comparison.run(ours, reference));
  report(comparison, small, flood, floods, fio_floods, fio_filled, alone, lines);
  std::fprintf(stderr, " %.2f\n", lines->at(lines->size() - 5).ratio.value_or(0));
  agent->stop();
  return {};
}

}  // namespace penstock::bench
