// What the typed waits and tests are made of: looks at words in this PE's memory that others write.
#pragma once

#include "typed_memory.h"

#include <cstdint>
#include <cstring>

namespace penstock::shmem {

[[noreturn]] void fault_comparison(const char* call, int cmp);

inline void check_comparison(const char* call, int cmp) {
  if (cmp < SHMEM_CMP_EQ || cmp > SHMEM_CMP_LE) [[unlikely]]
    fault_comparison(call, cmp);
}

template <class T>
bool compares(T found, int cmp, T value) {
  switch (cmp) {
    case SHMEM_CMP_EQ:
      return found == value;
    case SHMEM_CMP_NE:
      return found != value;
    case SHMEM_CMP_GT:
      return found > value;
    case SHMEM_CMP_GE:
      return found >= value;
    case SHMEM_CMP_LT:
      return found < value;
    default:
      return found <= value;
  }
}

// Words are looked at by atomic loads, so that programs need not have them volatile, and may.
template <class T>
T* plain(volatile T* word) {
  return const_cast<T*>(word);
}

// Pairs with the release of who wrote the word: what was put before it is seen after.
template <class T>
T look(const T* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

inline void check_waited(const char* call, Status status) {
  if (!status.ok()) [[unlikely]]
    fault_status(call, status);
}

// A wait for a word that no other PE can write would never end.
template <class T>
void check_own(const char* call, const symm::Group& all, const T* words, size_t count) {
  if (count == 0) return;
  const uint64_t bytes = bytes_of<T>(call, count);
  if (all.fault_of(words, bytes, all.me()) != symm::Fault::none) [[unlikely]] {
    check_asked(call, Code::invalid_argument, {words, bytes, all.me()});
  }
}

// The value that ended the wait.
template <class T>
T wait_until_seen(const char* call, T* ivar, int cmp, T value) {
  symm::Group& all = group(call);
  check_comparison(call, cmp);
  check_own(call, all, ivar, 1);
  T seen{};
  check_waited(call, all.wait([&] { return compares(seen = look(ivar), cmp, value); }));
  return seen;
}

template <class T>
void wait_until(const char* call, T* ivar, int cmp, T value) {
  wait_until_seen(call, ivar, cmp, value);
}

template <class T>
void wait_for_change(const char* call, T* ivar, T value) {
  wait_until_seen(call, ivar, SHMEM_CMP_NE, value);
}

template <class T>
int test(const char* call, T* ivar, int cmp, T value) {
  symm::Group& all = group(call);
  check_comparison(call, cmp);
  check_own(call, all, ivar, 1);
  all.progress();
  return compares(look(ivar), cmp, value) ? 1 : 0;
}

// Words that are waited for together: each with one value, or all with the same.
template <class T>
class Words {
 public:
  Words(const char* call, const T* words, size_t count, const int* status, int cmp, const T* values,
        size_t step)
      : words_(words), count_(count), status_(status), cmp_(cmp), values_(values), step_(step) {
    check_comparison(call, cmp);
    const symm::Group& all = group(call);
    check_own(call, all, words, count);
    all.progress();
    for (size_t index = 0; is_empty_ && index < count; ++index) is_empty_ = !counts(index);
  }

  // None of the words counts.
  bool is_empty() const { return is_empty_; }
  bool is_there(size_t index) const {
    return compares(look(words_ + index), cmp_, values_[index * step_]);
  }

  // Continues where it left off: each word has to compare once.
  bool are_all() {
    while (first_missing_ < count_ && (!counts(first_missing_) || is_there(first_missing_)))
      ++first_missing_;
    return first_missing_ == count_;
  }
  // SIZE_MAX: none.
  size_t any() const {
    for (size_t index = 0; index < count_; ++index) {
      if (counts(index) && is_there(index)) return index;
    }
    return SIZE_MAX;
  }
  size_t some(size_t* indices) const {
    size_t found = 0;
    for (size_t index = 0; index < count_; ++index) {
      if (counts(index) && is_there(index)) indices[found++] = index;
    }
    return found;
  }

 private:
  bool counts(size_t index) const { return status_ == nullptr || status_[index] == 0; }

  const T* const words_;
  const size_t count_;
  const int* const status_;
  const int cmp_;
  const T* const values_;
  const size_t step_;  // from one value to the next: 0 or 1
  bool is_empty_ = true;
  size_t first_missing_ = 0;
};

template <class T>
void wait_for_all(const char* call, Words<T> words) {
  check_waited(call, group(call).wait([&] { return words.are_all(); }));
}

template <class T>
size_t wait_for_any(const char* call, const Words<T>& words) {
  size_t found = SIZE_MAX;
  if (words.is_empty()) return found;
  check_waited(call, group(call).wait([&] { return (found = words.any()) != SIZE_MAX; }));
  return found;
}

template <class T>
size_t wait_for_some(const char* call, const Words<T>& words, size_t* indices) {
  size_t found = 0;
  if (words.is_empty()) return found;
  check_waited(call, group(call).wait([&] { return (found = words.some(indices)) != 0; }));
  return found;
}

template <class T>
void wait_until_all(const char* call, T* ivars, size_t nelems, const int* status, int cmp,
                    T value) {
  wait_for_all(call, Words<T>(call, ivars, nelems, status, cmp, &value, 0));
}
template <class T>
size_t wait_until_any(const char* call, T* ivars, size_t nelems, const int* status, int cmp,
                      T value) {
  return wait_for_any(call, Words<T>(call, ivars, nelems, status, cmp, &value, 0));
}
template <class T>
size_t wait_until_some(const char* call, T* ivars, size_t nelems, size_t* indices,
                       const int* status, int cmp, T value) {
  return wait_for_some(call, Words<T>(call, ivars, nelems, status, cmp, &value, 0), indices);
}
template <class T>
void wait_until_all_vector(const char* call, T* ivars, size_t nelems, const int* status, int cmp,
                           const T* values) {
  wait_for_all(call, Words<T>(call, ivars, nelems, status, cmp, values, 1));
}
template <class T>
size_t wait_until_any_vector(const char* call, T* ivars, size_t nelems, const int* status, int cmp,
                             const T* values) {
  return wait_for_any(call, Words<T>(call, ivars, nelems, status, cmp, values, 1));
}
template <class T>
size_t wait_until_some_vector(const char* call, T* ivars, size_t nelems, size_t* indices,
                              const int* status, int cmp, const T* values) {
  return wait_for_some(call, Words<T>(call, ivars, nelems, status, cmp, values, 1), indices);
}

template <class T>
int test_all(const char* call, T* ivars, size_t nelems, const int* status, int cmp, T value) {
  return Words<T>(call, ivars, nelems, status, cmp, &value, 0).are_all() ? 1 : 0;
}
template <class T>
size_t test_any(const char* call, T* ivars, size_t nelems, const int* status, int cmp, T value) {
  return Words<T>(call, ivars, nelems, status, cmp, &value, 0).any();
}
template <class T>
size_t test_some(const char* call, T* ivars, size_t nelems, size_t* indices, const int* status,
                 int cmp, T value) {
  return Words<T>(call, ivars, nelems, status, cmp, &value, 0).some(indices);
}
template <class T>
int test_all_vector(const char* call, T* ivars, size_t nelems, const int* status, int cmp,
                    const T* values) {
  return Words<T>(call, ivars, nelems, status, cmp, values, 1).are_all() ? 1 : 0;
}
template <class T>
size_t test_any_vector(const char* call, T* ivars, size_t nelems, const int* status, int cmp,
                       const T* values) {
  return Words<T>(call, ivars, nelems, status, cmp, values, 1).any();
}
template <class T>
size_t test_some_vector(const char* call, T* ivars, size_t nelems, size_t* indices,
                        const int* status, int cmp, const T* values) {
  return Words<T>(call, ivars, nelems, status, cmp, values, 1).some(indices);
}

}  // namespace penstock::shmem
