// What rings for kernels do on this machine's first GPU: round trips and throughput of reads from
// the node cache, next to what the bare hardware does in the same run.
//
//   kernel_ring_bench [DIRECTORY [FILE_MIB]]
//
// DIRECTORY (default: /dev/shm) takes a store with a file of FILE_MIB (default: 4096), which is
// then read from the node cache, so it needs twice that much memory.
#include "on_gpu.cuh"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

using namespace penstock::device;  // NOLINT: a program

namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint32_t kPiece = 4096;

__device__ uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

double median(std::vector<double> values, double share = 0.5) {
  std::sort(values.begin(), values.end());
  return values.empty()
             ? 0
             : values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

// ---- one request at a time ----

struct Step {
  uint64_t submitted;  // nanoseconds from the start
  uint64_t ended;
  int64_t result;
  bool guessed;
};

// In the first `span` bytes of the file.
struct Trips {
  const char* name;
  uint32_t length;
  uint32_t shift;
  bool by_warp;  // as one; or by one thread alone
  bool forgets;  // what the ring knows of places
  uint64_t span;
};

__device__ void forget(const Ring& ring, const Request& request) {
  store_own(hint_of(ring, request, kNearLog2), Pair{0, 0});
  store_own(hint_of(ring, request, kFarLog2), Pair{0, 0});
  __threadfence();
}

__global__ void one_at_a_time(Ring ring, uint8_t file, Trips trips, uint32_t rounds, Step* steps) {
  for (uint32_t i = 0; i < rounds; ++i) {
    Request request;
    request.file = file;
    request.length = trips.length;
    request.offset =
        mixed(i + trips.length + trips.shift) % (trips.span / kPiece - 8) * kPiece + trips.shift;
    if (trips.forgets) forget(ring, request);
    Ticket ticket;
    const long long begun = clock64();
    int64_t result = 0;
    long long submitted = begun;
    if (trips.by_warp) {
      result = run_by_warp(ring, request, &ticket, kSecond);
    } else {
      submit(ring, request, &ticket);
      submitted = clock64();
      result = wait(ring, ticket, kSecond);
    }
    if (warp_lane() == 0) {
      steps[i] = {static_cast<uint64_t>(submitted - begun),
                  static_cast<uint64_t>(clock64() - begun), result, ticket.guessed};
    }
  }
}

// From the submission to the answer, and for a copy with check of its place, by one warp.
__global__ void copy_alone(Ring ring, uint8_t file, uint32_t length, uint32_t rounds, Step* steps) {
  for (uint32_t i = 0; i < rounds; ++i) {
    Request request;
    request.file = file;
    request.length = length;
    request.offset = uint64_t{i} * 65536;
    Ticket ticket;
    submit_by_warp(ring, warp_lane() == 0, request, &ticket);
    const long long asked = clock64();
    Answer answer = {};
    if (warp_lane() == 0) {
      while (!look(ring, ticket, &answer)) {
      }
    }
    __syncwarp();
    const long long begun = clock64();
    bool guessed = false;
    const bool good = bring_by_warp(ring, answer, 0, 0, nullptr, &guessed);
    const long long ended = clock64();
    if (warp_lane() == 0) {
      conclude(ring, ticket, answer, good);
      steps[i] = {static_cast<uint64_t>(begun - asked), static_cast<uint64_t>(ended - begun),
                  good ? int64_t{length} : -EIO, false};
    }
  }
}

__global__ void ping(uint64_t* out, const uint64_t* in, uint32_t rounds, Step* steps) {
  for (uint32_t i = 0; i < rounds; ++i) {
    const long long begun = clock64();
    store_shared(out, i + 1);
    while (*reinterpret_cast<const volatile uint64_t*>(in) != i + 1) {
    }
    steps[i] = {0, static_cast<uint64_t>(clock64() - begun), 0, false};
  }
}

// Nanoseconds of a cycle of clock64(), measured.
__global__ void cycles_of(uint64_t wait, double* nanoseconds_per_cycle) {
  const uint64_t begun = nanoseconds();
  const long long cycles = clock64();
  while (nanoseconds() - begun < wait) {
  }
  *nanoseconds_per_cycle =
      static_cast<double>(nanoseconds() - begun) / static_cast<double>(clock64() - cycles);
}

double cycle() {
  static const double once = [] {
    double* const out = shared_array<double>(1);
    cycles_of<<<1, 1>>>(20'000'000, out);
    CUDA(cudaDeviceSynchronize());
    return *out;
  }();
  return once;
}

void print_steps(const char* what, const Step* steps, uint32_t rounds, int64_t expected) {
  std::vector<double> whole, submission;
  uint32_t bad = 0, guessed = 0;
  for (uint32_t i = rounds / 10; i < rounds; ++i) {
    whole.push_back(static_cast<double>(steps[i].ended) * cycle() * 1e-3);
    submission.push_back(static_cast<double>(steps[i].submitted) * cycle() * 1e-3);
    bad += steps[i].result == expected ? 0 : 1;
    guessed += steps[i].guessed ? 1 : 0;
  }
  std::printf("%-50s %8.2f %8.2f %8.2f %8.2f %8u %7.0f%%\n", what, median(whole),
              median(whole, 0.01), median(whole, 0.99), median(submission), bad,
              100.0 * guessed / static_cast<double>(whole.size()));
}

void bench_round_trips(GpuRing& gpu, uint8_t file, uint64_t file_bytes) {
  constexpr uint32_t kRounds = 4000;
  Step* const steps = shared_array<Step>(kRounds);
  std::printf(
      "\nround trips, microseconds                            median       1%%      99%%   submit"
      "   failed  guessed\n");
  uint64_t* const words = shared_array<uint64_t>(32);
  std::thread echo([&] {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      while (std::atomic_ref(words[0]).load(std::memory_order_acquire) != i) {
      }
      std::atomic_ref(words[16]).store(i, std::memory_order_release);
    }
  });
  ping<<<1, 1>>>(&words[0], &words[16], kRounds, steps);
  CUDA(cudaDeviceSynchronize());
  echo.join();
  print_steps("bare ping-pong through pinned memory", steps, kRounds, 0);
  const Trips all_trips[] = {
      {"4 KiB, a warp copies (bar: 5)", 4096, 0, true, false, file_bytes},
      {"the same, nothing known of its place", 4096, 0, true, true, file_bytes},
      {"4 KiB of the same 32 KiB, a warp copies", 4096, 0, true, false, 16 * kPiece},
      {"4 KiB at an odd offset, a warp copies", 4096, 77, true, false, file_bytes},
      {"16 KiB, a warp copies", 16384, 0, true, false, file_bytes},
      {"512 bytes, a warp copies", 512, 0, true, false, file_bytes},
      {"64 bytes, a warp copies", 64, 64, true, false, file_bytes},
      {"64 bytes, one thread alone", 64, 64, false, false, file_bytes},
      {"512 bytes, one thread alone", 512, 0, false, false, file_bytes}};
  for (const Trips& one : all_trips) {
    must(penstock_device_ring_wake(gpu.ring), "wake");
    one_at_a_time<<<1, one.by_warp ? 32 : 1>>>(gpu.view, file, one, kRounds, steps);
    CUDA(cudaDeviceSynchronize());
    print_steps(one.name, steps, kRounds, one.length);
  }
  for (const uint32_t length : {64U, 4096U}) {
    copy_alone<<<1, 32>>>(gpu.view, file, length, 1000, steps);
    CUDA(cudaDeviceSynchronize());
    print_steps(length == 64 ? "of that: answer (at \"submit\"), copy of 64 bytes"
                             : "of that: answer (at \"submit\"), copy of 4 KiB",
                steps, 1000, length);
  }
}

// ---- as many as possible ----

struct Counts {
  unsigned long long good, bad, busy;
};

// Each warp keeps 32 to 64 reads in flight: it submits the next 32 before it waits for the last.
// `beyond`: behind the end of the file, so that nothing is copied.
__global__ void many(Ring ring, uint8_t file, uint64_t file_bytes, uint32_t rounds, uint64_t seed,
                     bool beyond, Counts* counts) {
  const uint64_t warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarpLanes;
  Ticket last;
  unsigned long long good = 0, bad = 0, busy = 0;
  const auto end = [&](Ticket& ticket) {
    const bool waits = ticket.pending;
    const int64_t got = wait_by_warp(ring, ticket, 20 * kSecond);
    if (waits) (got == (beyond ? 0 : int64_t{kPiece}) ? good : bad) += 1;
  };
  for (uint32_t round = 0; round < rounds; ++round) {
    Request request;
    request.file = file;
    request.length = kPiece;
    request.offset = beyond ? file_bytes + warp_lane() % 4
                            : mixed(seed + (warp * rounds + round) * kWarpLanes + warp_lane()) %
                                  (file_bytes / kPiece) * kPiece;
    request.destination = ((warp * 2 + round % 2) * kWarpLanes + warp_lane()) * kPiece;
    Ticket next;
    bool left = submit_by_warp(ring, true, request, &next) == -EAGAIN;
    end(last);
    while (ballot(kWholeWarp, left) != 0) {
      // Whoever holds positions must not wait for others to give up theirs.
      if (left) ++busy;
      end(next);
      left = submit_by_warp(ring, left, request, &next) == -EAGAIN && left;
    }
    last = next;
  }
  end(last);
  atomicAdd(&counts->good, good);
  atomicAdd(&counts->bad, bad);
  atomicAdd(&counts->busy, busy);
}

// The reference: warps that copy random pieces of pinned memory, 8 loads of a thread in flight.
__global__ void bare_gather(const uint4* arena, uint64_t pieces, uint4* out, uint32_t rounds,
                            uint64_t seed) {
  const uint64_t warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarpLanes;
  constexpr uint32_t kUnits = kPiece / 16;
  for (uint32_t round = 0; round < rounds * kWarpLanes; ++round) {
    const uint4* const from =
        arena + mixed(seed + warp * rounds * kWarpLanes + round) % pieces * kUnits;
    uint4* const to = out + (warp * 64 + round % 64) * kUnits;
    uint4 units[8];
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) units[i] = __ldcs(from + i * kWarpLanes + warp_lane());
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) __stcs(to + i * kWarpLanes + warp_lane(), units[i]);
  }
}

template <class Launch>
double seconds_of(const Launch& launch) {
  CUDA(cudaDeviceSynchronize());
  const double begun = seconds_now();
  launch();
  CUDA(cudaDeviceSynchronize());
  return seconds_now() - begun;
}

void bench_throughput(GpuRing& gpu, uint8_t file, uint64_t file_bytes) {
  Counts* const counts = shared_array<Counts>(1);
  const uint64_t arena_bytes = std::min<uint64_t>(file_bytes, 2ULL << 30);
  auto* const arena = shared_array<uint4>(arena_bytes / sizeof(uint4));
  auto* const memory = static_cast<uint4*>(penstock_region_base(gpu.region));
  std::printf(
      "\nrandom reads of 4 KiB                        M/s     GB/s   failed     busy    again"
      "  thread ns/read\n");
  const auto print = [](const char* name, uint32_t blocks, uint32_t warps, double reads,
                        double time, const Counts& c, uint64_t again, double thread_ns) {
    std::printf("%-18s %4u x %2u warps    %8.2f %8.1f %8llu %8llu %8llu %8.0f\n", name, blocks,
                warps, reads / time * 1e-6, reads / time * kPiece * 1e-9, c.bad, c.busy,
                static_cast<unsigned long long>(again), thread_ns);
  };
  for (const uint32_t blocks : {16U, 66U, 132U, 264U}) {
    const uint32_t rounds = 2'000'000 / (blocks * 8 * kWarpLanes);
    const double time = seconds_of(
        [&] { bare_gather<<<blocks, 256>>>(arena, arena_bytes / kPiece, memory, rounds, blocks); });
    print("bare gather", blocks, 8, double{1} * blocks * 8 * rounds * kWarpLanes, time, {}, 0, 0);
  }
  for (const bool beyond : {true, false}) {
    for (const uint32_t blocks : {16U, 33U, 66U, 132U, 264U}) {
      for (const uint32_t warps : {4U, 8U}) {
        const uint32_t rounds = 4'000'000 / (blocks * warps * kWarpLanes);
        *counts = {};
        const penstock_device_ring_stats before = gpu.stats();
        must(penstock_device_ring_wake(gpu.ring), "wake");
        const double time = seconds_of([&] {
          many<<<blocks, warps * kWarpLanes>>>(gpu.view, file, file_bytes, rounds, blocks + warps,
                                               beyond, counts);
        });
        const penstock_device_ring_stats after = gpu.stats();
        const double reads = static_cast<double>(counts->good);
        print(beyond ? "ring, no bytes" : "ring (bar: 10)", blocks, warps, reads, time, *counts,
              after.again - before.again,
              static_cast<double>(after.thread_nanoseconds - before.thread_nanoseconds) / reads);
      }
    }
  }
}

void bench_idle(GpuRing& gpu) {
  const uint64_t before = gpu.stats().thread_nanoseconds;
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const uint64_t used = gpu.stats().thread_nanoseconds - before;
  std::printf("\nidle thread: %.2f %% of a processor\n", static_cast<double>(used) / 2e9 * 100);
}

}  // namespace

int main(int count, char** arguments) {
  Rig::serve_if_asked(count, arguments);
  const std::string directory = count > 1 ? arguments[1] : "/dev/shm";
  const uint64_t mib = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 4096;
  // The last extent is not full, so that there is a place behind the end.
  const uint64_t file_bytes = (mib << 20) + kPiece;
  Rig rig(directory, (mib << 20) + (512ULL << 20));
  const penstock_file file = rig.make_file("/bench", file_bytes);
  GpuRing gpu(rig, 2ULL << 30, kEntriesMax);
  const uint8_t number = gpu.add(file);
  const double begun = seconds_now();
  const uint64_t here = rig.warm(file, file_bytes);
  std::printf("node cache: %.2f of %.2f GiB, %.1f s\n", static_cast<double>(here) / (1 << 30),
              static_cast<double>(file_bytes) / (1 << 30), seconds_now() - begun);
  // The cache is mapped and pinned in the background; reads say when it is.
  Counts* const counts = shared_array<Counts>(1);
  for (int i = 0; i < 600; ++i) {
    const uint64_t before = gpu.stats().copies;
    *counts = {};
    many<<<16, 128>>>(gpu.view, number, file_bytes, 4, static_cast<uint64_t>(i) * 100'000, false,
                      counts);
    CUDA(cudaDeviceSynchronize());
    if (gpu.stats().copies == before && counts->bad == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::printf("pinned after %.1f s\n", seconds_now() - begun);
  bench_round_trips(gpu, number, file_bytes);
  bench_throughput(gpu, number, file_bytes);
  bench_idle(gpu);
  const penstock_device_ring_stats all = gpu.stats();
  std::printf(
      "places %llu, copies %llu, again %llu, failed %llu\n",
      static_cast<unsigned long long>(all.places), static_cast<unsigned long long>(all.copies),
      static_cast<unsigned long long>(all.again), static_cast<unsigned long long>(all.failed));
  return 0;
}
