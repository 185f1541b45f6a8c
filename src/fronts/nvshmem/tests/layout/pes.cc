// A program without kernels: each PE says which it is.
#include <cstdio>
#include <nvshmem_host.h>

int main() {
  nvshmem_init();
  std::printf("%d of %d\n", nvshmem_my_pe(), nvshmem_n_pes());
  nvshmem_finalize();
  return 0;
}
