// What programs for nvshmem.h share that measure it between GPUs of one machine: their processes,
// a GPU for each, which agree on an id that a library makes.
#pragma once

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>
#if defined(WITH_NCCL)
#include <nccl.h>
#else
#include <nvshmem.h>
#include <nvshmemx.h>
#endif

#define MUST(call)                                                       \
  do {                                                                   \
    if (const auto result = (call); result != decltype(result){}) {      \
      std::fprintf(stderr, "%s: %d\n", #call, static_cast<int>(result)); \
      _exit(1);                                                          \
    }                                                                    \
  } while (false)

namespace bench {

// Of the processes, which are made before any of them uses a GPU.
struct Shared {
  std::atomic<int> has_id;
  char id[1024];
};

struct Job {
  int rank;
  int size;
  size_t bytes_max;
  Shared* shared;
};

template <class Id, class Make>
Id agreed_id(const Job& job, Make&& make) {
  static_assert(sizeof(Id) <= sizeof Shared::id);
  Id id{};
  if (job.rank == 0) {
    make(&id);
    std::memcpy(job.shared->id, &id, sizeof id);
    job.shared->has_id = 1;
  }
  for (int i = 0; job.shared->has_id == 0; ++i) {
    if (i == 60'000) _exit(4);  // a minute: the first one has failed
    usleep(1000);
  }
  std::memcpy(&id, job.shared->id, sizeof id);
  return id;
}

#if !defined(WITH_NCCL)
inline void join_by_id(const Job& job) {
  auto id = agreed_id<nvshmemx_uniqueid_t>(job, [](auto* out) {
    nvshmemx_uniqueid_t made = NVSHMEMX_UNIQUEID_INITIALIZER;
    MUST(nvshmemx_get_uniqueid(&made));
    *out = made;
  });
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  MUST(nvshmemx_set_attr_uniqueid_args(job.rank, job.size, &id, &attributes));
  MUST(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes));
}
#endif

// As many processes, made before any uses a GPU. 0 when all have ended well.
template <class Run>
int run_job(int size, size_t bytes_max, Run&& run) {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* const shared = new (memory) Shared{};
  std::vector<pid_t> processes;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t process = fork();
    if (process == 0) {
      MUST(cudaSetDevice(rank));
      run(Job{rank, size, bytes_max, shared});
      std::fflush(stdout);
      _exit(0);
    }
    if (process > 0) processes.push_back(process);
  }
  bool failed = processes.size() != static_cast<size_t>(size);
  for (size_t left = processes.size(); left > 0; --left) {
    // The others would wait for one that has failed.
    if (failed) {
      for (const pid_t process : processes) kill(process, SIGKILL);
    }
    int status = 0;
    const pid_t ended = waitpid(-1, &status, 0);
    processes.erase(std::find(processes.begin(), processes.end(), ended));
    failed = failed || status != 0;
  }
  return failed ? 1 : 0;
}

}  // namespace bench
