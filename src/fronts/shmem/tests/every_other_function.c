/* Calls every function that has no type in its name, and looks at what became of it. Beside the
 * programs that programs.py makes: together they call everything that shmem.h declares, which
 * tests/check_exports.py sees to. */
#include <pthread.h>
#include <sched.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) {                                                          \
      fprintf(stderr, "PE %d: line %d: not so: %s\n", me, __LINE__, #condition); \
      ++failures;                                                                \
    }                                                                            \
  } while (0)

static int me, pes, right, left, failures;

/* Symmetric: of the program, with a value and without. */
static long with_value = 7;
static long without_value[4];
static long sync_words[2][SHMEM_SYNC_SIZE];
int not_static = 3;

static void about_the_library(void) {
  int major = 0, minor = 0, level = -1, initialized = 0;
  char name[SHMEM_MAX_NAME_LEN];
  shmem_info_get_version(&major, &minor);
  CHECK(major == SHMEM_MAJOR_VERSION && minor == SHMEM_MINOR_VERSION);
  shmem_info_get_name(name);
  CHECK(strcmp(name, SHMEM_VENDOR_STRING) == 0);
  CHECK(shmem_query_interoperability(SHMEM_PROGRESS_MPI) == 0);
  shmem_query_thread(&level);
  CHECK(level == SHMEM_THREAD_MULTIPLE);
  shmem_query_initialized(&initialized);
  CHECK(initialized == 1);
  CHECK(_my_pe() == me && _num_pes() == pes);
  shmem_pcontrol(1);
  shmem_set_cache_inv();
  shmem_set_cache_line_inv(&with_value);
  shmem_clear_cache_inv();
  shmem_clear_cache_line_inv(&with_value);
  shmem_udcflush();
  shmem_udcflush_line(&with_value);
}

static void addresses(void) {
  int local = 0;
  void* const malloced = malloc(8);
  CHECK(shmem_pe_accessible(right) == 1);
  CHECK(shmem_pe_accessible(pes) == 0);
  CHECK(shmem_pe_accessible(-1) == 0);
  CHECK(shmem_addr_accessible(&with_value, right) == 1);
  CHECK(shmem_addr_accessible(&not_static, right) == 1);
  CHECK(shmem_addr_accessible(&local, right) == 0);
  CHECK(shmem_addr_accessible(malloced, right) == 0);
  CHECK(shmem_addr_accessible(&with_value, pes) == 0);
  CHECK(shmem_ptr(&local, right) == NULL);
  CHECK(shmem_ptr(&with_value, pes) == NULL);
  free(malloced);

  // Loads and stores reach PEs of the same node, and the calls all.
  const int is_near = shmem_team_translate_pe(SHMEM_TEAM_WORLD, right, SHMEM_TEAM_SHARED) >= 0;
  long* const there = shmem_ptr(&with_value, right);
  CHECK(is_near ? there != NULL && *there == 7 : there == NULL);
  CHECK(shmem_team_ptr(SHMEM_TEAM_WORLD, &with_value, right) == there);
  CHECK(shmem_team_ptr(SHMEM_TEAM_INVALID, &with_value, 0) == NULL);
  CHECK(shmem_team_ptr(SHMEM_TEAM_WORLD, &with_value, pes) == NULL);
  shmem_barrier_all();
  if (is_near) {
    *there = 100 + me;
  } else {
    shmem_long_p(&with_value, 100 + me, right);
  }
  shmem_barrier_all();
  CHECK(with_value == 100 + left);
  CHECK(shmem_ptr(&with_value, me) == &with_value);
  CHECK(shmem_team_ptr(SHMEM_TEAM_WORLD, &with_value, me) == &with_value);
}

static void heap(void) {
  CHECK(shmem_malloc(0) == NULL && shmem_calloc(0, 8) == NULL && shmem_calloc(8, 0) == NULL);
  CHECK(shmem_calloc((size_t)-1, 2) == NULL);
  CHECK(shmem_align(3, 8) == NULL);
  shmem_free(NULL);

  int* const words = shmem_malloc(1000 * sizeof(int));
  CHECK(words != NULL && shmem_addr_accessible(words + 999, right));
  CHECK(shmem_ptr(words, me) == words);
  for (int i = 0; i < 1000; ++i) words[i] = me + i;
  int* const more = shmem_realloc(words, 100000 * sizeof(int));
  CHECK(more != NULL && more[999] == me + 999);
  shmem_int_p(more + 99999, me, right);
  shmem_barrier_all();
  CHECK(more[99999] == left);
  CHECK(shmem_realloc(more, 0) == NULL);
  CHECK((words == NULL) == 0);

  char* const zeros = shmem_calloc(3000, 3);
  int sum = 0;
  for (int i = 0; i < 9000; ++i) sum += zeros[i];
  CHECK(sum == 0);
  shmem_free(zeros);

  /* Also such that the heaps themselves have to begin there, on each PE. */
  for (size_t alignment = 1; alignment <= (size_t)8 << 20; alignment *= 2) {
    void* const aligned = shmem_align(alignment, 100);
    CHECK(aligned != NULL && (uintptr_t)aligned % alignment == 0);
    shmem_free(aligned);
  }
  CHECK(shmem_align(0, 8) == NULL && shmem_align((size_t)1 << 40, 8) == NULL);
  void* const hinted =
      shmem_malloc_with_hints(64, SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE);
  CHECK(hinted != NULL);
  shmem_free(hinted);

  void* old = shmalloc(16);
  CHECK(old != NULL);
  old = shrealloc(old, 32);
  CHECK(old != NULL);
  shfree(old);
  old = shmemalign(64, 16);
  CHECK(old != NULL && (uintptr_t)old % 64 == 0);
  shfree(old);
}

static void a_team(void) {
  shmem_team_t even = SHMEM_TEAM_INVALID;
  shmem_team_config_t config = {2};
  const int size = (pes + 1) / 2;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, size, &config, SHMEM_TEAM_NUM_CONTEXTS,
                                 &even) == 0);
  CHECK((even != SHMEM_TEAM_INVALID) == (me % 2 == 0));
  CHECK(shmem_team_my_pe(even) == (me % 2 == 0 ? me / 2 : -1));
  CHECK(shmem_team_n_pes(even) == (me % 2 == 0 ? size : -1));
  if (even != SHMEM_TEAM_INVALID) {
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_team_config_t seen = {0};
    CHECK(shmem_team_get_config(even, SHMEM_TEAM_NUM_CONTEXTS, &seen) == 0 &&
          seen.num_contexts == 2);
    CHECK(shmem_team_translate_pe(even, size - 1, SHMEM_TEAM_WORLD) == 2 * (size - 1));
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 1 % pes, even) == (pes == 1 ? 0 : -1));
    CHECK(shmem_team_create_ctx(even, SHMEM_CTX_SERIALIZED, &ctx) == 0);
    CHECK(shmem_ctx_get_team(ctx, &team) == 0 && team == even);

    /* PEs of a context are numbered as in its team. */
    shmem_ctx_session_config_t hints = {100};
    shmem_ctx_session_start(ctx, SHMEM_CTX_SESSION_BATCH | SHMEM_CTX_SESSION_SAME_AMO, &hints,
                            SHMEM_CTX_SESSION_TOTAL_OPS);
    without_value[0] = 0;
    CHECK(shmem_team_sync(even) == 0);
    shmem_ctx_long_p(ctx, &without_value[0], 1000 + me, (me / 2 + 1) % size);
    shmem_ctx_session_stop(ctx);
    shmem_ctx_fence(ctx);
    shmem_ctx_quiet(ctx);
    shmem_ctx_pe_quiet(ctx, 0);
    CHECK(shmem_team_sync(even) == 0);
    CHECK(without_value[0] == 1000 + (me / 2 + size - 1) % size * 2);

    long* const gathered = (long*)shmem_team_ptr(even, without_value, me / 2);
    CHECK(gathered != NULL && gathered[0] == without_value[0]);
    shmem_ctx_destroy(ctx);
    CHECK(shmem_team_create_ctx(even, SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE, &ctx) == 0);
    shmem_team_destroy(even);
  }
  shmem_barrier_all();
}

static void teams(void) {
  shmem_team_t x = SHMEM_TEAM_INVALID, y = SHMEM_TEAM_INVALID, none = SHMEM_TEAM_WORLD;
  shmem_ctx_t ctx = SHMEM_CTX_INVALID;
  CHECK(shmem_team_my_pe(SHMEM_TEAM_WORLD) == me && shmem_team_n_pes(SHMEM_TEAM_WORLD) == pes);
  CHECK(shmem_team_n_pes(SHMEM_TEAM_SHARED) >= 1);
  CHECK(shmem_team_sync(SHMEM_TEAM_SHARED) == 0 && shmem_team_sync(SHMEM_TEAM_INVALID) != 0);
  CHECK(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &none) != 0 &&
        none == SHMEM_TEAM_INVALID);
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes + 1, NULL, 0, &none) != 0);
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 0, 1, NULL, 0, &none) == 0);
  CHECK((none != SHMEM_TEAM_INVALID) == (me == 0));
  shmem_team_destroy(none);
  shmem_team_destroy(SHMEM_TEAM_INVALID);

  CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &x, NULL, 0, &y) == 0);
  CHECK(shmem_team_my_pe(x) == me % 2 && shmem_team_my_pe(y) == me / 2);
  CHECK(shmem_team_n_pes(x) == (me / 2 * 2 + 2 <= pes ? 2 : 1));
  CHECK(shmem_team_translate_pe(x, 0, SHMEM_TEAM_WORLD) == me / 2 * 2);
  shmem_team_destroy(x);
  shmem_team_destroy(y);

  /* In reverse, and of that every other one in reverse again. */
  shmem_team_t down = SHMEM_TEAM_INVALID, up = SHMEM_TEAM_INVALID;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, pes - 1, -1, pes, NULL, 0, &down) == 0);
  CHECK(shmem_team_my_pe(down) == pes - 1 - me);
  const int half = (pes + 1) / 2;
  CHECK(shmem_team_split_strided(down, (half - 1) * 2, -2, half, NULL, 0, &up) == 0);
  CHECK((up != SHMEM_TEAM_INVALID) == ((pes - 1 - me) % 2 == 0));
  static long numbers[64], number;
  number = me;
  CHECK(shmem_fcollect(down, numbers, &number, 1) == 0);
  for (int i = 0; i < pes; ++i) CHECK(numbers[i] == pes - 1 - i);
  if (up != SHMEM_TEAM_INVALID) {
    CHECK(shmem_sync(up) == 0);
    CHECK(shmem_team_translate_pe(up, 0, SHMEM_TEAM_WORLD) == pes - 1 - (half - 1) * 2);
    shmem_team_destroy(up);
  }
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, -1, 2, NULL, 0, &up) != 0);

  /* Each PE in one of its own, with a configuration that no mask names. */
  shmem_team_config_t config = {3}, seen = {0};
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, me, 1, 1, &config, 0, &none) == 0);
  CHECK(shmem_team_n_pes(none) == 1 && shmem_team_sync(none) == 0);
  CHECK(shmem_team_get_config(none, SHMEM_TEAM_NUM_CONTEXTS, &seen) == 0);
  CHECK(seen.num_contexts == 3);
  shmem_team_destroy(none);
  shmem_team_destroy(down);

  /* Numbers are used again. */
  for (int i = 0; i < 300; ++i) a_team();

  CHECK(shmem_ctx_create(0, &ctx) == 0);
  shmem_team_t of_ctx = SHMEM_TEAM_INVALID;
  CHECK(shmem_ctx_get_team(ctx, &of_ctx) == 0 && of_ctx == SHMEM_TEAM_WORLD);
  CHECK(shmem_ctx_get_team(SHMEM_CTX_DEFAULT, &of_ctx) == 0 && of_ctx == SHMEM_TEAM_WORLD);
  CHECK(shmem_ctx_get_team(SHMEM_CTX_INVALID, &of_ctx) != 0 && of_ctx == SHMEM_TEAM_INVALID);
  CHECK(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &ctx) != 0 && ctx == SHMEM_CTX_INVALID);
  shmem_ctx_destroy(ctx);
  shmem_ctx_quiet(SHMEM_CTX_INVALID);
  shmem_ctx_fence(SHMEM_CTX_INVALID);
}

static void signals(void) {
  static uint64_t signal, with_value_signal;
  shmem_ctx_t ctx;
  CHECK(shmem_ctx_create(0, &ctx) == 0);
  shmem_signal_set(&signal, 5, right);
  CHECK(shmem_signal_wait_until(&signal, SHMEM_CMP_EQ, 5) == 5);
  CHECK(shmem_signal_fetch(&signal) == 5);
  shmem_barrier_all();
  shmem_signal_add(&signal, 2, right);
  shmem_ctx_signal_set(ctx, &with_value_signal, 1, right);
  shmem_ctx_signal_add(ctx, &signal, 3, right);
  CHECK(shmem_signal_wait_until(&signal, SHMEM_CMP_GE, 10) == 10);
  shmem_barrier_all();
  shmem_signal_set(ctx, &signal, 1, right);
  shmem_signal_wait_until(&signal, SHMEM_CMP_LT, 10);
  CHECK(signal == 1);
  shmem_barrier_all();
  shmem_ctx_destroy(ctx);
}

static void order(void) {
  static long data, flag, changed, until;
  shmem_long_p(&data, 100 + me, right);
  shmem_fence();
  shmem_long_p(&flag, 1, right);
  shmem_long_wait_until(&flag, SHMEM_CMP_NE, 0);
  CHECK(data == 100 + left);
  shmem_quiet();
  shmem_pe_quiet(right);
  shmem_long_p(&changed, 4, right);
  shmem_wait(&changed, 0);
  CHECK(changed == 4);
  shmem_long_p(&until, 9, right);
  (shmem_wait_until)(&until, SHMEM_CMP_GT, 8);
  CHECK((shmem_swap)(&until, 3, me) == 9 && until == 3);
  shmem_sync_all();

  /* The PEs without the last one. */
  const int some = pes > 1 ? pes - 1 : 1;
  for (int i = 0; i < 100 && me < some; ++i) {
    shmem_barrier(0, 0, some, sync_words[0]);
    shmem_sync(0, 0, some, sync_words[0]);
  }
  shmem_barrier_all();
}

static void locks(void) {
  static long lock, count, other, other_count;
  for (int i = 0; i < 100; ++i) {
    shmem_set_lock(&lock);
    const long seen = shmem_long_g(&count, 0);
    shmem_long_p(&count, seen + 1, 0);
    shmem_clear_lock(&lock);
  }
  for (int i = 0; i < 100; ++i) {
    while (shmem_test_lock(&other) != 0) sched_yield();
    const long seen = shmem_long_g(&other_count, 0);
    shmem_long_p(&other_count, seen + 1, 0);
    shmem_clear_lock(&other);
  }
  shmem_barrier_all();
  if (me == 0) CHECK(count == 100L * pes && other_count == 100L * pes);
}

/* Threads of one PE, at the same time. */
static long counted;
static void* count_with_a_context(void* unused) {
  (void)unused;
  shmem_ctx_t ctx;
  CHECK(shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx) == 0);
  for (int i = 0; i < 1000; ++i) shmem_ctx_long_atomic_inc(ctx, &counted, right);
  shmem_ctx_quiet(ctx);
  shmem_ctx_destroy(ctx);
  return NULL;
}

static void threads(void) {
  pthread_t running[4];
  for (int i = 0; i < 4; ++i) pthread_create(&running[i], NULL, count_with_a_context, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(running[i], NULL);
  shmem_barrier_all();
  CHECK(counted == 4000);
}

int main(void) {
  int initialized = -1, provided = -1;
  shmem_query_initialized(&initialized);
  CHECK(initialized == 0);
  CHECK(shmem_init_thread(17, &provided) != 0);
  CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0 &&
        provided == SHMEM_THREAD_MULTIPLE);
  me = shmem_my_pe();
  pes = shmem_n_pes();
  right = (me + 1) % pes;
  left = (me + pes - 1) % pes;
  /* Begun three times, and ended so. */
  shmem_init();
  start_pes(0);
  about_the_library();
  addresses();
  heap();
  teams();
  signals();
  order();
  locks();
  threads();
  shmem_finalize();
  CHECK(shmem_my_pe() == me);
  shmem_finalize();
  shmem_finalize();
  shmem_query_initialized(&initialized);
  CHECK(initialized == 0);
  /* Once more than begun: nothing. */
  shmem_finalize();
  if (me == 0 && failures == 0) printf("all others with %d PEs\n", pes);
  return failures == 0 ? 0 : 1;
}
