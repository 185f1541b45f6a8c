/* Each PE puts its number, from 1, into its right neighbour's variable. */
#include <shmem.h>
#include <stdio.h>

static int from;

int main(void) {
  shmem_init();
  shmem_int_p(&from, shmem_my_pe() + 1, (shmem_my_pe() + 1) % shmem_n_pes());
  shmem_barrier_all();
  printf("%d\n", from);
  shmem_finalize();
  return 0;
}
