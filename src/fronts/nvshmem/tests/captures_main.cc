// Graphs that one thread captures in the strictest mode while the other PEs put into this one's
// memory, and another thread of this PE calls functions that wait: none of them disturbs another.
// On all PEs of a job; a line for each thing that went wrong.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <thread>
#include <vector>

namespace {

constexpr int kGraphs = 60;
constexpr size_t kBytes = 5000;

void must(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  nvshmem_global_exit(1);
}

template <class T>
T* symmetric(size_t count) {
  T* const memory = static_cast<T*>(nvshmem_calloc(count, sizeof(T)));
  if (memory == nullptr) nvshmem_global_exit(1);
  return memory;
}

struct Graph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
};

}  // namespace

int main() {
  nvshmem_init();
  const int me = nvshmem_my_pe();
  const int pes = nvshmem_n_pes();
  int devices = 0;
  must(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  must(cudaSetDevice(me % devices), "cudaSetDevice");
  const int right = (me + 1) % pes;
  const int left = (me + pes - 1) % pes;
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  auto* const dest = symmetric<char>(kBytes);
  auto* const word = symmetric<uint64_t>(1);
  auto* const signal = symmetric<uint64_t>(1);
  std::vector<char> pageable(kBytes);
  int failed = 0;

  std::atomic<bool> ends{false};
  std::atomic<uint64_t> added{0};
  std::thread other([&] {
    while (!ends) {
      nvshmem_uint64_atomic_add(word, 1, right);
      nvshmem_quiet();
      if (nvshmem_uint64_g(word, right) < ++added) nvshmem_global_exit(2);
    }
  });
  for (int i = 1; i <= kGraphs; ++i) {
    for (size_t k = 0; k < kBytes; ++k) pageable[k] = static_cast<char>(k * 3 + me + i);
    Graph made;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    const uint64_t before = added;
    nvshmemx_putmem_signal_on_stream(dest, pageable.data(), kBytes, signal, 1, NVSHMEM_SIGNAL_ADD,
                                     right, stream);
    nvshmemx_signal_wait_until_on_stream(signal, NVSHMEM_CMP_GE, static_cast<uint64_t>(i), stream);
    // The other thread's calls, one whole one at least, fall into the capture.
    while (added < before + 2) std::this_thread::yield();
    must(cudaStreamEndCapture(stream, &made.graph), "cudaStreamEndCapture");
    must(cudaGraphInstantiate(&made.ready, made.graph, 0), "cudaGraphInstantiate");
    must(cudaGraphLaunch(made.ready, stream), "cudaGraphLaunch");
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    std::vector<char> found(kBytes);
    must(cudaMemcpy(found.data(), dest, kBytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (size_t k = 0; k < kBytes && failed < 10; ++k) {
      if (found[k] == static_cast<char>(k * 3 + left + i)) continue;
      std::printf("%d: graph %d: byte %zu is wrong\n", me, i, k);
      ++failed;
    }
    must(cudaGraphExecDestroy(made.ready), "cudaGraphExecDestroy");
    must(cudaGraphDestroy(made.graph), "cudaGraphDestroy");
    nvshmem_barrier_all();
  }
  ends = true;
  other.join();
  nvshmem_barrier_all();
  std::printf("%d: %d graphs beside %llu calls of another thread: %s\n", me, kGraphs,
              static_cast<unsigned long long>(added), failed == 0 ? "passed" : "FAILED");
  nvshmem_free(signal);
  nvshmem_free(word);
  nvshmem_free(dest);
  nvshmem_finalize();
  return failed == 0 ? 0 : 1;
}
