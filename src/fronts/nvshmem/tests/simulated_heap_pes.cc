// Programs whose heap has no more room, and such whose heap grows; and what comes before there is
// one: the GPU, and teams.
#include "simulated_pes.h"

#include <algorithm>
#include <vector>

namespace penstock::nvshmem::test {
namespace {

Pe begin_near() {
  nvshmem_init();
  const Pe pe{nvshmem_my_pe(), nvshmem_n_pes()};
  gpus().set_current(engine::DeviceId(static_cast<uint32_t>(pe.me) % 2));
  return pe;
}

// By a heap of 8 MiB (simulated_test.cc).
void heap_is_full() {
  (void)begin_near();
  auto* const some = static_cast<char*>(nvshmem_malloc(1 << 20));
  CHECK(some != nullptr);
  CHECK(nvshmem_malloc(64 << 20) == nullptr);
  CHECK(nvshmem_malloc(SIZE_MAX) == nullptr && nvshmem_calloc(SIZE_MAX, 2) == nullptr);
  CHECK(nvshmem_align(1 << 12, SIZE_MAX - 100) == nullptr);
  std::vector<void*> all;
  while (void* const one = nvshmem_malloc(1 << 20)) all.push_back(one);
  CHECK(all.size() >= 5);
  nvshmem_char_p(some, 'a', 0);
  for (void* const one : all) nvshmem_free(one);
  CHECK(nvshmem_malloc(4 << 20) != nullptr);
  nvshmem_finalize();
}

// What was put into the right neighbour's memory of this kind is there.
void try_memory(const Pe& pe, char* memory, size_t bytes, int salt) {
  std::vector<char> mine(bytes);
  for (size_t i = 0; i < bytes; ++i) mine[i] = static_cast<char>(i * 7 + i / 4096 + pe.me + salt);
  nvshmem_char_put(memory, mine.data(), bytes, pe.right());
  nvshmem_barrier_all();
  std::vector<char> seen(bytes);
  nvshmem_char_get(seen.data(), memory, bytes, pe.me);
  for (size_t i = 0; i < bytes; ++i)
    CHECK(seen[i] == static_cast<char>(i * 7 + i / 4096 + pe.left() + salt));
  nvshmem_barrier_all();
  auto* const word = reinterpret_cast<uint64_t*>(memory + bytes - 8);
  nvshmem_uint64_p(word, 5, pe.right());
  nvshmem_barrier_all();
  nvshmem_uint64_atomic_add(word, 1, pe.right());
  nvshmem_barrier_all();
  CHECK(nvshmem_uint64_g(word, pe.me) == 6);
}

// From 8 MiB to 40.
void heap_grows() {
  constexpr size_t kMiB = size_t{1} << 20;
  const Pe pe = begin_near();
  auto* const first = allocate<char>(6 * kMiB);
  auto* const second = allocate<char>(6 * kMiB);
  auto* const third = allocate<char>(11 * kMiB);
  try_memory(pe, first, 6 * kMiB, 1);
  try_memory(pe, second, 6 * kMiB, 2);
  try_memory(pe, third, 11 * kMiB, 3);
  CHECK(nvshmem_ptr(third, pe.me) == third);
  // More than it may have, and then what is left.
  CHECK(nvshmem_malloc(40 * kMiB) == nullptr);
  auto* const fourth = allocate<char>(10 * kMiB);
  CHECK(nvshmem_malloc(10 * kMiB) == nullptr);
  try_memory(pe, fourth, 10 * kMiB, 4);
  // A buffer behind what it has grown by; which is none.
  const auto made = gpus().make_memory(on_device("test").device->id(), 2 * kMiB);
  CHECK(made);
  auto* const buffer =
      static_cast<char*>(nvshmemx_buffer_register_symmetric(made->data(), 2 * kMiB, 0));
  CHECK(buffer != nullptr);
  try_memory(pe, buffer, 2 * kMiB, 5);
  CHECK(nvshmemx_buffer_unregister_symmetric(buffer, 2 * kMiB) == 0);
  CHECK(nvshmemx_buffer_unregister_symmetric(fourth, 12 * kMiB) != 0);
  nvshmem_free(second);
  CHECK(allocate<char>(6 * kMiB) == second);
  nvshmem_free(third);
  CHECK(allocate<char>(11 * kMiB) == third);
  try_memory(pe, third, 11 * kMiB, 6);
  nvshmem_finalize();
}

// The last PE's GPU has no more memory: none of them grows, and all goes on.
void one_cannot_grow() {
  const Pe pe = begin_near();
  auto* const first = allocate<char>(6 << 20);
  if (pe.me == pe.pes - 1) gpus().set_faults({.allocates_at_most = 1 << 20});
  CHECK(nvshmem_malloc(6 << 20) == nullptr);
  try_memory(pe, first, 6 << 20, 1);
  if (pe.me == pe.pes - 1) gpus().set_faults({});
  nvshmem_barrier_all();
  try_memory(pe, allocate<char>(6 << 20), 6 << 20, 2);
  nvshmem_finalize();
}

// Kernels are told of the GPU in the call that comes first once it is chosen.
void device_comes_early() {
  nvshmem_init();
  const Pe pe{nvshmem_my_pe(), nvshmem_n_pes()};
  nvshmem_barrier_all();
  CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_IS_BOOTSTRAPPED);
  gpus().set_current(engine::DeviceId(static_cast<uint32_t>(pe.me) % 2));
  nvshmem_barrier_all();
  CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_IS_INITIALIZED);
  nvshmem_finalize();
  CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_IS_BOOTSTRAPPED);
  nvshmem_init();
  CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_IS_INITIALIZED);
  nvshmem_finalize();
}

// A part that some are not in, before anything else: nobody waits for those.
void splits_first() {
  nvshmem_init();
  const Pe pe{nvshmem_my_pe(), nvshmem_n_pes()};
  gpus().set_current(engine::DeviceId(static_cast<uint32_t>(pe.me) % 2));
  nvshmem_team_t half[2];
  for (int i = 0; i < std::min(2, pe.pes); ++i) {
    const int size = (pe.pes + 1 - i) / 2;
    CHECK(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, i, 2, size, nullptr, 0, &half[i]) == 0);
    CHECK((half[i] != NVSHMEM_TEAM_INVALID) == (pe.me % 2 == i));
  }
  CHECK(nvshmem_team_sync(half[pe.me % 2]) == 0);
  nvshmem_finalize();
}

// Those of the other nodes that have this one's place there.
void places_on_nodes() {
  nvshmem_init();
  const int of_node = nvshmem_team_n_pes(NVSHMEMX_TEAM_NODE);
  const int nodes = nvshmem_n_pes() / of_node;
  CHECK(nodes > 1);
  CHECK(nvshmem_team_n_pes(NVSHMEMX_TEAM_SAME_MYPE_NODE) == nodes);
  for (int node = 0; node < nodes; ++node) {
    CHECK(nvshmem_team_translate_pe(NVSHMEMX_TEAM_SAME_MYPE_NODE, node, NVSHMEM_TEAM_WORLD) ==
          node * of_node + nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE));
  }
  CHECK(nvshmem_team_sync(NVSHMEMX_TEAM_SAME_MYPE_NODE) == 0);
  nvshmem_finalize();
}

}  // namespace

const Named kHeapPrograms[] = {
    {"full", heap_is_full},
    {"grows", heap_grows},
    {"grows_over_nodes", heap_grows},
    {"one_cannot_grow", one_cannot_grow},
    {"device_comes_early", device_comes_early},
    {"splits_first", splits_first},
    {"places_on_nodes", places_on_nodes},
    {nullptr, nullptr},
};

}  // namespace penstock::nvshmem::test
