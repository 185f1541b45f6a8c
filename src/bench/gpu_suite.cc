#include "gpu_suite.h"

#include "comparison.h"
#include "gpu_reference.h"

#include <cstdio>
#include <fcntl.h>

#include "penstock/bench.h"
#include "penstock/console.h"
#include "penstock/gpu.h"

namespace penstock::bench {
namespace {

using engine::CopyMeans;

BenchLine named(BenchLine line, const char* name, const std::string& title, double budget,
                const char* note) {
  line.name = name;
  line.title = title;
  line.budget = budget;
  line.note = note;
  return line;
}

Outcome<void> disk_lines(const BenchOptions& options, std::vector<BenchLine>* lines) {
  auto scratch = Scratch::create(options.directory, options.file_bytes * 2 + kGiB);
  if (!scratch) return scratch.error();
  const std::string plain = scratch->path() + "/reference.dat";
  TRY(make_plain_file(plain, options.file_bytes));
  TRY_ASSIGN(const auto node, BenchNode::start(scratch->path() + "/store", 0));
  TRY(make_ring_file(node->session(), "/data", options.file_bytes));
  Workload workload;
  workload.block_bytes = kMiB;
  workload.depth = 16;
  workload.file_bytes = options.file_bytes;
  workload.seconds = options.seconds;
  Workload ours = workload;
  ours.gpu = 0;
  std::fprintf(stderr, "disk to GPU ");
  Comparison comparison(options.rounds);
  TRY(comparison.run([&] { return run_on_ring(node->session(), "/data", ours); },
                     [&] { return reference_run(plain, workload); }));
  lines->push_back(named(comparison.line(workload, false), "gpu.disk.1m",
                         "disk to GPU: 1 MiB random read, depth 16", 0.97, reference_note()));
  std::fprintf(stderr, " %.2f\n", lines->back().ratio.value_or(0));
  return {};
}

// Lists of random 4 KiB pieces, four in flight: the batched way.
Outcome<Measurement> run_lists(penstock_session* session, uint64_t file_bytes, double seconds) {
  constexpr uint32_t kPieces = 4096;
  constexpr uint32_t kDepth = 4;
  constexpr uint32_t kBytes = 4 * kKiB;
  TRY_ASSIGN(const console::Region region,
             console::create_gpu_region(session, 0, uint64_t{kDepth} * kPieces * kBytes));
  TRY_ASSIGN(const console::Ring ring, console::create_ring(session, kDepth, 1));
  const penstock_file file = penstock_open(session, "/data", O_RDONLY, 0);
  if (file < 0) return console::api_failure(file);
  engine::SeededRandom random(11);
  std::vector<std::vector<penstock_piece>> lists(kDepth);
  for (uint32_t i = 0; i < kDepth * kPieces; ++i) {
    const uint64_t offset = random.below(file_bytes / kBytes) * kBytes;
    lists[i / kPieces].push_back({offset, uint64_t{i} * kBytes, kBytes, 0});
  }
  const auto prepare = [&](uint64_t which) {
    penstock_gather gather{};
    gather.file = file;
    gather.count = kPieces;
    gather.pieces = lists[which].data();
    gather.region = region.get();
    gather.user_data = which;
    return penstock_prepare_gather(ring.get(), &gather);
  };
  Measurement result;
  const ProcessMeter meter;
  const uint64_t end = penstock_now() + static_cast<uint64_t>(seconds * 1e9);
  uint32_t in_flight = 0;
  for (uint64_t which = 0; which < kDepth; ++which) in_flight += prepare(which) == 0 ? 1 : 0;
  penstock_submit(ring.get());
  while (in_flight > 0) {
    penstock_completion done{};
    if (penstock_wait(ring.get(), &done, 1, 1, PENSTOCK_FOREVER) != 1) break;
    --in_flight;
    if (done.result != int64_t{kPieces} * kBytes) {
      return Failure{Code::io_error, "bench: a list of reads came back short"};
    }
    result.operations += kPieces;
    if (penstock_now() < end && prepare(done.user_data) == 0) ++in_flight;
    penstock_submit(ring.get());
  }
  meter.stop(&result);
  result.bytes = result.operations * kBytes;
  penstock_file_close(session, file);
  return result;
}

Outcome<void> list_line(penstock_session* session, GpuReference& reference, uint64_t bytes,
                        const BenchOptions& options, std::vector<BenchLine>* lines) {
  std::fprintf(stderr, "cache to GPU, lists of 4 KiB ");
  Comparison comparison(options.rounds);
  TRY(comparison.run([&] { return run_lists(session, bytes, options.seconds); },
                     [&] {
                       return reference.run({.means = CopyMeans::kernel,
                                             .piece_bytes = 4 * kKiB,
                                             .pieces = 1024,
                                             .depth = 8,
                                             .seconds = options.seconds});
                     }));
  Workload workload;
  lines->push_back(named(comparison.line(workload, true), "gpu.cache.4k.list",
                         "node cache to GPU: 4 KiB random reads in lists of 4096", 0.9,
                         "the gather kernel alone, its list made beforehand"));
  std::fprintf(stderr, " %.2f\n", lines->back().ratio.value_or(0));
  return {};
}

// Single reads of four threads, each with a lane of its own. What a read takes, over all of them,
// has a budget of its own: 6 million a second.
Outcome<void> threads_line(penstock_session* session, Workload workload,
                           const BenchOptions& options, std::vector<BenchLine>* lines) {
  workload.threads = 4;
  workload.depth = 1024;
  workload.batch = 256;
  std::fprintf(stderr, "cache to GPU, 4 KiB by 4 threads ");
  std::vector<double> nanoseconds;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    TRY_ASSIGN(const Measurement measured, run_on_ring(session, "/data", workload));
    nanoseconds.push_back(1e9 / measured.iops());
  }
  BenchLine line;
  line.unit = "ns";
  line.value = median(nanoseconds);
  lines->push_back(named(line, "gpu.cache.4k.threads",
                         "node cache to GPU: 4 KiB random reads, 4 threads, 1024 in flight each",
                         1e9 / 6e6, "a read, of all threads together"));
  std::fprintf(stderr, " %.0f ns\n", line.value);
  return {};
}

Outcome<void> cache_lines(const BenchOptions& options, engine::DeviceMemory& devices,
                          std::vector<BenchLine>* lines) {
  const uint64_t bytes = std::min(options.file_bytes, 2 * kGiB);
  auto scratch = Scratch::create(options.directory, bytes + kGiB);
  if (!scratch) return scratch.error();
  TRY_ASSIGN(const auto node, BenchNode::start(scratch->path() + "/store", bytes + kGiB));
  TRY(make_ring_file(node->session(), "/data", bytes));
  TRY(warm_up(node->session(), "/data", bytes));
  TRY_ASSIGN(const auto reference, GpuReference::create(devices, engine::DeviceId(0), bytes));

  Workload large;
  large.block_bytes = 64 * kMiB;
  large.random = false;
  large.depth = 4;
  large.file_bytes = bytes;
  large.seconds = options.seconds;
  large.gpu = 0;
  std::fprintf(stderr, "cache to GPU, large ");
  Comparison copies(options.rounds);
  TRY(copies.run([&] { return run_on_ring(node->session(), "/data", large); },
                 [&] {
                   return reference->run({.means = CopyMeans::copy_engine,
                                          .piece_bytes = 64 * kMiB,
                                          .seconds = options.seconds});
                 }));
  lines->push_back(named(copies.line(large, false), "gpu.cache.64m",
                         "node cache to GPU: 64 MiB reads, depth 4", 0.95,
                         "pinned copies of 64 MiB, two in flight"));
  std::fprintf(stderr, " %.2f\n", lines->back().ratio.value_or(0));

  TRY(list_line(node->session(), *reference, bytes, options, lines));

  Workload small = large;
  small.block_bytes = 4 * kKiB;
  small.random = true;
  small.depth = 4096;
  small.batch = 1024;
  std::fprintf(stderr, "cache to GPU, 4 KiB ");
  Comparison gathers(options.rounds);
  TRY(gathers.run([&] { return run_on_ring(node->session(), "/data", small); },
                  [&] {
                    return reference->run({.means = CopyMeans::kernel,
                                           .piece_bytes = 4 * kKiB,
                                           .pieces = 1024,
                                           .depth = 8,
                                           .seconds = options.seconds});
                  }));
  lines->push_back(named(gathers.line(small, true), "gpu.cache.4k",
                         "node cache to GPU: 4 KiB random reads, 4096 in flight", 0.9,
                         "the gather kernel alone, its list made beforehand"));
  std::fprintf(stderr, " %.2f\n", lines->back().ratio.value_or(0));
  return threads_line(node->session(), small, options, lines);
}

}  // namespace

Outcome<void> gpu_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  const Outcome<engine::DeviceMemory*> devices = gpu::devices();
  if (!devices) {
    std::fprintf(stderr, "gpu: skipped: %s\n", devices.error().message.c_str());
    return {};
  }
  TRY(disk_lines(options, lines));
  return cache_lines(options, **devices, lines);
}

}  // namespace penstock::bench
