// Litmus tests of symmetric memory on GPUs: what one PE puts, and then tells of, another one sees,
// whole and never older, however often it is tried. See README.md beside it.
//
//   symm_litmus [ITERATIONS [PATTERN]]
//
// Three PEs are threads of this process, dealt out over the GPUs: on one GPU they run at the same
// time, which processes that share one do not. Started by 'penstock run -n 3' each is a process;
// then give each a GPU, or few iterations.
#include "litmus.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "penstock/symm.h"

namespace penstock::litmus {
namespace {

using std::chrono::steady_clock;

constexpr uint32_t kPes = 3;
constexpr std::chrono::seconds kTimeOfCase{50};  // the others wait for a minute
constexpr uint64_t kIterations = 10'000'000;
constexpr uint32_t kThreadsOfBlock = 128;

[[noreturn]] void give_up(const char* what, const std::string& why) {
  std::fprintf(stderr, "symm_litmus: %s: %s\n", what, why.c_str());
  std::_Exit(1);
}

template <class T>
T must(Outcome<T> outcome, const char* what) {
  if (!outcome) give_up(what, outcome.error().message);
  return std::move(*outcome);
}
void must(Status status, const char* what) {
  if (!status.ok()) give_up(what, std::string(status.name()));
}
void must(int error, const char* what) {
  if (error != 0) give_up(what, text_of(error));
}

// ---- what is tried ----

struct Case {
  const char* name;
  Pattern pattern;
  uint32_t way = 0;
  uint32_t roles = 2;
  Company writes = Company::thread;
  Company reads = Company::thread;
  uint32_t words_max = 8;
  bool is_look = false;  // nothing is kept in order: what goes wrong is what is looked for
};

const char* name_of(Company company) {
  return company == Company::thread ? "thread" : company == Company::warp ? "warp" : "block";
}

uint32_t words_of(Company company) {
  return company == Company::thread ? 8 : company == Company::warp ? 200 : 1500;
}

constexpr Company kCompanies[] = {Company::thread, Company::warp, Company::block};

void add_scopes(std::vector<Case>& all, Case one, bool all_pairs) {
  for (const Company writes : kCompanies) {
    for (const Company reads : kCompanies) {
      if (writes != reads && !all_pairs) continue;
      one.writes = writes;
      one.reads = reads;
      one.words_max = std::min(words_of(writes), words_of(reads));
      all.push_back(one);
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const Pattern push = Pattern::push;
  add_scopes(all, {"put, fence, p of a flag", push, kPutFenceP}, true);
  add_scopes(all, {"put with signal (set)", push, kPutSignalSet}, true);
  add_scopes(all, {"put with signal (add)", push, kPutSignalAdd}, false);
  add_scopes(all, {"put, fence, put of a flag", push, kPutFencePut}, false);
  add_scopes(all, {"put, quiet, p of a flag", push, kPutQuietP}, false);
  add_scopes(all, {"put, fence, atomic add", push, kPutFenceAdd}, false);
  add_scopes(all, {"put, fence, atomic fetch_add", push, kPutFenceFetchAdd}, false);
  add_scopes(all, {"put, fence, atomic set", push, kPutFenceSet}, false);
  add_scopes(all, {"put, fence, atomic swap", push, kPutFenceSwap}, false);
  add_scopes(all, {"put, fence, compare_swap", push, kPutFenceCompareSwap}, false);
  add_scopes(all, {"iput, fence, p of a flag", push, kIputFenceP}, false);
  add_scopes(all, {"p of each word, fence, p of a flag", push, kWordsFenceP}, false);
  add_scopes(all, {"polled by g, fence, get", Pattern::pull, kPollG}, true);
  add_scopes(all, {"polled by atomic fetch, fence, get", Pattern::pull, kPollFetch}, false);
  add_scopes(all, {"flag of one's own, get", Pattern::pull, kPollOwnAndGet}, false);
  all.push_back({"both put, quiet, look here", Pattern::store_buffering, kIntoOther});
  all.push_back({"both put here, quiet, g", Pattern::store_buffering, kIntoOwn});
  all.push_back({"both fetch_add, quiet, g", Pattern::store_buffering, kByAtomics});
  all.push_back({"put, fence, a flag by way of a third", Pattern::chain, 0, 3});
  add_scopes(all, {"put, barrier", Pattern::barrier}, true);
  all.push_back(
      {"numbers from one counter", Pattern::tickets, 0, 2, Company::block, Company::block});
  all.push_back({"a lock around eight words", Pattern::lock});
  all.push_back({"put, p of a flag without a fence", push, kUnordered, 2, Company::block,
                 Company::block, 1500, true});
  all.push_back({"both put, look, without quiet", Pattern::store_buffering, kBufferingUnordered, 2,
                 Company::thread, Company::thread, 8, true});
  return all;
}

// ---- one PE ----

struct Pe {
  symm::Group& group;
  symm::DeviceHeap& heap;
  gpu::SymmetricDevice& device;
  char* memory;
  uint32_t* marks;
  uint64_t marks_bytes;
  int* teams;
  Report* report;
};

void clear(const Pe& pe) {
  std::memset(pe.report, 0, sizeof *pe.report);
  must(pe.device.fill_zeros(pe.memory, kInstances * kInstanceBytes, pe.device.own_stream()),
       "clear");
  must(pe.device.fill_zeros(pe.marks, pe.marks_bytes, pe.device.own_stream()), "clear");
  must(pe.device.synchronize(pe.device.own_stream()), "clear");
}

void wait_for_end(const Pe& pe, const Case& one) {
  const auto limit = steady_clock::now() + kTimeOfCase;
  int error = 0;
  while (!has_ended(pe.device.own_stream(), &error)) {
    if (steady_clock::now() > limit) {
      give_up(one.name,
              fmt::format("PE {} waits for ever: {} of {} blocks have ended", pe.group.me(),
                          __atomic_load_n(&pe.report->ended, __ATOMIC_RELAXED), kInstances));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  must(error, one.name);
}

Work work_of(const Pe& pe, const Case& one) {
  Work work{};
  work.pattern = one.pattern;
  work.writes = one.writes;
  work.reads = one.reads;
  work.way = one.way;
  work.words_max = one.words_max;
  work.teams = pe.teams;
  work.memory = pe.memory;
  work.marks = pe.marks;
  work.report = pe.report;
  work.state = pe.heap.state();
  return work;
}

// Each kernel once, which has nothing to do then. One that is loaded at its first launch, or gets
// its stack then, waits for those that run: and they wait for it.
void warm_up(const Pe& pe) {
  for (const Case& one : cases()) {
    for (const uint32_t role : {0, 1}) {
      Work work = work_of(pe, one);
      work.role = role;
      must(launch(work, pe.device.own_stream()), one.name);
    }
    wait_for_end(pe, one);
  }
  must(pe.group.barrier(pe.group.world()), "barrier");
}

// Whether it went as it must.
bool run(const Pe& pe, const Case& one, uint64_t iterations) {
  const uint32_t me = pe.group.me();
  clear(pe);
  must(pe.group.barrier(pe.group.world()), "barrier");
  const auto begin = steady_clock::now();
  const uint64_t actors =
      one.pattern == Pattern::tickets ? kInstances * 2 * kThreadsOfBlock : uint64_t{kInstances};
  const uint64_t of_each = std::max<uint64_t>(iterations / actors, 1);
  if (me < one.roles) {
    Work work = work_of(pe, one);
    work.role = me;
    work.iterations = of_each;
    must(launch(work, pe.device.own_stream()), one.name);
    wait_for_end(pe, one);
    if (pe.report->ended != kInstances) give_up(one.name, "a block has given up");
  }
  const auto all =
      must(pe.group.exchange("reports", {std::as_bytes(std::span(pe.report, 1)), {}}), "exchange");
  const double seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
  uint64_t wrong = 0;
  uint64_t early = 0;
  Report worst{};
  for (const auto& brought : all) {
    Report report;
    std::memcpy(&report, brought.bytes.data(), sizeof report);
    wrong += report.wrong;
    early += report.early;
    if (report.wrong != 0) worst = report;
  }
  const bool good = one.is_look || wrong == 0;
  if (me == 0) {
    std::printf("%s %s, %s to %s: %llu times, %.1f s",
                one.is_look ? "LOOK"
                : good      ? "PASS"
                            : "FAIL",
                one.name, name_of(one.writes), name_of(one.reads),
                static_cast<unsigned long long>(of_each * actors), seconds);
    if (early != 0) std::printf(", %llu words seen early", static_cast<unsigned long long>(early));
    if (wrong != 0) {
      std::printf(", %llu wrong (at %llu: %llx, not %llx)", static_cast<unsigned long long>(wrong),
                  static_cast<unsigned long long>(worst.iteration),
                  static_cast<unsigned long long>(worst.seen),
                  static_cast<unsigned long long>(worst.wanted));
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return good;
}

template <class T>
T* allocate(symm::DeviceHeap& heap, uint64_t bytes) {
  const auto place = heap.allocate(bytes, 4096);
  if (!place) give_up("allocate", "the heap is too small");
  return reinterpret_cast<T*>(heap.address(*place));
}

int run_all(job::Member& member, uint64_t iterations, const char* only) {
  const auto group =
      must(symm::Group::join(member, {.name = "litmus", .heap_bytes = 1 << 20}), "join");
  const auto memory = must(gpu::devices(), "GPUs");
  const uint32_t id = group->me() % static_cast<uint32_t>(memory->devices().size());
  must(use_device(id), "GPU");
  const auto device = must(gpu::open_symmetric_device(engine::DeviceId(id)), "GPU");
  const uint64_t marks_bytes =
      (iterations + uint64_t{kInstances} * 2 * kThreadsOfBlock) * sizeof(uint32_t);
  const auto heap = must(symm::DeviceHeap::make(*group, *device,
                                                {.bytes = kInstances * kInstanceBytes +
                                                          marks_bytes + (uint64_t{8} << 20)}),
                         "heap");
  // Of the first two PEs, as barriers are of two.
  std::vector<int> teams;
  for (uint32_t i = 0; i < kTeams; ++i) {
    const auto team = group->split(group->world(), symm::PeSet{0, 1, std::min(2u, group->size())});
    if (!team) give_up("teams", team.error().message);
    if (*team == nullptr) continue;
    teams.push_back(static_cast<int>((*team)->id()));
    must(heap->tell_of(**team), "tell of a team");
  }
  teams.resize(kTeams);
  Pe pe{*group,
        *heap,
        *device,
        allocate<char>(*heap, kInstances * kInstanceBytes),
        allocate<uint32_t>(*heap, marks_bytes),
        marks_bytes,
        allocate<int>(*heap, sizeof(int) * kTeams),
        reinterpret_cast<Report*>(must(device->host_words(sizeof(Report)), "host words").data())};
  must(device->copy(pe.teams, teams.data(), sizeof(int) * kTeams, device->own_stream()), "teams");
  must(device->synchronize(device->own_stream()), "teams");
  must(group->barrier(group->world()), "barrier");
  warm_up(pe);
  int failed = 0;
  for (const Case& one : cases()) {
    if (only != nullptr && std::strstr(one.name, only) == nullptr) continue;
    if (one.roles > group->size()) continue;
    if (!run(pe, one, iterations)) ++failed;
  }
  if (group->me() == 0) std::printf("%d failed\n", failed);
  must(group->barrier(group->world()), "barrier");
  return failed;
}

int run_in_threads(uint64_t iterations, const char* only) {
  const auto gate = must(job::Gate::open("lo"), "a gate");
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (uint32_t rank = 0; rank < kPes; ++rank) {
    threads.emplace_back([&, rank] {
      const auto member =
          must(job::Member::by_unique_id(gate->id(), rank, kPes,
                                         steady_clock::now() + std::chrono::seconds(60)),
               "join");
      if (run_all(*member, iterations, only) != 0) failed = 1;
      member->leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failed;
}

}  // namespace
}  // namespace penstock::litmus

int main(int argc, char** argv) {
  using namespace penstock;
  const uint64_t iterations = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : litmus::kIterations;
  const char* const only = argc > 2 ? argv[2] : nullptr;
  auto member = job::Member::from_environment();
  if (member) {
    const int failed = litmus::run_all(**member, iterations, only);
    (*member)->leave();
    return failed == 0 ? 0 : 1;
  }
  return litmus::run_in_threads(iterations, only);
}
