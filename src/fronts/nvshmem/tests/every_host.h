// What the programs made by programs.py are of that call the functions of the host and on streams:
// a trial for each, which prepares its memory, calls the function and looks at what became of it.
// All PEs run the same trials in the same order.
#pragma once

#include "every_host_main.h"
#include "every_values.h"

#include <nvshmem.h>
#include <nvshmemx.h>
#include <vector>

// Memory of all trials, and how a call on a stream is made: at once, or captured in a graph that
// runs then.
struct Trial {
  char* dest;        // symmetric, 4 KiB, zeros
  char* source;      // the same
  uint64_t* signal;  // symmetric, 0
  int* status;       // of the GPU: 0, 1, 0
  char* values;      // of the GPU: three words
  char* seen;        // of the GPU: what the stream saw behind the call
  cudaStream_t stream;
  bool captures;
  int wrong;
  int me;
  int pes;
  int right;
  int left;

  // Zeros everywhere, on all PEs.
  void reset();
  void write(void* gpu, const void* from, size_t bytes);
  void read(void* to, const void* gpu, size_t bytes);
  void meet();  // all have come; what they did is complete
  // Around a call on the stream.
  void begin();
  void launch();  // what was captured, if it was
  void wait();    // until the stream has done it
};

template <class T>
T* dest_of(Trial& t) {
  return reinterpret_cast<T*>(t.dest);
}
template <class T>
T* source_of(Trial& t) {
  return reinterpret_cast<T*>(t.source);
}

// This PE's elements.
template <class T>
void fill(Trial& t, int count) {
  std::vector<T> mine;
  for (int i = 0; i < count; ++i) mine.push_back(value_of<T>(t.me, i));
  t.write(t.source, mine.data(), mine.size() * sizeof(T));
  t.meet();
}
template <class T>
void expect_one(Trial& t, T found, T wanted) {
  if (!equal(found, wanted)) ++t.wrong;
}
// The elements that a PE's were made of, from `first` on.
template <class T>
void expect(Trial& t, const T* at, int pe, int count, int first = 0) {
  std::vector<T> found(static_cast<size_t>(count));
  t.read(found.data(), at, found.size() * sizeof(T));
  for (int i = 0; i < count; ++i)
    expect_one(t, found[static_cast<size_t>(i)], value_of<T>(pe, first + i));
}
template <class T>
T here(Trial& t) {
  T found;
  t.read(&found, t.dest, sizeof found);
  return found;
}

#define BEHIND_thread
#define BEHIND_stream , t.stream
#define TRIAL(NAME) static void try_##NAME(Trial& t)

// ---- memory ----

template <class T>
using Copy = void (*)(Trial&, T*, const T*, size_t, int);
template <class T>
using CopyStrided = void (*)(Trial&, T*, const T*, ptrdiff_t, ptrdiff_t, size_t, int);

template <class T>
void try_copy(Trial& t, Copy<T> call, int from) {
  fill<T>(t, kElements);
  t.begin();
  call(t, dest_of<T>(t), source_of<T>(t), kElements, t.right);
  call(t, dest_of<T>(t) + kElements, source_of<T>(t), 0, t.right);
  t.launch();
  t.wait();
  t.meet();
  expect(t, dest_of<T>(t), from, kElements);
  const T zero{};
  T behind;
  t.read(&behind, dest_of<T>(t) + kElements, sizeof behind);
  expect_one(t, behind, zero);
}
#define TRY_put(NAME, T, WHO)                                      \
  TRIAL(NAME) {                                                    \
    try_copy<T>(                                                   \
        t,                                                         \
        [](Trial& t, T* dest, const T* source, size_t n, int pe) { \
          NAME(dest, source, n, pe BEHIND_##WHO);                  \
          (void)t;                                                 \
        },                                                         \
        t.left);                                                   \
  }
#define TRY_put_nbi TRY_put
#define TRY_get(NAME, T, WHO)                                      \
  TRIAL(NAME) {                                                    \
    try_copy<T>(                                                   \
        t,                                                         \
        [](Trial& t, T* dest, const T* source, size_t n, int pe) { \
          NAME(dest, source, n, pe BEHIND_##WHO);                  \
          (void)t;                                                 \
        },                                                         \
        t.right);                                                  \
  }
#define TRY_get_nbi TRY_get

// Two elements; what stands between them stays.
template <class T>
void try_strided(Trial& t, CopyStrided<T> call, int from) {
  fill<T>(t, 6);
  t.begin();
  call(t, dest_of<T>(t), source_of<T>(t), 3, 2, 3, t.right);
  call(t, dest_of<T>(t), source_of<T>(t), 1, 1, 0, t.right);
  t.launch();
  t.wait();
  t.meet();
  const T zero{};
  for (int i = 0; i < 8; ++i) {
    T found;
    t.read(&found, dest_of<T>(t) + i, sizeof found);
    expect_one(t, found, i % 3 == 0 ? value_of<T>(from, i / 3 * 2) : zero);
  }
}
#define TRY_strided(NAME, T, WHO, FROM)                                                          \
  TRIAL(NAME) {                                                                                  \
    try_strided<T>(                                                                              \
        t,                                                                                       \
        [](Trial& t, T* dest, const T* source, ptrdiff_t to, ptrdiff_t from, size_t n, int pe) { \
          NAME(dest, source, to, from, n, pe BEHIND_##WHO);                                      \
          (void)t;                                                                               \
        },                                                                                       \
        FROM);                                                                                   \
  }
#define TRY_iput(NAME, T, WHO) TRY_strided(NAME, T, WHO, t.left)
#define TRY_iget(NAME, T, WHO) TRY_strided(NAME, T, WHO, t.right)

template <class T>
void try_p(Trial& t, void (*call)(Trial&, T*, T, int)) {
  t.begin();
  call(t, dest_of<T>(t) + 1, value_of<T>(t.me, 0), t.right);
  t.launch();
  t.wait();
  t.meet();
  const T zero{};
  for (int i = 0; i < 3; ++i) {
    T found;
    t.read(&found, dest_of<T>(t) + i, sizeof found);
    expect_one(t, found, i == 1 ? value_of<T>(t.left, 0) : zero);
  }
}
#define TRY_p(NAME, T, WHO)                              \
  TRIAL(NAME) {                                          \
    try_p<T>(t, [](Trial& t, T* dest, T value, int pe) { \
      NAME(dest, value, pe BEHIND_##WHO);                \
      (void)t;                                           \
    });                                                  \
  }

// On a stream, too, there is a value when it returns, so that it cannot be captured.
template <class T>
void try_g(Trial& t, T (*call)(Trial&, const T*, int)) {
  fill<T>(t, 2);
  expect_one(t, call(t, source_of<T>(t) + 1, t.right), value_of<T>(t.right, 1));
  t.meet();
}
#define TRY_g(NAME, T, WHO)                             \
  TRIAL(NAME) {                                         \
    try_g<T>(t, [](Trial& t, const T* source, int pe) { \
      (void)t;                                          \
      return NAME(source, pe BEHIND_##WHO);             \
    });                                                 \
  }

// Set to 4, and then 3 more.
template <class T>
void try_put_signal(Trial& t,
                    void (*call)(Trial&, T*, const T*, size_t, uint64_t*, uint64_t, int, int)) {
  fill<T>(t, kElements);
  t.begin();
  call(t, dest_of<T>(t), source_of<T>(t), kElements - 1, t.signal, 4, NVSHMEM_SIGNAL_SET, t.right);
  call(t, dest_of<T>(t) + kElements - 1, source_of<T>(t) + kElements - 1, 1, t.signal, 3,
       NVSHMEM_SIGNAL_ADD, t.right);
  t.launch();
  t.wait();
  t.meet();
  if (nvshmem_signal_fetch(t.signal) != 7) ++t.wrong;
  expect(t, dest_of<T>(t), t.left, kElements);
}
#define TRY_put_signal(NAME, T, WHO)                                                        \
  TRIAL(NAME) {                                                                             \
    try_put_signal<T>(t, [](Trial& t, T* dest, const T* source, size_t n, uint64_t* signal, \
                            uint64_t value, int op, int pe) {                               \
      NAME(dest, source, n, signal, value, op, pe BEHIND_##WHO);                            \
      (void)t;                                                                              \
    });                                                                                     \
  }

// ---- atomic operations: on the right one's word, which holds 5, with 3 ----

template <class T>
struct Before {
  T seen;
  bool has_seen;
};
template <class T>
void try_atomic(Trial& t, Before<T> (*call)(T*, T, T, int), int after) {
  const T before = static_cast<T>(5);
  // The word beside it stays.
  const T both[2] = {before, before};
  t.write(t.dest, both, sizeof both);
  t.meet();
  const Before<T> found = call(dest_of<T>(t), before, static_cast<T>(3), t.right);
  if (found.has_seen) expect_one(t, found.seen, before);
  t.meet();
  expect_one(t, here<T>(t), static_cast<T>(after));
  T beside;
  t.read(&beside, dest_of<T>(t) + 1, sizeof beside);
  expect_one(t, beside, before);
}
#define TRY_fetching(NAME, T, CALL, AFTER)       \
  TRIAL(NAME) {                                  \
    try_atomic<T>(                               \
        t,                                       \
        [](T* dest, T before, T value, int pe) { \
          (void)before, (void)value;             \
          return Before<T>{CALL, true};          \
        },                                       \
        AFTER);                                  \
  }
#define TRY_changing(NAME, T, CALL, AFTER)       \
  TRIAL(NAME) {                                  \
    try_atomic<T>(                               \
        t,                                       \
        [](T* dest, T before, T value, int pe) { \
          (void)before, (void)value;             \
          CALL;                                  \
          return Before<T>{before, false};       \
        },                                       \
        AFTER);                                  \
  }
#define TRY_atomic_fetch(NAME, T, WHO) TRY_fetching(NAME, T, NAME(dest, pe), 5)
#define TRY_atomic_set(NAME, T, WHO) TRY_changing(NAME, T, NAME(dest, value, pe), 3)
#define TRY_atomic_swap(NAME, T, WHO) TRY_fetching(NAME, T, NAME(dest, value, pe), 3)
#define TRY_atomic_compare_swap(NAME, T, WHO) \
  TRY_fetching(NAME, T, NAME(dest, before, value, pe), 3)
#define TRY_atomic_fetch_inc(NAME, T, WHO) TRY_fetching(NAME, T, NAME(dest, pe), 6)
#define TRY_atomic_inc(NAME, T, WHO) TRY_changing(NAME, T, NAME(dest, pe), 6)
#define TRY_atomic_fetch_add(NAME, T, WHO) TRY_fetching(NAME, T, NAME(dest, value, pe), 8)
#define TRY_atomic_add(NAME, T, WHO) TRY_changing(NAME, T, NAME(dest, value, pe), 8)
#define TRY_atomic_fetch_and(NAME, T, WHO) TRY_fetching(NAME, T, NAME(dest, value, pe), 1)
#define TRY_atomic_and(NAME, T, WHO) TRY_changing(NAME, T, NAME(dest, value, pe), 1)
#define TRY_atomic_fetch_or(NAME, T, WHO) TRY_fetching(NAME, T, NAME(dest, value, pe), 7)
#define TRY_atomic_or(NAME, T, WHO) TRY_changing(NAME, T, NAME(dest, value, pe), 7)
#define TRY_atomic_fetch_xor(NAME, T, WHO) TRY_fetching(NAME, T, NAME(dest, value, pe), 6)
#define TRY_atomic_xor(NAME, T, WHO) TRY_changing(NAME, T, NAME(dest, value, pe), 6)

// ---- waits on streams: for words 0 and 2 of three, of which the second does not count ----

template <class T>
void try_wait(Trial& t, void (*call)(Trial&, T*, T, T*)) {
  // Negative where there are such words: they compare as what they are.
  const T low = static_cast<T>(T{} - 1) < T{} ? static_cast<T>(T{} - 7) : static_cast<T>(7);
  const T values[3] = {low, 0, static_cast<T>(9)};
  t.write(t.values, values, sizeof values);
  t.meet();
  t.begin();
  call(t, dest_of<T>(t), low, reinterpret_cast<T*>(t.values));
  t.launch();
  if (cudaMemcpyAsync(t.seen, t.dest, sizeof values, cudaMemcpyDeviceToDevice, t.stream) !=
      cudaSuccess) {
    ++t.wrong;
  }
  nvshmem_putmem(dest_of<T>(t) + 2, values + 2, sizeof(T), t.right);
  nvshmem_putmem(dest_of<T>(t), values, sizeof(T), t.right);
  t.wait();
  T seen[3];
  t.read(seen, t.seen, sizeof seen);
  expect_one(t, seen[0], values[0]);
  t.meet();
}
#define TRY_wait(NAME, T, CALL)                                 \
  TRIAL(NAME) {                                                 \
    try_wait<T>(t, [](Trial& t, T* words, T value, T* values) { \
      (void)value, (void)values;                                \
      CALL;                                                     \
    });                                                         \
  }
#define TRY_wait_until(NAME, T, WHO) TRY_wait(NAME, T, NAME(words, NVSHMEM_CMP_EQ, value, t.stream))
#define TRY_wait_until_all(NAME, T, WHO) \
  TRY_wait(NAME, T, NAME(words, 3, t.status, NVSHMEM_CMP_NE, 0, t.stream))
#define TRY_wait_until_all_vector(NAME, T, WHO) \
  TRY_wait(NAME, T, NAME(words, 3, t.status, NVSHMEM_CMP_EQ, values, t.stream))

// ---- collective operations ----

template <class T>
using Collective = int (*)(Trial&, T*, const T*, size_t);

template <class T>
void call_together(Trial& t, Collective<T> call, size_t count) {
  t.begin();
  if (call(t, dest_of<T>(t), source_of<T>(t), count) != 0) ++t.wrong;
  t.launch();
  t.wait();
}
template <class T>
void try_broadcast(Trial& t, Collective<T> call) {
  fill<T>(t, kElements);
  call_together(t, call, kElements);
  expect(t, dest_of<T>(t), t.pes - 1, kElements);
  t.meet();
}
template <class T>
void try_fcollect(Trial& t, Collective<T> call) {
  fill<T>(t, 3);
  call_together(t, call, 3);
  for (int i = 0; i < t.pes; ++i) expect(t, dest_of<T>(t) + 3 * i, i, 3);
  t.meet();
}
template <class T>
void try_alltoall(Trial& t, Collective<T> call) {
  fill<T>(t, 2 * t.pes);
  call_together(t, call, 2);
  for (int i = 0; i < t.pes; ++i) expect(t, dest_of<T>(t) + 2 * i, i, 2, 2 * t.me);
  t.meet();
}
#define TRY_together(NAME, T, TRY, CALL)                         \
  TRIAL(NAME) {                                                  \
    TRY<T>(t, [](Trial& t, T* dest, const T* source, size_t n) { \
      (void)t;                                                   \
      return CALL;                                               \
    });                                                          \
  }
#define TRY_broadcast(NAME, T, WHO)    \
  TRY_together(NAME, T, try_broadcast, \
               NAME(NVSHMEM_TEAM_WORLD, dest, source, n, t.pes - 1 BEHIND_##WHO))
#define TRY_fcollect(NAME, T, WHO) \
  TRY_together(NAME, T, try_fcollect, NAME(NVSHMEM_TEAM_WORLD, dest, source, n BEHIND_##WHO))
#define TRY_alltoall(NAME, T, WHO) \
  TRY_together(NAME, T, try_alltoall, NAME(NVSHMEM_TEAM_WORLD, dest, source, n BEHIND_##WHO))

using Combine = int (*)(int, int);

template <class T>
void expect_reduced(Trial& t, int count, int first, Combine combine) {
  std::vector<T> found(static_cast<size_t>(count));
  t.read(found.data(), t.dest, found.size() * sizeof(T));
  for (int i = 0; i < count; ++i) {
    int wanted = static_cast<int>(static_cast<float>(small<T>(0, first + i)));
    for (int pe = 1; pe < t.pes; ++pe)
      wanted = combine(wanted, static_cast<int>(static_cast<float>(small<T>(pe, first + i))));
    expect_one(t, found[static_cast<size_t>(i)], static_cast<T>(static_cast<float>(wanted)));
  }
}
template <class T>
void fill_small(Trial& t, int count) {
  std::vector<T> mine;
  for (int i = 0; i < count; ++i) mine.push_back(small<T>(t.me, i));
  t.write(t.source, mine.data(), mine.size() * sizeof(T));
  t.meet();
}
template <class T>
void try_reduce(Trial& t, Collective<T> call, Combine combine) {
  for (const int count : {3, 64, 117}) {
    fill_small<T>(t, count);
    call_together(t, call, static_cast<size_t>(count));
    expect_reduced<T>(t, count, 0, combine);
    t.meet();
  }
}
template <class T>
void try_reducescatter(Trial& t, Collective<T> call, Combine combine) {
  fill_small<T>(t, 5 * t.pes);
  call_together(t, call, 5);
  expect_reduced<T>(t, 5, 5 * t.me, combine);
  t.meet();
}
#define TRY_reducing(NAME, T, WHO, TRY, COMBINE)                         \
  TRIAL(NAME) {                                                          \
    TRY<T>(                                                              \
        t,                                                               \
        [](Trial& t, T* dest, const T* source, size_t n) {               \
          (void)t;                                                       \
          return NAME(NVSHMEM_TEAM_WORLD, dest, source, n BEHIND_##WHO); \
        },                                                               \
        [](int a, int b) { return COMBINE; });                           \
  }
#define TRY_reduce(NAME, T, WHO, COMBINE) TRY_reducing(NAME, T, WHO, try_reduce, COMBINE)
#define TRY_reducescatter(NAME, T, WHO, COMBINE) \
  TRY_reducing(NAME, T, WHO, try_reducescatter, COMBINE)
