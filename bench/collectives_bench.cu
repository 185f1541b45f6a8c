// Collective operations on streams between GPUs of one machine: one program for nvshmem.h, built
// with Penstock's library or with NVIDIA's, and with -DWITH_NCCL for NCCL. A line for each
// operation and size:
//   NAME BYTES MICROSECONDS
// where BYTES are those of what one PE gives (of a broadcast and a reduction: all), and the time is
// that of one of many behind each other on a stream, the median of five such rounds.
//
//   nvcc -x cu -arch=sm_90 -rdc=true -I$NVSHMEM_HOME/include -L$NVSHMEM_HOME/lib
//     collectives_bench.cu -o bench_ours -lnvshmem -lcuda     (in one line)
//   bench_ours [GPUS [MIB_MAX]]
//
// NVIDIA's: NVSHMEM_DISABLE_NVLS=1 NVSHMEM_REMOTE_TRANSPORT=none. NCCL's: NCCL_NVLS_ENABLE=0,
// -lnccl.
#include "nvshmem_job.h"

#include <functional>

namespace {

using bench::Job;

constexpr int kRounds = 5;

#if defined(WITH_NCCL)

class Library {
 public:
  explicit Library(const Job& job) : job_(job) {
    const auto id =
        bench::agreed_id<ncclUniqueId>(job, [](auto* out) { MUST(ncclGetUniqueId(out)); });
    MUST(ncclCommInitRank(&all_, job.size, id, job.rank));
    MUST(cudaMalloc(&source_, job.bytes_max));
    MUST(cudaMalloc(&dest_, job.bytes_max));
  }
  float* source() const { return static_cast<float*>(source_); }
  float* dest() const { return static_cast<float*>(dest_); }
  void meet(cudaStream_t stream) { reduce(1, stream); }
  bool barrier(cudaStream_t) { return false; }
  void reduce(size_t count, cudaStream_t stream) {
    MUST(ncclAllReduce(source_, dest_, count, ncclFloat, ncclSum, all_, stream));
  }
  void broadcast(size_t bytes, cudaStream_t stream) {
    MUST(ncclBroadcast(source_, dest_, bytes, ncclChar, 0, all_, stream));
  }
  void fcollect(size_t bytes, cudaStream_t stream) {
    MUST(ncclAllGather(source_, dest_, bytes, ncclChar, all_, stream));
  }
  void alltoall(size_t bytes, cudaStream_t stream) {
    MUST(ncclGroupStart());
    for (int peer = 0; peer < job_.size; ++peer) {
      MUST(ncclSend(static_cast<char*>(source_) + peer * bytes, bytes, ncclChar, peer, all_,
                    stream));
      MUST(ncclRecv(static_cast<char*>(dest_) + peer * bytes, bytes, ncclChar, peer, all_, stream));
    }
    MUST(ncclGroupEnd());
  }

 private:
  const Job job_;
  ncclComm_t all_ = nullptr;
  void* source_ = nullptr;
  void* dest_ = nullptr;
};

#else

class Library {
 public:
  explicit Library(const Job& job) {
    bench::join_by_id(job);
    source_ = nvshmem_malloc(job.bytes_max);
    dest_ = nvshmem_malloc(job.bytes_max);
    if (source_ == nullptr || dest_ == nullptr) _exit(2);
  }
  float* source() const { return static_cast<float*>(source_); }
  float* dest() const { return static_cast<float*>(dest_); }
  void meet(cudaStream_t stream) { barrier(stream); }
  bool barrier(cudaStream_t stream) {
    nvshmemx_barrier_all_on_stream(stream);
    return true;
  }
  void reduce(size_t count, cudaStream_t stream) {
    MUST(nvshmemx_float_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, dest(), source(), count, stream));
  }
  void broadcast(size_t bytes, cudaStream_t stream) {
    MUST(nvshmemx_broadcastmem_on_stream(NVSHMEM_TEAM_WORLD, dest_, source_, bytes, 0, stream));
  }
  void fcollect(size_t bytes, cudaStream_t stream) {
    MUST(nvshmemx_fcollectmem_on_stream(NVSHMEM_TEAM_WORLD, dest_, source_, bytes, stream));
  }
  void alltoall(size_t bytes, cudaStream_t stream) {
    MUST(nvshmemx_alltoallmem_on_stream(NVSHMEM_TEAM_WORLD, dest_, source_, bytes, stream));
  }

 private:
  void* source_ = nullptr;
  void* dest_ = nullptr;
};

#endif

class Bench {
 public:
  Bench(Library& library, const Job& job) : library_(library), job_(job) {
    MUST(cudaStreamCreate(&stream_));
    MUST(cudaEventCreate(&begin_));
    MUST(cudaEventCreate(&end_));
  }

  void run() {
    check();
    if (library_.barrier(stream_)) time("barrier", 0, [&] { library_.barrier(stream_); });
    for (size_t bytes = 8; bytes <= job_.bytes_max; bytes *= bytes < 65536 ? 8 : 4) {
      const size_t each = bytes / static_cast<size_t>(job_.size);
      time("reduce", bytes, [&] { library_.reduce(bytes / sizeof(float), stream_); });
      time("broadcast", bytes, [&] { library_.broadcast(bytes, stream_); });
      time("fcollect", each, [&] { library_.fcollect(each, stream_); });
      time("alltoall", each, [&] { library_.alltoall(each, stream_); });
    }
  }

 private:
  // What is timed also gives what it should.
  void check() {
    constexpr size_t kCount = 100'000;
    std::vector<float> values(kCount, static_cast<float>(job_.rank + 1));
    MUST(cudaMemcpy(library_.source(), values.data(), kCount * 4, cudaMemcpyHostToDevice));
    library_.meet(stream_);
    library_.reduce(kCount, stream_);
    MUST(cudaStreamSynchronize(stream_));
    MUST(cudaMemcpy(values.data(), library_.dest(), kCount * 4, cudaMemcpyDeviceToHost));
    const auto wanted = static_cast<float>(job_.size * (job_.size + 1) / 2);
    if (values[0] == wanted && values[kCount - 1] == wanted) return;
    std::fprintf(stderr, "a sum is %g, and not %g\n", values[0], wanted);
    _exit(3);
  }

  void time(const char* name, size_t bytes, const std::function<void()>& work) {
    const int count = bytes >= (size_t{16} << 20) ? 5 : bytes >= (size_t{1} << 20) ? 20 : 100;
    std::vector<double> rounds;
    for (int round = -1; round < kRounds; ++round) {
      library_.meet(stream_);
      MUST(cudaStreamSynchronize(stream_));
      library_.meet(stream_);
      MUST(cudaEventRecord(begin_, stream_));
      for (int i = 0; i < count; ++i) work();
      MUST(cudaEventRecord(end_, stream_));
      MUST(cudaStreamSynchronize(stream_));
      float milliseconds = 0;
      MUST(cudaEventElapsedTime(&milliseconds, begin_, end_));
      if (round >= 0) rounds.push_back(milliseconds * 1e3 / count);
    }
    std::sort(rounds.begin(), rounds.end());
    if (job_.rank == 0) std::printf("%s %zu %.2f\n", name, bytes, rounds[kRounds / 2]);
    std::fflush(stdout);
  }

  Library& library_;
  const Job job_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  const size_t mib = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 256;
  setenv("NVSHMEM_SYMMETRIC_SIZE", (std::to_string(2 * mib + 64) + "M").c_str(), 0);
  if (size < 1 || mib < 1) {
    std::fprintf(stderr, "usage: %s [GPUS [MIB_MAX]]\n", argv[0]);
    return 2;
  }
  return bench::run_job(size, mib << 20, [](const Job& job) {
    Library library(job);
    Bench(library, job).run();
  });
}
