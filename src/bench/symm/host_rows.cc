// Host memory of one node: beside plain memory that two processes share.
#include "rows.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "penstock/console.h"

namespace penstock::bench {
namespace {

constexpr const char* kCopyNote =
    "hosts: memcpy into and out of plain memory that the two processes share; of times, less than "
    "1 is better";
constexpr const char* kWordNote =
    "words of hosts: the processor's own operations on plain memory that the two processes share";
constexpr uint64_t kWordAt = 0;  // of plain memory, its first line

// Plain memory of each of two processes, which both have mapped.
class PlainMemory {
 public:
  // Together with the other one.
  static Outcome<std::unique_ptr<PlainMemory>> share(job::Member& member, uint32_t other,
                                                     uint64_t bytes);
  ~PlainMemory() {
    for (std::byte* const each : {own_, theirs_}) {
      if (each != nullptr) ::munmap(each, bytes_);
    }
  }
  PlainMemory(const PlainMemory&) = delete;
  PlainMemory& operator=(const PlainMemory&) = delete;

  std::byte* theirs() const { return theirs_; }
  Status pings(uint64_t calls);
  Status end_echo();
  Status echo();

 private:
  explicit PlainMemory(uint64_t bytes) : bytes_(bytes) {}
  static Outcome<std::byte*> map(int fd, uint64_t bytes);
  static uint64_t* word(std::byte* memory) { return reinterpret_cast<uint64_t*>(memory + kWordAt); }
  void send(uint64_t value) { __atomic_store_n(word(theirs_), value, __ATOMIC_RELEASE); }
  uint64_t wait_for_other_than(uint64_t last) const;

  const uint64_t bytes_;
  std::byte* own_ = nullptr;
  std::byte* theirs_ = nullptr;
  uint64_t turn_ = 0;
};

Outcome<std::byte*> PlainMemory::map(int fd, uint64_t bytes) {
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return Failure{Status::from_errno(errno), "map plain memory"};
  return static_cast<std::byte*>(mapped);
}

Outcome<std::unique_ptr<PlainMemory>> PlainMemory::share(job::Member& member, uint32_t other,
                                                         uint64_t bytes) {
  std::unique_ptr<PlainMemory> memory(new PlainMemory(bytes));
  const UniqueFd fd(::memfd_create("penstock plain", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return Failure{Status::from_errno(errno), "make plain memory"};
  TRY_ASSIGN(memory->own_, map(fd.get(), bytes));
  std::memset(memory->own_, 0, bytes);
  const uint32_t me = member.place().rank;
  const int descriptor = fd.get();
  TRY_ASSIGN(const auto brought,
             member.exchange({"symm: plain memory", {std::min(me, other), std::max(me, other)}},
                             {{}, {&descriptor, 1}}, job::Time::clock::now() + kMeasureTime));
  const auto& theirs = brought[me < other ? 1 : 0].descriptors;
  if (theirs.size() != 1) return Failure{Code::bad_message, "the other PE gave no plain memory"};
  TRY_ASSIGN(memory->theirs_, map(theirs[0].get(), bytes));
  return memory;
}

uint64_t PlainMemory::wait_for_other_than(uint64_t last) const {
  constexpr uint32_t kLooks = 4096;
  for (uint32_t looks = 0;; ++looks) {
    const uint64_t now = __atomic_load_n(word(own_), __ATOMIC_ACQUIRE);
    if (now != last) return now;
    if (looks % kLooks == kLooks - 1) ::sched_yield();
  }
}

Status PlainMemory::pings(uint64_t calls) {
  for (uint64_t i = 0; i < calls; ++i) {
    const uint64_t last = turn_++;
    send(turn_);
    wait_for_other_than(last);
  }
  return {};
}

Status PlainMemory::end_echo() {
  send(UINT64_MAX);
  wait_for_other_than(turn_);
  turn_ = 0;
  __atomic_store_n(word(own_), 0, __ATOMIC_RELEASE);
  return {};
}

Status PlainMemory::echo() {
  uint64_t last = 0;
  while (last != UINT64_MAX) {
    last = wait_for_other_than(last);
    if (last == UINT64_MAX) __atomic_store_n(word(own_), 0, __ATOMIC_RELEASE);
    send(last);
  }
  return {};
}

// ---- by PE 0 alone ----

Outcome<void> copies(const SymmBench& bench, SymmHost& host, uint32_t near, std::byte* theirs) {
  for (const uint64_t bytes : sizes_up_to(host.bytes())) {
    const auto puts = [&](uint64_t calls) { return host.puts(calls, bytes, near); };
    const auto to_plain = [&](uint64_t calls) -> Status {
      for (uint64_t i = 0; i < calls; ++i) {
        std::memcpy(theirs, host.here(), bytes);
        host.group().fence();
      }
      return {};
    };
    TRY_ASSIGN(const CallTimes put, in_turn(bench, puts, to_plain));
    bench.lines->push_back(line_of_bytes("host.put", "put", bytes, put, kCopyNote));
    const auto gets = [&](uint64_t calls) { return host.gets(calls, bytes, near); };
    const auto from_plain = [&](uint64_t calls) -> Status {
      for (uint64_t i = 0; i < calls; ++i) {
        std::memcpy(host.here(), theirs, bytes);
        host.group().fence();
      }
      return {};
    };
    TRY_ASSIGN(const CallTimes get, in_turn(bench, gets, from_plain));
    bench.lines->push_back(line_of_bytes("host.get", "get", bytes, get, kCopyNote));
    std::fprintf(stderr, ".");
  }
  return {};
}

Outcome<void> words(const SymmBench& bench, SymmHost& host, uint32_t near, std::byte* theirs) {
  auto* const plain = reinterpret_cast<uint64_t*>(theirs);
  symm::Group& group = host.group();
  uint64_t* const word = host.word();
  const auto add = [&](const char* name, const char* title, auto&& ours,
                       auto&& bare) -> Outcome<void> {
    const auto many = [](auto& one) {
      return [&one](uint64_t calls) -> Status {
        for (uint64_t i = 0; i < calls; ++i) TRY(one());
        return {};
      };
    };
    TRY_ASSIGN(const CallTimes times, in_turn(bench, many(ours), many(bare)));
    bench.lines->push_back(line_of_time(name, title, times, kWordNote));
    return {};
  };
  const auto fetch_add = [&]() -> Status {
    return symm::atomic_fetch_add(group, word, uint64_t{1}, near) ? Status() : Code::peer_gone;
  };
  const auto bare_fetch_add = [&]() -> Status {
    __atomic_fetch_add(plain, 1, __ATOMIC_SEQ_CST);
    return {};
  };
  TRY(add("host.fetch_add", "fetch_add", fetch_add, bare_fetch_add));
  const auto compare_swap = [&]() -> Status {
    return symm::atomic_compare_swap(group, word, uint64_t{1}, uint64_t{2}, near) ? Status()
                                                                                  : Code::peer_gone;
  };
  const auto bare_compare_swap = [&]() -> Status {
    uint64_t expected = 1;
    __atomic_compare_exchange_n(plain, &expected, 2, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return {};
  };
  TRY(add("host.compare_swap", "compare_swap", compare_swap, bare_compare_swap));
  // As they were, for signals.
  TRY(told(symm::atomic_set(group, word, uint64_t{0}, near)));
  __atomic_store_n(plain, 0, __ATOMIC_SEQ_CST);
  return {};
}

// ---- by both ----

constexpr uint64_t kSignalBytes[] = {0, 8, 4096};

Outcome<void> signals(const SymmBench& bench, SymmHost& host, uint32_t near, PlainMemory* plain) {
  for (const uint64_t bytes : kSignalBytes) {
    TRY(bench.meet(fmt::format("signals of {}", bytes)));
    CallTimes times;
    for (uint32_t round = 0; round < bench.rounds; ++round) {
      if (bench.me() == near) {
        TRY(told(host.echo(bytes, 0)));
        TRY(told(plain->echo()));
      }
      if (bench.me() != 0) continue;
      const auto ours = [&](uint64_t calls) { return host.pings(calls, bytes, near); };
      TRY_ASSIGN(const uint64_t calls, calls_in(bench.seconds, ours));
      TRY_ASSIGN(const double one, seconds_per_call(calls, ours));
      times.ours.push_back(one / 2);
      TRY(told(host.end_echo(near)));
      const auto bare = [&](uint64_t pings) { return plain->pings(pings); };
      TRY_ASSIGN(const uint64_t others, calls_in(bench.seconds, bare));
      TRY_ASSIGN(const double other, seconds_per_call(others, bare));
      times.references.push_back(other / 2);
      TRY(told(plain->end_echo()));
    }
    if (bench.me() != 0) continue;
    const std::string title =
        bytes == 0 ? "signal" : fmt::format("put with signal, {}", long_size(bytes));
    bench.lines->push_back(line_of_time(
        bytes == 0 ? "host.signal" : "host.put_signal." + short_size(bytes), title + ", one way",
        times,
        "signals of hosts: a word to and fro through plain memory that the two processes share"));
  }
  return {};
}

}  // namespace

Outcome<void> host_rows(const SymmBench& bench, SymmHost& host, uint32_t near) {
  std::unique_ptr<PlainMemory> plain;
  if (bench.me() == 0 || bench.me() == near) {
    TRY_ASSIGN(plain, PlainMemory::share(bench.member, bench.me() == 0 ? near : 0, host.bytes()));
  }
  if (bench.me() == 0) {
    std::fprintf(stderr, "host memory, PE 0 and PE %u ", near);
    TRY(copies(bench, host, near, plain->theirs()));
    TRY(words(bench, host, near, plain->theirs()));
  }
  TRY(bench.meet("end of copies"));
  TRY(signals(bench, host, near, plain.get()));
  if (bench.me() == 0) std::fprintf(stderr, "\n");
  return bench.meet("end of signals");
}

Outcome<void> host_rows_together(const SymmBench& bench, SymmHost& host) {
  symm::Group& group = host.group();
  symm::Team& world = group.world();
  const uint64_t pes = group.size();
  std::byte* const dest = host.there();
  // The second half: what is put together comes into the first.
  std::byte* const source = host.there() + host.bytes() / 2;
  const uint64_t most = host.bytes() / 2 / pes;
  if (bench.me() == 0) std::fprintf(stderr, "host memory, %u PEs together ", group.size());
  const auto add = [&](const std::string& name, const std::string& title,
                       auto&& call) -> Outcome<void> {
    const auto batch = [&](uint64_t calls) -> Status {
      for (uint64_t i = 0; i < calls; ++i) TRY(call());
      return {};
    };
    TRY(bench.meet(name));
    TRY_ASSIGN(const double first, seconds_per_call(4, batch));
    const double fitting = bench.seconds / first;
    TRY_ASSIGN(
        const uint64_t calls,
        bench.number_of_first("calls of " + name, std::clamp(static_cast<uint64_t>(fitting),
                                                             uint64_t{1}, uint64_t{1} << 24)));
    CallTimes times;
    for (uint32_t round = 0; round < bench.rounds; ++round) {
      TRY_ASSIGN(const double one, seconds_per_call(calls, batch));
      times.ours.push_back(one);
    }
    if (bench.me() == 0) {
      bench.lines->push_back(line_of_time("host." + name, title, times, ""));
      std::fprintf(stderr, ".");
    }
    return {};
  };
  const std::string of = fmt::format(" of {} PEs", pes);
  TRY(add("barrier", "barrier" + of, [&] { return group.barrier(world); }));
  for (const uint64_t bytes : {uint64_t{8}, uint64_t{4096}, 64 * kKiB, kMiB}) {
    if (bytes > most) break;
    const std::string size = "." + short_size(bytes);
    const std::string title = of + ", " + long_size(bytes) + " each";
    TRY(add("broadcast" + size, "broadcast" + title,
            [&] { return symm::broadcast(group, world, dest, source, bytes, 0); }));
    TRY(add("fcollect" + size, "fcollect" + title,
            [&] { return symm::fcollect(group, world, dest, source, bytes); }));
    TRY(add("alltoall" + size, "alltoall" + title,
            [&] { return symm::alltoall(group, world, dest, source, bytes); }));
    TRY(add("reduce" + size, "sum of doubles" + title, [&] {
      return symm::reduce(group, world, reinterpret_cast<double*>(dest),
                          reinterpret_cast<const double*>(source), bytes / sizeof(double),
                          [](double a, double b) { return a + b; });
    }));
  }
  if (bench.me() == 0) std::fprintf(stderr, "\n");
  return bench.meet("end of what all do");
}

}  // namespace penstock::bench
