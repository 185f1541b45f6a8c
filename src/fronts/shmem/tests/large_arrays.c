/* A program with arrays of a gigabyte that it hardly touches, as older programs have them: it
 * begins and forks at once, and what it has touched is there, for other PEs and for children. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS (1L << 27)
#define PAGES (WORDS * (long)sizeof(long) / 4096)

static long untouched[WORDS];
static long initialized[4096] = {1, 2, 3};

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      fprintf(stderr, "large_arrays.c:%d: PE %d: %s\n", __LINE__, me, #condition); \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)

static long page_faults(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

int main(void) {
  int me = -1;
  untouched[WORDS / 2] = 5;
  const long before = page_faults();
  shmem_init();
  me = shmem_my_pe();
  CHECK(page_faults() - before < PAGES / 8);
  CHECK(untouched[WORDS / 2] == 5 && untouched[WORDS - 1] == 0 && initialized[2] == 3);
  shmem_barrier_all();

  const int right = (me + 1) % shmem_n_pes();
  const int left = (me + shmem_n_pes() - 1) % shmem_n_pes();
  shmem_p(&untouched[WORDS - 1], 100L + me, right);
  shmem_barrier_all();
  CHECK(untouched[WORDS - 1] == 100 + left);

  const long faults = page_faults();
  const pid_t child = fork();
  if (child == 0) {
    const int is_right = untouched[WORDS / 2] == 5 && untouched[WORDS - 1] == 100 + left &&
                         untouched[1000] == 0 && initialized[1] == 2;
    untouched[WORDS - 1] = 0;
    _exit(is_right ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(page_faults() - faults < PAGES / 8);
  CHECK(untouched[WORDS - 1] == 100 + left);
  shmem_finalize();
  return 0;
}
