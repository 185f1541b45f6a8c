// Modules and libraries that a program loads by the driver, beside its own two units of relocatable
// code: modules_main FILE.cubin..., by nvshmrun. Each file is of modules_kernels.cu.
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef MORE
// In another unit of the same relocatable code.
__global__ void put_by_other_unit(int* destination, int tens) {
  nvshmem_int_p(destination, tens * 10 + nvshmem_my_pe(), (nvshmem_my_pe() + 1) % nvshmem_n_pes());
}
#else
__global__ void put_by_other_unit(int* destination, int tens);
__global__ void tell_index(int* number, nvshmem_team_t team) {
  *number = nvshmem_team_my_pe(team);
}
__global__ void put_by_this_unit(int* destination, int tens) {
  nvshmem_int_p(destination, tens * 10 + nvshmem_my_pe(), (nvshmem_my_pe() + 1) % nvshmem_n_pes());
}

namespace {

int failed = 0;

void must(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  nvshmem_global_exit(1);
}
void must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "%s: CUDA error %d\n", what, static_cast<int>(result));
  nvshmem_global_exit(1);
}

void expect(bool holds, const char* what, const char* where) {
  if (holds) return;
  ++failed;
  printf("FAILED %d: %s: %s\n", nvshmem_my_pe(), where, what);
  fflush(stdout);
}

struct Words {
  int* destination;
  int* number;
  cudaStream_t stream;
  int tens = 0;
};

// After each PE has put into its right neighbour's word.
void expect_put(Words& words, const char* where) {
  nvshmemx_barrier_all_on_stream(words.stream);
  int put = -1;
  must(cudaMemcpyAsync(&put, words.destination, sizeof put, cudaMemcpyDeviceToHost, words.stream),
       where);
  must(cudaStreamSynchronize(words.stream), where);
  const int left = (nvshmem_my_pe() + nvshmem_n_pes() - 1) % nvshmem_n_pes();
  expect(put == words.tens * 10 + left, "the left neighbour's number", where);
  nvshmemx_barrier_all_on_stream(words.stream);
  ++words.tens;
}

void launch(CUfunction function, int* where, int tens, cudaStream_t stream) {
  void* arguments[] = {&where, &tens};
  must(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr), "launch");
}

void launch(void (*kernel)(int*, int), Words& words) {
  void* arguments[] = {&words.destination, &words.tens};
  must(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), arguments, 0,
                        words.stream),
       "launch");
}

int number_told(CUfunction tell, Words& words) {
  int told = -2;
  launch(tell, words.number, 0, words.stream);
  must(cudaMemcpyAsync(&told, words.number, sizeof told, cudaMemcpyDeviceToHost, words.stream),
       "copy");
  must(cudaStreamSynchronize(words.stream), "copy");
  return told;
}

void try_module(const char* path, Words& words) {
  CUmodule module;
  CUfunction put, tell;
  must(cuModuleLoad(&module, path), path);
  must(cuModuleGetFunction(&put, module, "put_number"), path);
  must(cuModuleGetFunction(&tell, module, "tell_number"), path);
  expect(number_told(tell, words) == -1, "knows no PE before", path);
  expect(nvshmemx_cumodule_init(module) == 0, "nvshmemx_cumodule_init", path);
  expect(number_told(tell, words) == nvshmem_my_pe(), "knows its PE", path);
  launch(put, words.destination, words.tens, words.stream);
  expect_put(words, path);
  expect(nvshmemx_cumodule_finalize(module) == 0, "nvshmemx_cumodule_finalize", path);
  expect(number_told(tell, words) == -1, "knows no PE after", path);
  must(cuModuleUnload(module), path);
}

void try_library(const char* path, Words& words) {
  CUlibrary library;
  CUkernel put, tell;
  CUfunction put_function, tell_function;
  must(cuLibraryLoadFromFile(&library, path, nullptr, nullptr, 0, nullptr, nullptr, 0), path);
  must(cuLibraryGetKernel(&put, library, "put_number"), path);
  must(cuKernelGetFunction(&put_function, put), path);
  must(cuLibraryGetKernel(&tell, library, "tell_number"), path);
  must(cuKernelGetFunction(&tell_function, tell), path);
  expect(nvshmemx_culibrary_init(library) == 0, "nvshmemx_culibrary_init", path);
  expect(number_told(tell_function, words) == nvshmem_my_pe(), "knows its PE", path);
  launch(put_function, words.destination, words.tens, words.stream);
  expect_put(words, path);
  expect(nvshmemx_culibrary_finalize(library) == 0, "nvshmemx_culibrary_finalize", path);
  expect(number_told(tell_function, words) == -1, "knows no PE after", path);
  must(cuLibraryUnload(library), path);
}

// All PEs, in the reverse order, by an id of the first one.
void try_team(Words& words) {
  const char* const where = "nvshmemx_team_init";
  const int me = nvshmem_my_pe(), all = nvshmem_n_pes();
  auto* const shared = static_cast<uint64_t*>(nvshmem_malloc(sizeof(uint64_t)));
  nvshmemx_team_uniqueid_t id = NVSHMEM_TEAM_UNIQUID_INITIALIZER;
  if (me == 0) {
    expect(nvshmemx_team_get_uniqueid(&id) == 0, "an id", where);
    for (int pe = 0; pe < all; ++pe) nvshmem_putmem(shared, &id, sizeof id, pe);
  }
  nvshmem_barrier_all();
  must(cudaMemcpy(&id, shared, sizeof id, cudaMemcpyDeviceToHost), where);
  nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
  config.uniqueid = id;
  nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
  expect(nvshmemx_team_init(&team, &config, 0, all, all - 1 - me) != 0, "an id is wanted", where);
  expect(
      nvshmemx_team_init(&team, &config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, all, all - 1 - me) == 0,
      "the team", where);
  expect(nvshmem_team_my_pe(team) == all - 1 - me && nvshmem_team_n_pes(team) == all, "its host",
         where);
  void* arguments[] = {&words.number, &team};
  must(cudaLaunchKernel(reinterpret_cast<const void*>(&tell_index), dim3(1), dim3(1), arguments, 0,
                        words.stream),
       where);
  int told = -2;
  must(cudaMemcpyAsync(&told, words.number, sizeof told, cudaMemcpyDeviceToHost, words.stream),
       where);
  must(cudaStreamSynchronize(words.stream), where);
  expect(told == all - 1 - me, "its kernels", where);
  nvshmem_team_config_t got;
  nvshmem_team_get_config(team, &got);
  expect(got.uniqueid == id, "its configuration", where);
  expect(nvshmem_team_sync(team) == 0, "a sync", where);
  nvshmem_team_destroy(team);
  nvshmem_free(shared);
}

}  // namespace

int main(int count, char** paths) {
  nvshmem_init();
  int gpus = 0;
  must(cudaGetDeviceCount(&gpus), "count");
  must(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % gpus), "choose");
  Words words{};
  must(cudaStreamCreate(&words.stream), "stream");
  words.destination = static_cast<int*>(nvshmem_malloc(sizeof(int)));
  words.number = static_cast<int*>(nvshmem_malloc(sizeof(int)));
  launch(put_by_this_unit, words);
  expect_put(words, "this unit");
  launch(put_by_other_unit, words);
  expect_put(words, "the other unit");
  for (int i = 1; i < count; ++i) {
    try_module(paths[i], words);
    try_library(paths[i], words);
  }
  try_team(words);
  expect(nvshmemx_cumodule_init(nullptr) != 0, "no module is refused", "nullptr");
  const int me = nvshmem_my_pe();
  nvshmem_finalize();
  printf("modules %d: %d failed\n", me, failed);
  return failed == 0 ? 0 : 1;
}
#endif
