/* What the programs made by programs.py have in common: values that tell from which PE they come,
 * and the three steps. */
#ifndef EVERY_H
#define EVERY_H

#include <sched.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BYTES 1024
#define DEST_AT 512 /* what collective operations write */
#define WORK_AT 768 /* pWrk */
#define SIGNAL_AT 768
#define PES_MAX 8 /* for more of them slots are too small */
#define FAILURES_TOLD 20

struct trial {
  const char* name;
  void (*prepare)(char* slot);
  void (*act)(char* slot);
  void (*check)(char* slot);
};

static int me, pes, right, left;
static shmem_ctx_t ctx;
static const char* running;
static int failures;
static char* slots;
static long* sync_words;

#define CHECK(condition)                \
  do {                                  \
    if (!(condition)) fail(#condition); \
  } while (0)

static void fail(const char* condition) {
  if (++failures <= FAILURES_TOLD)
    fprintf(stderr, "PE %d: %s: not so: %s\n", me, running, condition);
}

static inline uint64_t* signal_of(char* slot) {
  return (uint64_t*)(slot + SIGNAL_AT);
}
/* Of an active set; each trial has its own. */
static inline long* sync_words_of(char* slot) {
  return sync_words + (slot - slots) / SLOT_BYTES * SHMEM_SYNC_SIZE;
}
static inline void yield(void) {
  sched_yield();
}

#define VALUES(name, type)                         \
  static inline type value_##name(int pe, int i) { \
    return (type)(1 + pe % 4 * 8 + i % 8);         \
  }                                                \
  static inline type small_##name(int pe, int i) { \
    return (type)(1 + (pe + i) % 2);               \
  }                                                \
  static inline type zero_##name(void) {           \
    return (type)(0);                              \
  }                                                \
  static inline int equal_##name(type a, type b) { \
    return a == b;                                 \
  }

#define BLOCKS(bits)                                                  \
  typedef struct {                                                    \
    unsigned char bytes[bits / 8];                                    \
  } block##bits;                                                      \
  static inline block##bits value_block##bits(int pe, int i) {        \
    block##bits block;                                                \
    memset(&block, 1 + pe % 4 * 8 + i % 8, sizeof block);             \
    return block;                                                     \
  }                                                                   \
  static inline block##bits zero_block##bits(void) {                  \
    block##bits block;                                                \
    memset(&block, 0, sizeof block);                                  \
    return block;                                                     \
  }                                                                   \
  static inline int equal_block##bits(block##bits a, block##bits b) { \
    return memcmp(&a, &b, sizeof a) == 0;                             \
  }

VALUES(float, float)
VALUES(double, double)
VALUES(longdouble, long double)
VALUES(char, char)
VALUES(schar, signed char)
VALUES(short, short)
VALUES(int, int)
VALUES(long, long)
VALUES(longlong, long long)
VALUES(uchar, unsigned char)
VALUES(ushort, unsigned short)
VALUES(uint, unsigned int)
VALUES(ulong, unsigned long)
VALUES(ulonglong, unsigned long long)
VALUES(int8, int8_t)
VALUES(int16, int16_t)
VALUES(int32, int32_t)
VALUES(int64, int64_t)
VALUES(uint8, uint8_t)
VALUES(uint16, uint16_t)
VALUES(uint32, uint32_t)
VALUES(uint64, uint64_t)
VALUES(size, size_t)
VALUES(ptrdiff, ptrdiff_t)
VALUES(complexd, shmem_complexd_t)
VALUES(complexf, shmem_complexf_t)
BLOCKS(8)
BLOCKS(16)
BLOCKS(32)
BLOCKS(64)
BLOCKS(128)

static int try_all(const struct trial* trials, size_t count) {
  int provided = 0;
  if (getenv("EVERY_FUNCTION_THREADS") != NULL) {
    CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
  } else {
    shmem_init();
  }
  me = shmem_my_pe();
  pes = shmem_n_pes();
  right = (me + 1) % pes;
  left = (me + pes - 1) % pes;
  if (pes > PES_MAX) shmem_global_exit(2);
  slots = (char*)shmem_calloc(count, SLOT_BYTES);
  sync_words = (long*)shmem_malloc(count * SHMEM_SYNC_SIZE * sizeof(long));
  if (slots == NULL || sync_words == NULL || shmem_ctx_create(0, &ctx) != 0) shmem_global_exit(3);
  for (size_t i = 0; i < count * SHMEM_SYNC_SIZE; ++i) sync_words[i] = SHMEM_SYNC_VALUE;

  for (size_t i = 0; i < count; ++i) trials[i].prepare(slots + i * SLOT_BYTES);
  shmem_barrier_all();
  for (size_t i = 0; i < count; ++i) {
    running = trials[i].name;
    trials[i].act(slots + i * SLOT_BYTES);
  }
  shmem_ctx_quiet(ctx);
  shmem_barrier_all();
  for (size_t i = 0; i < count; ++i) {
    running = trials[i].name;
    trials[i].check(slots + i * SLOT_BYTES);
  }
  if (me == 0 && failures == 0) printf("%zu functions with %d PEs\n", count, pes);
  shmem_ctx_destroy(ctx);
  shmem_finalize();
  return failures == 0 ? 0 : 1;
}

#endif /* EVERY_H */
