// Waiting for words in this PE's own memory that others write.
//
// A wait polls the L2 cache of its own GPU; what it waits for arrives there by a store of a peer.
// What limits it: a way there of the store, and a read of L2. It ends without success when somebody
// of the job has ended (state.trouble, of the host, looked at now and then as that costs a way over
// PCIe); then it is the caller's to say so or to give up. All acquire: what the other one did
// before its fence and its store is seen after the wait.
#pragma once

#include "penstock_device/symm/far_changes.h"

namespace penstock::device {

// Their numbers are NVSHMEM's.
enum class Comparison : int {
  equal = 0,
  not_equal = 1,
  greater = 2,
  less_or_equal = 3,
  less = 4,
  greater_or_equal = 5,
};

template <class T>
PENSTOCK_DEVICE bool compares(T left, Comparison comparison, T right) {
  switch (comparison) {
    case Comparison::equal:
      return left == right;
    case Comparison::not_equal:
      return left != right;
    case Comparison::greater:
      return left > right;
    case Comparison::less_or_equal:
      return left <= right;
    case Comparison::less:
      return left < right;
    case Comparison::greater_or_equal:
      return left >= right;
  }
  return false;
}

// Some half a millisecond: a look at the host's word takes two microseconds.
constexpr uint32_t kPollsPerLook = 1024;

PENSTOCK_DEVICE bool in_trouble(const SymmState& state) {
  return state.trouble != nullptr && load_system(state.trouble) != 0;
}

// What a wait does now and then: false when somebody has ended.
PENSTOCK_DEVICE_CALL bool may_wait_on(const SymmState& state) {
  if (state.far != nullptr) serve_changes<Scope::thread>(state);
  return !in_trouble(state);
}

// Until `ready` says so; false when somebody has ended before.
template <class Ready>
PENSTOCK_DEVICE bool wait(const SymmState& state, Ready&& ready) {
  for (;;) {
    PENSTOCK_NOT_UNROLLED
    for (uint32_t i = 0; i < kPollsPerLook; ++i) {
      if (ready()) return true;
    }
    // What was stored before the end came may have come, too.
    if (!may_wait_on(state)) return ready();
  }
}

template <class T>
PENSTOCK_DEVICE T load_acquire_as(const T* from) {
  return bits_as<T>(load_acquire(reinterpret_cast<const Word<T>*>(from)));
}

template <class T>
PENSTOCK_DEVICE bool test(const T* here, Comparison comparison, T value) {
  return compares(load_acquire_as(here), comparison, value);
}

template <class T>
PENSTOCK_DEVICE bool wait_until(const SymmState& state, const T* here, Comparison comparison,
                                T value) {
  return wait(state, [&] { return test(here, comparison, value); });
}

// Gives the value that compared.
PENSTOCK_DEVICE bool signal_wait_until(const SymmState& state, const uint64_t* signal,
                                       Comparison comparison, uint64_t value, uint64_t& seen) {
  return wait(state, [&] {
    seen = load_acquire(signal);
    return compares(seen, comparison, value);
  });
}

// ---- many words, each with a value of its own or one for all ----

template <class T>
struct Words {
  const T* at;
  uint64_t count;
  const int* status;  // not 0: left out; null: none is
  Comparison comparison;
  const T* values;  // null: `value` for all
  T value;

  PENSTOCK_DEVICE bool counts(uint64_t index) const {
    return status == nullptr || status[index] == 0;
  }
  PENSTOCK_DEVICE bool is_ready(uint64_t index) const {
    return test(at + index, comparison, values == nullptr ? value : values[index]);
  }
  PENSTOCK_DEVICE bool has_any() const {
    for (uint64_t i = 0; i < count; ++i) {
      if (counts(i)) return true;
    }
    return false;
  }
};

constexpr uint64_t kNoWord = ~uint64_t{0};

// All that count compare; also when none counts.
template <class T>
PENSTOCK_DEVICE bool test_all(const Words<T>& words) {
  for (uint64_t i = 0; i < words.count; ++i) {
    if (words.counts(i) && !words.is_ready(i)) return false;
  }
  return true;
}
// The index of one that compares; kNoWord when none does.
template <class T>
PENSTOCK_DEVICE uint64_t test_any(const Words<T>& words) {
  for (uint64_t i = 0; i < words.count; ++i) {
    if (words.counts(i) && words.is_ready(i)) return i;
  }
  return kNoWord;
}
// How many compare, and their indices.
template <class T>
PENSTOCK_DEVICE uint64_t test_some(const Words<T>& words, uint64_t* indices) {
  uint64_t found = 0;
  for (uint64_t i = 0; i < words.count; ++i) {
    if (words.counts(i) && words.is_ready(i)) indices[found++] = i;
  }
  return found;
}

template <class T>
PENSTOCK_DEVICE bool wait_until_all(const SymmState& state, const Words<T>& words) {
  // One after the other: a word that compared once need not compare again.
  for (uint64_t i = 0; i < words.count; ++i) {
    if (words.counts(i) && !wait(state, [&] { return words.is_ready(i); })) return false;
  }
  return true;
}
// kNoWord at once when none counts.
template <class T>
PENSTOCK_DEVICE bool wait_until_any(const SymmState& state, const Words<T>& words,
                                    uint64_t& index) {
  index = kNoWord;
  if (!words.has_any()) return true;
  return wait(state, [&] {
    index = test_any(words);
    return index != kNoWord;
  });
}
template <class T>
PENSTOCK_DEVICE bool wait_until_some(const SymmState& state, const Words<T>& words,
                                     uint64_t* indices, uint64_t& found) {
  found = 0;
  if (!words.has_any()) return true;
  return wait(state, [&] {
    found = test_some(words, indices);
    return found != 0;
  });
}

}  // namespace penstock::device
