// Kernels that do one thing to a PE's memory many times, so that it can be timed. The host checks
// what they are given (gpus.cc).
#include "kernel_numbers.h"
#include "penstock_device_symm.h"

namespace {

using namespace penstock::device;
using penstock::bench::Together;
using penstock::bench::WordCall;

constexpr uint64_t kShareUnit = 128;

// The block's part of a copy.
struct Part {
  uint64_t begin;
  uint64_t bytes;
};

__device__ Part part_of(uint64_t bytes) {
  const uint64_t units = (bytes + kShareUnit - 1) / kShareUnit;
  const uint64_t share = (units + gridDim.x - 1) / gridDim.x * kShareUnit;
  const uint64_t begin = min(bytes, blockIdx.x * share);
  return {begin, min(share, bytes - begin)};
}

}  // namespace

extern "C" __global__ void __launch_bounds__(512)
    penstock_bench_put(SymmState state, char* dest, const char* source, uint64_t bytes, int pe,
                       uint64_t rounds) {
  const Part part = part_of(bytes);
  for (uint64_t i = 0; i < rounds; ++i)
    put<Scope::block>(state, dest + part.begin, source + part.begin, part.bytes, pe);
}

extern "C" __global__ void __launch_bounds__(512)
    penstock_bench_get(SymmState state, char* dest, const char* source, uint64_t bytes, int pe,
                       uint64_t rounds) {
  const Part part = part_of(bytes);
  for (uint64_t i = 0; i < rounds; ++i)
    get<Scope::block>(state, dest + part.begin, source + part.begin, part.bytes, pe);
}

// One block; the signal counts up.
extern "C" __global__ void __launch_bounds__(512)
    penstock_bench_put_signal(SymmState state, char* dest, const char* source, uint64_t bytes,
                              uint64_t* signal, int pe, uint64_t rounds) {
  for (uint64_t i = 0; i < rounds; ++i)
    put_signal<Scope::block>(state, dest, source, bytes, signal, uint64_t{1}, SignalOp::add, pe);
}

// One thread, and one word of the other PE.
extern "C" __global__ void penstock_bench_words(SymmState state, uint64_t* word, uint64_t* sum,
                                                WordCall call, int pe, uint64_t rounds) {
  uint64_t seen = 0;
  for (uint64_t i = 0; i < rounds; ++i) {
    switch (call) {
      case WordCall::put_quiet:
        p(state, word, i, pe);
        quiet<Scope::thread>(state);
        break;
      case WordCall::get:
        seen += g(state, word, pe);
        break;
      case WordCall::fetch_add:
        seen += atomic_fetch_add(state, word, uint64_t{1}, pe);
        break;
      case WordCall::add:
        atomic_add(state, word, uint64_t{1}, pe);
        break;
      case WordCall::compare_swap:
        seen += atomic_compare_swap(state, word, seen, seen + 1, pe);
        break;
    }
  }
  quiet();
  // So that nothing is left out.
  *sum = seen;
}

// A word to and fro, by one thread of each of two PEs. Ends early when somebody has ended.
extern "C" __global__ void penstock_bench_pings(SymmState state, uint64_t* word, int pe, int first,
                                                uint64_t begin, uint64_t rounds) {
  for (uint64_t i = 1; i <= rounds; ++i) {
    if (first != 0) signal_op(state, word, begin + i, SignalOp::set, pe);
    uint64_t seen = 0;
    if (!signal_wait_until(state, word, Comparison::greater_or_equal, begin + i, seen)) return;
    if (first == 0) signal_op(state, word, begin + i, SignalOp::set, pe);
  }
}

// What all PEs do together, by one block of each.
extern "C" __global__ void __launch_bounds__(512)
    penstock_bench_together(SymmState state, char* dest, const char* source, uint64_t bytes,
                            Together what, uint64_t rounds) {
  constexpr int kWorld = 0;
  bool done = true;
  for (uint64_t i = 0; i < rounds && done; ++i) {
    switch (what) {
      case Together::barrier:
        done = barrier<Scope::block>(state, kWorld);
        break;
      case Together::broadcast:
        done = broadcast<Scope::block>(state, kWorld, dest, source, bytes, 0);
        break;
      case Together::fcollect:
        done = fcollect<Scope::block>(state, kWorld, dest, source, bytes);
        break;
      case Together::alltoall:
        done = alltoall<Scope::block>(state, kWorld, dest, source, bytes);
        break;
      case Together::reduce:
        done = reduce<Scope::block, Sum>(state, kWorld, reinterpret_cast<float*>(dest),
                                         reinterpret_cast<const float*>(source),
                                         bytes / sizeof(float));
        break;
    }
  }
}
