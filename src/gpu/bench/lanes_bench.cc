// What the copy lanes do on this machine's first GPU: latency, bandwidth, and what checks cost.
//
//   lanes_bench [ARENA_MIB]
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <sys/mman.h>
#include <sys/resource.h>
#include <vector>

#include "penstock/gpu.h"

namespace penstock::gpu {
namespace {

using engine::BlockCheck;
using engine::CopyMeans;
using engine::CopyOp;
using engine::CopyPiece;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double now() {
  return std::chrono::duration<double>(engine::system_clock().now().time_since_epoch()).count();
}

void stop(const std::string& why) {
  std::fprintf(stderr, "lanes_bench: %s\n", why.c_str());
  std::exit(1);
}

struct Bench;
struct Slot : CopyOp {
  Bench* bench = nullptr;
  std::vector<CopyPiece> its_pieces;
  std::vector<BlockCheck> its_checks;
};

struct Case {
  const char* name;
  CopyMeans means;
  uint64_t piece;
  size_t pieces;  // of one operation
  size_t depth;
  bool checked;
};

struct Bench {
  explicit Bench(uint64_t arena_bytes) : bytes(arena_bytes) {
    Outcome<engine::DeviceMemory*> opened = devices();
    if (!opened) stop(opened.error().message);
    memory = *opened;
    void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    arena = {static_cast<std::byte*>(mapped), bytes};
    for (uint64_t i = 0; i < bytes; i += 8) {
      const uint64_t word = mix64(i);
      std::copy_n(reinterpret_cast<const std::byte*>(&word), 8, &arena[i]);
    }
    const double before = now();
    const Outcome<void> pinned = memory->pin(arena, false);
    if (!pinned) stop(pinned.error().message);
    std::printf("pin: %.1f ms/GiB\n", (now() - before) * 1e3 * kGiB / bytes);
    Outcome<engine::DeviceSpan> span = memory->allocate(engine::DeviceId(0), kGiB);
    if (!span) stop(span.error().message);
    destination = *span;
    lanes = memory->make_lanes(loop);
    loop.add(*lanes);
    crcs.resize(bytes / 4096);
    for (size_t i = 0; i < crcs.size(); ++i) crcs[i] = crc32c({&arena[i * 4096], 4096});
  }

  void prepare(Slot& slot, const Case& c) {
    slot.its_pieces.clear();
    slot.its_checks.clear();
    for (size_t i = 0; i < c.pieces; ++i) {
      const uint64_t from = random.below(bytes / c.piece) * c.piece;
      std::byte* const to = destination.data + next_destination++ * c.piece;
      slot.its_pieces.push_back({&arena[from], to, c.piece});
      if (!c.checked) continue;
      for (uint64_t b = 0; b < c.piece; b += 4096) {
        slot.its_checks.push_back({to + b, 4096, crcs[(from + b) / 4096]});
      }
    }
    slot.means = c.means;
    slot.pieces = slot.its_pieces;
    slot.checks = slot.its_checks;
  }

  void run(const Case& c) {
    std::deque<Slot> slots(c.depth);
    if (c.depth * c.pieces * c.piece > destination.length) stop("the case needs more GPU memory");
    next_destination = 0;
    finished = 0;
    running = true;
    failed = 0;
    for (Slot& slot : slots) {
      slot.bench = this;
      slot.completion = [](engine::Op& op) {
        auto& self = static_cast<Slot&>(op);
        Bench& b = *self.bench;
        ++b.finished;
        if (!self.status.ok()) ++b.failed;
        if (!b.running) return;
        b.lanes->submit(self);
      };
      prepare(slot, c);
    }
    const double cpu = cpu_seconds();
    const double begin = now();
    for (Slot& slot : slots) lanes->submit(slot);
    while (now() - begin < 0.5) loop.poll();
    running = false;
    while (lanes->busy()) loop.poll();
    loop.poll();
    const double seconds = now() - begin;
    const double used = cpu_seconds() - cpu;
    const double moved = static_cast<double>(finished) * static_cast<double>(c.piece * c.pieces);
    std::printf("%-34s %8.2f us/op  %8.3f M pieces/s  %6.2f GB/s  %6.4f CPU-s/GB  failed %zu\n",
                c.name, seconds / static_cast<double>(finished) * 1e6,
                static_cast<double>(finished * c.pieces) / seconds * 1e-6, moved / seconds * 1e-9,
                used / (moved * 1e-9), failed);
  }

  const uint64_t bytes;
  engine::DeviceMemory* memory = nullptr;
  MutableBytes arena;
  std::vector<uint32_t> crcs;
  engine::DeviceSpan destination;
  engine::SeededRandom random{1};
  engine::FutexParker parker{engine::system_clock()};
  engine::Loop loop{engine::system_clock(), random, parker};
  std::unique_ptr<engine::CopyLanes> lanes;
  uint64_t next_destination = 0;
  size_t finished = 0;
  size_t failed = 0;
  bool running = false;
};

constexpr Case kCases[] = {
    {"copy 4 KiB, one at a time", CopyMeans::copy_engine, 4096, 1, 1, false},
    {"copy 4 KiB, checked", CopyMeans::copy_engine, 4096, 1, 1, true},
    {"gather 4 KiB, one at a time", CopyMeans::kernel, 4096, 1, 1, false},
    {"gather 4 KiB, checked", CopyMeans::kernel, 4096, 1, 1, true},
    {"gather 16 x 4 KiB", CopyMeans::kernel, 4096, 16, 1, false},
    {"gather 256 x 4 KiB", CopyMeans::kernel, 4096, 256, 1, false},
    {"gather 1024 x 4 KiB, depth 4", CopyMeans::kernel, 4096, 1024, 4, false},
    {"gather 1024 x 4 KiB, depth 8", CopyMeans::kernel, 4096, 1024, 8, false},
    {"gather 1024 x 4 KiB, 8, checked", CopyMeans::kernel, 4096, 1024, 8, true},
    {"gather 1 x 4 KiB, depth 1024", CopyMeans::kernel, 4096, 1, 1024, false},
    {"gather 1 x 4 KiB, depth 4096", CopyMeans::kernel, 4096, 1, 4096, false},
    {"gather 1 x 4 KiB, 4096, checked", CopyMeans::kernel, 4096, 1, 4096, true},
    {"gather 1024 x 512 B, depth 8", CopyMeans::kernel, 512, 1024, 8, false},
    {"gather 64 x 64 KiB, depth 4", CopyMeans::kernel, 65536, 64, 4, false},
    {"copy 64 KiB, one at a time", CopyMeans::copy_engine, 65536, 1, 1, false},
    {"copy 64 KiB, depth 16", CopyMeans::copy_engine, 65536, 1, 16, false},
    {"copy 16 x 64 KiB, depth 4", CopyMeans::copy_engine, 65536, 16, 4, false},
    {"copy 1 MiB, one at a time", CopyMeans::copy_engine, kMiB, 1, 1, false},
    {"copy 1 MiB, depth 8", CopyMeans::copy_engine, kMiB, 1, 8, false},
    {"copy 1 MiB, depth 8, checked", CopyMeans::copy_engine, kMiB, 1, 8, true},
    {"copy 4 MiB, depth 4", CopyMeans::copy_engine, 4 * kMiB, 1, 4, false},
    {"copy 4 MiB, depth 4, checked", CopyMeans::copy_engine, 4 * kMiB, 1, 4, true},
    {"copy 16 MiB, depth 2", CopyMeans::copy_engine, 16 * kMiB, 1, 2, false},
    {"copy 16 MiB, depth 2, checked", CopyMeans::copy_engine, 16 * kMiB, 1, 2, true},
    {"copy 64 MiB, depth 2", CopyMeans::copy_engine, 64 * kMiB, 1, 2, false},
};

int main_with(int argc, char** argv) {
  const uint64_t mib = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2048;
  Bench bench(mib * kMiB);
  for (int round = 0; round < 2; ++round) {
    for (const Case& c : kCases) bench.run(c);
  }
  bench.loop.remove(*bench.lanes);
  return 0;
}

}  // namespace
}  // namespace penstock::gpu

int main(int argc, char** argv) {
  return penstock::gpu::main_with(argc, argv);
}
