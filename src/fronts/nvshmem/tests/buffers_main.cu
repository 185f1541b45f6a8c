// Memory that the program has made itself becomes symmetric, and is the program's again:
// buffers_main, by nvshmrun.
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>
#include <stdlib.h>

namespace {

constexpr size_t kGranule = size_t{2} << 20;
int failed = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  ++failed;
  printf("FAILED %d: %s\n", nvshmem_my_pe(), what);
  fflush(stdout);
}
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

struct Piece {
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  size_t bytes = 0;

  Piece(int device, size_t length, CUmemAllocationHandleType exported) : bytes(length) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    properties.requestedHandleTypes = exported;
    must(cuMemCreate(&handle, bytes, &properties, 0), "cuMemCreate");
    must(cuMemAddressReserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
    must(cuMemMap(address, bytes, 0, handle, 0), "cuMemMap");
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    must(cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess");
  }
  ~Piece() {
    cuMemUnmap(address, bytes);
    cuMemAddressFree(address, bytes);
    cuMemRelease(handle);
  }
  void* pointer() const { return reinterpret_cast<void*>(address); }
  int last() const {
    int word = -1;
    must(cudaMemcpy(&word, static_cast<int*>(pointer()) + bytes / sizeof(int) - 1, sizeof word,
                    cudaMemcpyDeviceToHost),
         "copy");
    return word;
  }
};

__global__ void put_number(int* destination, int number, int pe, void** seen) {
  nvshmem_int_p(destination, number, pe);
  *seen = nvshmem_ptr(destination, pe);
}

// The left neighbour's number comes into the last word, by a kernel and by the host.
void put_around(int* symmetric, const Piece& own, int number) {
  const int me = nvshmem_my_pe(), all = nvshmem_n_pes();
  const int right = (me + 1) % all, left = (me + all - 1) % all;
  int* const last = symmetric + own.bytes / sizeof(int) - 1;
  void** seen = nullptr;
  must(cudaMallocManaged(reinterpret_cast<void**>(&seen), sizeof *seen), "managed");
  nvshmem_barrier_all();
  put_number<<<1, 1>>>(last, number + me, right, seen);
  must(cudaDeviceSynchronize(), "put");
  nvshmem_barrier_all();
  const bool is_near =
      nvshmem_team_translate_pe(NVSHMEM_TEAM_WORLD, right, NVSHMEM_TEAM_SHARED) >= 0;
  expect(*seen == nvshmem_ptr(last, right) && (*seen != nullptr) == is_near,
         "nvshmem_ptr on both sides");
  expect(own.last() == number + left, "a kernel's put is in the program's memory");
  nvshmem_barrier_all();
  const int other = number + 1000 + me;
  nvshmem_int_put(last, &other, 1, right);
  nvshmem_barrier_all();
  expect(own.last() == number + 1000 + left, "the host's put is, too");
  nvshmem_barrier_all();
  cudaFree(seen);
}

// Memory of a pool, which the stream gives back behind what reads it, as the host has said by then.
void put_from_pool(int* symmetric) {
  constexpr size_t kBytes = size_t{1} << 20;
  const int me = nvshmem_my_pe(), all = nvshmem_n_pes();
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "stream");
  for (int round = 0; round < 3; ++round) {
    int* pooled = nullptr;
    must(cudaMallocAsync(reinterpret_cast<void**>(&pooled), kBytes, stream), "cudaMallocAsync");
    must(cudaMemsetAsync(pooled, me + 10 * round + 1, kBytes, stream), "cudaMemsetAsync");
    nvshmemx_putmem_on_stream(symmetric, pooled, kBytes, (me + 1) % all, stream);
    must(cudaFreeAsync(pooled, stream), "cudaFreeAsync");
    nvshmemx_barrier_all_on_stream(stream);
    int last = 0;
    // As programs do: it waits for the barrier's kernel, which may wait for other nodes.
    must(cudaMemcpy(&last, symmetric + kBytes / sizeof(int) - 1, sizeof last,
                    cudaMemcpyDeviceToHost),
         "cudaMemcpy");
    expect(last == 0x01010101 * ((me + all - 1) % all + 10 * round + 1), "from a pool's memory");
    nvshmem_barrier_all();
  }
  must(cudaStreamDestroy(stream), "stream");
}

__global__ void put_and_get(int* there, int* own, size_t count, int pe) {
  nvshmem_int_put(there, own, count, pe);
  nvshmem_quiet();
  nvshmem_int_get(own, there, count, pe);
}

// Memory of cudaMalloc() on either side, and a copy right behind the kernel, which shuts out all
// other calls of the context until that has ended.
void put_from_malloc(int* symmetric) {
  constexpr size_t kCount = 100001;
  const int me = nvshmem_my_pe(), all = nvshmem_n_pes();
  int* own = nullptr;
  must(cudaMalloc(reinterpret_cast<void**>(&own), kCount * sizeof(int)), "cudaMalloc");
  for (const size_t count : {size_t{1}, size_t{3}, size_t{1000}, kCount}) {
    must(cudaMemset(own, me + 1, kCount * sizeof(int)), "cudaMemset");
    nvshmem_barrier_all();
    put_and_get<<<1, 1>>>(symmetric, own, count, (me + 1) % all);
    int last = 0;
    must(cudaMemcpy(&last, own + count - 1, sizeof last, cudaMemcpyDeviceToHost), "cudaMemcpy");
    expect(last == 0x01010101 * (me + 1), "got back what was put");
    nvshmem_barrier_all();
    must(cudaMemcpy(&last, symmetric + count - 1, sizeof last, cudaMemcpyDeviceToHost),
         "cudaMemcpy");
    expect(last == 0x01010101 * ((me + all - 1) % all + 1), "from cudaMalloc's memory");
    nvshmem_barrier_all();
  }
  must(cudaFree(own), "cudaFree");
}

}  // namespace

int main() {
  nvshmem_init();
  int gpus = 0;
  must(cudaGetDeviceCount(&gpus), "count");
  const int device = nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % gpus;
  must(cudaSetDevice(device), "choose");
  void* const heap = nvshmem_malloc(64);
  {
    const auto kExported = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    const Piece small(device, kGranule, kExported);
    const Piece large(device, 3 * kGranule, kExported);
    const Piece hidden(device, kGranule, CU_MEM_HANDLE_TYPE_NONE);

    void* const first = nvshmemx_buffer_register_symmetric(small.pointer(), small.bytes, 0);
    void* const second = nvshmemx_buffer_register_symmetric(large.pointer(), large.bytes, 0);
    expect(first != nullptr && second != nullptr, "nvshmemx_buffer_register_symmetric");
    if (first == nullptr || second == nullptr) nvshmem_global_exit(1);
    put_around(static_cast<int*>(first), small, 100);
    put_around(static_cast<int*>(second), large, 200);

    // What one PE cannot have is nobody's.
    expect(nvshmemx_buffer_register_symmetric(hidden.pointer(), kGranule, 0) == nullptr,
           "memory that cannot be exported is refused");
    void* plain = nullptr;
    must(cudaMalloc(&plain, kGranule), "cudaMalloc");
    const bool is_first = nvshmem_my_pe() == 0;
    const Piece third(device, kGranule, kExported);
    expect(nvshmemx_buffer_register_symmetric(is_first ? plain : third.pointer(), kGranule, 0) ==
               nullptr,
           "cudaMalloc's memory on one PE is refused on all");
    expect(
        nvshmemx_buffer_register_symmetric(third.pointer(), is_first ? 5 : kGranule, 0) == nullptr,
        "a length that is no multiple is refused on all");
    expect(nvshmemx_buffer_unregister_symmetric(first, 3 * kGranule) != 0,
           "another length is refused");
    expect(nvshmemx_buffer_unregister_symmetric(first, small.bytes) == 0,
           "nvshmemx_buffer_unregister_symmetric");
    expect(nvshmemx_buffer_unregister_symmetric(first, small.bytes) != 0, "once only");
    void* const again = nvshmemx_buffer_register_symmetric(third.pointer(), third.bytes, 0);
    expect(again == first, "its place is used again");
    put_around(static_cast<int*>(again), third, 300);
    put_around(static_cast<int*>(second), large, 400);
    expect(nvshmemx_buffer_unregister_symmetric(second, large.bytes) == 0, "the last one");
    expect(nvshmem_ptr(second, 0) == nullptr, "then it is not symmetric");
    expect(nvshmemx_buffer_unregister_symmetric(again, third.bytes) == 0, "all of them");
    must(cudaFree(plain), "free");

    char local[64];
    expect(nvshmemx_buffer_register(local, sizeof local) == 0, "nvshmemx_buffer_register");
    expect(nvshmemx_buffer_register(local + 8, 8) != 0, "what overlaps is refused");
    expect(nvshmemx_buffer_register(heap, 64) != 0, "symmetric memory is refused");
    expect(nvshmemx_buffer_unregister(local + 8) != 0, "what is not registered is refused");
    expect(nvshmemx_buffer_unregister(local) == 0, "nvshmemx_buffer_unregister");
    nvshmemx_buffer_unregister_all();
  }
  nvshmem_free(heap);
  auto* const words = static_cast<int*>(nvshmem_malloc(size_t{1} << 20));
  put_from_pool(words);
  put_from_malloc(words);
  nvshmem_free(words);
  const int me = nvshmem_my_pe();
  nvshmem_finalize();
  printf("buffers %d: %d failed\n", me, failed);
  return failed == 0 ? 0 : 1;
}
