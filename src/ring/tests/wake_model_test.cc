// The sleep protocol of wake.h as a state machine, explored over every interleaving of sequentially
// consistent steps: there is no state in which the sleeper sleeps, work is there, and nobody is on
// the way to wake it. The two sides differ in who clears the word; both are explored, and broken
// variants are found out.
#include <gtest/gtest.h>
#include <set>
#include <tuple>
#include <vector>

namespace penstock::ring {
namespace {

struct Variant {
  bool look_again = true;  // the sleeper looks at the tail after it set its word
  bool tail_first = true;  // the publisher moves the tail before it looks at the word
  int publishers = 2;      // threads that publish, each `rounds` times
  int rounds = 2;
};

struct State {
  // Shared.
  int tail = 0;    // work published
  int word = 0;    // 1: asleep
  int signal = 0;  // the eventfd or the futex's wake-ups that are pending
  // The sleeper.
  int taken = 0;
  int sleeper = 0;  // 0 running, 1 found nothing, 2 word set, 3 asleep
  // Publishers.
  int step[2] = {0, 0};  // 0 idle, 1 first half done, 2 saw the word, 3 tail to move
  int left[2] = {0, 0};

  auto key() const {
    return std::make_tuple(tail, word, signal, taken, sleeper, step[0], step[1], left[0], left[1]);
  }
  bool operator<(const State& other) const { return key() < other.key(); }
};

void sleeper_steps(const State& state, const Variant& variant, std::vector<State>* next) {
  State after = state;
  switch (state.sleeper) {
    case 0:
      after.sleeper = state.taken == state.tail ? 1 : 0;
      after.taken = state.tail;
      break;
    case 1:
      after.word = 1;
      after.sleeper = 2;
      break;
    case 2: {
      const bool work = variant.look_again && state.taken != state.tail;
      after.sleeper = work ? 0 : 3;
      if (work) after.word = 0;
      break;
    }
    default:
      if (state.signal == 0) return;
      after.signal = 0;
      after.word = 0;
      after.sleeper = 0;
  }
  next->push_back(after);
}

void publisher_steps(const State& state, const Variant& variant, int who,
                     std::vector<State>* next) {
  State after = state;
  const int end = variant.tail_first ? 0 : 3;
  switch (state.step[who]) {
    case 0:
      if (state.left[who] == 0) return;
      --after.left[who];
      if (variant.tail_first) ++after.tail;
      after.step[who] = 1;
      break;
    case 1:
      after.step[who] = state.word != 0 ? 2 : end;
      break;
    case 2:
      if (state.word != 0) {
        after.word = 0;
        after.signal = 1;
      }
      after.step[who] = end;
      break;
    default:
      ++after.tail;
      after.step[who] = 0;
  }
  next->push_back(after);
}

// True when some interleaving ends with a sleeper that nobody will wake although there is work.
bool loses_a_wake_up(const Variant& variant, size_t* explored) {
  State first;
  for (int i = 0; i < variant.publishers; ++i) first.left[i] = variant.rounds;
  std::set<State> seen{first};
  std::vector<State> open{first};
  bool lost = false;
  while (!open.empty()) {
    const State state = open.back();
    open.pop_back();
    std::vector<State> next;
    sleeper_steps(state, variant, &next);
    for (int i = 0; i < variant.publishers; ++i) publisher_steps(state, variant, i, &next);
    if (next.empty() && state.taken != state.tail) lost = true;
    for (const State& after : next) {
      if (seen.insert(after).second) open.push_back(after);
    }
  }
  *explored = seen.size();
  return lost;
}

TEST(WakeModel, never_loses_a_wake_up_in_any_interleaving) {
  size_t explored = 0;
  EXPECT_FALSE(loses_a_wake_up({}, &explored));
  EXPECT_GT(explored, 100u);
  EXPECT_FALSE(loses_a_wake_up({.publishers = 1, .rounds = 4}, &explored));
}

TEST(WakeModel, finds_the_lost_wake_up_of_broken_variants) {
  size_t explored = 0;
  EXPECT_TRUE(loses_a_wake_up({.look_again = false}, &explored));
  EXPECT_TRUE(loses_a_wake_up({.tail_first = false}, &explored));
}

}  // namespace
}  // namespace penstock::ring
