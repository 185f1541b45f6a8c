#include "checking.h"

#include "limits.h"
#include "penstock_shmem_headers.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/core.h>
#include <mutex>
#include <optional>
#include <string_view>
#include <sys/auxv.h>

namespace penstock::shmem {

bool is_checking = false;

namespace {

std::chrono::seconds patience = limits::kCheckTime;
std::array<uint64_t, symm::kTeamsMax> calls_of_team{};

// What a PE says of its call, in words of the team that symm leaves to its users. There are two,
// used in turns: a PE that is one call ahead still waits there for those that read the one before.
struct Said {
  static constexpr size_t kFirstWord = 4;
  static constexpr std::string_view kPrefix = "shmem_";

  uint64_t number;  // of the call; written last
  uint64_t bytes;
  uint64_t place;  // in the program's file; 0: not known
  char name[24];   // without what all begin with
};
static_assert(sizeof(Said) % sizeof(uint64_t) == 0);
static_assert(Said::kFirstWord + 2 * sizeof(Said) / sizeof(uint64_t) <= symm::kScratchWords);

Said* said_by(symm::TeamControl& control, uint64_t number) {
  auto* const words = control.scratch + Said::kFirstWord;
  return reinterpret_cast<Said*>(words) + number % 2;
}

// Where the program called, in its file: the first address on the stack that is the program's own.
uint64_t place_of_call() {
  std::array<void*, 32> frames;
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  Dl_info program{};
  Dl_info found{};
  if (::dladdr(reinterpret_cast<void*>(::getauxval(AT_PHDR)), &program) == 0) return 0;
  for (int i = 0; i < count; ++i) {
    void* const frame = frames[static_cast<size_t>(i)];
    if (::dladdr(frame, &found) == 0 || found.dli_fbase != program.dli_fbase) continue;
    return reinterpret_cast<uintptr_t>(frame) - reinterpret_cast<uintptr_t>(found.dli_fbase);
  }
  return 0;
}

std::string_view without_prefix(std::string_view call) {
  return call.starts_with(Said::kPrefix) ? call.substr(Said::kPrefix.size()) : call;
}

std::string details(const Said& said) {
  std::string text = said.place != 0 ? fmt::format("at program+0x{:x}", said.place) : "somewhere";
  if (said.bytes != 0) text += fmt::format(" with {} bytes", said.bytes);
  return text;
}

// It is another process's memory: nothing in it is trusted to end.
std::string described(const Said& said) {
  const std::string_view name(said.name, ::strnlen(said.name, sizeof said.name));
  return fmt::format("shmem_{} {}", name, details(said));
}

// What a PE says of its call of that number, or of another one. The words are symmetric.
Status read_said(symm::Group& group, const symm::Team& team, uint32_t pe, uint64_t number,
                 Said* said) {
  Said* const own = said_by(group.control(team), number);
  TRY(group.get(&said->number, &own->number, sizeof said->number, pe));
  // Pairs with say(): what it wrote before the number is there.
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return group.get(&said->bytes, &own->bytes, sizeof *said - sizeof said->number, pe);
}

Status wait_for_said(symm::Group& group, const symm::Team& team, uint32_t pe, uint64_t number,
                     engine::Time deadline, Said* said) {
  Status failed;
  TRY(group.wait(
      [&] {
        failed = read_said(group, team, pe, number, said);
        return !failed.ok() || said->number == number;
      },
      deadline));
  return failed;
}

Said said_now(const char* call, uint64_t number, uint64_t bytes) {
  Said said{number, bytes, place_of_call(), {}};
  const std::string_view name = without_prefix(call);
  std::memcpy(said.name, name.data(), std::min(name.size(), sizeof said.name));
  return said;
}

Said say(symm::TeamControl& control, const char* call, uint64_t number, uint64_t bytes) {
  const Said said = said_now(call, number, bytes);
  Said* const there = said_by(control, number);
  std::memcpy(&there->bytes, &said.bytes, sizeof said - sizeof said.number);
  __atomic_store_n(&there->number, number, __ATOMIC_RELEASE);
  return said;
}

// What a PE says of its call in the words of an active set behind those that symm uses.
struct SaidOfSet {
  static constexpr size_t kFirstWord = sizeof(symm::ActiveSetWords) / sizeof(long);

  Said said;
  uint64_t start;
  int64_t stride;
  uint64_t size;
};
constexpr size_t kWordsOfSet = SaidOfSet::kFirstWord + sizeof(SaidOfSet) / sizeof(long);
static_assert(kWordsOfSet <= SHMEM_BARRIER_SYNC_SIZE && kWordsOfSet <= SHMEM_BCAST_SYNC_SIZE &&
              kWordsOfSet <= SHMEM_REDUCE_SYNC_SIZE && kWordsOfSet <= SHMEM_COLLECT_SYNC_SIZE &&
              kWordsOfSet <= SHMEM_ALLTOALL_SYNC_SIZE);

SaidOfSet* said_of_set(const symm::ActiveSet& set) {
  return reinterpret_cast<SaidOfSet*>(set.words() + SaidOfSet::kFirstWord);
}

std::string described_set(const symm::PeSet& set) {
  return fmt::format("the active set of {} PEs from {} in steps of {}", set.size, set.start,
                     set.stride);
}

void begin_saying(const char* call, const symm::Group& group, const symm::ActiveSet& set,
                  const SaidOfSet& own) {
  if (group.fault_of(set.words(), kWordsOfSet * sizeof(long), group.me()) != symm::Fault::none ||
      std::any_of(set.words() + SaidOfSet::kFirstWord, set.words() + kWordsOfSet,
                  [](long word) { return word != SHMEM_SYNC_VALUE; })) {
    fault(call, fmt::format("called {} of {}: its pSync array has not SHMEM_SYNC_VALUE in all its "
                            "words, or is too short",
                            details(own.said), described_set(set.set())));
  }
  SaidOfSet* const there = said_of_set(set);
  std::memcpy(&there->said.bytes, &own.said.bytes, sizeof own - sizeof own.said.number);
  __atomic_store_n(&there->said.number, own.said.number, __ATOMIC_RELEASE);
}

// Ends the job if a PE of the set says something else; or, where `has_come` is not so of all, has
// said nothing.
void compare_with_set(const char* call, symm::Group& group, const symm::ActiveSet& set,
                      const SaidOfSet& own, bool have_all_come) {
  const std::string called =
      fmt::format("called {} of {}", details(own.said), described_set(set.set()));
  std::optional<uint32_t> missing;
  for (uint32_t index = 0; index < set.size(); ++index) {
    const uint32_t pe = set.set().pe(index);
    SaidOfSet theirs{};
    const Status read = group.get(&theirs, said_of_set(set), sizeof theirs, pe);
    if (!read.ok()) fault_status(call, read);
    if (theirs.said.number == 0) {
      if (!missing) missing = pe;
    } else if (std::memcmp(&theirs.start, &own.start, sizeof own - sizeof own.said) != 0 ||
               std::memcmp(theirs.said.name, own.said.name, sizeof own.said.name) != 0 ||
               theirs.said.bytes != own.said.bytes) {
      fault(call, fmt::format("{}, but PE {} calls {} of {}", called, pe, described(theirs.said),
                              described_set({static_cast<uint32_t>(theirs.start), theirs.stride,
                                             static_cast<uint32_t>(theirs.size)})));
    }
  }
  if (have_all_come) return;
  fault(call, missing ? fmt::format("{}: PE {} has not come within {} s", called, *missing,
                                    patience.count())
                      : fmt::format("{}: they have not met within {} s; is the pSync array in use "
                                    "by another call?",
                                    called, patience.count()));
}

}  // namespace

void begin_checking() {
  const char* const wanted = std::getenv("PENSTOCK_CHECK");
  is_checking =
      wanted != nullptr && std::string_view(wanted) != "" && std::string_view(wanted) != "0";
  if (const char* const seconds = std::getenv("PENSTOCK_CHECK_SECONDS")) {
    if (const long count = std::strtol(seconds, nullptr, 10); count > 0)
      patience = std::chrono::seconds(count);
  }
}

void compare_with_heap(const char* call, symm::Group& group, const Asked& asked) {
  const uint64_t offset = group.heap_offset(asked.address);
  std::optional<symm::Heap::Allocation> found;
  {
    const std::lock_guard lock(process().heap_mutex);
    const symm::Heap& heap = group.heap();
    // Of others, and what leaves the heap, the call itself tells.
    if (asked.bytes == 0 || offset < heap.begin() || offset >= heap.end() ||
        asked.bytes > heap.end() - offset)
      return;
    found = heap.allocation_at(offset);
  }
  if (!found) {
    fault(call, fmt::format("PE {}, address {}: in nothing that shmem_malloc() has given", asked.pe,
                            asked.address));
  }
  const uint64_t left = found->begin + found->bytes - offset;
  if (asked.bytes <= left) return;
  fault(call, fmt::format("PE {}, address {}: {} bytes from there reach beyond the end of the {} "
                          "that shmem_malloc() gave, {} bytes further",
                          asked.pe, asked.address, asked.bytes, found->bytes, left));
}

void compare_calls(const char* call, symm::Group& group, const symm::Team& team, uint64_t bytes) {
  const uint64_t number = ++calls_of_team[team.id()];
  const Said own = say(group.control(team), call, number, bytes);
  const engine::Time deadline = group.waits().clock->now() + patience;
  for (uint32_t index = 0; index < team.size(); ++index) {
    const uint32_t pe = team.set().pe(index);
    Said theirs{};
    const Status come = wait_for_said(group, team, pe, number, deadline, &theirs);
    if (come.code() == Code::timed_out) {
      Said before{};
      const bool has_before = number != 1 && read_said(group, team, pe, number - 1, &before).ok();
      fault(call, fmt::format("called {}: PE {} has not come within {} s; {}", details(own), pe,
                              patience.count(),
                              has_before ? "its call before was " + described(before)
                                         : "it has called nothing of this team"));
    }
    if (!come.ok()) fault_status(call, come);
    if (theirs.bytes != bytes || std::memcmp(theirs.name, own.name, sizeof own.name) != 0) {
      fault(call,
            fmt::format("called {}, but PE {} calls {}", details(own), pe, described(theirs)));
    }
  }
}

void compare_calls(const char* call, symm::Group& group, const symm::ActiveSet& set,
                   uint64_t bytes) {
  if (set.size() == 1) return;
  const symm::PeSet& pes = set.set();
  const SaidOfSet own = {said_now(call, 1, bytes), pes.start, pes.stride, pes.size};
  begin_saying(call, group, set, own);
  const engine::Time deadline = group.waits().clock->now() + patience;
  const auto meet = [&] {
    const Status met = set.sync(group, deadline);
    if (met.code() == Code::timed_out) compare_with_set(call, group, set, own, false);
    if (!met.ok()) fault_status(call, met);
  };
  meet();
  compare_with_set(call, group, set, own, true);
  meet();
  std::fill_n(set.words() + SaidOfSet::kFirstWord, kWordsOfSet - SaidOfSet::kFirstWord,
              long{SHMEM_SYNC_VALUE});
}

void count_calls_anew(const symm::Team& team) {
  calls_of_team[team.id()] = 0;
}

}  // namespace penstock::shmem
