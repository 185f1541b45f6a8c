// Random reads through loop and disk, in turns with fio on the same file.
//
//   disk_bench FILE [BLOCK_BYTES] [DEPTH] [ROUNDS] [SECONDS]
//
// FILE must exist and be as large as the working set is to be. Prints one line per round and the
// ratio of the medians. Without fio it prints our figures only.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <vector>

#include "penstock/disk.h"

namespace penstock::disk {
namespace {

using engine::DiskOp;

struct Settings {
  std::string file;
  uint64_t block = 4096;
  uint64_t depth = 64;
  int rounds = 5;
  int seconds = 3;
};

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

struct Runner;
struct Read : DiskOp {
  Runner* runner = nullptr;
};

struct Runner {
  explicit Runner(const Settings& s) : settings(s) {
    const std::string root = s.file.substr(0, s.file.rfind('/') + 1);
    auto created = DiskDriver::create({.root = root.empty() ? "." : root});
    if (!created) std::exit(1);
    driver = std::move(*created);
    loop = std::make_unique<engine::Loop>(engine::system_clock(), random, driver->parker());
    disk = &driver->attach(*loop);
    auto opened = disk->open(s.file, {.read_only = true});
    if (!opened) {
      std::fprintf(stderr, "%s\n", opened.error().message.c_str());
      std::exit(1);
    }
    file = *opened;
    blocks = *disk->size(file) / s.block;
    const uint64_t bytes = s.block * s.depth;
    memory = static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    registered = disk->register_buffer(engine::BufferId(0), {memory, bytes}).ok();
    reads = std::vector<Read>(s.depth);
    for (uint64_t i = 0; i < s.depth; ++i) {
      reads[i].runner = this;
      reads[i].file = file;
      reads[i].memory = {memory + i * s.block, s.block, engine::BufferId(0), {}};
      reads[i].completion = [](engine::Op& op) {
        auto& read = static_cast<Read&>(op);
        read.runner->completed(read);
      };
    }
  }
  ~Runner() {
    disk->unregister_buffer(engine::BufferId(0));
    disk->close(file);
    ::munmap(memory, settings.block * settings.depth);
  }

  void completed(Read& read) {
    ++count;
    failed += !read.status.ok();
    if (loop->now() < end) {
      start(read);
    } else {
      ++idle;
    }
  }
  void start(Read& read) {
    read.offset = random.below(blocks) * settings.block;
    disk->submit(read);
  }

  double run() {
    count = idle = 0;
    const double cpu = cpu_seconds();
    const uint64_t enters = counter("disk.enter");
    const auto begin = engine::system_clock().now();
    end = begin + std::chrono::seconds(settings.seconds);
    for (Read& read : reads) start(read);
    while (idle < reads.size()) loop->poll_or_park(engine::kNever);
    const double elapsed =
        static_cast<double>((engine::system_clock().now() - begin).count()) * 1e-9;
    std::printf("  loop+disk %9.0f /s  %5.2f us CPU each  %.2f ops per call", count / elapsed,
                (cpu_seconds() - cpu) / count * 1e6,
                count / static_cast<double>(counter("disk.enter") - enters));
    return count / elapsed;
  }

  const Settings& settings;
  engine::SeededRandom random{1};
  std::unique_ptr<DiskDriver> driver;
  std::unique_ptr<engine::Loop> loop;
  engine::Disk* disk = nullptr;
  engine::DiskFile file;
  std::byte* memory = nullptr;
  bool registered = false;
  std::vector<Read> reads;
  uint64_t blocks = 0;
  double count = 0;
  uint64_t failed = 0;
  uint64_t idle = 0;
  engine::Time end{};
};

double run_fio(const Settings& s, bool direct) {
  const std::string command = fmt::format(
      "fio --name=r --filename={} --rw=randread --bs={} --iodepth={} --ioengine=io_uring "
      "--direct={} --runtime={} --time_based --norandommap --randrepeat=0 --minimal 2>/dev/null",
      s.file, s.block, s.depth, direct ? 1 : 0, s.seconds);
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return 0;
  std::string line;
  char piece[4096];
  while (std::fgets(piece, sizeof piece, pipe) != nullptr) line += piece;
  ::pclose(pipe);
  // The eighth field of fio's terse format is the number of reads per second.
  size_t at = 0;
  for (int field = 0; field < 7 && at != std::string::npos; ++field) {
    at = line.find(';', at);
    if (at != std::string::npos) ++at;
  }
  return at == std::string::npos ? 0 : std::atof(line.c_str() + at);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

int run(const Settings& settings) {
  Runner runner(settings);
  const engine::DiskFacts& facts = runner.disk->facts();
  std::printf("%s, route %s%s, %s buffers\n", facts.backend.c_str(),
              engine::route_name(facts.route), facts.reason.c_str(),
              runner.registered ? "registered" : "ordinary");
  std::vector<double> ours;
  std::vector<double> theirs;
  for (int round = 0; round < settings.rounds; ++round) {
    ours.push_back(runner.run());
    theirs.push_back(run_fio(settings, facts.direct));
    std::printf("   fio %9.0f /s\n", theirs.back());
    std::fflush(stdout);
  }
  if (runner.failed != 0) std::printf("%lu reads failed\n", runner.failed);
  std::printf("median %.0f /s", median(ours));
  if (median(theirs) > 0) std::printf(", ratio to fio %.3f", median(ours) / median(theirs));
  std::printf("\n");
  return runner.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace penstock::disk

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: disk_bench FILE [BLOCK_BYTES] [DEPTH] [ROUNDS] [SECONDS]\n");
    return 2;
  }
  penstock::disk::Settings settings;
  settings.file = words[1];
  const auto number = [&](int index, int otherwise) {
    return count > index ? std::atoi(words[index]) : otherwise;
  };
  settings.block = static_cast<uint64_t>(number(2, 4096));
  settings.depth = static_cast<uint64_t>(number(3, 64));
  settings.rounds = number(4, 5);
  settings.seconds = number(5, 3);
  return penstock::disk::run(settings);
}
