// Kernels that read and write through a ring and check every byte.
#pragma once

#include "on_gpu.cuh"

namespace checks {

using namespace penstock::device;  // NOLINT: a program

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint32_t kSlotBytes = 80 * 1024;  // of each thread, or warp's lane
constexpr uint32_t kLengthMax = 70'000;
constexpr char kGuard = 0x5b;

struct Tally {
  unsigned long long good, wrong_length, wrong_bytes, over_the_edge, failed, places, landed,
      guessed, busy;
  long long last_error;
};

__device__ inline uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

__device__ inline char byte_of(uint64_t offset, uint64_t round) {
  return static_cast<char>(word_of(offset / 8, round) >> (8 * (offset % 8)));
}

struct Reads {
  uint8_t file;
  uint64_t file_bytes;
  uint32_t rounds;
  uint64_t seed;
  uint32_t length_max;
  bool by_copy;
};

__device__ inline Request random_read(const Reads& reads, uint64_t thread, uint32_t round) {
  const uint64_t random = mixed(reads.seed + thread * 1'000'003 + round);
  Request request;
  request.file = reads.file;
  request.by_copy = reads.by_copy;
  request.length = 1 + static_cast<uint32_t>(random % reads.length_max);
  // Now and then across the end of the file, or behind it.
  request.offset = mixed(random) % (reads.file_bytes + reads.length_max / 16);
  request.destination = thread * kSlotBytes + 64 + mixed(random + 1) % 64;
  return request;
}

__device__ inline void guard(const Ring& ring, const Request& request) {
  char* const memory = ring.memory + request.destination;
  for (int i = 1; i <= 16; ++i) {
    memory[-i] = kGuard;
    memory[request.length + i - 1] = kGuard;
  }
}

__device__ inline void tally(const Ring& ring, const Reads& reads, const Request& request,
                             const Ticket& ticket, int64_t got, Tally* tally) {
  const char* const memory = ring.memory + request.destination;
  const uint64_t there = request.offset < reads.file_bytes ? reads.file_bytes - request.offset : 0;
  const int64_t expected = there < request.length ? static_cast<int64_t>(there) : request.length;
  uint32_t wrong = 0, over = 0;
  for (int64_t i = 0; i < got; ++i) wrong += memory[i] != byte_of(request.offset + i, 0) ? 1 : 0;
  for (int i = 1; i <= 16; ++i) {
    over += memory[-i] != kGuard || memory[request.length + i - 1] != kGuard ? 1 : 0;
  }
  if (got < 0) {
    atomicAdd(&tally->failed, 1ull);
    tally->last_error = got;
  } else if (got != expected) {
    atomicAdd(&tally->wrong_length, 1ull);
  } else if (wrong > 0) {
    atomicAdd(&tally->wrong_bytes, 1ull);
  } else if (over > 0) {
    atomicAdd(&tally->over_the_edge, 1ull);
  } else {
    atomicAdd(&tally->good, 1ull);
  }
  atomicAdd(ticket.kind == kAddress ? &tally->places : &tally->landed, 1ull);
  if (ticket.guessed) atomicAdd(&tally->guessed, 1ull);
}

// Each warp as one.
__global__ void run_by_warps(Ring ring, Reads reads, Tally* out) {
  const uint64_t warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarpLanes;
  for (uint32_t round = 0; round < reads.rounds; ++round) {
    const Request request = random_read(reads, warp, round);
    if (warp_lane() == 0) guard(ring, request);
    __threadfence_system();
    __syncwarp();
    Ticket ticket;
    int64_t got = -EAGAIN;
    while (got == -EAGAIN) got = run_by_warp(ring, request, &ticket, 60 * kSecond);
    if (warp_lane() == 0) tally(ring, reads, request, ticket, got, out);
    __syncwarp();
  }
}

// Every lane asks, the warp waits.
__global__ void read_by_warps(Ring ring, Reads reads, Tally* out) {
  const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  // Told at the end: the tally is host memory, and thousands of warps that are told to try again
  // would leave nothing of the link to anybody else.
  unsigned long long busy = 0;
  for (uint32_t round = 0; round < reads.rounds; ++round) {
    const Request request = random_read(reads, thread, round);
    guard(ring, request);
    __threadfence_system();
    Ticket ticket;
    int64_t got = 0;
    bool left = true;
    while (ballot(kWholeWarp, left) != 0) {
      const int error = submit_by_warp(ring, left, request, &ticket);
      if (left && error == -EAGAIN) ++busy;
      const bool waits = ticket.pending;
      const int64_t result = wait_by_warp(ring, ticket, 60 * kSecond);
      if (waits) got = result;
      left = left && error == -EAGAIN;
    }
    tally(ring, reads, request, ticket, got, out);
    __syncwarp();
  }
  atomicAdd(&out->busy, busy);
}

// Threads alone, in code where lanes go different ways.
__global__ void read_by_threads(Ring ring, Reads reads, Tally* out) {
  const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  unsigned long long busy = 0;
  for (uint32_t round = 0; round < reads.rounds; ++round) {
    if (mixed(thread * 31 + round) % 3 == 0) continue;
    const Request request = random_read(reads, thread, round);
    guard(ring, request);
    __threadfence_system();
    Ticket ticket;
    int64_t got = 0;
    for (bool left = true; left;) {
      left = submit(ring, request, &ticket) == -EAGAIN;
      // Within the loop: lanes that have left it would wait for those that have not.
      if (left) ++busy;
      if (!left) got = wait(ring, ticket, 60 * kSecond);
    }
    tally(ring, reads, request, ticket, got, out);
  }
  atomicAdd(&out->busy, busy);
}

// A list of a block's: request i reads 1000 bytes from i * 1003 on.
__global__ void read_by_block(Ring ring, uint8_t file, Request* requests, Ticket* tickets,
                              int64_t* results, uint32_t count, Tally* out) {
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
    Request request;
    request.file = file;
    request.offset = uint64_t{i} * 1003;
    request.length = 1000;
    request.destination = uint64_t{i} * 1024 + i % 16;
    requests[i] = request;
  }
  __syncthreads();
  submit_by_block(ring, requests, count, tickets, results);
  wait_by_block(ring, count, tickets, results, 60 * kSecond);
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
    uint32_t wrong = results[i] == 1000 ? 0 : 1;
    for (uint32_t b = 0; b < 1000; ++b) {
      wrong +=
          ring.memory[requests[i].destination + b] != byte_of(requests[i].offset + b, 0) ? 1 : 0;
    }
    atomicAdd(wrong == 0 ? &out->good : &out->wrong_bytes, 1ull);
  }
}

// One thread takes all positions and one more; then what a request with this result has to be.
__global__ void fill_ring(Ring ring, uint8_t file, Ticket* tickets, int64_t* one_more,
                          int64_t* after_the_second, int64_t* after_all, Tally* out) {
  Request request;
  request.file = file;
  request.length = 16;
  for (uint32_t i = 0; i < ring.entries; ++i) {
    if (submit(ring, request, &tickets[i]) == 0) ++out->good;
  }
  Ticket ticket;
  *one_more = submit(ring, request, &ticket);
  wait(ring, tickets[1], 10 * kSecond);
  *after_the_second = submit(ring, request, &ticket);
  for (uint32_t i = 0; i < ring.entries; ++i) wait(ring, tickets[i], 10 * kSecond);
  *after_all = submit(ring, request, &ticket);
  wait(ring, ticket, 10 * kSecond);
}

__global__ void one_request(Ring ring, Request request, int64_t* result) {
  Ticket ticket;
  const int error = submit_by_warp(ring, warp_lane() == 0, request, &ticket);
  const int64_t got = wait_by_warp(ring, ticket, 60 * kSecond);
  if (warp_lane() == 0) *result = error != 0 ? error : got;
}

// Fills [destination, + length) with the words of `round`, and writes it to the file.
__global__ void write_words(Ring ring, Request request, uint64_t round, int64_t* result) {
  for (uint64_t i = threadIdx.x; i < request.length; i += blockDim.x) {
    ring.memory[request.destination + i] = byte_of(request.offset + i, round);
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x >= kWarpLanes) return;
  Ticket ticket;
  submit_by_warp(ring, warp_lane() == 0, request, &ticket);
  const int64_t got = wait_by_warp(ring, ticket, 60 * kSecond);
  if (warp_lane() == 0) *result = got;
}

// Reads blocks of 4 KiB until told to stop, or the ring is closed. The bytes of a block are of one
// round, whole: of the last that had returned when they were asked for, `*writes`, or a later one.
__global__ void read_while_written(Ring ring, uint8_t file, uint64_t file_bytes,
                                   const uint32_t* writes, const uint32_t* stop, Tally* out) {
  const uint64_t warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarpLanes;
  for (uint64_t round = 0; load_shared(stop) == 0; ++round) {
    Request request;
    request.file = file;
    request.length = 4096;
    request.offset = mixed(warp * 7'000'003 + round) % (file_bytes / 4096) * 4096;
    request.destination = warp * 4096;
    const uint32_t returned = load_shared(writes);
    fence_shared();
    Ticket ticket;
    int64_t got = -EAGAIN;  // while one that was asked for earlier waits for the agent
    while (got == -EAGAIN) got = run_by_warp(ring, request, &ticket, 60 * kSecond);
    bool matches = false;
    // One more may be under way.
    for (uint32_t r = returned; r <= load_shared(writes) + 1 && !matches; ++r) {
      bool same = true;
      for (uint32_t i = warp_lane(); i < 4096; i += kWarpLanes) {
        same = same && ring.memory[request.destination + i] == byte_of(request.offset + i, r);
      }
      matches = ballot(kWholeWarp, same) == kWholeWarp;
    }
    if (warp_lane() == 0) {
      atomicAdd(got == 4096 ? (matches ? &out->good : &out->wrong_bytes) : &out->failed, 1ull);
      if (got != 4096) out->last_error = got;
      if (got == 4096) atomicAdd(ticket.kind == kAddress ? &out->places : &out->landed, 1ull);
      if (ticket.guessed) atomicAdd(&out->guessed, 1ull);
    }
    if (got == -ESHUTDOWN) return;
    __syncwarp();
  }
}

}  // namespace checks
