/* One misuse, or one way to end, named by the argument. Run by programs_test.cc, which knows what
 * has to come of it. */
#include <shmem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static long word;
static long two[2];

static int is(const char* wanted, const char* name) {
  return strcmp(wanted, name) == 0;
}

static void before_or_after(const char* what) {
  if (is(what, "before_init")) shmem_my_pe();
  if (is(what, "put_before_init")) shmem_long_p(&word, 1, 0);
  if (is(what, "finalize_before_init")) shmem_finalize();
  shmem_init();
  if (is(what, "after_finalize")) {
    shmem_finalize();
    shmem_barrier_all();
  }
  if (is(what, "init_after_finalize")) {
    shmem_finalize();
    shmem_init();
  }
}

static void memory(const char* what, int pes) {
  long local = 0;
  char* const heap = shmem_malloc(64);
  if (is(what, "no_such_pe")) shmem_long_p(&word, 1, pes);
  if (is(what, "negative_pe")) shmem_long_g(&word, -1);
  if (is(what, "not_symmetric")) shmem_long_put(&local, &word, 1, 0);
  if (is(what, "null")) shmem_long_get(&local, NULL, 1, 0);
  if (is(what, "beyond_the_end")) shmem_putmem(heap, heap, (size_t)1 << 50, 0);
  if (is(what, "too_many")) shmem_long_put(&word, &local, (size_t)-1 / 4, 0);
  if (is(what, "not_aligned")) shmem_long_atomic_inc((long*)(heap + 4), 0);
  if (is(what, "stride")) shmem_long_iput(two, &local, -1, 1, 2, 0);
  if (is(what, "comparison")) shmem_long_wait_until(&word, 17, 0);
  if (is(what, "wait_for_local")) shmem_long_wait_until(&local, SHMEM_CMP_NE, 0);
  if (is(what, "signal_operation"))
    shmem_long_put_signal(&word, &local, 1, (uint64_t*)two, 1, 5, 0);
  if (is(what, "signal_address"))
    shmem_long_put_signal(&word, &local, 1, (uint64_t*)&local, 1, SHMEM_SIGNAL_SET, 0);
  if (is(what, "free_of_local")) shmem_free(&local);
  if (is(what, "free_twice")) {
    shmem_free(heap);
    shmem_free(heap);
  }
  if (is(what, "lock")) shmem_set_lock(&local);
  if (is(what, "lock_not_aligned")) shmem_set_lock((long*)((char*)two + 4));
  if (is(what, "broadcast_of_local")) shmem_long_broadcast(SHMEM_TEAM_WORLD, &word, &local, 1, 0);
  if (is(what, "reduce_into_local")) shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &local, &word, 1);
  if (is(what, "root")) shmem_long_broadcast(SHMEM_TEAM_WORLD, &two[0], &two[1], 1, pes);
  if (is(what, "active_set")) shmem_barrier(0, 0, pes + 1, two);
  if (is(what, "nothing_at_no_address")) {
    shmem_long_put(NULL, NULL, 0, 0);
    shmem_long_get(NULL, NULL, 0, 0);
    shmem_long_iput(NULL, NULL, 1, 1, 0, 0);
    shmem_long_ibput(two, two, 1, 1, 0, (size_t)-1, 0);
    shmem_long_ibget(two, two, 1, 1, 0, (size_t)-1, 0);
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, NULL, NULL, 0);
    shmem_long_collect(SHMEM_TEAM_WORLD, NULL, NULL, 0);
    puts("fine");
  }
  if (is(what, "nothing_at_no_pe")) shmem_long_put(NULL, NULL, 0, pes);
  if (is(what, "exhausted")) {
    void* const too_much = shmem_malloc((size_t)1 << 40);
    void* const enough = shmem_malloc(1 << 20);
    if (too_much == NULL && enough != NULL) puts("goes on");
  }
}

static void handles(const char* what) {
  shmem_ctx_t ctx;
  shmem_ctx_create(0, &ctx);
  shmem_team_t team;
  shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team);
  if (is(what, "destroyed_context")) {
    shmem_ctx_destroy(ctx);
    shmem_ctx_long_p(ctx, &word, 1, 0);
  }
  if (is(what, "invalid_context")) shmem_ctx_long_p(SHMEM_CTX_INVALID, &word, 1, 0);
  if (is(what, "no_context")) shmem_ctx_long_p((shmem_ctx_t)&word, &word, 1, 0);
  if (is(what, "context_of_destroyed_team")) {
    shmem_team_create_ctx(team, 0, &ctx);
    shmem_team_destroy(team);
    shmem_ctx_long_p(ctx, &word, 1, 0);
  }
  if (is(what, "destroyed_team")) {
    shmem_team_destroy(team);
    shmem_team_sync(team);
  }
  if (is(what, "world_destroyed")) shmem_team_destroy(SHMEM_TEAM_WORLD);
  if (is(what, "pe_of_context")) {
    shmem_team_create_ctx(team, 0, &ctx);
    shmem_ctx_long_p(ctx, &word, 1, shmem_n_pes());
  }
}

/* Found with PENSTOCK_CHECK=1. */
static void differently(const char* what, int me, int pes) {
  static long one, other;
  if (is(what, "other_call")) {
    if (me == 0) shmem_barrier_all();
    if (me != 0) shmem_long_broadcast(SHMEM_TEAM_WORLD, &one, &other, 1, 0);
  }
  if (is(what, "other_size")) shmem_malloc((size_t)(100 + me));
  if (is(what, "beyond_allocation") || is(what, "in_no_allocation") ||
      is(what, "row_beyond_allocation")) {
    long* const first = shmem_malloc(64);
    long* const second = shmem_malloc(64);
    shmem_long_put(second, second, 8, 1 - me);
    shmem_barrier_all();
    if (is(what, "beyond_allocation")) shmem_long_put(first + 1, second, 8, 1 - me);
    if (is(what, "row_beyond_allocation")) shmem_long_iget(second, first, 1, 3, 4, 1 - me);
    shmem_free(first);
    shmem_long_get(second, first, 1, 1 - me);
  }
  if (is(what, "other_order")) {
    if (me == 0) shmem_long_sum_reduce(SHMEM_TEAM_WORLD, two, two, 2);
    if (me != 0) shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &one, &one, 1);
  }
  if (is(what, "no_call")) {
    if (me == 0) shmem_long_wait_until(&one, SHMEM_CMP_NE, 0);
    shmem_sync_all();
  }
  if (is(what, "finalized_early") && me == pes - 1) {
    shmem_finalize();
    exit(0);
  }
  if (is(what, "finalized_early")) shmem_barrier_all();
}

/* The same of active sets, of three PEs: the third is in none, or in what PE 1 takes for it. */
static void differently_in_sets(const char* what, int me) {
  static long first[SHMEM_BARRIER_SYNC_SIZE], second[SHMEM_BARRIER_SYNC_SIZE];
  static long never;
  if (strncmp(what, "set_", 4) != 0) return;
  if (is(what, "set_words") && me == 0) second[SHMEM_BARRIER_SYNC_SIZE / 4] = 5;
  if (me == 2) shmem_long_wait_until(&never, SHMEM_CMP_NE, 0);
  shmem_sync(0, 0, 2, first);
  if (me == 0) {
    if (is(what, "set_call")) shmem_barrier(0, 0, 2, first);
    if (is(what, "set_order")) shmem_sync(0, 0, 2, first);
    shmem_broadcast64(two, two, 1, 0, 0, 0, 2, second);
  } else {
    if (is(what, "set_other")) shmem_broadcast64(two, two, 1, 0, 0, 0, 3, second);
    shmem_broadcast64(two, two, is(what, "set_size") ? 2 : 1, 0, 0, 0, 2,
                      is(what, "set_call") ? first : second);
  }
}

static void ends(const char* what, int me, int pes) {
  const int is_last = me == pes - 1;
  if (is(what, "killed")) {
    if (is_last) raise(SIGKILL);
    shmem_barrier_all();
  }
  if (is(what, "exits_in_between")) {
    if (is_last) exit(5);
    shmem_long_wait_until(&word, SHMEM_CMP_NE, 0);
  }
  if (is(what, "global_exit")) {
    printf("PE %d\n", me);
    if (is_last) shmem_global_exit(7);
    shmem_barrier_all();
  }
  if (is(what, "global_exit_well")) {
    if (is_last) shmem_global_exit(0);
    shmem_barrier_all();
  }
  if (is(what, "no_finalize")) {
    /* Ends well: all are finalized as they exit. A child is none of them. */
    const pid_t child = fork();
    if (child == 0) exit(0);
    waitpid(child, NULL, 0);
    if (is_last) usleep(200000);
    shmem_long_p(&word, 1, (me + 1) % pes);
    exit(0);
  }
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  before_or_after(what);
  const int me = shmem_my_pe(), pes = shmem_n_pes();
  memory(what, pes);
  handles(what);
  differently(what, me, pes);
  differently_in_sets(what, me);
  ends(what, me, pes);
  shmem_finalize();
  return 0;
}
