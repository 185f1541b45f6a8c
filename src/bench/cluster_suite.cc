#include "cluster_suite.h"

#include "cluster_nodes.h"
#include "comparison.h"

#include <cstdio>
#include <fcntl.h>

#include "penstock/bench.h"
#include "penstock/console.h"
#include "penstock/gpu.h"

namespace penstock::bench {
namespace {

constexpr uint32_t kNodes = 3;
constexpr uint32_t kCopies = 3;
// Files that are made until one lies where the first node has nothing: a third of the chains do.
constexpr uint32_t kFilesMax = 64;

constexpr double kSharedRate = 0.7;      // of a plain file's rate, shared among the copies
constexpr double kOneAtATime = 1 / 1.3;  // of the rate of durable writes, one for each copy
constexpr double kJoined = 8;            // times the rate of one at a time
constexpr double kToDevices = 0.9;       // of the rate into host memory

struct Row {
  const char* name;
  const char* title;
  const char* note;
  std::optional<double> budget;
  Workload workload;
};

// Of a plain file's rate each copy has its part.
Measurement share_of(Measurement measured) {
  measured.operations /= kCopies;
  measured.bytes /= kCopies;
  return measured;
}

class ClusterBench {
 public:
  ClusterBench(const BenchOptions& options, std::vector<BenchLine>* lines)
      : options_(options), lines_(*lines) {}

  Outcome<void> run();

 private:
  Outcome<void> compare(const Row& row, const Comparison::Run& reference);
  Outcome<void> writes();
  Outcome<void> reads();
  Outcome<void> reads_of_others();
  Workload workload(uint64_t block_bytes, uint32_t depth) const;

  const BenchOptions& options_;
  std::vector<BenchLine>& lines_;
  std::optional<Scratch> scratch_;
  std::optional<ClusterNodes> cluster_;
  console::Session session_;
  std::string plain_;           // the reference's file
  std::string file_ = "/data";  // what is measured
};

Workload ClusterBench::workload(uint64_t block_bytes, uint32_t depth) const {
  Workload workload;
  workload.block_bytes = block_bytes;
  workload.depth = depth;
  workload.file_bytes = options_.file_bytes;
  workload.seconds = options_.seconds;
  return workload;
}

Outcome<void> ClusterBench::compare(const Row& row, const Comparison::Run& reference) {
  std::fprintf(stderr, "%s ", row.title);
  Comparison comparison(options_.rounds);
  TRY(comparison.run([&] { return run_on_ring(session_.get(), file_, row.workload); }, reference));
  BenchLine line = comparison.line(row.workload, row.workload.block_bytes < 64 * kKiB);
  line.name = row.name;
  line.title = row.title;
  line.note = row.note;
  line.budget = row.budget;
  // Most of the work is in other processes.
  line.cpu_per_gb = line.system_calls = line.allocations = "";
  lines_.push_back(line);
  std::fprintf(stderr, " %.2f\n", line.ratio.value_or(0));
  return {};
}

Outcome<void> ClusterBench::writes() {
  Row large{"cluster.write.1m", "3 copies: 1 MiB durable write, depth 8",
            "a third of fio, io_uring, O_DIRECT, O_DSYNC, a plain file on the same disk",
            kSharedRate, workload(kMiB, 8)};
  large.workload.write = true;
  TRY(compare(large, [&]() -> Outcome<Measurement> {
    TRY_ASSIGN(const Measurement plain, reference_run(plain_, large.workload));
    return share_of(plain);
  }));
  Row one{"cluster.write.4k.qd1", "3 copies: 4 KiB durable write, one at a time",
          "fio as above, 4 KiB, three at a time: one for each copy", kOneAtATime,
          workload(4 * kKiB, 1)};
  one.workload.write = true;
  TRY(compare(one, [&]() -> Outcome<Measurement> {
    Workload each = one.workload;
    each.depth = kCopies;
    TRY_ASSIGN(const Measurement plain, reference_run(plain_, each));
    return share_of(plain);
  }));
  Row joined{"cluster.write.4k.qd64", "3 copies: 4 KiB durable write, depth 64 on one chunk",
             "the same, one at a time", kJoined, workload(4 * kKiB, 64)};
  joined.workload.write = true;
  joined.workload.file_bytes = kMiB;
  return compare(joined, [&] {
    Workload alone = joined.workload;
    alone.depth = 1;
    return run_on_ring(session_.get(), file_, alone);
  });
}

Outcome<void> ClusterBench::reads() {
  const Row rows[] = {
      {"cluster.read.4k.qd1", "3 copies: 4 KiB random read, one at a time", reference_note(),
       std::nullopt, workload(4 * kKiB, 1)},
      {"cluster.read.4k.qd64", "3 copies: 4 KiB random read, depth 64", reference_note(),
       std::nullopt, workload(4 * kKiB, 64)},
  };
  for (const Row& row : rows) {
    TRY(compare(row, [&] { return reference_run(plain_, row.workload); }));
  }
  return {};
}

// Of a file whose chain has no copy on the node that reads it.
Outcome<void> ClusterBench::reads_of_others() {
  const int made = penstock_mkdir(session_.get(), "/elsewhere", 0755);
  if (made < 0) return console::api_failure(made);
  TRY(cluster_->set_copies("/elsewhere", kNodes - 1, true));
  for (uint32_t i = 0;; ++i) {
    if (i == kFilesMax) {
      return Failure{Code::no_space, "bench: every chain has a copy on the first node"};
    }
    file_ = "/elsewhere/" + std::to_string(i);
    TRY(make_ring_file(session_.get(), file_, 4 * kKiB));
    TRY_ASSIGN(const bool elsewhere, cluster_->is_elsewhere(file_));
    if (elsewhere) break;
  }
  TRY(make_ring_file(session_.get(), file_, options_.file_bytes));
  const Row small{"cluster.remote.4k", "from other nodes: 4 KiB random read, one at a time",
                  reference_note(), std::nullopt, workload(4 * kKiB, 1)};
  TRY(compare(small, [&] { return reference_run(plain_, small.workload); }));
  Row large{"cluster.remote.1m", "from other nodes: 1 MiB random read, depth 16", reference_note(),
            std::nullopt, workload(kMiB, 16)};
  TRY(compare(large, [&] { return reference_run(plain_, large.workload); }));
  if (const auto devices = gpu::devices(); !devices) {
    std::fprintf(stderr, "cluster to GPU: skipped: %s\n", devices.error().message.c_str());
    return {};
  }
  const Workload host = large.workload;
  large.name = "cluster.remote.gpu";
  large.title = "from other nodes to GPU: 1 MiB random read, depth 16";
  large.note = "the same into host memory";
  large.budget = kToDevices;
  large.workload.gpu = 0;
  return compare(large, [&] { return run_on_ring(session_.get(), file_, host); });
}

Outcome<void> ClusterBench::run() {
  // The copies of both files, what waits for its commit, and the reference.
  const uint64_t bytes = options_.file_bytes * (2 * kCopies + 2) + kNodes * kGiB;
  auto scratch = Scratch::create(options_.directory, bytes);
  if (!scratch) return scratch.error();
  scratch_.emplace(std::move(*scratch));
  plain_ = scratch_->path() + "/reference.dat";
  TRY(make_plain_file(plain_, options_.file_bytes));
  TRY_ASSIGN(cluster_, ClusterNodes::start(scratch_->path(), kNodes));
  TRY(cluster_->set_copies("/", kCopies, false));
  TRY_ASSIGN(session_, cluster_->connect());
  TRY(make_ring_file(session_.get(), file_, options_.file_bytes));
  TRY(writes());
  TRY(reads());
  return reads_of_others();
}

}  // namespace

Outcome<void> cluster_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  return ClusterBench(options, lines).run();
}

}  // namespace penstock::bench
