#include "cache_suite.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "penstock/agent.h"
#include "penstock/bench.h"
#include "penstock/console.h"
#include "penstock/engine.h"

namespace penstock::bench {
namespace {

constexpr uint64_t kCacheBlock = 4 * kKiB;

// A copy of a random block out of shared memory, and its checksum: what no cache can do without.
class BareCopies {
 public:
  static Outcome<BareCopies> make(uint64_t bytes) {
    const UniqueFd fd(::memfd_create("penstock-bench", MFD_CLOEXEC));
    void* base = MAP_FAILED;
    if (fd && ::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0) {
      base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    }
    if (base == MAP_FAILED) return Failure{Code::no_memory, "bench: no memory for the reference"};
    std::memset(base, 0x5a, bytes);
    return BareCopies({static_cast<std::byte*>(base), bytes});
  }
  BareCopies(BareCopies&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  BareCopies& operator=(BareCopies&&) = delete;
  ~BareCopies() {
    if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
  }

  // Nanoseconds a block.
  double run(double seconds) const {
    std::vector<std::byte> to(64 * kCacheBlock);
    engine::SeededRandom random(3);
    const uint64_t blocks = memory_.size() / kCacheBlock;
    const uint64_t began = penstock_now();
    const uint64_t end = began + static_cast<uint64_t>(seconds * 1e9);
    uint64_t copies = 0;
    uint32_t sum = 0;
    while (penstock_now() < end) {
      for (size_t i = 0; i < 64; ++i, ++copies) {
        std::byte* const at = to.data() + i * kCacheBlock;
        std::memcpy(at, memory_.data() + random.below(blocks) * kCacheBlock, kCacheBlock);
        sum ^= crc32c(Bytes(at, kCacheBlock));
      }
    }
    volatile uint32_t used = sum;  // so that the work is not left out
    (void)used;
    return static_cast<double>(penstock_now() - began) / static_cast<double>(copies);
  }

 private:
  explicit BareCopies(MutableBytes memory) : memory_(memory) {}
  MutableBytes memory_;
};

// Brings the file in and waits until reads of this session hit.
Outcome<void> warm(penstock_session* session, const std::string& path, uint64_t bytes) {
  TRY_ASSIGN(const console::Region region, console::create_region(session, kCacheBlock));
  TRY_ASSIGN(const console::Ring ring, console::create_ring(session, 1, 1));
  const penstock_file file = penstock_open(session, path.c_str(), O_RDONLY, 0);
  if (file < 0) return console::api_failure(file);
  const auto run = [&](uint8_t operation, uint64_t offset, uint64_t length) {
    penstock_io io{};
    io.operation = operation;
    io.file = file;
    io.offset = offset;
    io.length = length;
    io.region = region.get();
    penstock_completion done{};
    penstock_prepare(ring.get(), &io);
    penstock_submit(ring.get());
    penstock_wait(ring.get(), &done, 1, 1, PENSTOCK_FOREVER);
    return done;
  };
  for (uint64_t at = 0; at < bytes; at += limits::kIoBytesMax) {
    run(PENSTOCK_WARM, at, std::min(limits::kIoBytesMax, bytes - at));
  }
  const auto cache = static_cast<penstock_route>(engine::Route::cache);
  bool hits = false;
  for (int i = 0; i < 5000 && !hits; ++i) {
    hits = true;
    // One block of each slab, so that all of them are mapped.
    for (uint64_t at = 0; at < bytes; at += kMiB) {
      hits = hits && run(PENSTOCK_READ, at, kCacheBlock).route == cache;
    }
    if (!hits) ::usleep(1000);
  }
  penstock_file_close(session, file);
  if (!hits) return Failure{Code::no_memory, "bench: the file does not stay in the cache"};
  return {};
}

BenchLine line_of(const std::string& name, const std::string& title, double value) {
  BenchLine line;
  line.name = name;
  line.title = title;
  line.value = value;
  return line;
}

// One size of file: in the processor's cache, or in memory.
Outcome<void> measure(penstock_session* session, const BenchOptions& options, uint64_t bytes,
                      std::vector<BenchLine>* lines) {
  const std::string size = console::human_bytes(static_cast<double>(bytes));
  const std::string path = "/" + std::to_string(bytes / kMiB);
  TRY(make_ring_file(session, path, bytes));
  TRY(warm(session, path, bytes));
  TRY_ASSIGN(const BareCopies bare, BareCopies::make(bytes));
  Workload deep;
  deep.block_bytes = kCacheBlock;
  deep.batch = 16;
  deep.file_bytes = bytes;
  deep.seconds = options.seconds / 2;
  Workload single = deep;
  single.depth = single.batch = 1;
  std::vector<double> rates, references, ratios, latencies, allocations;
  std::fprintf(stderr, "cache: 4 KiB of %s ", size.c_str());
  for (uint32_t round = 0; round < options.rounds; ++round) {
    std::fprintf(stderr, ".");
    TRY_ASSIGN(const Measurement ours, run_on_ring(session, path, deep));
    const double copy_ns = bare.run(options.seconds / 2);
    TRY_ASSIGN(const Measurement alone, run_on_ring(session, path, single));
    rates.push_back(ours.iops());
    references.push_back(1e9 / copy_ns);
    ratios.push_back(ours.iops() * copy_ns / 1e9);
    latencies.push_back(static_cast<double>(alone.latency_p50_ns));
    if (ours.allocations) {
      allocations.push_back(static_cast<double>(*ours.allocations) /
                            static_cast<double>(ours.operations));
    }
  }
  const std::string name = "cache.read.4k." + std::to_string(bytes / kMiB) + "m";
  BenchLine rate = line_of(name, "cache: 4 KiB random reads that hit, of " + size, median(rates));
  rate.unit = "IOPS";
  rate.reference = median(references);
  rate.ratio = median(ratios);
  rate.note = "cache: a bare loop of copies and checksums out of shared memory, one thread";
  lines->push_back(rate);
  BenchLine cost = line_of(name + ".hit_ns", "cache: time of a hit, one core", 1e9 / median(rates));
  cost.unit = "ns";
  cost.budget = 500;
  lines->push_back(cost);
  BenchLine latency =
      line_of(name + ".latency_ns", "cache: median latency, one read at a time", median(latencies));
  latency.unit = "ns";
  latency.budget = 1000;
  lines->push_back(latency);
  if (!allocations.empty()) {
    BenchLine line =
        line_of(name + ".allocations", "cache: allocations per hit", median(allocations));
    line.unit = "/op";
    line.budget = 0.001;
    lines->push_back(line);
  }
  std::fprintf(stderr, " %.2f\n", median(ratios));
  return {};
}

}  // namespace

Outcome<void> cache_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  const uint64_t large = std::min<uint64_t>(options.file_bytes, kGiB);
  const uint64_t small = 8 * kMiB;
  auto scratch = Scratch::create(options.directory, large * 2 + kGiB);
  if (!scratch) return scratch.error();
  agent::AgentConfig config;
  config.directory = scratch->path() + "/store";
  config.cache_bytes = large * 2;
  TRY_ASSIGN(const std::unique_ptr<agent::Agent> agent, agent::Agent::start(config));
  {
    TRY_ASSIGN(const console::Session session, console::connect_session(config.directory));
    TRY(measure(session.get(), options, small, lines));
    if (large > small) TRY(measure(session.get(), options, large, lines));
  }
  agent->stop();
  return {};
}

}  // namespace penstock::bench
