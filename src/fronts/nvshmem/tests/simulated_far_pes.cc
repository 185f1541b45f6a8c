// Programs whose PEs are on several nodes (PENSTOCK_JOB_NODES).
#include "simulated_pes.h"

#include <array>
#include <functional>
#include <unistd.h>
#include <vector>

namespace penstock::nvshmem::test {
namespace {

struct Far {
  Pe pe;
  cudaStream_t stream;
};

// Each PE has one of the node's two GPUs.
Far begin_far() {
  nvshmem_init();
  const Pe pe{nvshmem_my_pe(), nvshmem_n_pes()};
  const engine::DeviceId own(static_cast<uint32_t>(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE)) % 2);
  CHECK(nvshmem_team_n_pes(NVSHMEMX_TEAM_NODE) < pe.pes);
  gpus().set_current(own);
  return {pe, static_cast<cudaStream_t>(gpus().make_stream(own))};
}

void finish(const Far& far) {
  CHECK(on_device("test").device->synchronize(far.stream).ok());
}

long given(int pe, size_t i) {
  return (pe + 1) * 100'000L + static_cast<long>(i) * 3;
}

// Symmetric memory with what this PE gives, and for what comes.
struct Words {
  long* source;
  long* dest;
  size_t count;  // of each PE

  void fill(const Pe& pe) const {
    std::vector<long> words(count * static_cast<size_t>(pe.pes));
    for (size_t i = 0; i < words.size(); ++i) words[i] = given(pe.me, i);
    nvshmem_long_put(source, words.data(), words.size(), pe.me);
    nvshmem_barrier_all();
  }
  void expect(const Pe& pe, size_t all, const std::function<long(size_t)>& wanted) const {
    std::vector<long> seen(all);
    nvshmem_long_get(seen.data(), dest, all, pe.me);
    for (size_t i = 0; i < all; ++i) CHECK(seen[i] == wanted(i));
  }
};

long sum_of(int pes, size_t i) {
  long sum = 0;
  for (int pe = 0; pe < pes; ++pe) sum += given(pe, i);
  return sum;
}

// Those of one team, by calls on a stream or by the host.
void collect(const Far& far, const Words& words, bool on_stream) {
  const Pe& pe = far.pe;
  const nvshmem_team_t world = NVSHMEM_TEAM_WORLD;
  const size_t count = words.count;
  const size_t all = count * static_cast<size_t>(pe.pes);
  const int root = pe.pes - 1;
  const auto done = [&](int code) {
    CHECK(code == 0);
    if (on_stream) finish(far);
  };
  long* const dest = words.dest;
  const long* const source = words.source;
  done(on_stream ? nvshmemx_long_broadcast_on_stream(world, dest, source, count, root, far.stream)
                 : nvshmem_long_broadcast(world, dest, source, count, root));
  words.expect(pe, count, [&](size_t i) { return given(root, i); });
  done(on_stream ? nvshmemx_long_fcollect_on_stream(world, dest, source, count, far.stream)
                 : nvshmem_long_fcollect(world, dest, source, count));
  words.expect(pe, all, [&](size_t i) { return given(static_cast<int>(i / count), i % count); });
  done(on_stream ? nvshmemx_long_alltoall_on_stream(world, dest, source, count, far.stream)
                 : nvshmem_long_alltoall(world, dest, source, count));
  const size_t own = count * static_cast<size_t>(pe.me);
  words.expect(pe, all,
               [&](size_t i) { return given(static_cast<int>(i / count), i % count + own); });
  done(on_stream ? nvshmemx_long_sum_reduce_on_stream(world, dest, source, count, far.stream)
                 : nvshmem_long_sum_reduce(world, dest, source, count));
  words.expect(pe, count, [&](size_t i) { return sum_of(pe.pes, i); });
  done(on_stream ? nvshmemx_long_sum_reducescatter_on_stream(world, dest, source, count, far.stream)
                 : nvshmem_long_sum_reducescatter(world, dest, source, count));
  words.expect(pe, count, [&](size_t i) { return sum_of(pe.pes, i + own); });
  CHECK(nvshmemx_barrier_on_stream(world, far.stream) == 0);
  CHECK(nvshmemx_team_sync_on_stream(world, far.stream) == 0);
}

void operations_over_nodes() {
  const Far far = begin_far();
  const auto pes = static_cast<size_t>(far.pe.pes);
  constexpr size_t kMost = 5000;
  const Words both = {allocate<long>(kMost * pes), allocate<long>(kMost * pes), kMost};
  for (const size_t count : {size_t{1}, size_t{300}, kMost}) {
    const Words words = {both.source, both.dest, count};
    words.fill(far.pe);
    collect(far, words, true);
    collect(far, words, false);
    nvshmem_barrier_all();
  }
  // Every other PE, so that the team is over both nodes.
  nvshmem_team_t half = NVSHMEM_TEAM_INVALID;
  const int of_half = (far.pe.pes + 1) / 2;
  CHECK(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 2, of_half, nullptr, 0, &half) == 0);
  if (half != NVSHMEM_TEAM_INVALID) {
    for (int i = 0; i < 5; ++i)
      CHECK(nvshmemx_long_max_reduce_on_stream(half, both.dest, both.source, 10, far.stream) == 0);
    finish(far);
    both.expect(far.pe, 10, [&](size_t i) { return given(2 * (of_half - 1), i); });
    nvshmem_team_destroy(half);
  }
  nvshmem_barrier_all();
  nvshmem_finalize();
}

// The program's own memory on the host, as any of its calls may be given.
void pageable_over_nodes() {
  const Far far = begin_far();
  const Pe& pe = far.pe;
  constexpr size_t kCount = 2000;
  auto* const words = allocate<long>(kCount);
  std::vector<long> mine(kCount);
  for (size_t i = 0; i < kCount; ++i) mine[i] = given(pe.me, i);
  const auto expect = [&](const std::vector<long>& seen, int from, size_t step) {
    for (size_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == given(from, i * step));
  };
  nvshmem_long_put(words, mine.data(), kCount, pe.right());
  nvshmem_barrier_all();
  std::vector<long> seen(kCount);
  nvshmem_long_get(seen.data(), words, kCount, pe.right());
  expect(seen, pe.me, 1);
  nvshmem_barrier_all();
  nvshmem_long_iput(words, mine.data(), 1, 2, kCount / 2, pe.right());
  nvshmem_barrier_all();
  std::vector<long> half(kCount / 4);
  nvshmem_long_iget(half.data(), words, 1, 2, kCount / 4, pe.right());
  expect(half, pe.me, 4);
  nvshmem_barrier_all();
  nvshmemx_long_put_on_stream(words, mine.data(), kCount, pe.right(), far.stream);
  mine[0] = 0;
  nvshmemx_barrier_all_on_stream(far.stream);
  nvshmemx_long_get_on_stream(seen.data(), words, kCount, pe.right(), far.stream);
  finish(far);
  expect(seen, pe.me, 1);
  nvshmem_barrier_all();
  nvshmem_finalize();
}

// Memory that the program has made becomes symmetric, and its own again.
void registered_over_nodes() {
  const Far far = begin_far();
  const Pe& pe = far.pe;
  constexpr size_t kBytes = 2 << 20;
  constexpr size_t kCount = kBytes / sizeof(long);
  auto* const source = allocate<long>(kCount);
  std::vector<long> mine(kCount);
  for (size_t i = 0; i < kCount; ++i) mine[i] = given(pe.me, i);
  nvshmem_long_put(source, mine.data(), kCount, pe.me);
  for (int round = 0; round < 2; ++round) {
    const auto made = gpus().make_memory(on_device("test").device->id(), kBytes);
    CHECK(made);
    auto* const words =
        static_cast<long*>(nvshmemx_buffer_register_symmetric(made->data(), kBytes, 0));
    CHECK(words != nullptr);
    nvshmem_long_put(words, source, kCount, pe.right());
    nvshmem_barrier_all();
    std::vector<long> seen(kCount);
    nvshmem_long_get(seen.data(), words, kCount, pe.me);
    for (size_t i = 0; i < kCount; ++i) CHECK(seen[i] == given(pe.left(), i));
    nvshmem_barrier_all();
    nvshmem_long_atomic_add(words, 5, pe.right());
    nvshmem_barrier_all();
    CHECK(nvshmem_long_g(words, pe.right()) == given(pe.me, 0) + 5);
    nvshmem_barrier_all();
    CHECK(nvshmem_long_sum_reduce(NVSHMEM_TEAM_WORLD, words, source, kCount) == 0);
    nvshmem_long_get(seen.data(), words, kCount, pe.me);
    for (size_t i = 0; i < kCount; ++i) CHECK(seen[i] == sum_of(pe.pes, i));
    CHECK(nvshmemx_buffer_unregister_symmetric(words, kBytes) == 0);
  }
  nvshmem_finalize();
}

// A kernel of the program puts from pageable memory: one of this library's plays it.
void kernel_puts_from_pageable() {
  const Far far = begin_far();
  auto* const words = allocate<long>(100);
  if (far.pe.me == 0) {
    OnDevice& on = on_device("test");
    auto second = gpu::open_symmetric_device(on.device->id());
    CHECK(second);
    const std::array<const char*, 1> names = {"penstock_symm_put_far"};
    CHECK((*second)->load_kernels(nullptr, names));
    const std::vector<long> mine(100);
    std::fprintf(stderr, "address %#lx\n",
                 static_cast<unsigned long>(reinterpret_cast<uintptr_t>(mine.data())));
    device::SymmState state = on.heap->state();
    void* dest = words;
    const void* source = mine.data();
    uint64_t bytes = 800;
    int to = far.pe.pes - 1;
    std::array<void*, 5> arguments = {&state, &dest, &source, &bytes, &to};
    CHECK((*second)->launch({.kernel = 0, .arguments = arguments}).ok());
    for (;;) ::pause();
  }
  nvshmem_barrier_all();
}

}  // namespace

const Named kFarPrograms[] = {
    {"pageable_over_nodes", pageable_over_nodes},
    {"registered_over_nodes", registered_over_nodes},
    {"kernel_not_reached", kernel_puts_from_pageable},
    {"over_nodes", operations_over_nodes},
    {nullptr, nullptr},
};

}  // namespace penstock::nvshmem::test
