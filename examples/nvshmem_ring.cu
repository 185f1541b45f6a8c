// The usual first program for NVSHMEM: each PE's kernel puts its number into its right neighbour's
// memory.
//
//   nvcc -x cu -arch=sm_90 -rdc=true -I$NVSHMEM_HOME/include -L$NVSHMEM_HOME/lib
//     nvshmem_ring.cu -o ring -lnvshmem -lcuda     (in one line)
//   nvshmrun -np 2 ./ring
//
// NVSHMEM_HOME is build/release, or where the package has it.
#include <cstdio>
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#define CHECK_CUDA(call)                                                   \
  do {                                                                     \
    const cudaError_t result = (call);                                     \
    if (result != cudaSuccess) {                                           \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(result)); \
      nvshmem_global_exit(1);                                              \
    }                                                                      \
  } while (false)

__global__ void put_number(int* destination) {
  const int me = nvshmem_my_pe();
  const int right = (me + 1) % nvshmem_n_pes();
  nvshmem_int_p(destination, me, right);
}

int main() {
  nvshmem_init();
  // PEs of a node share its GPUs out among them.
  int gpus = 0;
  CHECK_CUDA(cudaGetDeviceCount(&gpus));
  CHECK_CUDA(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % gpus));
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreate(&stream));

  int* const destination = static_cast<int*>(nvshmem_malloc(sizeof(int)));
  put_number<<<1, 1, 0, stream>>>(destination);
  nvshmemx_barrier_all_on_stream(stream);
  int number = -1;
  CHECK_CUDA(cudaMemcpyAsync(&number, destination, sizeof number, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));

  const int me = nvshmem_my_pe();
  const int left = (me + nvshmem_n_pes() - 1) % nvshmem_n_pes();
  std::printf("%d: received message %d\n", me, number);
  nvshmem_free(destination);
  nvshmem_finalize();
  return number == left ? 0 : 1;
}
