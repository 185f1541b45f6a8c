// A target beside the bare disk, alternately in one run.
//
//   store_bench cpu                      cost of a 4 KiB read on a disk that does nothing
//   store_bench DIRECTORY CASE... [gib=4] [seconds=3] [rounds=5]
//
// Cases: read4k read1m (against disk operations on the same data files), write4k write1m4 write1m16
// (durable, against fio with O_DSYNC on a plain file). DIRECTORY is made and left for the next run.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/resource.h>
#include <vector>

#include "penstock/chain_store.h"
#include "penstock/disk.h"
#include "penstock/kv.h"
#include "penstock/store.h"

// Every allocation of this program, to show that the steady state makes none.
static std::atomic<uint64_t> allocations{0};
void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace penstock::store {
namespace {

using engine::DiskOp;
using engine::DiskOpKind;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

uint64_t counter(const std::string& name) {
  for (const auto& sample : metrics::snapshot()) {
    if (sample.name == name) return sample.value;
  }
  return 0;
}

// Completes everything in the next turn; reads leave the memory as it is.
class NullDisk final : public engine::Disk {
 public:
  NullDisk() {
    facts_.backend = "null";
    facts_.direct = true;
    facts_.alignment = 4096;
  }
  bool poll() override {
    if (pending_.empty()) return false;
    IntrusiveList<DiskOp> batch;
    batch.take_all(pending_);
    while (DiskOp* op = batch.pop_front()) {
      op->status = Code::ok;
      op->transferred = op->memory.length;
      op->completion(*op);
    }
    return true;
  }
  const engine::DiskFacts& facts() const override { return facts_; }
  Outcome<engine::DiskFile> open(const std::string&, engine::DiskOpenOptions) override {
    return engine::DiskFile(0);
  }
  void close(engine::DiskFile) override {}
  Result<uint64_t> size(engine::DiskFile) override { return uint64_t{0}; }
  void submit(DiskOp& op) override { pending_.push_back(op); }
  Status register_buffer(engine::BufferId, MutableBytes) override { return Code::ok; }
  void unregister_buffer(engine::BufferId) override {}
  Status make_directory(const std::string&) override { return Code::ok; }
  Result<std::vector<std::string>> list(const std::string&) override {
    return std::vector<std::string>();
  }
  Status remove(const std::string&) override { return Code::ok; }
  Result<std::string> read_file(const std::string&) override { return Code::not_found; }
  Status replace_file(const std::string&, const std::string&) override { return Code::ok; }
  Result<std::unique_ptr<engine::DirectoryLock>> lock_directory(const std::string&) override {
    return std::make_unique<engine::DirectoryLock>();
  }
  Result<engine::DiskSpace> space(const std::string&) override {
    return engine::DiskSpace{kTiB, kTiB};
  }

 private:
  engine::DiskFacts facts_;
  IntrusiveList<DiskOp> pending_;
};

constexpr uint64_t kChunkBytes = 4 * kMiB;

std::byte* memory_of(uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) std::exit(1);
  std::memset(memory, 0x5a, bytes);
  return static_cast<std::byte*>(memory);
}

// Keeps `depth` operations of one kind in flight for a while and counts them.
template <class Operation>
class Load {
 public:
  using Start = void (*)(Load&, Operation&);
  Load(engine::Loop& loop, uint32_t depth, uint64_t bytes, Start start_one)
      : operations(depth), block(bytes), loop_(loop), start_(start_one) {
    memory = memory_of(depth * bytes);
    for (Operation& op : operations) {
      op.owner = this;
      op.completion = [](engine::Op& ended) { ended.owner_as<Load>().on_end(ended); };
    }
  }
  ~Load() { ::munmap(memory, operations.size() * block); }

  uint64_t done() const { return done_; }
  // Operations in a second; CPU nanoseconds of this process for each in `cpu_ns`.
  double run(double seconds, double* cpu_ns = nullptr) {
    const auto begin = engine::system_clock().now();
    const auto end = begin + std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
    const double cpu = cpu_seconds();
    done_ = 0;
    stopping_ = false;
    in_flight_ = static_cast<uint32_t>(operations.size());
    for (Operation& op : operations) start_(*this, op);
    while (in_flight_ > 0) {
      loop_.poll_or_park(engine::kNever);
      stopping_ = stopping_ || loop_.now() >= end;
    }
    const auto took = std::chrono::duration<double>(engine::system_clock().now() - begin).count();
    if (cpu_ns != nullptr) *cpu_ns = (cpu_seconds() - cpu) * 1e9 / static_cast<double>(done_);
    return static_cast<double>(done_) / took;
  }

  engine::MemoryRef buffer(const Operation& op) const {
    const auto index = static_cast<size_t>(&op - operations.data());
    return {memory + index * block, block, engine::kNoBuffer, engine::MemoryKind::host};
  }

  std::vector<Operation> operations;
  uint64_t block;
  std::byte* memory;
  engine::SeededRandom random{7};
  void* context = nullptr;
  uint64_t blocks = 0;  // of the working set

 private:
  void on_end(engine::Op& op) {
    if (!op.status.ok()) {
      std::fprintf(stderr, "store_bench: an operation ended with %s\n",
                   std::string(op.status.name()).c_str());
      std::exit(1);
    }
    ++done_;
    if (stopping_) {
      --in_flight_;
    } else {
      start_(*this, static_cast<Operation&>(op));
    }
  }

  engine::Loop& loop_;
  Start start_;
  uint64_t done_ = 0;
  uint32_t in_flight_ = 0;
  bool stopping_ = false;
};

using Reads = Load<ReadOp>;
using Writes = Load<WriteOp>;
using Raw = Load<DiskOp>;
using Prepares = Load<PrepareOp>;

void start_read(Reads& load, ReadOp& op) {
  const uint64_t at = load.random.below(load.blocks) * load.block;
  op.chunk = {InodeId(1), static_cast<uint32_t>(at / kChunkBytes)};
  op.offset = static_cast<uint32_t>(at % kChunkBytes);
  op.destination = load.buffer(op);
  static_cast<Target*>(load.context)->submit(op);
}

void start_write(Writes& load, WriteOp& op) {
  const uint64_t at = load.random.below(load.blocks) * load.block;
  op.chunk = {InodeId(1), static_cast<uint32_t>(at / kChunkBytes)};
  op.offset = static_cast<uint32_t>(at % kChunkBytes);
  op.source = load.buffer(op);
  op.durable = true;
  static_cast<Target*>(load.context)->submit(op);
}

// Updates of a chain, each committed before the next of its chunk begins.
struct ChainWork {
  ChainStore* store;
  std::vector<UpdatePart> parts;  // one for each operation
  uint64_t updates = 0;
};

void start_prepare(Prepares& load, PrepareOp& op) {
  auto& work = *static_cast<ChainWork*>(load.context);
  const auto index = static_cast<size_t>(&op - load.operations.data());
  if (op.name != UpdateName{}) work.store->commit(op.at);
  const uint64_t depth = load.operations.size();
  const uint64_t chunks = load.blocks * load.block / kChunkBytes / depth;
  const uint64_t chunk = load.random.below(chunks) * depth + index;
  UpdatePart& part = work.parts[index];
  part.request = {1, ++work.updates, 1, static_cast<uint32_t>(index)};
  part.begin = static_cast<uint32_t>(load.random.below(kChunkBytes / load.block) * load.block);
  part.end = part.begin + static_cast<uint32_t>(load.block);
  op.at = {ChainId(1), {InodeId(1), static_cast<uint32_t>(chunk)}};
  op.name = {1, work.updates, part.request};
  op.parts = {&part, 1};
  op.bytes = load.buffer(op);
  work.store->submit(op);
}

struct RawFiles {
  engine::Disk* disk;
  std::vector<engine::DiskFile> files;
};

void start_raw(Raw& load, DiskOp& op) {
  const auto& raw_files = *static_cast<RawFiles*>(load.context);
  const uint64_t at = load.random.below(load.blocks) * load.block;
  op.kind = DiskOpKind::read;
  op.file = raw_files.files[at / kGiB];
  op.offset = at % kGiB;
  op.memory = load.buffer(op);
  raw_files.disk->submit(op);
}

void fill(engine::Loop& loop, Target& target, uint64_t bytes) {
  std::byte* memory = memory_of(kMiB);
  WriteOp op;
  op.source = {memory, kMiB, engine::kNoBuffer, engine::MemoryKind::host};
  op.durable = false;
  for (uint64_t at = 0; at < bytes; at += kMiB) {
    op.chunk = {InodeId(1), static_cast<uint32_t>(at / kChunkBytes)};
    op.offset = static_cast<uint32_t>(at % kChunkBytes);
    bool done = false;
    op.owner = &done;
    op.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
    target.submit(op);
    while (!done) loop.poll_or_park(engine::kNever);
    if (!op.status.ok()) std::exit(1);
  }
  ::munmap(memory, kMiB);
}

void bench_cpu() {
  engine::SeededRandom random(1);
  engine::FutexParker parker(engine::system_clock());
  engine::Loop loop(engine::system_clock(), random, parker);
  NullDisk disk;
  loop.add(disk);
  const auto kv = kv::make_memory_kv();
  {
    TargetConfig config;
    config.directory = "/nowhere";
    auto target = Target::open(loop, disk, *kv, config);
    if (!target) std::exit(1);
    constexpr uint64_t kBytes = kGiB;
    fill(loop, **target, kBytes);
    std::byte* block = memory_of(4096);
    Reads reads(loop, 64, 4096, start_read);
    reads.context = target->get();
    reads.blocks = kBytes / 4096;
    for (int round = 0; round < 5; ++round) {
      double ns = 0;
      const uint64_t allocated = allocations.load();
      reads.run(1, &ns);
      const double each =
          static_cast<double>(allocations.load() - allocated) / static_cast<double>(reads.done());
      const auto begin = engine::system_clock().now();
      uint32_t sum = 0;
      constexpr int kTimes = 1'000'000;
      // Over as many buffers as the reads use.
      for (int i = 0; i < kTimes; ++i) sum += crc32c({reads.memory + (i % 64) * 4096, 4096});
      const double crc =
          std::chrono::duration<double>(engine::system_clock().now() - begin).count() / kTimes;
      std::printf("4 KiB read without a disk: %.0f ns, of them CRC %.0f ns; %.6f allocations%s\n",
                  ns, crc * 1e9, each, sum == 1 ? "!" : "");
    }
    ::munmap(block, 4096);
    (void)engine::PollingCaller().call(loop, [&](engine::Op& done) { (*target)->close(done); });
  }
  loop.remove(disk);
}

struct Settings {
  std::string directory;
  uint64_t gib = 4;
  double seconds = 3;
  int rounds = 5;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Operations in a second of fio writing to a plain file, each write on stable storage.
double fio_writes(const Settings& settings, uint64_t block, int depth) {
  const std::string command = fmt::format(
      "fio --name=w --filename={}/plain --size={}G --rw=randwrite --bs={} --iodepth={} "
      "--ioengine=io_uring --direct=1 --sync=dsync --runtime={} --time_based --group_reporting "
      "--output-format=terse --overwrite=1 2>/dev/null",
      settings.directory, settings.gib, block, depth, static_cast<int>(settings.seconds));
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return 0;
  char line[8192];
  double iops = 0;
  while (std::fgets(line, sizeof(line), pipe) != nullptr) {
    // Field 49 of the terse format is the write IOPS.
    int field = 1;
    for (const char* at = line; *at != 0; ++at) {
      if (*at == ';' && ++field == 49) iops = std::atof(at + 1);
    }
  }
  ::pclose(pipe);
  return iops;
}

class RealBench {
 public:
  explicit RealBench(const Settings& settings) : settings_(settings) {
    auto driver = disk::DiskDriver::create({.root = settings.directory});
    if (!driver) fail(driver.error());
    driver_ = std::move(*driver);
    loop_ = std::make_unique<engine::Loop>(engine::system_clock(), random_, driver_->parker());
    disk_ = &driver_->attach(*loop_);
    auto kv = kv::open_rocksdb({.path = settings.directory + "/maps", .create = true});
    if (!kv) fail(kv.error());
    kv_ = std::move(*kv);
    TargetConfig config;
    config.directory = settings.directory + "/target";
    auto target = Target::open(*loop_, *disk_, *kv_, config);
    if (!target) fail(target.error());
    target_ = std::move(*target);
    if (target_->status().used_bytes < settings.gib * kGiB) {
      fill(*loop_, *target_, settings.gib * kGiB);
    }
  }
  ~RealBench() {
    (void)engine::PollingCaller().call(*loop_, [&](engine::Op& done) { target_->close(done); });
    target_.reset();
    loop_->remove(*disk_);
  }

  void reads(uint64_t block, uint32_t depth) {
    RawFiles raw_files{disk_, {}};
    for (uint64_t i = 0; i < settings_.gib; ++i) {
      auto file = disk_->open(fmt::format("{}/target/data-{:04}", settings_.directory, i), {});
      if (!file) fail(file.error());
      raw_files.files.push_back(*file);
    }
    {
      Reads reads(*loop_, depth, block, start_read);
      Raw raw(*loop_, depth, block, start_raw);
      reads.context = target_.get();
      raw.context = &raw_files;
      reads.blocks = raw.blocks = settings_.gib * kGiB / block;
      compare(
          block, [&](double* ns) { return reads.run(settings_.seconds, ns); },
          [&](double* ns) { return raw.run(settings_.seconds, ns); });
    }
    for (const engine::DiskFile file : raw_files.files) disk_->close(file);
  }

  void writes(uint64_t block, uint32_t depth) {
    Writes writes(*loop_, depth, block, start_write);
    writes.context = target_.get();
    writes.blocks = settings_.gib * kGiB / block;
    const auto ours = [&](double* ns) {
      const uint64_t commits = counter("store.commits");
      const double result = writes.run(settings_.seconds, ns);
      std::printf("  %.1f writes for each commit\n",
                  static_cast<double>(writes.done()) /
                      static_cast<double>(counter("store.commits") - commits));
      return result;
    };
    compare(block, ours,
            [&](double*) { return fio_writes(settings_, block, static_cast<int>(depth)); });
  }

  // Updates of a chain beside plain durable writes. What is left pending is forgotten.
  void prepares(uint64_t block, uint32_t depth) {
    Writes writes(*loop_, depth, block, start_write);
    writes.context = target_.get();
    writes.blocks = settings_.gib * kGiB / block;
    Prepares prepares(*loop_, depth, block, start_prepare);
    ChainWork work{&target_->chains(), std::vector<UpdatePart>(depth)};
    prepares.context = &work;
    prepares.blocks = writes.blocks;
    const auto ours = [&](double* ns) {
      const double result = prepares.run(settings_.seconds, ns);
      for (PrepareOp& op : prepares.operations) work.store->forget(op.at);
      for (PrepareOp& op : prepares.operations) op.name = {};
      return result;
    };
    compare(block, ours, [&](double* ns) { return writes.run(settings_.seconds, ns); });
  }

 private:
  [[noreturn]] static void fail(const Failure& failure) {
    std::fprintf(stderr, "store_bench: %s\n", failure.message.c_str());
    std::exit(1);
  }
  template <class Ours, class Theirs>
  void compare(uint64_t block, Ours ours, Theirs theirs) {
    std::vector<double> a, b;
    for (int round = 0; round < settings_.rounds; ++round) {
      double our_ns = 0, their_ns = 0;
      a.push_back(ours(&our_ns));
      b.push_back(theirs(&their_ns));
      const double mib = static_cast<double>(block) / static_cast<double>(kMiB);
      std::printf(
          "  target %9.0f/s %7.0f MiB/s %6.0f ns CPU   reference %9.0f/s %7.0f MiB/s %6.0f "
          "ns CPU\n",
          a.back(), a.back() * mib, our_ns, b.back(), b.back() * mib, their_ns);
      std::fflush(stdout);
    }
    std::printf("  ratio of the medians: %.3f\n", median(a) / median(b));
  }

  Settings settings_;
  engine::SeededRandom random_{3};
  std::unique_ptr<disk::DiskDriver> driver_;
  std::unique_ptr<engine::Loop> loop_;
  engine::Disk* disk_ = nullptr;
  std::unique_ptr<engine::Kv> kv_;
  std::unique_ptr<Target> target_;
};

int run(int argc, char** argv) {
  Settings settings;
  std::vector<std::string> cases;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "cpu") {
      bench_cpu();
      return 0;
    }
    if (word.starts_with("gib=")) {
      settings.gib = std::strtoull(word.c_str() + 4, nullptr, 10);
    } else if (word.starts_with("seconds=")) {
      settings.seconds = std::atof(word.c_str() + 8);
    } else if (word.starts_with("rounds=")) {
      settings.rounds = std::atoi(word.c_str() + 7);
    } else if (settings.directory.empty()) {
      settings.directory = word;
    } else {
      cases.push_back(word);
    }
  }
  if (settings.directory.empty()) {
    std::fprintf(stderr, "usage: store_bench cpu | DIRECTORY CASE... [gib=4] [seconds=3]\n");
    return 2;
  }
  RealBench bench(settings);
  for (const std::string& name : cases) {
    std::printf("%s\n", name.c_str());
    if (name == "read4k") bench.reads(4096, 64);
    if (name == "read1m") bench.reads(kMiB, 8);
    if (name == "write4k") bench.writes(4096, 64);
    if (name == "prepare4k1") bench.prepares(4096, 1);
    if (name == "prepare4k") bench.prepares(4096, 64);
    if (name == "prepare1m") bench.prepares(kMiB, 8);
    if (name == "write1m4") bench.writes(kMiB, 4);
    if (name == "write1m16") bench.writes(kMiB, 16);
  }
  return 0;
}

}  // namespace
}  // namespace penstock::store

int main(int argc, char** argv) {
  return penstock::store::run(argc, argv);
}
