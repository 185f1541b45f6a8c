// What one-sided calls cost between PEs, in any implementation of OpenSHMEM: it uses shmem.h alone.
// Prints a line for each figure, "NAME VALUE UNIT", from PE 0. bench/shmem_against.py builds it
// twice and compares.
#define _POSIX_C_SOURCE 200809L
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kLargest = 64 << 20 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int me, pes;

static void tell(const char* name, double value, const char* unit) {
  if (me == 0) printf("%s %.4f %s\n", name, value, unit);
}

// Microseconds that one call takes, seen by PE 0 while the others wait in a barrier.
#define TIME_CALLS(name, count, call)                  \
  do {                                                 \
    shmem_barrier_all();                               \
    if (me == 0) {                                     \
      const double begin = now();                      \
      for (long i = 0; i < (count); ++i) {             \
        call;                                          \
      }                                                \
      shmem_quiet();                                   \
      tell(name, (now() - begin) / (count)*1e6, "us"); \
    }                                                  \
    shmem_barrier_all();                               \
  } while (0)

static long flag;  // symmetric, as all global variables

// Half of what PE 0 and PE 1 need to hand a word to and fro.
static void ping_pong(long count) {
  flag = 0;
  shmem_barrier_all();
  const double begin = now();
  for (long i = 1; i <= count && me < 2; ++i) {
    if (me == 0) {
      shmem_long_p(&flag, i, 1);
      shmem_long_wait_until(&flag, SHMEM_CMP_EQ, i);
    } else {
      shmem_long_wait_until(&flag, SHMEM_CMP_EQ, i);
      shmem_long_p(&flag, i, 0);
    }
  }
  tell("word.one_way", (now() - begin) / count / 2 * 1e6, "us");
  shmem_barrier_all();
}

static void large(char* there, char* here, size_t bytes, const char* size) {
  char name[64];
  const int rounds = bytes >= (8u << 20) ? 10 : (int)((80u << 20) / bytes);
  shmem_barrier_all();
  if (me == 0) {
    shmem_putmem(there, here, bytes, 1);
    double begin = now();
    for (int i = 0; i < rounds; ++i) shmem_putmem(there, here, bytes, 1);
    shmem_quiet();
    snprintf(name, sizeof name, "put.%s", size);
    tell(name, (double)bytes * rounds / (now() - begin) * 1e-9, "GB/s");
    shmem_getmem(here, there, bytes, 1);
    begin = now();
    for (int i = 0; i < rounds; ++i) shmem_getmem(here, there, bytes, 1);
    snprintf(name, sizeof name, "get.%s", size);
    tell(name, (double)bytes * rounds / (now() - begin) * 1e-9, "GB/s");
    void* const copy = shmem_ptr(there, 1);
    if (copy != NULL) {
      begin = now();
      for (int i = 0; i < rounds; ++i) memcpy(copy, here, bytes);
      snprintf(name, sizeof name, "memcpy.%s", size);
      tell(name, (double)bytes * rounds / (now() - begin) * 1e-9, "GB/s");
    }
  }
  shmem_barrier_all();
}

static void barriers(long count) {
  for (int i = 0; i < 100; ++i) shmem_barrier_all();
  double begin = now();
  for (long i = 0; i < count; ++i) shmem_barrier_all();
  tell("barrier", (now() - begin) / count * 1e6, "us");
  begin = now();
  for (long i = 0; i < count; ++i) shmem_sync_all();
  tell("sync", (now() - begin) / count * 1e6, "us");
}

static long psync_of_reduce[SHMEM_REDUCE_SYNC_SIZE], psync_of_broadcast[SHMEM_BCAST_SYNC_SIZE];
static long psync_of_collect[SHMEM_COLLECT_SYNC_SIZE], psync_of_alltoall[SHMEM_ALLTOALL_SYNC_SIZE];

// The calls that all versions have: over active sets.
static void collectives(long* dest, long* source, size_t words, long count, const char* size) {
  static long work[(1 << 20) / 2 + SHMEM_REDUCE_MIN_WRKDATA_SIZE + 1];
  char name[64];
  const double each = 1e6 / (double)count;
#define TIME_TOGETHER(what, call)                  \
  do {                                             \
    shmem_barrier_all();                           \
    const double begin = now();                    \
    for (long i = 0; i < count; ++i) {             \
      call;                                        \
      shmem_barrier_all();                         \
    }                                              \
    snprintf(name, sizeof name, what ".%s", size); \
    tell(name, (now() - begin) * each, "us");      \
  } while (0)
  TIME_TOGETHER("reduce",
                shmem_long_sum_to_all(dest, source, (int)words, 0, 0, pes, work, psync_of_reduce));
  TIME_TOGETHER("broadcast",
                shmem_broadcast64(dest, source, words, 0, 0, 0, pes, psync_of_broadcast));
  TIME_TOGETHER("fcollect", shmem_fcollect64(dest, source, words, 0, 0, pes, psync_of_collect));
  TIME_TOGETHER("alltoall", shmem_alltoall64(dest, source, words, 0, 0, pes, psync_of_alltoall));
}

int main(void) {
  shmem_init();
  me = shmem_my_pe();
  pes = shmem_n_pes();
  if (pes < 2) {
    fprintf(stderr, "shmem_bench: takes two PEs or more\n");
    shmem_finalize();
    return 2;
  }
  char* const there = shmem_malloc(kLargest);
  char* const here = shmem_malloc(kLargest);
  if (there == NULL || here == NULL) {
    fprintf(stderr, "shmem_bench: wants 128 MiB of symmetric heap\n");
    shmem_global_exit(1);
  }
  memset(here, me + 1, kLargest);
  memset(there, 0, kLargest);
  for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; ++i) psync_of_reduce[i] = SHMEM_SYNC_VALUE;
  for (int i = 0; i < SHMEM_BCAST_SYNC_SIZE; ++i) psync_of_broadcast[i] = SHMEM_SYNC_VALUE;
  for (int i = 0; i < SHMEM_COLLECT_SYNC_SIZE; ++i) psync_of_collect[i] = SHMEM_SYNC_VALUE;
  for (int i = 0; i < SHMEM_ALLTOALL_SYNC_SIZE; ++i) psync_of_alltoall[i] = SHMEM_SYNC_VALUE;
  shmem_barrier_all();

  long* const word = (long*)(void*)there;
  volatile long seen = 0;
  TIME_CALLS("p.8", 1000000, shmem_long_p(word, i, 1));
  TIME_CALLS("put.8", 1000000, shmem_putmem(there, here, 8, 1));
  TIME_CALLS("get.8", 1000000, shmem_getmem(here, there, 8, 1));
  TIME_CALLS("g.8", 1000000, seen = shmem_long_g(word, 1));
  TIME_CALLS("put.4k", 200000, shmem_putmem(there, here, 4096, 1));
  TIME_CALLS("fetch_add", 1000000, seen = shmem_long_atomic_fetch_add(word, 1, 1));
  TIME_CALLS("add", 1000000, shmem_long_atomic_add(word, 1, 1));
  TIME_CALLS("compare_swap", 1000000, seen = shmem_long_atomic_compare_swap(word, 0, i, 1));
  (void)seen;
  ping_pong(pes > 2 ? 2000 : 200000);
  barriers(pes > 2 ? 2000 : 100000);
  large(there, here, 64 << 10, "64k");
  large(there, here, 1 << 20, "1m");
  large(there, here, kLargest, "64m");
  collectives((long*)(void*)there, (long*)(void*)here, 1, pes > 2 ? 1000 : 20000, "8");
  collectives((long*)(void*)there, (long*)(void*)here, 1 << 5, pes > 2 ? 1000 : 20000, "256");
  collectives((long*)(void*)there, (long*)(void*)here, 1 << 9, pes > 2 ? 1000 : 10000, "4k");
  collectives((long*)(void*)there, (long*)(void*)here, 1 << 17, 50, "1m");
  shmem_finalize();
  return 0;
}
