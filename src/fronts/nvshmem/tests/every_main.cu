// Runs every device function on all PEs of a job: a kernel for each (every.cuh), then a line for
// each of those that went wrong. Linked with the sources that programs.py makes.
//
//   every [PART...]   memory, words, collectives, reduces, reducescatters; else all of them
#include "every.cuh"
#include "every_main.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace {

constexpr size_t kBytes = 4096;

void must(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  nvshmem_global_exit(1);
}

int run(const Tried* tried, int count, Memory memory, cudaStream_t stream) {
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    must(cudaMemsetAsync(memory.dest, 0, kBytes, stream), "cudaMemset");
    must(cudaMemsetAsync(memory.source, 0, kBytes, stream), "cudaMemset");
    must(cudaMemsetAsync(memory.signal, 0, sizeof(uint64_t), stream), "cudaMemset");
    must(cudaMemsetAsync(memory.wrong, 0, sizeof(int), stream), "cudaMemset");
    nvshmemx_barrier_all_on_stream(stream);
    void* arguments[] = {&memory};
    must(cudaLaunchKernel(reinterpret_cast<const void*>(tried[i].kernel), dim3(1), dim3(64),
                          arguments, 0, stream),
         tried[i].name);
    int wrong = 0;
    must(cudaMemcpyAsync(&wrong, memory.wrong, sizeof wrong, cudaMemcpyDeviceToHost, stream),
         tried[i].name);
    must(cudaStreamSynchronize(stream), tried[i].name);
    if (wrong != 0) {
      printf("%d: %s: %d times not as expected\n", memory.me, tried[i].name, wrong);
      ++failed;
    }
  }
  return failed;
}

// Whether a part is to run; without any on the command line all are.
bool is_wanted(const char* part, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], part) == 0) return true;
  }
  return argc == 1;
}

}  // namespace

int main(int argc, char** argv) {
  nvshmem_init();
  int devices = 0;
  must(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  must(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices), "cudaSetDevice");
  cudaStream_t stream;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  Memory memory = {};
  memory.dest = static_cast<char*>(nvshmem_malloc(kBytes));
  memory.source = static_cast<char*>(nvshmem_malloc(kBytes));
  memory.signal = static_cast<uint64_t*>(nvshmem_malloc(sizeof(uint64_t)));
  must(cudaMalloc(&memory.wrong, sizeof(int)), "cudaMalloc");
  memory.me = nvshmem_my_pe();
  memory.pes = nvshmem_n_pes();
  memory.right = (memory.me + 1) % memory.pes;
  memory.left = (memory.me + memory.pes - 1) % memory.pes;
  int failed = 0;
  int count = 0;
#define RUN(PART)                                                      \
  if (is_wanted(#PART, argc, argv)) {                                  \
    failed += run(tried_##PART, tried_##PART##_count, memory, stream); \
    count += tried_##PART##_count;                                     \
  }
  RUN(memory)
  RUN(words)
  RUN(collectives)
  RUN(reduces)
  RUN(reducescatters)
  printf("%d: %d functions, %d failed\n", memory.me, count, failed);
  nvshmem_finalize();
  return failed == 0 ? 0 : 1;
}
