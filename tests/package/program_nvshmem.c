/* Built against the installed libnvshmem.a: says which PE it is. Without CUDA's headers, so it
 * declares what it calls. */
#include <stdio.h>

void nvshmem_init(void);
int nvshmem_my_pe(void);
void nvshmem_finalize(void);

int main(void) {
  nvshmem_init();
  printf("%d\n", nvshmem_my_pe());
  nvshmem_finalize();
  return 0;
}
