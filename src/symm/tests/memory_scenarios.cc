// Puts, gets, words that change at once, locks, and the program's own variables.
#include "pes.h"

#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace penstock::symm::test {
namespace {

uint64_t global_word = 7;               // of the initialised data
char global_array[3 << 20];             // of what begins as zeros, larger than a page
thread_local uint64_t thread_word = 1;  // not symmetric

void bytes_go_to_and_fro(const Pe& pe) {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{8}, uint64_t{4096}, uint64_t{3'000'001}}) {
    char* const there = pe.allocate<char>(bytes);
    std::vector<char> source(bytes, static_cast<char>('a' + pe.me()));
    CHECK(pe.group.put(there, source.data(), bytes, pe.right()).ok());
    CHECK(pe.group.barrier(pe.group.world()).ok());
    for (uint64_t i = 0; i < bytes; ++i) CHECK(there[i] == static_cast<char>('a' + pe.left()));
    std::vector<char> back(bytes);
    CHECK(pe.group.get(back.data(), there, bytes, pe.right()).ok());
    CHECK(back == source);
    CHECK(pe.group.barrier(pe.group.world()).ok());
    CHECK(pe.group.heap().release(pe.group.heap_offset(there)));
  }
}

void variables_are_symmetric(const Pe& pe) {
  static uint64_t local_static[2] = {};
  CHECK(global_word == 7);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  const uint64_t mine = 100 + pe.me();
  CHECK(pe.group.put(&global_word, &mine, sizeof mine, pe.right()).ok());
  CHECK(pe.group.put(&local_static[1], &mine, sizeof mine, pe.right()).ok());
  CHECK(pe.group.put(global_array + sizeof global_array - 8, &mine, sizeof mine, pe.right()).ok());
  CHECK(pe.group.barrier(pe.group.world()).ok());
  uint64_t last = 0;
  std::memcpy(&last, global_array + sizeof global_array - 8, sizeof last);
  const uint64_t expected = 100 + pe.left();
  CHECK(global_word == expected && local_static[1] == expected && last == expected);
  CHECK(local_static[0] == 0 && global_array[0] == 0);
  // A stack, another thread's variable and a library's are not.
  uint64_t on_stack = 0;
  CHECK(pe.group.fault_of(&on_stack, 8, 0) == Fault::not_symmetric);
  CHECK(pe.group.fault_of(&thread_word, 8, 0) == Fault::not_symmetric);
  CHECK(pe.group.fault_of(global_array, 8, pe.size()) == Fault::no_such_pe);
  CHECK(pe.group.at(global_array, uint64_t{1} << 40, pe.right()) == nullptr);
  CHECK(pe.group.fault_of(global_array, uint64_t{1} << 40, 0) == Fault::beyond_its_end);
}

// What a child changes is its own; what its parent changes after the fork does not reach it.
void children_have_variables_of_their_own(const Pe& pe) {
  global_word = 1;
  int told[2];
  CHECK(::pipe(told) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    CHECK(::read(told[0], &byte, 1) == 1);
    const bool is_own = global_word == 1;
    global_word = 3;
    std::_Exit(is_own ? 0 : 9);
  }
  global_word = 2;
  CHECK(::write(told[1], "x", 1) == 1);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(global_word == 2);
  CHECK(std::system("exit 5") == 5 << 8);
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

void words_change_at_once(const Pe& pe) {
  constexpr uint32_t kTimes = 20'000;
  auto* const wide = pe.allocate<uint64_t>(1);
  auto* const narrow = pe.allocate<int32_t>(2);
  auto* const real = pe.allocate<double>(1);
  for (uint32_t i = 0; i < kTimes; ++i) {
    CHECK(atomic_fetch_add(pe.group, wide, uint64_t{1}, 0));
    CHECK(atomic_fetch_add(pe.group, narrow, -1, pe.size() - 1));
  }
  // A counter by comparing and swapping.
  for (uint32_t i = 0; i < kTimes / 10;) {
    const int32_t seen = *atomic_fetch(pe.group, narrow + 1, 0);
    if (*atomic_compare_swap(pe.group, narrow + 1, seen, seen + 1, 0) == seen) ++i;
  }
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(*atomic_fetch(pe.group, wide, 0) == uint64_t{kTimes} * pe.size());
  CHECK(*atomic_fetch(pe.group, narrow, pe.size() - 1) ==
        -static_cast<int32_t>(kTimes * pe.size()));
  CHECK(*atomic_fetch(pe.group, narrow + 1, 0) == static_cast<int32_t>(kTimes / 10 * pe.size()));
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(atomic_set(pe.group, real, 1.5 + pe.me(), pe.right()).ok());
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(*atomic_swap(pe.group, real, 0.25, pe.me()) == 1.5 + pe.left());
  CHECK(*real == 0.25);
  CHECK(atomic_set(pe.group, wide, uint64_t{0xf0}, pe.me()).ok());
  CHECK(*atomic_fetch_or(pe.group, wide, uint64_t{0x0f}, pe.me()) == 0xf0);
  CHECK(*atomic_fetch_and(pe.group, wide, uint64_t{0x3c}, pe.me()) == 0xff);
  CHECK(*atomic_fetch_xor(pe.group, wide, uint64_t{0xff}, pe.me()) == 0x3c && *wide == 0xc3);
  // A word that is not at a multiple of its size cannot change at once.
  auto* const odd = reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(wide) + 1);
  CHECK(!atomic_fetch_add(pe.group, odd, uint64_t{1}, 0));
}

// A waiter takes a word that was put, and it does not come again; of more than one word the last
// one tells of all.
template <class Word>
void words_come_once(const Pe& pe, uint64_t count) {
  const uint32_t rounds = pe.group.has_far() ? 1'000 : 20'000;
  auto* const words = pe.allocate<Word>(count);
  auto* const taken = pe.allocate<uint64_t>(1);
  Word& last = words[count - 1];
  const std::vector<Word> mine(count, Word{1});
  uint32_t again = 0;
  for (uint32_t round = 1; round <= rounds; ++round) {
    CHECK(pe.group.put(words, mine.data(), count * sizeof(Word), pe.right()).ok());
    CHECK(pe.group.wait([&] { return __atomic_load_n(&last, __ATOMIC_ACQUIRE) != 0; }).ok());
    for (uint64_t i = 0; i < count; ++i) CHECK(words[i] == 1);
    for (uint64_t i = 0; i < count; ++i) __atomic_store_n(&words[i], Word{0}, __ATOMIC_RELAXED);
    for (int look = 0; look < 50 && __atomic_load_n(&last, __ATOMIC_RELAXED) == 0; ++look)
      Patience::relax();
    again += __atomic_exchange_n(&last, Word{0}, __ATOMIC_SEQ_CST) != 0 ? 1 : 0;
    CHECK(atomic_set(pe.group, taken, uint64_t{round}, pe.left()).ok());
    CHECK(pe.group.wait([&] { return __atomic_load_n(taken, __ATOMIC_ACQUIRE) >= round; }).ok());
  }
  CHECK(again == 0);
}

void words_that_are_put_come_once(const Pe& pe) {
  words_come_once<uint64_t>(pe, 1);
  words_come_once<uint32_t>(pe, 1);
  words_come_once<uint16_t>(pe, 1);
  words_come_once<uint32_t>(pe, 3);
  words_come_once<uint64_t>(pe, 4);
  words_come_once<uint64_t>(pe, 100);
}

void signals_come_after_their_bytes(const Pe& pe) {
  constexpr uint64_t kRounds = 4'000;
  constexpr uint64_t kWords = 32;
  auto* const data = pe.allocate<uint64_t>(kWords);
  auto* const signal = pe.allocate<uint64_t>(1);
  auto* const taken = pe.allocate<uint64_t>(1);
  for (uint64_t round = 1; round <= kRounds; ++round) {
    uint64_t mine[kWords];
    std::fill_n(mine, kWords, round);
    CHECK(pe.group.put_signal(data, mine, sizeof mine, signal, 1, SignalOp::add, pe.right()).ok());
    CHECK(pe.group.wait([&] { return __atomic_load_n(signal, __ATOMIC_ACQUIRE) >= round; }).ok());
    for (uint64_t i = 0; i < kWords; ++i) CHECK(data[i] == round);
    CHECK(atomic_set(pe.group, taken, round, pe.left()).ok());
    CHECK(pe.group.wait([&] { return __atomic_load_n(taken, __ATOMIC_ACQUIRE) >= round; }).ok());
  }
}

void one_at_a_time_has_a_lock(const Pe& pe) {
  long* const lock = pe.allocate<long>(1);
  auto* const count = pe.allocate<uint64_t>(2);
  constexpr uint64_t kTimes = 500;
  const auto add = [&](uint64_t* word) {
    uint64_t value = 0;
    CHECK(pe.group.get(&value, word, sizeof value, 0).ok());
    ++value;
    CHECK(pe.group.put(word, &value, sizeof value, 0).ok());
  };
  for (uint64_t i = 0; i < kTimes; ++i) {
    CHECK(set_lock(pe.group, lock).ok());
    add(count);
    CHECK(clear_lock(pe.group, lock).ok());
  }
  for (uint64_t i = 0; i < kTimes / 10;) {
    const auto has = test_lock(pe.group, lock);
    CHECK(has);
    if (!*has) continue;
    add(count + 1);
    ++i;
    CHECK(clear_lock(pe.group, lock).ok());
  }
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(*atomic_fetch(pe.group, count, 0) == kTimes * pe.size());
  CHECK(*atomic_fetch(pe.group, count + 1, 0) == kTimes / 10 * pe.size());
  CHECK(*lock == 0);
  CHECK(clear_lock(pe.group, lock).code() == Code::not_permitted);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  if (pe.me() != 0) return;
  CHECK(set_lock(pe.group, lock).ok());
  CHECK(set_lock(pe.group, lock).code() == Code::in_use);
  CHECK(!*test_lock(pe.group, lock));
  CHECK(clear_lock(pe.group, lock).ok() && *lock == 0);
}

}  // namespace

const Named kMemoryScenarios[] = {
    {"bytes", bytes_go_to_and_fro},
    {"variables", variables_are_symmetric},
    {"children", children_have_variables_of_their_own},
    {"words", words_change_at_once},
    {"once", words_that_are_put_come_once},
    {"signals", signals_come_after_their_bytes},
    {"lock", one_at_a_time_has_a_lock},
    {nullptr, nullptr},
};

}  // namespace penstock::symm::test
