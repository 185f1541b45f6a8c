/* A program with a profiling library inside: its own shmem_long_p() counts, and calls the library's
 * by its profiling name. */
#include <mpp/pshmem.h>
#include <mpp/shmemx.h>
#include <stdio.h>

static int puts_seen;
static long word;

void shmem_long_p(long* dest, long value, int pe) {
  ++puts_seen;
  pshmem_long_p(dest, value, pe);
}

int main(void) {
  shmem_init();
  shmem_long_p(&word, 5, shmem_my_pe());
  shmem_p(&word, word + 1, shmem_my_pe());
  const int failed = puts_seen != 2 || word != 6;
  shmem_finalize();
  if (failed) fprintf(stderr, "%d puts seen, word %ld\n", puts_seen, word);
  return failed;
}
