// The kernels of nvshmem_bench.cu: copies, words, signals and barriers, again and again.
#pragma once

#include "nvshmem_job.h"

namespace {

enum class By { thread, warp, block };

// ---- copies ----

template <By kBy>
__device__ void put(char* dest, const char* source, size_t bytes, int pe) {
  if (kBy == By::thread) nvshmem_putmem_nbi(dest, source, bytes, pe);
  if (kBy == By::warp) nvshmemx_putmem_nbi_warp(dest, source, bytes, pe);
  if (kBy == By::block) nvshmemx_putmem_nbi_block(dest, source, bytes, pe);
}
template <By kBy>
__device__ void get(char* dest, const char* source, size_t bytes, int pe) {
  if (kBy == By::thread) nvshmem_getmem(dest, source, bytes, pe);
  if (kBy == By::warp) nvshmemx_getmem_warp(dest, source, bytes, pe);
  if (kBy == By::block) nvshmemx_getmem_block(dest, source, bytes, pe);
}

struct Copies {
  char* dest;
  const char* source;
  size_t bytes;  // of each block
  int pe;
  int count;
};

template <By kBy>
__global__ void puts(const Copies it) {
  const size_t at = blockIdx.x * it.bytes;
  for (int i = 0; i < it.count; ++i) put<kBy>(it.dest + at, it.source + at, it.bytes, it.pe);
  nvshmem_quiet();
}
template <By kBy>
__global__ void puts_with_quiet(const Copies it) {
  const size_t at = blockIdx.x * it.bytes;
  for (int i = 0; i < it.count; ++i) {
    put<kBy>(it.dest + at, it.source + at, it.bytes, it.pe);
    if (threadIdx.x == 0) nvshmem_quiet();
    __syncthreads();
  }
}
template <By kBy>
__global__ void gets(const Copies it) {
  const size_t at = blockIdx.x * it.bytes;
  for (int i = 0; i < it.count; ++i) get<kBy>(it.dest + at, it.source + at, it.bytes, it.pe);
}
// Of memory that nobody has just read: what is in no cache of the GPU that asks.
template <By kBy>
__global__ void gets_of_new(const Copies it, size_t stretch) {
  const size_t step = gridDim.x * it.bytes;
  size_t at = blockIdx.x * it.bytes;
  for (int i = 0; i < it.count; ++i) {
    get<kBy>(it.dest + blockIdx.x * it.bytes, it.source + at, it.bytes, it.pe);
    at += step;
    if (at + it.bytes > stretch) at = blockIdx.x * it.bytes;
  }
}

template <int kEach>
__global__ void bare(uint4* dest, const uint4* source, size_t units, int count) {
  for (int i = 0; i < count; ++i) {
    for (size_t at = threadIdx.x; at < units; at += size_t{kEach} * blockDim.x) {
      uint4 word[kEach];
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        if (at + k * blockDim.x < units) word[k] = source[at + k * blockDim.x];
      }
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        if (at + k * blockDim.x < units) dest[at + k * blockDim.x] = word[k];
      }
    }
    __syncthreads();
  }
  __threadfence_system();
}

// ---- words ----

__global__ void p_many(uint64_t* dest, int pe, int count) {
  const size_t at = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < count; ++i) nvshmem_uint64_p(dest + at, i, pe);
  nvshmem_quiet();
}
__global__ void p_with_quiet(uint64_t* dest, int pe, int count) {
  for (int i = 0; i < count; ++i) {
    nvshmem_uint64_p(dest, i, pe);
    nvshmem_quiet();
  }
}
__global__ void g_many(const uint64_t* source, uint64_t* out, int pe, int count) {
  const size_t at = blockIdx.x * blockDim.x + threadIdx.x;
  uint64_t sum = 0;
  for (int i = 0; i < count; ++i) sum += nvshmem_uint64_g(source + at, pe);
  out[at] = sum;
}
// Each from where no cache has it, one behind the other: a way there and back.
__global__ void g_of_new(const uint64_t* source, uint64_t* out, size_t words, int pe, int count) {
  size_t at = 0;
  uint64_t sum = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t got = nvshmem_uint64_g(source + at, pe);
    sum += got;
    at = (at + 4096 + (got & 1)) % words;
  }
  *out = sum;
}
enum class Atomic { add, fetch_add, compare_swap, set, fetch };
template <Atomic kAtomic>
__global__ void atomics(uint64_t* dest, uint64_t* out, int pe, int count) {
  uint64_t got = 0;
  for (int i = 0; i < count; ++i) {
    if (kAtomic == Atomic::add) nvshmem_uint64_atomic_add(dest, 1, pe);
    if (kAtomic == Atomic::set) nvshmem_uint64_atomic_set(dest, i, pe);
    if (kAtomic == Atomic::fetch_add) got += nvshmem_uint64_atomic_fetch_add(dest, got & 1, pe);
    if (kAtomic == Atomic::fetch) got += nvshmem_uint64_atomic_fetch(dest + (got & 1), pe);
    if (kAtomic == Atomic::compare_swap) {
      got += nvshmem_uint64_atomic_compare_swap(dest, got, got, pe);
    }
  }
  *out = got;
  nvshmem_quiet();
}

// ---- signals: there and back; half of it is a way ----

struct PingPong {
  char* dest;
  const char* source;
  size_t bytes;  // 0: a signal alone
  uint64_t* signal;
  uint64_t begin;
  int pe;
  int count;
  int side;  // 0 begins
  bool alone;
};

template <By kBy>
__device__ void tell(const PingPong& it, uint64_t* signal, uint64_t value) {
  if (it.bytes == 0) {
    if (threadIdx.x == 0) nvshmemx_signal_op(signal, value, NVSHMEM_SIGNAL_SET, it.pe);
    return;
  }
  constexpr int kSet = NVSHMEM_SIGNAL_SET;
  if (kBy == By::thread)
    nvshmem_putmem_signal_nbi(it.dest, it.source, it.bytes, signal, value, kSet, it.pe);
  if (kBy == By::warp)
    nvshmemx_putmem_signal_nbi_warp(it.dest, it.source, it.bytes, signal, value, kSet, it.pe);
  if (kBy == By::block)
    nvshmemx_putmem_signal_nbi_block(it.dest, it.source, it.bytes, signal, value, kSet, it.pe);
}
// Where one PE plays both, by two blocks, each has a signal of its own.
template <By kBy>
__global__ void ping_pong(const PingPong it) {
  const int side = it.alone ? static_cast<int>(blockIdx.x) : it.side;
  uint64_t* const own = it.alone ? it.signal + side * 64 : it.signal;
  uint64_t* const theirs = it.alone ? it.signal + (1 - side) * 64 : it.signal;
  for (int i = 1; i <= it.count; ++i) {
    const uint64_t value = it.begin + i;
    if (side == 0) tell<kBy>(it, theirs, value);
    if (threadIdx.x == 0) nvshmem_signal_wait_until(own, NVSHMEM_CMP_EQ, value);
    __syncthreads();
    if (side == 1) tell<kBy>(it, theirs, value);
  }
}

// ---- barriers ----

template <By kBy, bool kSyncs>
__global__ void barriers(int count) {
  for (int i = 0; i < count; ++i) {
    if (kBy == By::thread) kSyncs ? nvshmem_sync_all() : nvshmem_barrier_all();
    if (kBy == By::warp) kSyncs ? nvshmemx_sync_all_warp() : nvshmemx_barrier_all_warp();
    if (kBy == By::block) kSyncs ? nvshmemx_sync_all_block() : nvshmemx_barrier_all_block();
  }
}

}  // namespace
