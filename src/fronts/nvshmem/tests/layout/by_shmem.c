/* PEs of an OpenSHMEM that has begun before. */
#include <nvshmem_host.h>
#include <shmem.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  int wrong = nvshmemx_init_attr(NVSHMEMX_INIT_WITH_SHMEM, &attributes) != 0;
  const int me = shmem_my_pe(), all = shmem_n_pes();
  wrong += nvshmem_my_pe() != me || nvshmem_n_pes() != all;
  nvshmem_barrier_all();
  nvshmem_finalize();
  shmem_barrier_all();
  shmem_finalize();
  printf("%d of %d: %d wrong\n", me, all, wrong);
  return wrong;
}
