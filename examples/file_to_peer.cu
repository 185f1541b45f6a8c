// One kernel that reads a file and puts what it read into another PE's memory, with a signal,
// without returning to the host; beside the two ways over the host.
//
//   nvshmrun -np 2 ./file_to_peer WHERE [MIB [KIB]]
//
// WHERE is what penstock_connect() takes: a store directory that a node serves, best one with a
// node cache that holds the file (penstock up DIR --cache 4G). PE 0 makes /file_to_peer there, of
// MIB for each PE (default 256); each lane of a warp asks for KIB (default 8, 64 at most). Each PE
// reads its part, from its kernel, straight into its symmetric memory, and puts it into its right
// neighbour's, who finds every word of it right. One PE alone is its own neighbour.
//
//   nvcc -x cu -std=c++20 -arch=sm_90 -I$NVSHMEM_HOME/include -L$NVSHMEM_HOME/lib file_to_peer.cu
//   -o file_to_peer -lnvshmem_host -lpenstock -lcuda
#include "penstock.h"
#include "penstock_device.h"
#include "penstock_device_ring.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <string>
#include <vector>

using namespace penstock::device;  // NOLINT: a program

namespace {

constexpr uint32_t kPieceKib = 8;           // that one lane asks for, where nobody says more
constexpr uint64_t kHostRead = 4ull << 20;  // what the host reads at once
constexpr uint32_t kHostDepth = 16;
constexpr int kBlocksMost = 128, kThreads = 256;
constexpr uint32_t kSmall = 4096;
constexpr uint32_t kSmallSteps = 2000;
constexpr uint64_t kNanoseconds = 1'000'000'000;

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "file_to_peer: %s\n", why.c_str());
  nvshmem_global_exit(1);
  std::exit(1);
}

int64_t must(int64_t result, const char* what) {
  if (result < 0) stop(std::string(what) + ": " + penstock_last_error());
  return result;
}

void must(cudaError_t error, const char* what) {
  if (error != cudaSuccess) stop(std::string(what) + ": " + cudaGetErrorString(error));
}

// What stands in the file, by the number of the word.
__host__ __device__ uint64_t word_of(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

// A PE's part of the file, and where it goes. Buffers and signals are symmetric.
struct FileShare {
  uint64_t begin;   // in the file: of this PE
  uint64_t came;    // in the file: of what the left neighbour puts here
  uint64_t bytes;   // of each PE, in batches
  uint32_t piece;   // that a lane asks for; a batch is what is put with one signal: a warp's
  char* mine;       // what was read
  char* theirs;     // what the left neighbour has put
  uint64_t* there;  // a signal for each batch
  uint64_t round;   // its value
  int right;
  uint8_t file;

  __host__ __device__ uint64_t batch() const { return 32ull * piece; }
};

// ---- kernels ----

// A request that is still in flight after a wait may still write to its buffer.
__device__ int64_t wait_for_end(const Ring& ring, Ticket& ticket) {
  int64_t got = 0;
  while (ballot(kWholeWarp, ticket.pending) != 0) {
    const bool waits = ticket.pending;
    const int64_t result = wait_by_warp(ring, ticket, 30 * kNanoseconds);
    if (waits) got = result;
  }
  return got;
}

// By a warp: a batch of the file into `mine`, all of it or false.
__device__ bool read_batch(Ring& ring, const FileShare& part, uint64_t number) {
  Request request;
  request.file = part.file;
  request.length = part.piece;
  request.destination = number * part.batch() + uint64_t{warp_lane()} * part.piece;
  request.offset = part.begin + request.destination;

  bool is_wanted = true, is_here = true;
  while (ballot(kWholeWarp, is_wanted) != 0) {
    Ticket ticket;
    // Where the ring is full the lane tries again after the others have had theirs.
    const int error = submit_by_warp(ring, is_wanted, request, &ticket);
    const bool asked = ticket.pending;
    const int64_t got = wait_for_end(ring, ticket);
    if (asked) is_here = got == part.piece;
    if (!asked && is_wanted && error != -EAGAIN) is_here = false;
    if (asked || error != -EAGAIN) is_wanted = false;
  }
  return ballot(kWholeWarp, is_here) == kWholeWarp;
}

__device__ void put_batch(const FileShare& part, uint64_t number) {
  const uint64_t at = number * part.batch();
  nvshmemx_putmem_signal_warp(part.theirs + at, part.mine + at, part.batch(), part.there + number,
                              part.round, NVSHMEM_SIGNAL_SET, part.right);
}

__device__ uint64_t warp_of_grid() {
  return (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
}
__device__ uint64_t warps_of_grid() {
  return uint64_t{gridDim.x} * blockDim.x / 32;
}

// What the left neighbour puts here, batch by batch, as it comes.
__device__ void check_batches(const FileShare& part, unsigned long long* wrong) {
  for (uint64_t b = warp_of_grid(); b < part.bytes / part.batch(); b += warps_of_grid()) {
    nvshmem_signal_wait_until(part.there + b, NVSHMEM_CMP_GE, part.round);
    const auto* const words = reinterpret_cast<const uint64_t*>(part.theirs + b * part.batch());
    const uint64_t first = (part.came + b * part.batch()) / sizeof(uint64_t);
    unsigned long long bad = 0;
    for (uint64_t i = warp_lane(); i < part.batch() / sizeof(uint64_t); i += 32)
      bad += words[i] != word_of(first + i);
    if (bad != 0) atomicAdd(wrong, bad);
  }
}

// The one kernel.
__global__ void __launch_bounds__(kThreads)
    read_put_and_check(Ring ring, FileShare part, unsigned long long* wrong) {
  for (uint64_t b = warp_of_grid(); b < part.bytes / part.batch(); b += warps_of_grid()) {
    if (read_batch(ring, part, b)) {
      put_batch(part, b);
    } else if (warp_lane() == 0) {
      atomicAdd(wrong, 1ull);
      // The neighbour finds the words wrong, and waits for no more.
      nvshmemx_signal_op(part.there + b, part.round, NVSHMEM_SIGNAL_SET, part.right);
    }
  }
  check_batches(part, wrong);
}

// The same in parts.
__global__ void __launch_bounds__(kThreads)
    read_only(Ring ring, FileShare part, unsigned long long* wrong) {
  for (uint64_t b = warp_of_grid(); b < part.bytes / part.batch(); b += warps_of_grid()) {
    if (!read_batch(ring, part, b) && warp_lane() == 0) atomicAdd(wrong, 1ull);
  }
}
__global__ void __launch_bounds__(kThreads) put_only(FileShare part) {
  for (uint64_t b = warp_of_grid(); b < part.bytes / part.batch(); b += warps_of_grid())
    put_batch(part, b);
}
__global__ void __launch_bounds__(kThreads) check_only(FileShare part, unsigned long long* wrong) {
  check_batches(part, wrong);
}
// What the host has copied: signals of these batches.
__global__ void tell(FileShare part, uint64_t first, uint64_t batches) {
  for (uint64_t b = first; b < first + batches; ++b)
    nvshmemx_signal_op(part.there + b, part.round, NVSHMEM_SIGNAL_SET, part.right);
}

// One warp that follows a chain: each word that it reads says where the next one is, and each
// piece goes to the neighbour with a signal.
__global__ void chain_by_kernel(Ring ring, FileShare part, uint32_t steps,
                                unsigned long long* wrong) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < steps; ++i) {
    Request request;
    request.file = part.file;
    request.length = kSmall;
    request.offset = part.begin + at;
    request.destination = 0;
    Ticket ticket;
    if (run_by_warp(ring, request, &ticket, 30 * kNanoseconds) != kSmall) {
      if (warp_lane() == 0) atomicAdd(wrong, 1ull);
      return;
    }
    nvshmemx_putmem_signal_warp(part.theirs, part.mine, kSmall, part.there, part.round + i,
                                NVSHMEM_SIGNAL_SET, part.right);
    const uint64_t word = *reinterpret_cast<const volatile uint64_t*>(part.mine);
    at = word % (part.bytes / kSmall) * kSmall;
    __syncwarp();
  }
}

// ---- the host ----

struct Files {
  penstock_session* session = nullptr;
  penstock_ring* ring = nullptr;
  penstock_region* here = nullptr;  // `mine`, on the GPU
  penstock_device_ring* handle = nullptr;
  penstock_file file = -1;
  Ring view{};
};

int64_t run_one(penstock_ring* ring, penstock_io io) {
  must(penstock_prepare(ring, &io), "prepare");
  must(penstock_submit(ring), "submit");
  penstock_completion completion{};
  must(penstock_wait(ring, &completion, 1, 1, PENSTOCK_FOREVER), "wait");
  return completion.result;
}

void make_file(Files& files, uint64_t bytes) {
  constexpr uint64_t kStep = 16 << 20;
  penstock_region* region = nullptr;
  must(penstock_region_create(files.session, kStep, &region), "region");
  files.file = static_cast<penstock_file>(must(
      penstock_open(files.session, "/file_to_peer", O_RDWR | O_CREAT | O_TRUNC, 0644), "create"));
  auto* const words = static_cast<uint64_t*>(penstock_region_base(region));
  for (uint64_t done = 0; done < bytes; done += kStep) {
    const uint64_t step = std::min(kStep, bytes - done);
    for (uint64_t i = 0; i < step / sizeof(uint64_t); ++i)
      words[i] = word_of(done / sizeof(uint64_t) + i);
    penstock_io io{};
    io.operation = PENSTOCK_WRITE;
    io.file = files.file;
    io.offset = done;
    io.length = step;
    io.region = region;
    if (run_one(files.ring, io) != static_cast<int64_t>(step)) stop("the file cannot be written");
  }
  bool is_here = true;
  for (uint64_t done = 0; done < bytes && is_here; done += kStep) {
    penstock_io io{};
    io.operation = PENSTOCK_WARM;
    io.file = files.file;
    io.offset = done;
    io.length = std::min(kStep, bytes - done);
    is_here = run_one(files.ring, io) >= 0;
  }
  if (!is_here) std::printf("the node has no cache: all comes from the disk\n");
  penstock_region_release(region);
}

double seconds_since(uint64_t begun) {
  return static_cast<double>(penstock_now() - begun) * 1e-9;
}

// Reads of the host, each followed by a copy and its signals on the stream.
void by_host(Files& files, const FileShare& part, cudaStream_t stream) {
  char* const there = static_cast<char*>(nvshmem_ptr(part.theirs, part.right));
  if (there == nullptr) stop("the neighbour's memory is not reached from here");
  uint64_t asked = 0, ended = 0;
  const uint64_t reads = part.bytes / kHostRead;
  while (ended < reads) {
    for (; asked < reads && asked - ended < kHostDepth; ++asked) {
      penstock_io io{};
      io.operation = PENSTOCK_READ;
      io.file = files.file;
      io.offset = part.begin + asked * kHostRead;
      io.length = kHostRead;
      io.region = files.here;
      io.region_offset = asked * kHostRead;
      io.user_data = asked;
      must(penstock_prepare(files.ring, &io), "prepare");
    }
    must(penstock_submit(files.ring), "submit");
    penstock_completion done[kHostDepth];
    const int64_t count =
        must(penstock_wait(files.ring, done, kHostDepth, 1, PENSTOCK_FOREVER), "wait");
    for (int64_t i = 0; i < count; ++i) {
      if (done[i].result != static_cast<int64_t>(kHostRead)) stop("a read of the host failed");
      const uint64_t at = done[i].user_data * kHostRead;
      must(cudaMemcpyAsync(there + at, part.mine + at, kHostRead, cudaMemcpyDefault, stream),
           "copy to the neighbour");
      tell<<<1, 1, 0, stream>>>(part, at / part.batch(), kHostRead / part.batch());
    }
    ended += static_cast<uint64_t>(count);
  }
}

void chain_by_host(Files& files, const FileShare& part, uint32_t steps, cudaStream_t stream) {
  char* const there = static_cast<char*>(nvshmem_ptr(part.theirs, part.right));
  uint64_t at = 0;
  for (uint32_t i = 0; i < steps; ++i) {
    penstock_io io{};
    io.operation = PENSTOCK_READ;
    io.file = files.file;
    io.offset = part.begin + at;
    io.length = kSmall;
    io.region = files.here;
    if (run_one(files.ring, io) != kSmall) stop("a read of the host failed");
    uint64_t word = 0;
    must(cudaMemcpyAsync(there, part.mine, kSmall, cudaMemcpyDefault, stream), "copy");
    tell<<<1, 1, 0, stream>>>(part, 0, 1);
    must(cudaMemcpyAsync(&word, part.mine, sizeof word, cudaMemcpyDefault, stream), "look");
    must(cudaStreamSynchronize(stream), "step");
    at = word % (part.bytes / kSmall) * kSmall;
  }
}

}  // namespace

int main(int count, char** arguments) {
  // A kernel that waits must not keep others from being loaded.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  nvshmem_init();
  const int me = nvshmem_my_pe(), pes = nvshmem_n_pes();
  if (count < 2) stop("usage: file_to_peer WHERE [MIB [KIB]]");
  int gpus = 0;
  must(cudaGetDeviceCount(&gpus), "GPUs");
  must(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % gpus), "GPU");
  const uint64_t mib = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 256;

  FileShare part{};
  part.bytes = std::max<uint64_t>(mib / 4 * 4, 4) << 20;
  const uint64_t kib = count > 3 ? std::strtoull(arguments[3], nullptr, 10) : kPieceKib;
  if (kib == 0 || kib > 64 || (kib & (kib - 1)) != 0) stop("KIB is a power of two up to 64");
  part.piece = static_cast<uint32_t>(kib << 10);
  part.begin = static_cast<uint64_t>(me) * part.bytes;
  part.came = static_cast<uint64_t>((me + pes - 1) % pes) * part.bytes;
  part.right = (me + 1) % pes;
  part.mine = static_cast<char*>(nvshmem_malloc(part.bytes));
  part.theirs = static_cast<char*>(nvshmem_malloc(part.bytes));
  part.there = static_cast<uint64_t*>(nvshmem_calloc(part.bytes / part.batch(), sizeof(uint64_t)));
  if (part.mine == nullptr || part.theirs == nullptr || part.there == nullptr)
    stop("the symmetric heap is too small: NVSHMEM_SYMMETRIC_SIZE=2G");

  Files files;
  must(penstock_connect(arguments[1], &files.session), "connect");
  must(penstock_ring_create(files.session, kHostDepth, 1, &files.ring), "ring");
  if (me == 0) make_file(files, part.bytes * static_cast<uint64_t>(pes));
  nvshmem_barrier_all();
  if (me != 0) {
    files.file = static_cast<penstock_file>(
        must(penstock_open(files.session, "/file_to_peer", O_RDONLY, 0), "open"));
  }
  // The symmetric memory itself is what the file is read into.
  must(penstock_region_register_device(files.session, part.mine, part.bytes, &files.here),
       "register symmetric memory");
  must(penstock_device_ring_create(files.session, files.here, 32768, &files.handle), "device ring");
  must(penstock_device_ring_view(files.handle, &files.view, sizeof files.view), "view");
  part.file =
      static_cast<uint8_t>(must(penstock_device_ring_add_file(files.handle, files.file), "file"));
  unsigned long long* wrong = nullptr;
  must(cudaMalloc(&wrong, sizeof *wrong), "counter");
  must(cudaMemset(wrong, 0, sizeof *wrong), "counter");
  const auto wrong_ones = [&] {
    unsigned long long seen = 0;
    must(cudaMemcpy(&seen, wrong, sizeof seen, cudaMemcpyDefault), "counter");
    return seen;
  };
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");

  // All blocks run at once: those that wait for the neighbour must not keep others from running.
  int multiprocessors = 0, of_each = 0, gpu = 0;
  must(cudaGetDevice(&gpu), "GPU");
  must(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu), "GPU");
  must(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_each, read_put_and_check, kThreads, 0),
       "GPU");
  const int blocks = std::min(kBlocksMost, multiprocessors * of_each);

  const auto measure = [&](const char* way, auto&& run) {
    double best = 0;
    for (int round = 0; round < 5; ++round) {
      must(cudaMemset(part.theirs, 0, part.bytes), "clear");
      must(cudaDeviceSynchronize(), "clear");
      ++part.round;
      must(penstock_device_ring_wake(files.handle), "wake");
      nvshmem_barrier_all();
      const uint64_t begun = penstock_now();
      run();
      must(cudaStreamSynchronize(stream), way);
      const double seconds = seconds_since(begun);
      nvshmem_barrier_all();
      if (round > 0) best = std::max(best, static_cast<double>(part.bytes) / seconds * 1e-9);
    }
    std::printf("PE %d: %-44s %7.2f GB/s, %llu words or reads wrong\n", me, way, best,
                wrong_ones());
    std::fflush(stdout);
  };
  measure("one kernel reads, puts and tells",
          [&] { read_put_and_check<<<blocks, kThreads, 0, stream>>>(files.view, part, wrong); });
  measure("a kernel reads, the host waits, another puts", [&] {
    read_only<<<blocks, kThreads, 0, stream>>>(files.view, part, wrong);
    must(cudaStreamSynchronize(stream), "read");
    put_only<<<blocks, kThreads, 0, stream>>>(part);
    check_only<<<blocks, kThreads, 0, stream>>>(part, wrong);
  });
  measure("the host reads, copies and tells", [&] {
    by_host(files, part, stream);
    check_only<<<blocks, kThreads, 0, stream>>>(part, wrong);
  });

  // A chain of 4 KiB: how long one step takes. By one PE, so that nobody shares its GPU meanwhile.
  const auto chain = [&](const char* way, auto&& run) {
    nvshmem_barrier_all();
    if (me == 0) {
      must(penstock_device_ring_wake(files.handle), "wake");
      run(kSmallSteps / 10);
      must(cudaStreamSynchronize(stream), way);
      const uint64_t begun = penstock_now();
      run(kSmallSteps);
      must(cudaStreamSynchronize(stream), way);
      std::printf("PE 0: %-44s %7.2f us each\n", way, seconds_since(begun) / kSmallSteps * 1e6);
      std::fflush(stdout);
    }
    nvshmem_barrier_all();
  };
  chain("4 KiB that say where the next are, by a kernel", [&](uint32_t steps) {
    chain_by_kernel<<<1, 32, 0, stream>>>(files.view, part, steps, wrong);
  });
  chain("the same by the host", [&](uint32_t steps) { chain_by_host(files, part, steps, stream); });

  const bool is_well = wrong_ones() == 0;
  std::printf("PE %d: %s\n", me, is_well ? "every word was right" : "WRONG words");
  must(penstock_device_ring_destroy(files.handle), "destroy");
  must(penstock_region_release(files.here), "release");
  penstock_close(files.session);
  nvshmem_free(part.there);
  nvshmem_free(part.theirs);
  nvshmem_free(part.mine);
  nvshmem_finalize();
  return is_well ? 0 : 1;
}
