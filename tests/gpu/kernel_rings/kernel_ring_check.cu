// Whether rings for kernels are right on this machine's first GPU: bytes, errors, and the end of
// everybody. Prints PASS or FAIL for each check, and ends with 1 when one failed.
//
//   kernel_ring_check [DIRECTORY]
#include "check_kernels.cuh"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

using namespace checks;  // NOLINT: a program

namespace {

int failures = 0;

void check(bool good, const std::string& what, long long got = 0) {
  std::printf("%s %s (%lld)\n", good ? "PASS" : "FAIL", what.c_str(), got);
  std::fflush(stdout);
  failures += good ? 0 : 1;
}

constexpr uint64_t kFileBytes = (64 << 20) + 777;
constexpr uint64_t kLargeBytes = 384 << 20;
constexpr uint64_t kCacheBytes = 256 << 20;  // less than both files
constexpr uint64_t kRegionBytes = 6ULL << 30;

struct World {
  explicit World(const std::string& directory)
      : rig(directory, kCacheBytes),
        file(rig.make_file("/small", kFileBytes)),
        large(rig.make_file("/large", kLargeBytes)),
        gpu(rig, kRegionBytes, 4096),
        number(gpu.add(file)),
        large_number(gpu.add(large)),
        tally(shared_array<Tally>(1)),
        words(shared_array<uint32_t>(64)),
        results(shared_array<int64_t>(16)) {}

  Tally finish() {
    CUDA(cudaDeviceSynchronize());
    return std::exchange(*tally, Tally{});
  }
  int64_t run(const Request& request) {
    one_request<<<1, 32>>>(gpu.view, request, results);
    CUDA(cudaDeviceSynchronize());
    return results[0];
  }
  Request read(uint64_t offset, uint32_t length, uint64_t destination) const {
    Request request;
    request.file = number;
    request.offset = offset;
    request.length = length;
    request.destination = destination;
    return request;
  }
  // Until reads are answered with places.
  void warm() {
    for (int i = 0; i < 300; ++i) {
      rig.warm(file, kFileBytes);
      const uint64_t before = gpu.stats().places;
      if (run(read(0, 1, 0)) == 1 && gpu.stats().places > before) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    stop("the node cache does not come");
  }

  Rig rig;
  penstock_file file;
  penstock_file large;
  GpuRing gpu;
  uint8_t number;
  uint8_t large_number;
  Tally* tally;
  uint32_t* words;
  int64_t* results;
};

void report(const char* what, const Tally& t, unsigned long long expected) {
  check(t.good == expected && t.wrong_bytes + t.wrong_length + t.over_the_edge + t.failed == 0,
        what, static_cast<long long>(t.good));
  if (t.good == expected) return;
  std::printf("     expected %llu; bytes %llu, length %llu, edge %llu, failed %llu (last %lld)\n",
              expected, t.wrong_bytes, t.wrong_length, t.over_the_edge, t.failed, t.last_error);
}

void check_reads(World& w) {
  for (const bool cached : {false, true}) {
    const std::string from = cached ? "from the node cache" : "from the disk";
    if (cached) w.warm();
    for (const bool by_copy : {false, true}) {
      const std::string way = by_copy ? ", by copy" : "";
      const Reads reads = {w.number, kFileBytes, cached ? 20u : 4u, 7, kLengthMax, by_copy};
      read_by_warps<<<8, 256>>>(w.gpu.view, reads, w.tally);
      const Tally t = w.finish();
      report(("any ranges by warps " + from + way).c_str(), t, 2048ull * reads.rounds);
      if (cached && !by_copy) check(t.places > t.good / 4, "answered with places", t.places);
      if (by_copy) check(t.places == 0, "none answered with a place", t.places);
    }
    const Reads alone = {w.number, kFileBytes, cached ? 300u : 4u, 8, 9000, false};
    run_by_warps<<<8, 256>>>(w.gpu.view, alone, w.tally);
    const Tally one = w.finish();
    report(("any ranges by warps as one " + from).c_str(), one, 64ull * alone.rounds);
    if (cached) check(one.guessed > one.good / 4, "guessed", static_cast<long long>(one.guessed));
    Reads small = {w.number, kFileBytes, 30, 9, 600, false};
    read_by_threads<<<2, 128>>>(w.gpu.view, small, w.tally);
    const Tally t = w.finish();
    check(t.good > 0 && t.failed + t.wrong_bytes + t.wrong_length + t.over_the_edge == 0,
          "any ranges by diverging threads " + from, static_cast<long long>(t.good));
  }
  const uint32_t count = 1000;
  auto* const requests = shared_array<Request>(count);
  auto* const tickets = shared_array<Ticket>(count);
  auto* const results = shared_array<int64_t>(count);
  read_by_block<<<1, 256>>>(w.gpu.view, w.number, requests, tickets, results, count, w.tally);
  report("a list by a block", w.finish(), count);
}

void check_ends(World& w) {
  check(w.run(w.read(kFileBytes - 10, 4096, 0)) == 10, "short at the end of the file",
        w.results[0]);
  check(w.run(w.read(kFileBytes, 4096, 0)) == 0, "nothing behind the end", w.results[0]);
  Request request = w.read(0, 16, 0);
  request.file = 77;
  check(w.run(request) == -EBADF, "a file that is none", w.results[0]);
  check(w.run(w.read(0, 0, 0)) == -EINVAL, "no bytes", w.results[0]);
  check(w.run(w.read(0, 16, kRegionBytes - 8)) == -EINVAL, "beyond the region", w.results[0]);
  request = w.read(0, 16, 0);
  request.operation = static_cast<Operation>(0);
  check(w.run(request) == -EINVAL, "no such operation", w.results[0]);
  GpuRing small(w.rig, 1 << 20, 64);
  const uint8_t number = small.add(w.file);
  auto* const tickets = shared_array<Ticket>(64);
  fill_ring<<<1, 1>>>(small.view, number, tickets, &w.results[0], &w.results[1], &w.results[2],
                      w.tally);
  report("all positions of a ring", w.finish(), 64);
  check(w.results[0] == -EAGAIN, "a full ring is busy", w.results[0]);
  check(w.results[1] == -EAGAIN, "and has no holes", w.results[1]);
  check(w.results[2] == 0, "and goes on when it is empty", w.results[2]);
}

void check_several_rings(World& w) {
  GpuRing other(w.rig, 1ULL << 30, 128);
  const uint8_t number = other.add(w.file);
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) CUDA(cudaStreamCreate(&stream));
  const Reads first = {w.number, kFileBytes, 20, 3, 9000, false};
  const Reads second = {number, kFileBytes, 20, 4, 9000, false};
  read_by_warps<<<8, 128, 0, streams[0]>>>(w.gpu.view, first, w.tally);
  read_by_warps<<<8, 128, 0, streams[1]>>>(other.view, second, w.tally);
  const Tally t = w.finish();
  report("two rings at a time", t, 2 * 1024 * 20ull);
  check(t.busy > 0, "the small one was busy now and then", static_cast<long long>(t.busy));
}

// Copy engines bring bytes while kernels that wait fill the GPU.
void check_full_gpu(World& w) {
  const Reads reads = {w.number, kFileBytes, 1, 5, 4096, true};
  constexpr uint32_t blocks = 264;  // two for each multiprocessor
  static_assert(blocks * 256 * uint64_t{kSlotBytes} <= kRegionBytes);
  read_by_warps<<<blocks, 256>>>(w.gpu.view, reads, w.tally);
  report("by copy while the GPU is full", w.finish(), blocks * 256ull);
}

void check_writes(World& w) {
  for (const Operation operation : {kWrite, kDurableWrite}) {
    Request request = w.read(4000, 1'000'000, 13);
    request.operation = operation;
    write_words<<<1, 256>>>(w.gpu.view, request, operation, w.results);
    CUDA(cudaDeviceSynchronize());
    check(w.results[0] == 1'000'000, operation == kWrite ? "a write" : "a durable write",
          w.results[0]);
    if (operation == kDurableWrite) {
      w.rig.kill_agent();
      w.rig.start_agent();
    }
    check(w.run(w.read(4000, 1'000'000, 2 << 20)) == 1'000'000, "read again", w.results[0]);
    std::vector<char> got(1'000'000);
    CUDA(cudaMemcpy(got.data(), static_cast<char*>(penstock_region_base(w.gpu.region)) + (2 << 20),
                    got.size(), cudaMemcpyDeviceToHost));
    long long wrong = 0;
    for (uint64_t i = 0; i < got.size(); ++i) {
      const uint64_t word = word_of((4000 + i) / 8, operation);
      wrong += got[i] != static_cast<char>(word >> (8 * ((4000 + i) % 8))) ? 1 : 0;
    }
    check(wrong == 0, "and as it was written", wrong);
  }
  w.rig.write(w.file, 0, kFileBytes, 0);
}

void check_changes(World& w) {
  *w.words = 0;
  w.words[32] = 0;
  w.warm();
  const uint64_t before = w.gpu.stats().again;
  read_while_written<<<32, 128>>>(w.gpu.view, w.number, kFileBytes & ~4095ULL, &w.words[0],
                                  &w.words[32], w.tally);
  for (uint32_t round = 1; round <= 4; ++round) {
    std::atomic_ref(w.words[0]).store(round - 1);
    w.rig.write(w.file, 0, kFileBytes, round);
    w.rig.warm(w.file, kFileBytes);
    // Others come in, so that what is being read goes.
    w.rig.warm(w.large, kLargeBytes);
    w.rig.warm(w.file, kFileBytes);
  }
  std::atomic_ref(w.words[32]).store(1);
  const Tally t = w.finish();
  check(t.wrong_bytes + t.failed == 0 && t.good > 1000, "while files change and extents go",
        static_cast<long long>(t.good));
  std::printf(
      "     places %llu, guessed %llu, landed %llu, asked again %llu, failed %llu (last %lld)\n",
      t.places, t.guessed, t.landed, static_cast<unsigned long long>(w.gpu.stats().again - before),
      t.failed, t.last_error);
  w.rig.write(w.file, 0, kFileBytes, 0);
}

void check_death_of_agents(World& w) {
  w.warm();
  w.words[32] = 0;
  *w.words = 0;
  must(penstock_fsync(w.rig.session, w.file), "fsync");
  read_while_written<<<16, 128>>>(w.gpu.view, w.number, kFileBytes & ~4095ULL, &w.words[0],
                                  &w.words[32], w.tally);
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    w.rig.kill_agent();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    w.rig.start_agent();
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    w.rig.warm(w.file, kFileBytes);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::atomic_ref(w.words[32]).store(1);
  const Tally t = w.finish();
  check(t.wrong_bytes + t.failed == 0 && t.good > 1000, "while agents die",
        static_cast<long long>(t.good));
  std::printf("     places %llu, landed %llu, failed %llu (last %lld)\n", t.places, t.landed,
              t.failed, t.last_error);
}

void check_end_of_rings(World& w) {
  w.words[32] = 0;
  GpuRing closed(w.rig, 16 << 20, 256);
  read_while_written<<<16, 128>>>(closed.view, closed.add(w.file), kFileBytes & ~4095ULL,
                                  &w.words[0], &w.words[32], w.tally);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  must(penstock_device_ring_close(closed.ring), "close");
  const double begun = seconds_now();
  const Tally t = w.finish();
  check(seconds_now() - begun < 1, "kernels end when their ring is closed");
  check(t.last_error == -ESHUTDOWN && t.wrong_bytes == 0 && t.good > 0, "and know why",
        t.last_error);

  // A kernel that waits for what never comes, as there is no agent.
  GpuRing gone(w.rig, 16 << 20, 256);
  Request request = w.read(0, 4096, 0);
  request.file = gone.add(w.file);
  w.rig.kill_agent();
  one_request<<<1, 32>>>(gone.view, request, w.results);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  check(penstock_device_ring_destroy(std::exchange(gone.ring, nullptr)) == 0,
        "a ring that a kernel waits in is destroyed");
  CUDA(cudaDeviceSynchronize());
  check(w.results[0] == -ESHUTDOWN, "and the kernel ends", w.results[0]);
  w.rig.start_agent();
}

}  // namespace

int main(int count, char** arguments) {
  Rig::serve_if_asked(count, arguments);
  World w(count > 1 ? arguments[1] : "/dev/shm");
  check_reads(w);
  check_ends(w);
  check_several_rings(w);
  check_full_gpu(w);
  check_writes(w);
  check_changes(w);
  check_death_of_agents(w);
  check_end_of_rings(w);
  std::printf("%s\n", failures == 0 ? "all passed" : "some FAILED");
  return failures == 0 ? 0 : 1;
}
