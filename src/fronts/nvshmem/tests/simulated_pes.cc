// One PE of a job of simulated_test.cc: a program for NVSHMEM without kernels, on simulated GPUs.
#include "simulated_pes.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace penstock::nvshmem::test {

penstock::test::SimulatedDevices& gpus() {
  static auto* const all = new penstock::test::SimulatedDevices({.devices = 2});
  return *all;
}

namespace {

// As programs do: the device is chosen after init.
Pe begin() {
  nvshmem_init();
  const Pe pe{nvshmem_my_pe(), nvshmem_n_pes()};
  const int of_node = nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE);
  CHECK(of_node == pe.me);
  gpus().set_current(engine::DeviceId(static_cast<uint32_t>(of_node) % 2));
  return pe;
}

// ---- what goes well ----

void a_whole_program() {
  CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED);
  const Pe pe = begin();
  CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_IS_BOOTSTRAPPED);
  auto* const words = allocate<long>(1000);
  CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_IS_INITIALIZED);
  auto* const zeros = static_cast<int*>(nvshmem_calloc(100, sizeof(int)));
  CHECK(reinterpret_cast<uintptr_t>(nvshmem_align(4096, 10)) % 4096 == 0);
  CHECK(nvshmem_malloc(0) == nullptr && nvshmem_align(48, 1) == nullptr);

  std::vector<long> own(1000);
  for (size_t i = 0; i < own.size(); ++i) own[i] = pe.me * 10'000 + static_cast<long>(i);
  nvshmem_long_put(words, own.data(), own.size(), pe.right());
  nvshmem_barrier_all();
  std::vector<long> seen(1000);
  nvshmem_long_get(seen.data(), words, seen.size(), pe.me);
  for (size_t i = 0; i < seen.size(); ++i)
    CHECK(seen[i] == pe.left() * 10'000 + static_cast<long>(i));
  CHECK(nvshmem_int_g(zeros + 99, pe.right()) == 0);
  nvshmem_barrier_all();
  nvshmem_int_p(zeros, 7 + pe.me, pe.right());
  nvshmem_barrier_all();
  CHECK(nvshmem_int_g(zeros, pe.me) == 7 + pe.left());

  // On a stream of the program.
  const auto stream = static_cast<cudaStream_t>(
      gpus().make_stream(engine::DeviceId(static_cast<uint32_t>(pe.me) % 2)));
  for (long round = 1; round <= 50; ++round) {
    nvshmemx_long_put_on_stream(words, own.data(), 1, pe.right(), stream);
    own[0] += 1'000'000;  // pageable: what was put is what was there
    nvshmemx_barrier_all_on_stream(stream);
    nvshmemx_long_get_on_stream(seen.data(), words, 1, pe.me, stream);
    CHECK(seen[0] == pe.left() * 10'000 + (round - 1) * 1'000'000);
    nvshmemx_barrier_all_on_stream(stream);
  }
  nvshmemx_quiet_on_stream(stream);

  CHECK(nvshmem_ptr(words, pe.right()) != nullptr && nvshmem_ptr(words, pe.me) == words);
  CHECK(nvshmem_ptr(words, pe.pes) == nullptr && nvshmem_ptr(&own, pe.me) == nullptr);

  nvshmem_team_t half = NVSHMEM_TEAM_INVALID;
  const int of_half = (pe.pes + 1) / 2;
  CHECK(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 2, of_half, nullptr, 0, &half) == 0);
  CHECK((half != NVSHMEM_TEAM_INVALID) == (pe.me % 2 == 0));
  if (half != NVSHMEM_TEAM_INVALID) {
    CHECK(nvshmem_team_my_pe(half) == pe.me / 2 && nvshmem_team_n_pes(half) == of_half);
    for (int i = 0; i < 20; ++i) CHECK(nvshmemx_barrier_on_stream(half, stream) == 0);
    CHECK(nvshmem_team_sync(half) == 0);
    // As a program waits for its stream: nothing of a team may be under way when it goes.
    CHECK(on_device("test").device->synchronize(stream).ok());
    nvshmem_team_destroy(half);
  }
  nvshmem_free(zeros);
  nvshmem_free(words);
  nvshmem_free(nullptr);
  // The same place once more.
  CHECK(allocate<long>(1000) == words);
  nvshmem_finalize();
  CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_IS_BOOTSTRAPPED);
}

void inits_are_counted() {
  begin();
  nvshmem_init();
  auto* const word = allocate<int>(1);
  nvshmem_finalize();
  nvshmem_int_p(word, 1, 0);
  nvshmem_barrier_all();
  CHECK(nvshmem_int_g(word, 0) == 1);
  nvshmem_finalize();
}

// As libraries do that make their buffers anew: everything of before is gone, and all of it works.
void begins_again() {
  for (int round = 0; round < 3; ++round) {
    const Pe pe = begin();
    auto* const word = allocate<int>(1);
    nvshmem_int_p(word, 10 * round + pe.me, pe.right());
    nvshmem_barrier_all();
    CHECK(nvshmem_int_g(word, pe.me) == 10 * round + pe.left());
    nvshmem_team_t all = NVSHMEM_TEAM_INVALID;
    CHECK(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, pe.pes, nullptr, 0, &all) == 0);
    CHECK(nvshmem_team_sync(all) == 0);
    nvshmem_finalize();
    CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_IS_BOOTSTRAPPED);
  }
}

void device_by_attribute() {
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  attributes.args.cuda_device_id = 2;
  CHECK(nvshmemx_init_attr(0, &attributes) == NVSHMEMX_ERROR_INVALID_VALUE);
  CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED);
  attributes.args.cuda_device_id = 1;
  CHECK(nvshmemx_init_attr(0, &attributes) == 0);
  CHECK(gpus().current()->value == 1);
  nvshmem_int_p(allocate<int>(1), 1, nvshmem_my_pe());
  CHECK(on_device("test").device->id() == engine::DeviceId(1));
  nvshmem_finalize();

  // As the initialiser leaves it, and what has none: the program's choice stays.
  gpus().set_current(engine::DeviceId(0));
  nvshmemx_init_attr_t untouched = NVSHMEMX_INIT_ATTR_INITIALIZER;
  CHECK(nvshmemx_init_attr(0, &untouched) == 0);
  std::memset(&attributes, 0x01, sizeof attributes);
  CHECK(nvshmemx_init_attr(0, &attributes) == 0);
  CHECK(gpus().current()->value == 0);
  nvshmem_finalize();
  nvshmem_finalize();
}

// Once more than begun is nothing, and counts for nothing.
void finalize_twice() {
  for (int round = 0; round < 2; ++round) {
    begin();
    nvshmem_finalize();
    nvshmem_finalize();
  }
}
void finalize_before_init() {
  nvshmem_finalize();
}

// One that has finalized and ends harms nobody, however it ends and however slow the others are.
void ends_after_finalize() {
  const Pe pe = begin();
  (void)allocate<int>(1);
  nvshmem_finalize();
  if (pe.me == 0) std::_Exit(0);
}

// Work that a stream has not done yet is done before anybody leaves.
void finalize_with_work_in_flight() {
  const Pe pe = begin();
  auto* const words = allocate<long>(1 << 16);
  const auto stream = static_cast<cudaStream_t>(
      gpus().make_stream(engine::DeviceId(static_cast<uint32_t>(pe.me) % 2)));
  for (int i = 0; i < 20; ++i) {
    nvshmemx_long_put_on_stream(words, words, 1 << 16, pe.right(), stream);
    nvshmemx_barrier_all_on_stream(stream);
  }
  nvshmem_long_put_nbi(words, words, 1 << 16, pe.right());
  nvshmem_finalize();
}

// Two threads of PE 0 are in calls that PE 1 makes one after the other, the later one first; and
// the first waits for a put, too. None may stand behind another.
void threads_wait_for_others() {
  const Pe pe = begin();
  CHECK(pe.pes == 2);
  nvshmem_team_t other = NVSHMEM_TEAM_INVALID;
  CHECK(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, 2, nullptr, 0, &other) == 0);
  auto* const words = allocate<int>(5);
  const int value = pe.me + 1;
  nvshmem_int_put(words, &value, 1, pe.me);
  nvshmem_barrier_all();
  const auto reduce = [&](nvshmem_team_t team, int* dest) {
    CHECK(nvshmem_int_sum_reduce(team, dest, words, 1) == 0);
    CHECK(nvshmem_int_g(dest, pe.me) == 3);
  };
  if (pe.me == 0) {
    std::thread later([&] { reduce(NVSHMEM_TEAM_WORLD, words + 1); });
    // Not for the calls to go well, but so that they mostly come in the order that is hard.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::thread sooner([&] { reduce(other, words + 2); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    nvshmem_int_p(words + 3, 1, 1);
    later.join();
    sooner.join();
  } else {
    while (nvshmem_int_g(words + 3, pe.me) == 0) std::this_thread::yield();
    reduce(other, words + 2);
    reduce(NVSHMEM_TEAM_WORLD, words + 1);
  }
  nvshmem_team_destroy(other);
  nvshmem_finalize();
}

// ---- what ends the job ----

void before_init() {
  nvshmem_malloc(8);
}
void after_finalize() {
  begin();
  nvshmem_finalize();
  nvshmem_barrier_all();
}
void no_such_pe() {
  const Pe pe = begin();
  auto* const word = allocate<int>(1);
  if (pe.me == 0) nvshmem_int_p(word, 1, pe.pes + 4);
  nvshmem_barrier_all();
}
void negative_pe() {
  const Pe pe = begin();
  auto* const word = allocate<int>(1);
  if (pe.me == 0) (void)nvshmem_int_g(word, -3);
  nvshmem_barrier_all();
}
void not_symmetric() {
  static int elsewhere = 0;
  const Pe pe = begin();
  (void)allocate<int>(1);
  if (pe.me == 0) nvshmem_int_p(&elsewhere, 1, 0);
  nvshmem_barrier_all();
}
void beyond_the_heap() {
  const Pe pe = begin();
  auto* const words = allocate<char>(64);
  const std::vector<char> own(64);
  if (pe.me == 0) nvshmem_char_put(words, own.data(), size_t{1} << 40, 0);
  nvshmem_barrier_all();
}
void too_many_elements() {
  begin();
  auto* const words = allocate<long>(64);
  nvshmem_long_put(words, words, SIZE_MAX / 4, 0);
}
void free_of_nothing() {
  begin();
  auto* const words = allocate<char>(64);
  nvshmem_free(words + 8);
}
void asked_to_end() {
  const Pe pe = begin();
  if (pe.me == 0) nvshmem_global_exit(5);
  nvshmem_barrier_all();
}
void end_without_finalize() {
  const Pe pe = begin();
  (void)allocate<int>(1);
  if (pe.me == 0) std::exit(9);
  nvshmem_barrier_all();
}

// ---- ends of others, and GPUs that fail ----

void die_if_last(const Pe& pe) {
  if (pe.me != pe.pes - 1) return;
  ::usleep(50'000);
  ::kill(::getpid(), SIGKILL);
}
void killed_in_a_barrier() {
  const Pe pe = begin();
  (void)allocate<int>(1);
  die_if_last(pe);
  nvshmem_barrier_all();
}
void killed_in_a_barrier_on_a_stream() {
  const Pe pe = begin();
  (void)allocate<int>(1);
  die_if_last(pe);
  nvshmemx_barrier_all_on_stream(nullptr);
  // The program waits for its stream by its own runtime, and makes no call.
  for (;;) ::pause();
}
void killed_in_malloc() {
  const Pe pe = begin();
  die_if_last(pe);
  (void)allocate<int>(1);
}

void launches_fail() {
  const Pe pe = begin();
  (void)allocate<int>(1);
  if (pe.me == 0) gpus().set_faults({.launches_until_failure = 0});
  nvshmemx_barrier_all_on_stream(nullptr);
  nvshmem_barrier_all();
}
void gpu_is_lost() {
  const Pe pe = begin();
  auto* const word = allocate<int>(1);
  if (pe.me == 0) {
    gpus().lose(engine::DeviceId(0));
    nvshmem_int_p(word, 1, 0);
  }
  nvshmem_barrier_all();
}
void no_gpu_memory() {
  const Pe pe = begin();
  if (pe.me == pe.pes - 1) gpus().set_faults({.allocates_at_most = 1 << 20});
  (void)allocate<int>(1);
}
void gpus_are_apart() {
  const Pe pe = begin();
  if (pe.me == 1) gpus().set_faults({.unreachable = 1});
  (void)allocate<int>(1);
}

// Hosts carry what goes between them: the last PE's GPU and the others' do
// not reach one another.
void gpus_are_apart_and_hosts_carry() {
  const Pe pe = begin();
  CHECK(nvshmem_team_n_pes(NVSHMEM_TEAM_SHARED) == pe.pes);  // nothing is known yet
  const int last = pe.pes - 1;
  gpus().set_current(engine::DeviceId(pe.me == last ? 1 : 0));
  if (pe.me == last) gpus().set_faults({.unreachable = 1});
  auto* const words = allocate<long>(1000);
  auto* const own = allocate<long>(1000);
  const bool is_last = pe.me == last;
  for (int other = 0; other < pe.pes; ++other)
    CHECK((nvshmem_ptr(words, other) != nullptr) == (is_last == (other == last)));
  CHECK(nvshmem_team_n_pes(NVSHMEM_TEAM_SHARED) == (is_last ? 1 : last));
  CHECK(nvshmem_team_my_pe(NVSHMEM_TEAM_SHARED) == (is_last ? 0 : pe.me));
  CHECK(nvshmem_team_translate_pe(NVSHMEM_TEAM_WORLD, last, NVSHMEM_TEAM_SHARED) ==
        (is_last ? 0 : -1));
  CHECK(nvshmem_team_n_pes(NVSHMEMX_TEAM_NODE) == pe.pes);
  // As kernels find it.
  device::SymmTeam shared{};
  OnDevice& on = on_device("test");
  CHECK(
      on.device->copy(&shared, on.heap->state().teams + NVSHMEM_TEAM_SHARED, sizeof shared, nullptr)
          .ok());
  CHECK(on.device->synchronize(nullptr).ok());
  CHECK(shared.size == (is_last ? 1 : last) && shared.index == (is_last ? 0 : pe.me));

  std::vector<long> mine(1000);
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = pe.me * 10'000 + static_cast<long>(i);
  nvshmem_long_put(own, mine.data(), mine.size(), pe.me);
  nvshmem_long_put(words, own, 1000, pe.right());
  nvshmem_barrier_all();
  std::vector<long> seen(1000);
  nvshmem_long_get(seen.data(), words, seen.size(), pe.me);
  for (size_t i = 0; i < seen.size(); ++i)
    CHECK(seen[i] == pe.left() * 10'000 + static_cast<long>(i));
  nvshmem_barrier_all();
  for (int i = 0; i < 20; ++i) {
    nvshmem_long_atomic_inc(words, pe.right());
    nvshmemx_long_put_on_stream(words + 1, own + i, 1, pe.right(), nullptr);
    nvshmemx_barrier_all_on_stream(nullptr);
    nvshmemx_barrier_on_stream(NVSHMEM_TEAM_SHARED, nullptr);
    CHECK(nvshmem_team_sync(NVSHMEM_TEAM_SHARED) == 0);
  }
  CHECK(on.device->synchronize(nullptr).ok());
  nvshmem_barrier_all();
  CHECK(nvshmem_long_g(words, pe.right()) == pe.me * 10'000 + 20);
  CHECK(nvshmem_long_g(words + 1, pe.right()) == pe.me * 10'000 + 19);
  nvshmem_barrier_all();
  nvshmem_finalize();
}

// A kernel of the program names what is not there: one of this library's plays it.
void kernel_refuses(int to, bool in_heap) {
  const Pe pe = begin();
  auto* word = allocate<uint64_t>(1);
  if (pe.me == 0) {
    OnDevice& on = on_device("test");
    auto second = gpu::open_symmetric_device(on.device->id());
    CHECK(second);
    const std::array<const char*, 1> names = {"penstock_symm_signal"};
    CHECK((*second)->load_kernels(nullptr, names));
    device::SymmState state = on.heap->state();
    if (!in_heap) word += uint64_t{1} << 40;
    std::fprintf(stderr, "address %#lx\n",
                 static_cast<unsigned long>(reinterpret_cast<uintptr_t>(word)));
    uint64_t value = 1;
    int op = NVSHMEM_SIGNAL_SET;
    std::array<void*, 5> arguments = {&state, &word, &value, &op, &to};
    CHECK((*second)->launch({.kernel = 0, .arguments = arguments}).ok());
    for (;;) ::pause();
  }
  nvshmem_barrier_all();
}
void kernel_names_no_pe() {
  kernel_refuses(77, true);
}
void kernel_uses_a_wrong_address() {
  kernel_refuses(0, false);
}

constexpr Named kAll[] = {
    {"whole", a_whole_program},
    {"counted", inits_are_counted},
    {"in_flight", finalize_with_work_in_flight},
    {"threads", threads_wait_for_others},
    {"before_init", before_init},
    {"after_finalize", after_finalize},
    {"finalize_twice", finalize_twice},
    {"finalize_before_init", finalize_before_init},
    {"device_by_attribute", device_by_attribute},
    {"begins_again", begins_again},
    {"ends_after_finalize", ends_after_finalize},
    {"no_such_pe", no_such_pe},
    {"negative_pe", negative_pe},
    {"not_symmetric", not_symmetric},
    {"beyond", beyond_the_heap},
    {"too_many", too_many_elements},
    {"free_of_nothing", free_of_nothing},
    {"asked_to_end", asked_to_end},
    {"no_finalize", end_without_finalize},
    {"in_barrier", killed_in_a_barrier},
    {"in_barrier_on_stream", killed_in_a_barrier_on_a_stream},
    {"in_malloc", killed_in_malloc},
    {"launches_fail", launches_fail},
    {"lost", gpu_is_lost},
    {"no_memory", no_gpu_memory},
    {"apart", gpus_are_apart},
    {"carried", gpus_are_apart_and_hosts_carry},
    {"kernel_no_pe", kernel_names_no_pe},
    {"kernel_wrong_address", kernel_uses_a_wrong_address},
    {nullptr, nullptr},
};

}  // namespace
}  // namespace penstock::nvshmem::test

int main(int argc, char** argv) {
  using namespace penstock;
  gpu::replace_symmetric_devices(&nvshmem::test::gpus());
  for (const auto* all : {nvshmem::test::kAll, nvshmem::test::kFarPrograms,
                          nvshmem::test::kHeapPrograms, nvshmem::test::kSetupPrograms}) {
    for (const auto* one = all; one->name != nullptr; ++one) {
      if (argc != 2 || std::strcmp(one->name, argv[1]) != 0) continue;
      one->run();
      return 0;
    }
  }
  std::fprintf(stderr, "nvshmem_pes: no scenario of this name\n");
  return 2;
}
