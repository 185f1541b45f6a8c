// Programs that read and write blocks of one file at once, durably, while their nodes are hurt:
// whether what they saw could have happened one after the other (test::History), no acknowledged
// write lost. It runs until it is ended by SIGTERM, and prints one line. For ./dev cluster.
#include "penstock.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base.h"
#include "penstock/engine.h"
#include "penstock/testing_chains.h"

namespace penstock::test {
namespace {

using limits::kBlockBytes;
using std::chrono::milliseconds;
using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

constexpr int kPrograms = 4;
// Registers that are in use at a time: operations of all programs meet at each.
constexpr size_t kInUse = 4;
// Then another takes its place: the search through a history takes time that grows with it.
constexpr size_t kOperationsOfOne = 60;
// Old ones are read again and again, as what a later fault loses was written before it; and all of
// them at the end.
constexpr size_t kOperationsMost = 160;
constexpr uint64_t kChunkBytes = limits::kChunkBytesDefault;
constexpr uint64_t kBlocksOfChunk = kChunkBytes / kBlockBytes;
constexpr milliseconds kPauseMost{20};
constexpr milliseconds kAgain{200};

std::atomic<bool> ending{false};

// A block of the file. Those that are in use together lie in two chunks: updates of different
// registers meet, too.
uint64_t offset_of(uint64_t number) {
  const uint64_t chunk = number / (2 * kBlocksOfChunk) * 2 + number % 2;
  return chunk * kChunkBytes + number / 2 % kBlocksOfChunk * kBlockBytes;
}

// What all programs have seen.
class Seen {
 public:
  struct Operation {
    uint64_t number = 0;  // of the register
    History::Operation within = 0;
    uint64_t value = 0;  // 0: a read
    Clock::time_point begun;
  };

  Operation begin(engine::Random& random) {
    const std::lock_guard lock(mutex_);
    const uint64_t old = random.below(next_register_);
    if (random.chance(1, 4) && is_old(old)) return begin_read(old);
    const uint64_t number = in_use_[random.below(kInUse)];
    // The first ones write, so that there is something.
    const bool writes = registers_[number].operations == 0 || random.chance(1, 2);
    const Operation operation = writes ? begin_write(number) : begin_read(number);
    if (registers_[number].operations == kOperationsOfOne) {
      std::replace(in_use_.begin(), in_use_.end(), number, next_register_);
      ++next_register_;
    }
    return operation;
  }

  // Each of all registers once, when the programs have ended; nothing: that was the last.
  std::optional<Operation> begin_last() {
    const std::lock_guard lock(mutex_);
    if (last_read_ == next_register_) return std::nullopt;
    return begin_read(last_read_++);
  }

  // `value`: what was read. `known`: how it ended, else it may happen at any later moment.
  void end(const Operation& operation, bool known, uint64_t value) {
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex_);
    Register& one = registers_[operation.number];
    begun_.erase(begun_.find(operation.begun));
    longest_ = std::max(longest_, now - operation.begun);
    if (!known) {
      ++unknown_;
    } else if (operation.value != 0) {
      one.history.end_write(operation.within);
    } else {
      one.history.end_read(operation.within, value);
    }
    if (known) ++ended_;
  }

  // How long the oldest operation has been under way.
  Clock::duration oldest() {
    const std::lock_guard lock(mutex_);
    return begun_.empty() ? Clock::duration{} : Clock::now() - *begun_.begin();
  }

  void is_wrong(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (wrong_.empty()) wrong_ = what;
    ending = true;
  }

  int tell() {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, one] : registers_) {
      const std::string wrong = one.history.check();
      if (wrong_.empty() && !wrong.empty()) wrong_ = "NOT LINEARISABLE: " + wrong;
    }
    if (wrong_.empty() && ended_ == 0) wrong_ = "no operation has ended well";
    if (!wrong_.empty()) {
      std::printf("%s\n", wrong_.c_str());
      return 3;
    }
    std::printf(
        "%llu reads and durable writes of %llu blocks by %d programs at once, %llu whose end "
        "nobody knows; "
        "linearisable; the longest took %.1f s\n",
        static_cast<unsigned long long>(ended_), static_cast<unsigned long long>(registers_.size()),
        kPrograms, static_cast<unsigned long long>(unknown_), Seconds(longest_).count());
    return 0;
  }

 private:
  struct Register {
    History history;
    size_t operations = 0;
  };

  bool is_old(uint64_t number) {
    const size_t operations = registers_[number].operations;
    return operations >= kOperationsOfOne && operations < kOperationsMost;
  }
  Operation begin_write(uint64_t number) {
    Operation operation = begin_any(number);
    operation.value = ++last_value_;
    operation.within = registers_[number].history.begin_write({0, number}, operation.value);
    return operation;
  }
  Operation begin_read(uint64_t number) {
    Operation operation = begin_any(number);
    operation.within = registers_[number].history.begin_read({0, number});
    return operation;
  }
  Operation begin_any(uint64_t number) {
    ++registers_[number].operations;
    const Operation operation{.number = number, .begun = Clock::now()};
    begun_.insert(operation.begun);
    return operation;
  }

  std::mutex mutex_;
  std::map<uint64_t, Register> registers_;
  std::array<uint64_t, kInUse> in_use_{0, 1, 2, 3};
  uint64_t next_register_ = kInUse;
  uint64_t last_read_ = 0;  // in the end
  uint64_t last_value_ = 0;
  std::multiset<Clock::time_point> begun_;  // of what is under way
  uint64_t ended_ = 0;
  uint64_t unknown_ = 0;
  Clock::duration longest_{};
  std::string wrong_;
};

// A session with the node, made anew when the node is another process that did not take it over.
class Program {
 public:
  Program(std::string store, std::string path) : store_(std::move(store)), path_(std::move(path)) {}
  ~Program() { close(); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  bool is_open() const { return session_ != nullptr; }

  bool open() {
    close();
    const bool opened =
        penstock_connect(store_.c_str(), &session_) == 0 &&
        penstock_region_create(session_, kBlockBytes, &region_) == 0 &&
        penstock_ring_create(session_, 4, 1, &ring_) == 0 &&
        (file_ = penstock_open(session_, path_.c_str(), O_RDWR | O_CREAT, 0600)) >= 0;
    if (!opened) close();
    return opened;
  }

  void close() {
    if (session_ != nullptr) penstock_close(session_);
    session_ = nullptr;
  }

  // Bytes, or a negative errno.
  int64_t run(const Seen::Operation& operation) {
    penstock_io io{};
    io.operation = operation.value != 0 ? PENSTOCK_WRITE : PENSTOCK_READ;
    io.flags = operation.value != 0 ? PENSTOCK_DURABLE : 0;
    io.file = file_;
    io.offset = offset_of(operation.number);
    io.length = kBlockBytes;
    io.region = region_;
    if (operation.value != 0) std::fill_n(words(), kWords, operation.value);
    if (const int refused = penstock_prepare(ring_, &io); refused != 0) return refused;
    if (const int refused = penstock_submit(ring_); refused < 0) return refused;
    penstock_completion done{};
    const int count = penstock_wait(ring_, &done, 1, 1, PENSTOCK_FOREVER);
    if (count < 0) return count;
    return count == 1 ? done.result : -EIO;
  }

  // One value stands in all of a block, or it was torn.
  bool is_whole() const {
    return std::all_of(words(), words() + kWords, [this](uint64_t one) { return one == *words(); });
  }
  uint64_t value() const { return *words(); }

 private:
  static constexpr size_t kWords = kBlockBytes / sizeof(uint64_t);
  uint64_t* words() const { return static_cast<uint64_t*>(penstock_region_base(region_)); }

  const std::string store_;
  const std::string path_;
  penstock_session* session_ = nullptr;
  penstock_region* region_ = nullptr;
  penstock_ring* ring_ = nullptr;
  penstock_file file_ = -1;
};

// Runs it, and says what became of it. Where nobody knows, the session is given up.
void run(Seen& seen, Program& program, const Seen::Operation& operation) {
  constexpr auto kWhole = static_cast<int64_t>(kBlockBytes);
  const int64_t result = program.run(operation);
  const bool is_read = operation.value == 0;
  if (is_read && result == kWhole && !program.is_whole()) {
    seen.is_wrong(fmt::format("TORN: block {} has parts of several writes", operation.number));
  }
  if (is_read && result > 0 && result != kWhole) {
    seen.is_wrong(fmt::format("SHORT: of block {} {} bytes are read", operation.number, result));
  }
  // A read behind the file's end finds nothing, as a hole does.
  const bool known = is_read ? result >= 0 : result == kWhole;
  seen.end(operation, known, is_read && result == kWhole ? program.value() : 0);
  if (!known) program.close();
}

void work(Seen& seen, const std::string& store, const std::string& path, uint64_t seed) {
  engine::SeededRandom random(seed);
  Program program(store, path);
  while (!ending) {
    if (!program.is_open() && !program.open()) {
      std::this_thread::sleep_for(kAgain);
      continue;
    }
    run(seen, program, seen.begin(random));
    std::this_thread::sleep_for(milliseconds(random.below(kPauseMost.count())));
  }
}

// What is there in the end, of all that was ever written.
void read_all(Seen& seen, const std::string& store, const std::string& path) {
  Program program(store, path);
  while (const auto operation = seen.begin_last()) {
    if (!program.is_open() && !program.open()) {
      return seen.is_wrong("no session can be had to read it all at the end");
    }
    run(seen, program, *operation);
  }
}

// Threads that wait in a call cannot be ended but with the process.
void watch(Seen& seen, std::chrono::seconds most) {
  while (!ending) {
    std::this_thread::sleep_for(kAgain);
    if (seen.oldest() < most) continue;
    std::printf("an operation has not ended after %lld s\n", static_cast<long long>(most.count()));
    std::fflush(stdout);
    std::_Exit(3);
  }
}

int run(const std::string& store, const std::string& path, uint64_t seed,
        std::chrono::seconds most) {
  struct sigaction action {};
  action.sa_handler = [](int) { ending = true; };
  ::sigaction(SIGTERM, &action, nullptr);
  Seen seen;
  std::vector<std::thread> programs;
  for (int i = 0; i < kPrograms; ++i) {
    programs.emplace_back([&, i] { work(seen, store, path, mix64(seed + i)); });
  }
  watch(seen, most);
  for (std::thread& program : programs) program.join();
  read_all(seen, store, path);
  return seen.tell();
}

}  // namespace
}  // namespace penstock::test

int main(int count, char** words) {
  if (count != 5) {
    std::fprintf(stderr, "usage: cluster_registers STORE PATH SEED SECONDS_OF_ONE\n");
    return 2;
  }
  return penstock::test::run(words[1], words[2], std::strtoull(words[3], nullptr, 10),
                             std::chrono::seconds(std::strtoull(words[4], nullptr, 10)));
}
