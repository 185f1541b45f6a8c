// The usual first program: each PE puts its number into its right neighbour's memory from a kernel.
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>

__global__ void shift(int* destination) {
  const int me = nvshmem_my_pe();
  nvshmem_int_p(destination, me, (me + 1) % nvshmem_n_pes());
}

int main() {
  nvshmem_init();
  cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE));
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  int* destination = static_cast<int*>(nvshmem_malloc(sizeof(int)));
  shift<<<1, 1, 0, stream>>>(destination);
  nvshmemx_barrier_all_on_stream(stream);
  int received = -1;
  cudaMemcpyAsync(&received, destination, sizeof received, cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  const int me = nvshmem_my_pe(), pes = nvshmem_n_pes();
  printf("%d: received message %d\n", me, received);
  nvshmem_free(destination);
  nvshmem_finalize();
  return received == (me + pes - 1) % pes ? 0 : 1;
}
