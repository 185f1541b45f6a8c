// Runs every function of the host and on streams on all PEs of a job, those on streams also
// captured in a graph, and prints a line for each that went wrong. Linked with the sources that
// programs.py makes; names of parts as arguments, or all that are there.
#include "every_host.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kBytes = 4096;

void must(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  nvshmem_global_exit(1);
}

int run(const Part& part, Trial& t) {
  int failed = 0;
  int count = 0;
  for (int i = 0; i < part.count; ++i) {
    const Tried& tried = part.tried[i];
    for (int captures = 0; captures <= (tried.is_captured ? 1 : 0); ++captures) {
      t.captures = captures != 0;
      t.wrong = 0;
      t.reset();
      tried.trial(t);
      ++count;
      if (t.wrong == 0) continue;
      std::printf("%d: %s%s: %d times not as expected\n", t.me, tried.name,
                  t.captures ? " in a graph" : "", t.wrong);
      ++failed;
    }
  }
  std::printf("%d: %s: %d functions, %d trials, %d failed\n", t.me, part.name, part.count, count,
              failed);
  std::fflush(stdout);
  return failed;
}

}  // namespace

void Trial::reset() {
  must(cudaMemsetAsync(dest, 0, kBytes, stream), "cudaMemset");
  must(cudaMemsetAsync(source, 0, kBytes, stream), "cudaMemset");
  must(cudaMemsetAsync(signal, 0, sizeof *signal, stream), "cudaMemset");
  must(cudaStreamSynchronize(stream), "cudaMemset");
  meet();
}
void Trial::write(void* gpu, const void* from, size_t bytes) {
  must(cudaMemcpyAsync(gpu, from, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpy");
  must(cudaStreamSynchronize(stream), "cudaMemcpy");
}
void Trial::read(void* to, const void* gpu, size_t bytes) {
  must(cudaMemcpyAsync(to, gpu, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpy");
  must(cudaStreamSynchronize(stream), "cudaMemcpy");
}
void Trial::meet() {
  nvshmem_barrier_all();
}
void Trial::begin() {
  if (captures)
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
}
void Trial::launch() {
  if (!captures) return;
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  must(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
  must(cudaGraphLaunch(ready, stream), "cudaGraphLaunch");
  // It is destroyed when it has run.
  must(cudaGraphExecDestroy(ready), "cudaGraphExecDestroy");
  must(cudaGraphDestroy(graph), "cudaGraphDestroy");
}
void Trial::wait() {
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

int main(int argc, char** argv) {
  nvshmem_init();
  int devices = 0;
  must(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  must(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices), "cudaSetDevice");
  Trial t = {};
  must(cudaStreamCreateWithFlags(&t.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  t.dest = static_cast<char*>(nvshmem_malloc(kBytes));
  t.source = static_cast<char*>(nvshmem_malloc(kBytes));
  t.signal = static_cast<uint64_t*>(nvshmem_malloc(sizeof(uint64_t)));
  const int status[3] = {0, 1, 0};
  must(cudaMalloc(reinterpret_cast<void**>(&t.status), sizeof status), "cudaMalloc");
  must(cudaMalloc(reinterpret_cast<void**>(&t.values), 3 * sizeof(uint64_t)), "cudaMalloc");
  must(cudaMalloc(reinterpret_cast<void**>(&t.seen), 3 * sizeof(uint64_t)), "cudaMalloc");
  t.write(t.status, status, sizeof status);
  t.me = nvshmem_my_pe();
  t.pes = nvshmem_n_pes();
  t.right = (t.me + 1) % t.pes;
  t.left = (t.me + t.pes - 1) % t.pes;
  int failed = 0;
  for (const Part* part : {&every_host_memory, &every_host_words, &every_host_collectives,
                           &every_host_reduces, &every_host_reducescatters}) {
    if (part == nullptr) continue;
    bool is_meant = argc < 2;
    for (int i = 1; i < argc; ++i) is_meant |= std::strcmp(argv[i], part->name) == 0;
    if (is_meant) failed += run(*part, t);
  }
  nvshmem_finalize();
  return failed == 0 ? 0 : 1;
}
