// Reads through rings of one process into the memory of several GPUs, by several threads.
//
//   session_reads STORE threads      4 KiB reads of the node cache, 4,096 in flight, by 1, 2 and 4
//   session_reads STORE gpus         16 MiB reads of the node cache into each GPU by turns, and
//                                    into all at once: a session for each
//
// STORE is a node's that runs with a node cache of at least 1 GiB.
#include "penstock.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr uint64_t kFileBytes = 512 << 20;
constexpr uint64_t kPiece = 16 << 20;
constexpr uint64_t kBlock = 4096;
constexpr double kSeconds = 1.5;

int failed = 0;

bool check(bool good, const std::string& what) {
  std::printf("%s %s%s%s\n", good ? "PASS" : "FAIL", what.c_str(), good ? "" : ": ",
              good ? "" : penstock_last_error());
  std::fflush(stdout);
  failed += good ? 0 : 1;
  return good;
}

void must(bool good, const char* what) {
  if (!good) {
    check(false, what);
    std::exit(1);
  }
}

// The first word of each block tells which one it is.
uint64_t word_of(uint64_t block) {
  return (block + 1) * 0x9e3779b97f4a7c15ULL;
}

struct Client {
  explicit Client(const char* store) {
    must(penstock_connect(store, &session) == 0, "connect");
    file = penstock_open(session, "/session-reads", O_RDWR | O_CREAT, 0644);
    must(file >= 0, "open");
  }
  ~Client() { penstock_close(session); }
  penstock_io read(penstock_region* region, uint64_t offset, uint64_t length, uint64_t to) const {
    penstock_io io{};
    io.operation = PENSTOCK_READ;
    io.file = file;
    io.region = region;
    io.offset = offset;
    io.length = length;
    io.region_offset = to;
    return io;
  }
  int64_t run(penstock_ring* ring, const penstock_io& io) const {
    penstock_completion done{};
    if (penstock_prepare(ring, &io) != 0 || penstock_submit(ring) != 1 ||
        penstock_wait(ring, &done, 1, 1, penstock_now() + 30'000'000'000) != 1) {
      return -1;
    }
    return done.result;
  }
  void make_file() const {
    penstock_region* region = nullptr;
    penstock_ring* ring = nullptr;
    must(penstock_region_create(session, kPiece, &region) == 0, "memory");
    must(penstock_ring_create(session, 8, 1, &ring) == 0, "a ring");
    auto* const words = static_cast<uint64_t*>(penstock_region_base(region));
    for (uint64_t at = 0; at < kFileBytes; at += kPiece) {
      for (uint64_t b = 0; b < kPiece; b += kBlock) words[b / 8] = word_of((at + b) / kBlock);
      penstock_io io = read(region, at, kPiece, 0);
      io.operation = PENSTOCK_WRITE;
      must(run(ring, io) == static_cast<int64_t>(kPiece), "write");
    }
    must(penstock_fsync(session, file) == 0, "fsync");
    for (uint64_t at = 0; at < kFileBytes; at += kPiece) {
      penstock_io io{};
      io.operation = PENSTOCK_WARM;
      io.file = file;
      io.offset = at;
      io.length = kPiece;
      must(run(ring, io) == static_cast<int64_t>(kPiece), "fill the node cache");
    }
    penstock_ring_destroy(ring);
    penstock_region_release(region);
  }

  penstock_session* session = nullptr;
  penstock_file file = -1;
};

// Waits until the library has mapped and pinned the node cache, beside its reads.
bool wait_for_cache(const Client& client, penstock_region* region) {
  penstock_ring* ring = nullptr;
  must(penstock_ring_create(client.session, 8, 1, &ring) == 0, "a ring");
  bool there = false;
  for (int i = 0; i < 2000 && !there; ++i) {
    there = true;
    for (uint64_t at = 0; at < kFileBytes && there; at += kPiece) {
      penstock_io io = client.read(region, at, kPiece, 0);
      io.route = PENSTOCK_ROUTE_DEVICE_CACHE;
      there = client.run(ring, io) == static_cast<int64_t>(kPiece);
    }
    if (!there) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  penstock_ring_destroy(ring);
  return there;
}

struct Load {
  uint64_t length = 0;
  uint32_t depth = 0;
  uint32_t batch = 1;
  penstock_route route = PENSTOCK_ROUTE_ANY;
};

// One thread's reads at random into its part of the region, and what it counted.
struct Reader {
  void run(const Client& client, penstock_ring* ring, penstock_region* region, uint64_t base,
           const Load& load, uint64_t seed) {
    uint64_t state = seed * 7919 + 1;
    std::vector<penstock_completion> done(load.depth);
    const auto prepare = [&](uint64_t slot) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const uint64_t at = (state >> 20) % (kFileBytes / load.length) * load.length;
      penstock_io io = client.read(region, at, load.length, base + slot * load.length);
      io.user_data = slot;
      io.route = load.route;
      last_at = at;
      last_to = io.region_offset;
      if (penstock_prepare(ring, &io) != 0) ++bad;
    };
    const uint64_t end = penstock_now() + static_cast<uint64_t>(kSeconds * 1e9);
    uint32_t in_flight = load.depth;
    for (uint32_t slot = 0; slot < load.depth; ++slot) prepare(slot);
    penstock_submit(ring);
    while (in_flight > 0) {
      const int count = penstock_wait(ring, done.data(), load.depth,
                                      std::min(load.batch, in_flight), PENSTOCK_FOREVER);
      if (count <= 0) {
        ++bad;
        return;
      }
      const bool more = penstock_now() < end;
      for (int i = 0; i < count; ++i) {
        const penstock_completion& one = done[static_cast<size_t>(i)];
        if (one.result != static_cast<int64_t>(load.length)) ++bad;
        --in_flight;
        ++reads;
        if (!more) continue;
        prepare(one.user_data);
        ++in_flight;
      }
      if (more) penstock_submit(ring);
    }
  }

  uint64_t reads = 0;
  uint64_t bad = 0;
  uint64_t last_at = 0;
  uint64_t last_to = 0;
};

bool holds(penstock_region* region, const Reader& reader, uint64_t length) {
  for (uint64_t b = 0; b < length; b += kBlock) {
    uint64_t word = 0;
    const auto* const from =
        static_cast<const char*>(penstock_region_base(region)) + reader.last_to + b;
    if (cudaMemcpy(&word, from, sizeof word, cudaMemcpyDeviceToHost) != cudaSuccess) return false;
    if (word != word_of((reader.last_at + b) / kBlock)) return false;
  }
  return true;
}

void threads(const char* store) {
  const Client client(store);
  client.make_file();
  penstock_region* region = nullptr;
  must(penstock_region_create_device(client.session, 0, kPiece, &region) == 0, "GPU memory");
  must(check(wait_for_cache(client, region), "GPU 0 reads the node cache"), "pinned");
  for (const uint32_t count : {1U, 2U, 4U}) {
    const Load load{.length = 4096, .depth = 4096 / count, .batch = 1024 / count};
    penstock_ring* ring = nullptr;
    must(penstock_ring_create(client.session, load.depth, count, &ring) == 0, "a ring");
    std::vector<Reader> readers(count);
    std::vector<std::thread> all;
    const uint64_t began = penstock_now();
    for (uint32_t t = 0; t < count; ++t) {
      all.emplace_back([&, t] {
        readers[t].run(client, ring, region, t * load.depth * load.length, load, t);
        penstock_ring_leave(ring);
      });
    }
    for (std::thread& one : all) one.join();
    const double seconds = static_cast<double>(penstock_now() - began) / 1e9;
    uint64_t reads = 0;
    bool good = true;
    for (const Reader& reader : readers) {
      reads += reader.reads;
      good = good && reader.bad == 0 && holds(region, reader, load.length);
    }
    check(good, std::to_string(count) + " threads read what was written");
    std::printf("     %u threads: %.2f M reads/s\n", count,
                static_cast<double>(reads) / seconds * 1e-6);
    penstock_ring_destroy(ring);
  }
}

void gpus(const char* store) {
  const int count = penstock_gpu_count();
  must(count > 0, "GPUs");
  const Load load{.length = kPiece, .depth = 4, .batch = 1, .route = PENSTOCK_ROUTE_DEVICE_CACHE};
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<penstock_region*> regions(static_cast<size_t>(count));
  std::vector<penstock_ring*> rings(static_cast<size_t>(count));
  for (int g = 0; g < count; ++g) {
    const auto at = static_cast<size_t>(g);
    clients.push_back(std::make_unique<Client>(store));
    if (g == 0) clients[0]->make_file();
    must(penstock_region_create_device(clients[at]->session, g, 4 * kPiece, &regions[at]) == 0,
         "GPU memory");
    check(wait_for_cache(*clients[at], regions[at]),
          "GPU " + std::to_string(g) + " reads the node cache through a session of its own");
    must(penstock_ring_create(clients[at]->session, 8, 1, &rings[at]) == 0, "a ring");
  }
  const auto run = [&](int first, int last, const char* how) {
    std::vector<Reader> readers(static_cast<size_t>(count));
    std::vector<std::thread> all;
    for (int g = first; g < last; ++g) {
      all.emplace_back([&, at = static_cast<size_t>(g)] {
        readers[at].run(*clients[at], rings[at], regions[at], 0, load, at);
        penstock_ring_leave(rings[at]);
      });
    }
    for (std::thread& one : all) one.join();
    for (int g = first; g < last; ++g) {
      const auto at = static_cast<size_t>(g);
      cudaSetDevice(g);
      check(readers[at].bad == 0 && holds(regions[at], readers[at], kPiece),
            "GPU " + std::to_string(g) + " has what was written");
      std::printf("     GPU %d, %s: %.1f GB/s\n", g, how,
                  static_cast<double>(readers[at].reads * kPiece) / kSeconds * 1e-9);
    }
  };
  for (int g = 0; g < count; ++g) run(g, g + 1, "alone");
  run(0, count, "beside the others");
  for (int g = 0; g < count; ++g) penstock_ring_destroy(rings[static_cast<size_t>(g)]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[2], "threads") == 0) {
    threads(argv[1]);
  } else if (argc == 3 && std::strcmp(argv[2], "gpus") == 0) {
    gpus(argv[1]);
  } else {
    std::fprintf(stderr, "usage: %s STORE threads|gpus\n", argv[0]);
    return 2;
  }
  return failed == 0 ? 0 : 1;
}
