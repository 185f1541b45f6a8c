// A kernel of PE 0 gives up, and nobody calls the library any more: reports_main HOW, by nvshmrun.
//
//   address   uses what is not symmetric; the program sleeps. The job ends with 70, and a message.
//   pe        names a PE that is not there; the program ends at once, with 0. As before.
//   exit      calls nvshmem_global_exit(5). The job ends with 5, and no message.
#include <nvshmem.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__global__ void use_address(int* anywhere) {
  nvshmem_int_p(anywhere, 1, 0);
}
__global__ void use_pe(int* destination) {
  nvshmem_int_p(destination, 1, 77);
}
__global__ void end_job() {
  nvshmem_global_exit(5);
}

int main(int count, char** arguments) {
  const char* const how = count > 1 ? arguments[1] : "";
  nvshmem_init();
  int gpus = 0;
  cudaGetDeviceCount(&gpus);
  cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % gpus);
  int* const destination = static_cast<int*>(nvshmem_malloc(sizeof(int)));
  int* anywhere = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&anywhere), sizeof(int));
  nvshmem_barrier_all();
  if (nvshmem_my_pe() == 0) {
    printf("began\n");
    if (strcmp(how, "address") == 0) use_address<<<1, 1>>>(anywhere);
    if (strcmp(how, "pe") == 0) use_pe<<<1, 1>>>(destination);
    if (strcmp(how, "exit") == 0) end_job<<<1, 1>>>();
    cudaDeviceSynchronize();
    if (strcmp(how, "pe") == 0) return 0;
  }
  sleep(30);
  return 1;
}
