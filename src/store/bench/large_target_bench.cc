// A target that is full as far as its block maps say, on data files that are sparse: how long it
// takes to open, what it keeps in memory, and what a 4 KiB read at random costs.
//
//   large_target_bench DIRECTORY make [gb=3000]      makes it: chunks of a MiB, each in one run
//   large_target_bench DIRECTORY open [seconds=5] [mb=1024] [cold=1]
//
// The maps are written by the functions that a commit uses; all blocks are zeros and verify. With
// cold=1 the kernel's caches are dropped before (as root). mb is map_cache_bytes. Reads find holes
// of a sparse file, so what is measured of them is all but the data's own way from a disk.
#include "map_records.h"
#include "superblock.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "penstock/disk.h"
#include "penstock/kv.h"
#include "penstock/store.h"

namespace penstock::store {
namespace {

using engine::KvMode;
using engine::KvTransaction;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kChunksOfFile = 1024;

struct Settings {
  std::string directory;
  uint64_t gb = 3000;
  uint64_t mb = 1024;
  double seconds = 5;
  bool cold = false;

  uint64_t maps() const { return gb * 1'000'000'000 / limits::kMapBytes; }
};

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "large_target_bench: %s\n", message.c_str());
  std::exit(1);
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

uint64_t resident_mib() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096 / kMiB;
}

ChunkId chunk_of(uint64_t map) {
  return {InodeId(1000 + map / kChunksOfFile), static_cast<uint32_t>(map % kChunksOfFile)};
}

// A process's ends of a disk, a database and a target.
class Node {
 public:
  explicit Node(const Settings& settings) {
    auto driver = disk::DiskDriver::create({.root = settings.directory});
    if (!driver) fail(driver.error().message);
    driver_ = std::move(*driver);
    loop = std::make_unique<engine::Loop>(engine::system_clock(), random_, driver_->parker());
    disk = &driver_->attach(*loop);
    const auto begin = Clock::now();
    auto opened = kv::open_rocksdb({.path = settings.directory + "/maps", .create = true});
    if (!opened) fail(opened.error().message);
    kv = std::move(*opened);
    database_seconds = since(begin);
    config.directory = settings.directory + "/target";
    config.map_cache_bytes = settings.mb * kMiB;
    config.defragment.enabled = false;
  }
  ~Node() {
    if (target != nullptr) {
      (void)engine::PollingCaller().call(*loop, [&](engine::Op& done) { target->close(done); });
    }
    target.reset();
    loop->remove(*disk);
  }
  void open() {
    auto opened = Target::open(*loop, *disk, *kv, config);
    if (!opened) fail(opened.error().message);
    target = std::move(*opened);
  }

 private:
  engine::SeededRandom random_{3};
  std::unique_ptr<disk::DiskDriver> driver_;

 public:
  std::unique_ptr<engine::Loop> loop;
  engine::Disk* disk = nullptr;
  std::unique_ptr<engine::Kv> kv;
  std::unique_ptr<Target> target;
  TargetConfig config;
  double database_seconds = 0;
};

// Data files as long as they are when they are full, without a block of the file system.
void make_files(const std::string& directory, uint64_t blocks) {
  for (uint64_t i = 0; i * limits::kDataFileBlocks < blocks; ++i) {
    const std::string path = fmt::format("{}/data-{:04}", directory, i);
    const int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    const auto length = static_cast<off_t>(limits::kDataFileBlocks * limits::kBlockBytes);
    if (file < 0 || ::ftruncate(file, length) != 0) fail(path + ": cannot be made");
    ::close(file);
  }
}

void make(const Settings& settings) {
  Node node(settings);
  node.open();  // makes the superblock and the identity
  make_files(node.config.directory, settings.maps() * limits::kMapBlocks);
  const std::vector<std::byte> zeros(limits::kBlockBytes);
  const uint32_t crc = crc32c(zeros);
  const auto begin = Clock::now();
  constexpr uint64_t kEach = 2048;
  for (uint64_t first = 0; first < settings.maps(); first += kEach) {
    const Status status = node.kv->run(KvMode::write, [&](KvTransaction& transaction) -> Status {
      for (uint64_t n = first; n < std::min(first + kEach, settings.maps()); ++n) {
        BlockMap map;
        for (uint32_t b = 0; b < limits::kMapBlocks; ++b) {
          map.blocks[b] = {n * limits::kMapBlocks + b, crc};
        }
        map.valid_end = limits::kMapBytes;
        write_map(transaction, {ChainId{}, chunk_of(n), 0}, map);
      }
      return Code::ok;
    });
    if (!status.ok()) fail(std::string(status.name()));
  }
  std::printf("%" PRIu64 " maps of %" PRIu64 " GB made in %.1f s\n", settings.maps(), settings.gb,
              since(begin));
}

void drop_caches() {
  ::sync();
  std::ofstream file("/proc/sys/vm/drop_caches");
  file << "3" << std::flush;
  if (!file) fail("cannot drop the kernel's caches (be root)");
}

// Reads 4 KiB at random of the first `maps` with so many under way, and prints how long they took.
void read_at_random(Node& node, double seconds, size_t depth, uint64_t maps, bool quiet = false) {
  struct One : ReadOp {
    Clock::time_point begin;
    bool done = true;
  };
  std::vector<One> ops(depth);
  std::vector<double> times;
  engine::SeededRandom random(static_cast<uint64_t>(depth));
  auto* memory = static_cast<std::byte*>(::mmap(nullptr, depth * 4096, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
  if (memory == MAP_FAILED) fail("no memory");
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  size_t left = depth;
  bool stopping = false;
  while (left > 0) {
    stopping = stopping || since(begin) > seconds;
    left = depth;
    for (size_t i = 0; i < depth; ++i) {
      One& op = ops[i];
      if (!op.done) continue;
      if (stopping) {
        --left;
        continue;
      }
      op.done = false;
      op.begin = Clock::now();
      op.chunk = chunk_of(random.below(maps));
      op.offset = static_cast<uint32_t>(random.below(limits::kMapBlocks) * 4096);
      op.destination = {memory + i * 4096, 4096, engine::kNoBuffer, engine::MemoryKind::host};
      op.owner = &times;
      op.completion = [](engine::Op& ended) {
        auto& self = static_cast<One&>(ended);
        if (!self.status.ok()) fail(std::string(self.status.name()));
        ended.owner_as<std::vector<double>>().push_back(since(self.begin) * 1e6);
        self.done = true;
      };
      node.target->submit(op);
    }
    if (left > 0) node.loop->poll_or_park(engine::kNever);
  }
  const double took = since(begin);
  ::munmap(memory, depth * 4096);
  if (quiet) return;
  std::sort(times.begin(), times.end());
  std::printf("  4 KiB reads in %7" PRIu64
              " maps, %2zu at once: %8.0f/s, %6.1f us CPU each, us p50 %.0f p99 "
              "%.0f p99.9 %.0f\n",
              maps, depth, static_cast<double>(times.size()) / took,
              (cpu_seconds() - cpu) * 1e6 / static_cast<double>(times.size()),
              times[times.size() / 2], times[times.size() * 99 / 100],
              times[times.size() * 999 / 1000]);
}

void open(const Settings& settings) {
  if (settings.cold) drop_caches();
  Node node(settings);
  const uint64_t before = resident_mib();
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  node.open();
  const double took = since(begin);
  const TargetStatus status = node.target->status();
  std::printf("opened %s in %.2f s (%.2f s CPU), after the database in %.2f s: %.1f GB in %" PRIu64
              " maps, %" PRIu64 " MiB more of memory\n",
              settings.cold ? "cold" : "warm", took, cpu_seconds() - cpu, node.database_seconds,
              static_cast<double>(status.used_bytes) / 1e9, status.chunks, resident_mib() - before);
  std::fflush(stdout);
  if (settings.cold) drop_caches();
  for (const size_t depth : {1, 64}) {
    read_at_random(node, settings.seconds, depth, status.chunks);
  }
  // What was read before is in memory whole.
  constexpr uint64_t kFew = 2000;
  read_at_random(node, settings.seconds, 64, kFew, true);
  for (const size_t depth : {1, 64}) read_at_random(node, settings.seconds, depth, kFew);
  std::printf("  %" PRIu64 " whole maps in memory, %" PRIu64 " MiB resident\n",
              node.target->status().block_maps_cached, resident_mib());
}

int run(int argc, char** argv) {
  Settings settings;
  std::string mode;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&word] { return word.substr(word.find('=') + 1); };
    if (word.starts_with("gb=")) {
      settings.gb = std::strtoull(value().c_str(), nullptr, 10);
    } else if (word.starts_with("mb=")) {
      settings.mb = std::strtoull(value().c_str(), nullptr, 10);
    } else if (word.starts_with("seconds=")) {
      settings.seconds = std::atof(value().c_str());
    } else if (word.starts_with("cold=")) {
      settings.cold = value() == "1";
    } else if (settings.directory.empty()) {
      settings.directory = word;
    } else {
      mode = word;
    }
  }
  if (mode == "make") {
    make(settings);
  } else if (mode == "open") {
    open(settings);
  } else {
    std::fprintf(stderr,
                 "usage: large_target_bench DIRECTORY make|open [gb=3000] [mb=1024] "
                 "[seconds=5] [cold=1]\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace penstock::store

int main(int argc, char** argv) {
  return penstock::store::run(argc, argv);
}
