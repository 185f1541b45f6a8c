#include "aged_suite.h"

#include "comparison.h"

#include <cstdio>
#include <fcntl.h>
#include <memory>
#include <numeric>
#include <thread>

#include "penstock/agent.h"
#include "penstock/bench.h"
#include "penstock/console.h"
#include "penstock/engine.h"

namespace penstock::bench {
namespace {

constexpr uint64_t kAgedBlock = 4 * kKiB;
constexpr uint32_t kWriteDepth = 64;
// The file that others work on meanwhile.
constexpr uint64_t kOtherBytes = 256 * kMiB;
// The background work begins some seconds after there is something to do. It has ended when
// nothing more happens for a while.
constexpr std::chrono::seconds kPatience{30};
constexpr std::chrono::milliseconds kLook{20};
// Of what it gets alone, what others get beside the work, at least.
constexpr double kBesideBudget = 0.8;

struct Aged {
  agent::Agent* agent;
  penstock_session* session;
  std::string plain;
  const BenchOptions* options;
  std::vector<BenchLine>* lines;
};

Workload sequential(const Aged& aged, uint32_t depth) {
  Workload workload;
  workload.random = false;
  workload.block_bytes = kMiB;
  workload.depth = depth;
  workload.file_bytes = aged.options->file_bytes;
  workload.seconds = aged.options->seconds;
  return workload;
}

Workload random_reads(const Aged& aged) {
  Workload workload;
  workload.file_bytes = aged.options->file_bytes;
  workload.seconds = aged.options->seconds;
  return workload;
}

// Each block of the file once, in random order, and then an fsync.
Outcome<void> overwrite_all(penstock_session* session, const std::string& path, uint64_t bytes) {
  TRY_ASSIGN(const console::Region region,
             console::create_region(session, kAgedBlock * kWriteDepth));
  TRY_ASSIGN(const console::Ring ring, console::create_ring(session, kWriteDepth, 1));
  const penstock_file file = penstock_open(session, path.c_str(), O_RDWR, 0);
  if (file < 0) return console::api_failure(static_cast<int>(file));
  std::vector<uint32_t> order(bytes / kAgedBlock);
  std::iota(order.begin(), order.end(), 0);
  engine::SeededRandom random(23);
  for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  auto* words = static_cast<uint64_t*>(penstock_region_base(region.get()));
  for (uint64_t i = 0; i < kAgedBlock * kWriteDepth / sizeof(uint64_t); ++i)
    words[i] = random.next();

  std::vector<uint64_t> slots(kWriteDepth);
  std::iota(slots.begin(), slots.end(), 0);
  size_t next = 0;
  while (next < order.size() || slots.size() < kWriteDepth) {
    for (; next < order.size() && !slots.empty(); ++next) {
      penstock_io io{};
      io.operation = PENSTOCK_WRITE;
      io.file = file;
      io.offset = order[next] * kAgedBlock;
      io.length = kAgedBlock;
      io.region = region.get();
      io.region_offset = slots.back() * kAgedBlock;
      io.user_data = slots.back();
      slots.pop_back();
      const int prepared = penstock_prepare(ring.get(), &io);
      if (prepared < 0) return console::api_failure(prepared);
    }
    penstock_submit(ring.get());
    penstock_completion done[kWriteDepth];
    const int count = penstock_wait(ring.get(), done, kWriteDepth, 1, PENSTOCK_FOREVER);
    if (count < 0) return console::api_failure(count);
    for (int i = 0; i < count; ++i) {
      if (done[i].result < 0) return console::api_failure(static_cast<int>(done[i].result));
      slots.push_back(done[i].user_data);
    }
  }
  const int synced = penstock_fsync(session, file);
  if (synced < 0) return console::api_failure(synced);
  penstock_file_close(session, file);
  return {};
}

struct Work {
  uint64_t scattered = 0;
  uint64_t moved = 0;
};

Work work_of(const Aged& aged) {
  Work work;
  for (const agent::ShardStatus& shard : aged.agent->status().shards) {
    work.scattered += shard.scattered_bytes;
    work.moved += shard.moved_bytes;
  }
  return work;
}

Outcome<void> compare(const Aged& aged, const std::string& name, const std::string& title,
                      std::optional<double> budget, const Workload& workload,
                      const Comparison::Run& ours, const Comparison::Run& reference,
                      const char* note) {
  std::fprintf(stderr, "%s ", title.c_str());
  Comparison comparison(aged.options->rounds);
  TRY(comparison.run(ours, reference));
  BenchLine line = comparison.line(workload, workload.block_bytes < kMiB);
  line.name = "aged." + name;
  line.title = "aged: " + title;
  line.budget = budget;
  line.note = note;
  std::fprintf(stderr, " %.2f\n", line.ratio.value_or(0));
  aged.lines->push_back(std::move(line));
  return {};
}

Outcome<void> measure_at_once(const Aged& aged) {
  const Workload small = random_reads(aged);
  for (const uint32_t depth : {4u, 1u}) {
    const Workload large = sequential(aged, depth);
    TRY(compare(
        aged, "at_once.qd" + std::to_string(depth),
        "1 MiB sequential read at once, depth " + std::to_string(depth),
        depth == 4 ? std::optional(0.9) : std::nullopt, large,
        [&] { return run_on_ring(aged.session, "/aged", large); },
        [&] { return reference_run(aged.plain, small); },
        "aged, at once: random reads of 4 KiB, depth 64, of a plain file on the same disk"));
  }
  return {};
}

// Starts the work and waits for its first step.
void start_work(const Aged& aged) {
  const uint64_t moved = work_of(aged).moved;
  const engine::Time begin = engine::system_clock().now();
  aged.agent->set_defragment(true);
  while (work_of(aged).moved == moved && engine::system_clock().now() - begin < kPatience) {
    std::this_thread::sleep_for(kLook);
  }
}

// What others get beside the work, against what they get without it.
Outcome<void> measure_beside(const Aged& aged, bool write) {
  Workload workload = random_reads(aged);
  workload.write = write;
  workload.depth = write ? 16 : 64;
  workload.file_bytes = kOtherBytes;
  const auto without = [&]() -> Outcome<Measurement> {
    aged.agent->set_defragment(false);
    return run_on_ring(aged.session, "/other", workload);
  };
  const auto beside = [&]() -> Outcome<Measurement> {
    start_work(aged);
    const Work before = work_of(aged);
    auto result = run_on_ring(aged.session, "/other", workload);
    const Work after = work_of(aged);
    aged.agent->set_defragment(false);
    if (after.moved == before.moved) {
      return Failure{Code::not_supported, "aged: no background work happened (a larger --size?)"};
    }
    const double rate = static_cast<double>(after.moved - before.moved) / aged.options->seconds;
    std::fprintf(stderr, "(moved %.0f MB/s)", rate / 1e6);
    return result;
  };
  return compare(aged, write ? "beside.write" : "beside.read",
                 workload.name() + ", beside the background work", kBesideBudget, workload, beside,
                 without, "aged, beside: the same without the work");
}

Outcome<void> measure_after(const Aged& aged) {
  std::fprintf(stderr, "the work goes on alone ");
  const Work begin = work_of(aged);
  const engine::Time began = engine::system_clock().now();
  engine::Time changed = began;
  uint64_t seen = begin.moved;
  aged.agent->set_defragment(true);
  Work now = begin;
  while (now.scattered > aged.options->file_bytes / 100 &&
         engine::system_clock().now() - changed < kPatience) {
    std::this_thread::sleep_for(kLook);
    now = work_of(aged);
    if (now.moved != seen) changed = engine::system_clock().now();
    seen = now.moved;
  }
  const double seconds = std::chrono::duration<double>(changed - began).count();
  std::fprintf(stderr, "%.1f s, %.0f MB moved, %.0f MB left\n", seconds,
               static_cast<double>(now.moved - begin.moved) / 1e6,
               static_cast<double>(now.scattered) / 1e6);
  BenchLine line;
  line.name = "aged.work.rate";
  line.title = "aged: background work alone, with its first wait";
  line.value = static_cast<double>(now.moved - begin.moved) / seconds / 1e6;
  line.unit = "MB/s";
  aged.lines->push_back(line);
  const Workload large = sequential(aged, 4);
  return compare(
      aged, "after.qd4", "1 MiB sequential read after the background work, depth 4", 0.8, large,
      [&] { return run_on_ring(aged.session, "/aged", large); },
      [&] { return run_on_ring(aged.session, "/fresh", large); },
      "aged, after: a file that was never overwritten");
}

}  // namespace

Outcome<void> aged_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  auto scratch = Scratch::create(options.directory, options.file_bytes * 5 + 2 * kGiB);
  if (!scratch) return scratch.error();
  agent::AgentConfig config;
  config.directory = scratch->path() + "/store";
  config.defragment = false;
  TRY_ASSIGN(const std::unique_ptr<agent::Agent> agent, agent::Agent::start(config));
  TRY_ASSIGN(console::Session session, console::connect_session(config.directory));
  const Aged aged{agent.get(), session.get(), scratch->path() + "/reference.dat", &options, lines};
  TRY(make_plain_file(aged.plain, options.file_bytes));
  TRY(make_ring_file(session.get(), "/fresh", options.file_bytes));
  TRY(make_ring_file(session.get(), "/aged", options.file_bytes));
  TRY(make_ring_file(session.get(), "/other", kOtherBytes));
  std::fprintf(stderr, "aged: every block of %.0f MB is overwritten\n",
               static_cast<double>(options.file_bytes) / 1e6);
  TRY(overwrite_all(session.get(), "/aged", options.file_bytes));
  TRY(measure_at_once(aged));
  TRY(measure_beside(aged, false));
  TRY(measure_beside(aged, true));
  TRY(measure_after(aged));
  session.reset();
  agent->stop();
  return {};
}

}  // namespace penstock::bench
