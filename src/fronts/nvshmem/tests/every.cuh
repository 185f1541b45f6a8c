// What the programs made by programs.py are of: a kernel for each function, which prepares its
// memory, calls the function and looks at what became of it. Kernels are of one block of 64
// threads, and run on all PEs at the same time.
#pragma once

// What one form of a macro needs another one does not.
#pragma nv_diag_suppress 550

#include "every_values.h"

#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdint.h>

struct Memory {
  char* dest;        // symmetric, 4 KiB, zeros
  char* source;      // the same
  uint64_t* signal;  // symmetric, 0
  int* wrong;        // what was not as expected; in GPU memory
  int me;
  int pes;
  int right;
  int left;
};

enum Who { thread, warp, block };

__device__ inline bool calls(Who who) {
  return who == block || (who == warp ? threadIdx.x < 32 : threadIdx.x == 0);
}

static __device__ __noinline__ void meet_all() {
  nvshmemx_barrier_all_block();
}
static __device__ __noinline__ void wrong(const Memory& memory) {
  atomicAdd(memory.wrong, 1);
}

template <class T>
struct Try {
  Memory memory;
  T* dest;
  T* source;

  __device__ explicit Try(const Memory& given)
      : memory(given),
        dest(reinterpret_cast<T*>(given.dest)),
        source(reinterpret_cast<T*>(given.source)) {}

  // This PE's elements from `at` on.
  __device__ void fill(T* at, int count) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < count; ++i) at[i] = value_of<T>(memory.me, i);
    }
    meet_all();
  }
  __device__ void finish() {
    nvshmem_quiet();
    meet_all();
  }
  // The elements that this PE's were made of, from `first` on.
  __device__ void expect(const T* at, int pe, int count, int first = 0) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < count; ++i) {
        if (!equal(at[i], value_of<T>(pe, first + i))) wrong(memory);
      }
    }
    meet_all();
  }
  __device__ void expect_one(T found, T wanted) {
    if (!equal(found, wanted)) wrong(memory);
  }
  __device__ void expect_here(T wanted) {
    if (threadIdx.x == 0) expect_one(dest[0], wanted);
    meet_all();
  }
};

#define TRY(NAME, T) __global__ void try_##NAME(Memory memory)
#define CALLED(WHO) if (calls(WHO))

#define TRY_put(NAME, T, WHO)                                    \
  TRY(NAME, T) {                                                 \
    Try<T> t(memory);                                            \
    t.fill(t.source, kElements);                                 \
    CALLED(WHO) NAME(t.dest, t.source, kElements, memory.right); \
    t.finish();                                                  \
    t.expect(t.dest, memory.left, kElements);                    \
  }
#define TRY_put_nbi TRY_put
#define TRY_get(NAME, T, WHO)                                    \
  TRY(NAME, T) {                                                 \
    Try<T> t(memory);                                            \
    t.fill(t.source, kElements);                                 \
    CALLED(WHO) NAME(t.dest, t.source, kElements, memory.right); \
    t.finish();                                                  \
    t.expect(t.dest, memory.right, kElements);                   \
  }
#define TRY_get_nbi TRY_get
#define TRY_iput(NAME, T, WHO)                                 \
  TRY(NAME, T) {                                               \
    Try<T> t(memory);                                          \
    t.fill(t.source, 2);                                       \
    CALLED(WHO) NAME(t.dest, t.source, 3, 1, 2, memory.right); \
    t.finish();                                                \
    t.expect(t.dest, memory.left, 1);                          \
    t.expect(t.dest + 3, memory.left, 1, 1);                   \
  }
#define TRY_iget(NAME, T, WHO)                                 \
  TRY(NAME, T) {                                               \
    Try<T> t(memory);                                          \
    t.fill(t.source, 4);                                       \
    CALLED(WHO) NAME(t.dest, t.source, 1, 3, 2, memory.right); \
    t.finish();                                                \
    t.expect(t.dest, memory.right, 1);                         \
    t.expect(t.dest + 1, memory.right, 1, 3);                  \
  }
#define TRY_p(NAME, T, WHO)                                            \
  TRY(NAME, T) {                                                       \
    Try<T> t(memory);                                                  \
    CALLED(WHO) NAME(t.dest, value_of<T>(memory.me, 0), memory.right); \
    t.finish();                                                        \
    t.expect(t.dest, memory.left, 1);                                  \
  }
#define TRY_g(NAME, T, WHO)                                                               \
  TRY(NAME, T) {                                                                          \
    Try<T> t(memory);                                                                     \
    t.fill(t.source, 1);                                                                  \
    CALLED(WHO) t.expect_one(NAME(t.source, memory.right), value_of<T>(memory.right, 0)); \
    t.finish();                                                                           \
  }
#define TRY_put_signal(NAME, T, WHO)                                                            \
  TRY(NAME, T) {                                                                                \
    Try<T> t(memory);                                                                           \
    t.fill(t.source, kElements);                                                                \
    CALLED(WHO)                                                                                 \
    NAME(t.dest, t.source, kElements, memory.signal, 3, NVSHMEM_SIGNAL_ADD, memory.right);      \
    if (threadIdx.x == 0 && nvshmem_signal_wait_until(memory.signal, NVSHMEM_CMP_EQ, 3) != 3)   \
      wrong(memory);                                                                            \
    __syncthreads();                                                                            \
    if (threadIdx.x == 0) {                                                                     \
      for (int i = 0; i < kElements; ++i) t.expect_one(t.dest[i], value_of<T>(memory.left, i)); \
    }                                                                                           \
    t.finish();                                                                                 \
  }

// ---- atomic operations: on the right one's word, which holds 5 ----

#define TRY_atomic(NAME, T, WHO, CALL, AFTER) \
  TRY(NAME, T) {                              \
    Try<T> t(memory);                         \
    const T before = static_cast<T>(5);       \
    const T operand = static_cast<T>(3);      \
    if (threadIdx.x == 0) t.dest[0] = before; \
    meet_all();                               \
    CALLED(WHO) {                             \
      CALL;                                   \
    }                                         \
    t.finish();                               \
    t.expect_here(static_cast<T>(AFTER));     \
    (void)operand;                            \
  }
#define SEEN(CALL) t.expect_one(CALL, before)
#define TRY_atomic_fetch(NAME, T, WHO) TRY_atomic(NAME, T, WHO, SEEN(NAME(t.dest, memory.right)), 5)
#define TRY_atomic_set(NAME, T, WHO) \
  TRY_atomic(NAME, T, WHO, NAME(t.dest, operand, memory.right), 3)
#define TRY_atomic_swap(NAME, T, WHO) \
  TRY_atomic(NAME, T, WHO, SEEN(NAME(t.dest, operand, memory.right)), 3)
#define TRY_atomic_compare_swap(NAME, T, WHO) \
  TRY_atomic(NAME, T, WHO, SEEN(NAME(t.dest, before, operand, memory.right)), 3)
#define TRY_atomic_fetch_inc(NAME, T, WHO) \
  TRY_atomic(NAME, T, WHO, SEEN(NAME(t.dest, memory.right)), 6)
#define TRY_atomic_inc(NAME, T, WHO) TRY_atomic(NAME, T, WHO, NAME(t.dest, memory.right), 6)
#define TRY_atomic_fetch_add(NAME, T, WHO) \
  TRY_atomic(NAME, T, WHO, SEEN(NAME(t.dest, operand, memory.right)), 8)
#define TRY_atomic_add(NAME, T, WHO) \
  TRY_atomic(NAME, T, WHO, NAME(t.dest, operand, memory.right), 8)
#define TRY_atomic_fetch_and(NAME, T, WHO) \
  TRY_atomic(NAME, T, WHO, SEEN(NAME(t.dest, operand, memory.right)), 1)
#define TRY_atomic_and(NAME, T, WHO) \
  TRY_atomic(NAME, T, WHO, NAME(t.dest, operand, memory.right), 1)
#define TRY_atomic_fetch_or(NAME, T, WHO) \
  TRY_atomic(NAME, T, WHO, SEEN(NAME(t.dest, operand, memory.right)), 7)
#define TRY_atomic_or(NAME, T, WHO) TRY_atomic(NAME, T, WHO, NAME(t.dest, operand, memory.right), 7)
#define TRY_atomic_fetch_xor(NAME, T, WHO) \
  TRY_atomic(NAME, T, WHO, SEEN(NAME(t.dest, operand, memory.right)), 6)
#define TRY_atomic_xor(NAME, T, WHO) \
  TRY_atomic(NAME, T, WHO, NAME(t.dest, operand, memory.right), 6)

// ---- waits: for words 0 and 2 of three, of which the second does not count ----

template <class T>
__device__ void send_two(Try<T>& t) {
  const T values[3] = {static_cast<T>(7), static_cast<T>(0), static_cast<T>(9)};
  T* const there = static_cast<T*>(nvshmem_ptr(t.dest, t.memory.right));
  for (int i = 0; i < 3; i += 2) {
    if (there == nullptr) {  // on another node
      nvshmem_putmem(t.dest + i, &values[i], sizeof(T), t.memory.right);
    } else {
      *reinterpret_cast<volatile T*>(there + i) = values[i];
    }
  }
}

#define TRY_wait(NAME, T, CALL)                                              \
  TRY(NAME, T) {                                                             \
    Try<T> t(memory);                                                        \
    const int status[3] = {0, 1, 0};                                         \
    T values[3] = {static_cast<T>(7), static_cast<T>(0), static_cast<T>(9)}; \
    size_t indices[3] = {9, 9, 9};                                           \
    size_t found = 0;                                                        \
    if (threadIdx.x == 0) {                                                  \
      send_two(t);                                                           \
      CALL;                                                                  \
    }                                                                        \
    meet_all();                                                              \
    (void)status, (void)values, (void)indices, (void)found;                  \
  }
#define SOME(CALL) \
  found = CALL;    \
  if (found == 0 || found > 2 || (indices[0] != 0 && indices[0] != 2)) wrong(memory)
#define ANY(CALL) \
  found = CALL;   \
  if (found != 0 && found != 2) wrong(memory)
#define UNTIL(CONDITION) \
  while (!(CONDITION)) { \
  }
#define TRY_wait_until(NAME, T, WHO) TRY_wait(NAME, T, NAME(t.dest, NVSHMEM_CMP_EQ, values[0]))
#define TRY_wait_until_all(NAME, T, WHO) \
  TRY_wait(NAME, T, NAME(t.dest, 3, status, NVSHMEM_CMP_GE, values[0]))
#define TRY_wait_until_any(NAME, T, WHO) \
  TRY_wait(NAME, T, ANY(NAME(t.dest, 3, status, NVSHMEM_CMP_GT, values[1])))
#define TRY_wait_until_some(NAME, T, WHO) \
  TRY_wait(NAME, T, SOME(NAME(t.dest, 3, indices, status, NVSHMEM_CMP_NE, values[1])))
#define TRY_wait_until_all_vector(NAME, T, WHO) \
  TRY_wait(NAME, T, NAME(t.dest, 3, status, NVSHMEM_CMP_EQ, values))
#define TRY_wait_until_any_vector(NAME, T, WHO) \
  TRY_wait(NAME, T, ANY(NAME(t.dest, 3, status, NVSHMEM_CMP_EQ, values)))
#define TRY_wait_until_some_vector(NAME, T, WHO) \
  TRY_wait(NAME, T, SOME(NAME(t.dest, 3, indices, status, NVSHMEM_CMP_EQ, values)))
#define TRY_test(NAME, T, WHO) TRY_wait(NAME, T, UNTIL(NAME(t.dest, NVSHMEM_CMP_EQ, values[0])))
#define TRY_test_all(NAME, T, WHO) \
  TRY_wait(NAME, T, UNTIL(NAME(t.dest, 3, status, NVSHMEM_CMP_GE, values[0])))
#define TRY_test_any(NAME, T, WHO) \
  TRY_wait(NAME, T, UNTIL((found = NAME(t.dest, 3, status, NVSHMEM_CMP_GT, values[1])) != SIZE_MAX))
#define TRY_test_some(NAME, T, WHO) \
  TRY_wait(NAME, T,                 \
           UNTIL((found = NAME(t.dest, 3, indices, status, NVSHMEM_CMP_NE, values[1])) == 2))
#define TRY_test_all_vector(NAME, T, WHO) \
  TRY_wait(NAME, T, UNTIL(NAME(t.dest, 3, status, NVSHMEM_CMP_EQ, values)))
#define TRY_test_any_vector(NAME, T, WHO) \
  TRY_wait(NAME, T, UNTIL((found = NAME(t.dest, 3, status, NVSHMEM_CMP_EQ, values)) != SIZE_MAX))
#define TRY_test_some_vector(NAME, T, WHO) \
  TRY_wait(NAME, T, UNTIL((found = NAME(t.dest, 3, indices, status, NVSHMEM_CMP_EQ, values)) == 2))

// ---- collective operations ----

#define TRY_broadcast(NAME, T, WHO)                                                                \
  TRY(NAME, T) {                                                                                   \
    Try<T> t(memory);                                                                              \
    t.fill(t.source, kElements);                                                                   \
    CALLED(WHO)                                                                                    \
    if (NAME(NVSHMEM_TEAM_WORLD, t.dest, t.source, kElements, memory.pes - 1) != 0) wrong(memory); \
    __syncthreads();                                                                               \
    t.expect(t.dest, memory.pes - 1, kElements);                                                   \
  }
#define TRY_fcollect(NAME, T, WHO)                                                     \
  TRY(NAME, T) {                                                                       \
    Try<T> t(memory);                                                                  \
    t.fill(t.source, 3);                                                               \
    CALLED(WHO) if (NAME(NVSHMEM_TEAM_WORLD, t.dest, t.source, 3) != 0) wrong(memory); \
    __syncthreads();                                                                   \
    for (int i = 0; i < memory.pes; ++i) t.expect(t.dest + 3 * i, i, 3);               \
  }
#define TRY_alltoall(NAME, T, WHO)                                                      \
  TRY(NAME, T) {                                                                        \
    Try<T> t(memory);                                                                   \
    t.fill(t.source, 2 * memory.pes);                                                   \
    CALLED(WHO) if (NAME(NVSHMEM_TEAM_WORLD, t.dest, t.source, 2) != 0) wrong(memory);  \
    __syncthreads();                                                                    \
    for (int i = 0; i < memory.pes; ++i) t.expect(t.dest + 2 * i, i, 2, 2 * memory.me); \
  }

// As many elements as it takes that each way of reducing is tried: through scratch words, held by
// threads, shared out.
template <class T, class Combine>
__device__ void expect_reduced(Try<T>& t, int count, int first, Combine combine) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < count; ++i) {
      int wanted = static_cast<int>(static_cast<float>(small<T>(0, first + i)));
      for (int pe = 1; pe < t.memory.pes; ++pe) {
        wanted = combine(wanted, static_cast<int>(static_cast<float>(small<T>(pe, first + i))));
      }
      t.expect_one(t.dest[i], static_cast<T>(static_cast<float>(wanted)));
    }
  }
  meet_all();
}
#define TRY_reduce(NAME, T, WHO, COMBINE)                                                    \
  TRY(NAME, T) {                                                                             \
    Try<T> t(memory);                                                                        \
    const int counts[] = {3, 64, 117};                                                       \
    for (int count : counts) {                                                               \
      if (threadIdx.x == 0) {                                                                \
        for (int i = 0; i < count; ++i) t.source[i] = small<T>(memory.me, i);                \
      }                                                                                      \
      meet_all();                                                                            \
      CALLED(WHO) if (NAME(NVSHMEM_TEAM_WORLD, t.dest, t.source, count) != 0) wrong(memory); \
      __syncthreads();                                                                       \
      expect_reduced(t, count, 0, [](int a, int b) { return COMBINE; });                     \
    }                                                                                        \
  }
#define TRY_maxloc(NAME, T)                                                                       \
  TRY(NAME, T) {                                                                                  \
    Try<T> t(memory);                                                                             \
    for (int count : {1, 9}) {                                                                    \
      if (threadIdx.x == 0) {                                                                     \
        for (int i = 0; i < count; ++i) {                                                         \
          t.source[i] = {static_cast<double>((memory.me + i) % memory.pes), memory.me + i * 0.5}; \
        }                                                                                         \
      }                                                                                           \
      meet_all();                                                                                 \
      if (NAME(NVSHMEM_TEAM_WORLD, t.dest, t.source, count) != 0) wrong(memory);                  \
      __syncthreads();                                                                            \
      for (int i = 0; i < count; ++i) {                                                           \
        const int winner = (2 * memory.pes - 1 - i % memory.pes) % memory.pes;                    \
        if (t.dest[i].x != memory.pes - 1 || t.dest[i].y != winner + i * 0.5) wrong(memory);      \
      }                                                                                           \
      meet_all();                                                                                 \
    }                                                                                             \
  }
#define TRY_reducescatter(NAME, T, WHO, COMBINE)                                       \
  TRY(NAME, T) {                                                                       \
    Try<T> t(memory);                                                                  \
    if (threadIdx.x == 0) {                                                            \
      for (int i = 0; i < 5 * memory.pes; ++i) t.source[i] = small<T>(memory.me, i);   \
    }                                                                                  \
    meet_all();                                                                        \
    CALLED(WHO) if (NAME(NVSHMEM_TEAM_WORLD, t.dest, t.source, 5) != 0) wrong(memory); \
    __syncthreads();                                                                   \
    expect_reduced(t, 5, 5 * memory.me, [](int a, int b) { return COMBINE; });         \
  }
