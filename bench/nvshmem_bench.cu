// What one PE's kernels, streams and host do to another one's memory, between two GPUs of one
// machine: one program for nvshmem.h, built with Penstock's library or with NVIDIA's
// (nvshmem_against.py runs both in turn). Where there is one GPU, its PE is its own neighbour. A
// line for each figure:
//   NAME BY GRID BYTES UNIT VALUE
// of which each is the median of five rounds. `bare` is what a loop of one block that copies with
// 16 bytes for each thread, and does nothing else, reaches between the same addresses.
//
//   nvcc -x cu -std=c++17 -O2 -arch=sm_90 -rdc=true -I$NVSHMEM_HOME/include -L$NVSHMEM_HOME/lib
//     nvshmem_bench.cu -o bench_ours -lnvshmem -lcuda     (in one line)
//   bench_ours [GPUS [PART...]]     parts: copies words signals barriers streams host
//
// NVIDIA's: NVSHMEM_DISABLE_NVLS=1 NVSHMEM_REMOTE_TRANSPORT=none.
#include "nvshmem_kernels.cuh"

#include <chrono>
#include <functional>

namespace {

using bench::Job;

constexpr int kRounds = 5;
constexpr size_t kBytesMax = size_t{64} << 20;

struct Grid {
  By by;
  int blocks;
  int threads;
};
constexpr Grid kGrids[] = {{By::thread, 1, 1},   {By::warp, 1, 32},    {By::block, 1, 256},
                           {By::block, 1, 512},  {By::block, 1, 1024}, {By::block, 32, 1024},
                           {By::block, 132, 512}};

const char* name_of(By by) {
  return by == By::thread ? "thread" : by == By::warp ? "warp" : "block";
}

class Bench {
 public:
  explicit Bench(const Job& job) : job_(job), alone_(job.size == 1) {
    bench::join_by_id(job);
    peer_ = (job.rank + 1) % job.size;
    source_ = static_cast<char*>(nvshmem_malloc(kBytesMax));
    dest_ = static_cast<char*>(nvshmem_malloc(kBytesMax));
    signal_ = static_cast<uint64_t*>(nvshmem_calloc(256, sizeof(uint64_t)));
    if (source_ == nullptr || dest_ == nullptr || signal_ == nullptr) _exit(2);
    MUST(cudaMemset(source_, 0, kBytesMax));
    MUST(cudaStreamCreate(&stream_));
    MUST(cudaEventCreate(&begin_));
    MUST(cudaEventCreate(&end_));
    MUST(cudaDeviceSynchronize());
  }

  bool run(const std::string& part) {
    if (part == "copies")
      copies();
    else if (part == "words")
      words();
    else if (part == "signals")
      signals();
    else if (part == "barriers")
      all_barriers();
    else if (part == "streams")
      streams();
    else if (part == "host")
      host();
    else
      return false;
    return true;
  }

 private:
  void say(const char* name, const char* by, int blocks, int threads, size_t bytes,
           const char* unit, double value) {
    if (job_.rank == 0) {
      std::printf("%s %s %dx%d %zu %s %.4f\n", name, by, blocks, threads, bytes, unit, value);
    }
    std::fflush(stdout);
  }

  // Microseconds of what `launch` puts on the stream. All PEs come together before each round.
  template <class Launch>
  double time(bool by_all, Launch&& launch) {
    std::vector<double> rounds;
    for (int round = -1; round < kRounds; ++round) {
      nvshmem_barrier_all();
      if (!by_all && job_.rank != 0) continue;
      MUST(cudaEventRecord(begin_, stream_));
      launch();
      MUST(cudaEventRecord(end_, stream_));
      MUST(cudaStreamSynchronize(stream_));
      MUST(cudaGetLastError());
      float milliseconds = 0;
      MUST(cudaEventElapsedTime(&milliseconds, begin_, end_));
      if (round >= 0) rounds.push_back(milliseconds * 1e3);
    }
    nvshmem_barrier_all();
    if (rounds.empty()) return 0;
    std::sort(rounds.begin(), rounds.end());
    return rounds[kRounds / 2];
  }

  // As many as take some hundred microseconds, and no launch counts.
  static int count_for(size_t bytes) {
    return static_cast<int>(std::clamp<size_t>((size_t{8} << 20) / bytes, 4, 500));
  }

  template <By kBy>
  void copies_by(const Grid& grid) {
    const char* const by = name_of(kBy);
    const size_t most = kBy == By::thread ? 32768 : kBy == By::warp ? 262144 : kBytesMax;
    for (size_t bytes = 8; bytes <= most; bytes *= 4) {
      const size_t blocks = static_cast<size_t>(grid.blocks);
      const size_t each = bytes / blocks / 16 * 16;
      if (blocks > 1 && each < 16) continue;
      Copies it = {dest_, source_, blocks == 1 ? bytes : each, peer_, count_for(bytes)};
      const double moved = 1e-3 * static_cast<double>(it.bytes) * grid.blocks * it.count;
      const auto figure = [&](const char* name, double us) {
        say(name, by, grid.blocks, grid.threads, bytes, "GB/s", moved / us);
      };
      figure("put", time(false, [&] { puts<kBy><<<grid.blocks, grid.threads, 0, stream_>>>(it); }));
      figure("get", time(false, [&] { gets<kBy><<<grid.blocks, grid.threads, 0, stream_>>>(it); }));
      figure("get_new", time(false, [&] {
               gets_of_new<kBy><<<grid.blocks, grid.threads, 0, stream_>>>(it, kBytesMax);
             }));
      if (blocks == 1) {
        const double us =
            time(false, [&] { puts_with_quiet<kBy><<<1, grid.threads, 0, stream_>>>(it); });
        say("put_quiet", by, 1, grid.threads, bytes, "us", us / it.count);
      }
      if (kBy == By::block && blocks == 1 && bytes >= 512) bare_loops(grid, bytes, it.count, moved);
    }
  }

  void bare_loops(const Grid& grid, size_t bytes, int count, double moved) {
    auto* const there = static_cast<uint4*>(nvshmem_ptr(dest_, peer_));
    const auto* const here = reinterpret_cast<const uint4*>(source_);
    if (there == nullptr) return;
    double best = 1e30;
    const auto run_with = [&](auto kernel) {
      best = std::min(best, time(false, [&] {
                        kernel<<<1, grid.threads, 0, stream_>>>(there, here, bytes / 16, count);
                      }));
    };
    run_with(bare<1>);
    run_with(bare<2>);
    run_with(bare<4>);
    run_with(bare<8>);
    say("bare", "block", 1, grid.threads, bytes, "GB/s", moved / best);
  }

  void copies() {
    for (const Grid& grid : kGrids) {
      if (grid.by == By::thread) copies_by<By::thread>(grid);
      if (grid.by == By::warp) copies_by<By::warp>(grid);
      if (grid.by == By::block) copies_by<By::block>(grid);
    }
  }

  void words() {
    auto* const dest = reinterpret_cast<uint64_t*>(dest_);
    const auto* const source = reinterpret_cast<const uint64_t*>(source_);
    auto* const out = reinterpret_cast<uint64_t*>(source_ + kBytesMax / 2);
    constexpr int kCount = 500;
    const auto each = [&](const char* name, double us) {
      say(name, "thread", 1, 1, 8, "ns", us * 1e3 / kCount);
    };
    each("p_quiet", time(false, [&] { p_with_quiet<<<1, 1, 0, stream_>>>(dest, peer_, kCount); }));
    each("p", time(false, [&] { p_many<<<1, 1, 0, stream_>>>(dest, peer_, kCount); }));
    each("g", time(false, [&] { g_many<<<1, 1, 0, stream_>>>(source, out, peer_, kCount); }));
    each("g_new", time(false, [&] {
           g_of_new<<<1, 1, 0, stream_>>>(source, out, kBytesMax / 16, peer_, kCount);
         }));
    each("add", time(false, [&] {
           atomics<Atomic::add><<<1, 1, 0, stream_>>>(dest, out, peer_, kCount);
         }));
    each("set", time(false, [&] {
           atomics<Atomic::set><<<1, 1, 0, stream_>>>(dest, out, peer_, kCount);
         }));
    each("fetch_add", time(false, [&] {
           atomics<Atomic::fetch_add><<<1, 1, 0, stream_>>>(dest, out, peer_, kCount);
         }));
    each("fetch", time(false, [&] {
           atomics<Atomic::fetch><<<1, 1, 0, stream_>>>(dest, out, peer_, kCount);
         }));
    each("compare_swap", time(false, [&] {
           atomics<Atomic::compare_swap><<<1, 1, 0, stream_>>>(dest, out, peer_, kCount);
         }));
    for (const int blocks : {1, 32, 132}) {
      const double all = blocks * 1024.0 * kCount;
      const double put =
          time(false, [&] { p_many<<<blocks, 1024, 0, stream_>>>(dest, peer_, kCount); });
      say("p_rate", "thread", blocks, 1024, 8, "M/s", all / put);
      const double got =
          time(false, [&] { g_many<<<blocks, 1024, 0, stream_>>>(source, out, peer_, kCount); });
      say("g_rate", "thread", blocks, 1024, 8, "M/s", all / got);
    }
  }

  template <By kBy>
  void ping_pongs(int threads, size_t bytes) {
    constexpr int kCount = 300;
    const double us = time(true, [&] {
      const PingPong it = {dest_, source_, bytes, signal_, told_, peer_, kCount, job_.rank, alone_};
      ping_pong<kBy><<<alone_ ? 2 : 1, threads, 0, stream_>>>(it);
      told_ += kCount;
    });
    say(bytes == 0 ? "signal_one_way" : "put_signal_one_way", name_of(kBy), 1, threads, bytes, "us",
        us / kCount / 2);
  }

  void signals() {
    if (job_.size > 2) return;
    ping_pongs<By::thread>(1, 0);
    ping_pongs<By::thread>(1, 8);
    for (const size_t bytes : {8, 64, 512, 4096}) ping_pongs<By::warp>(32, bytes);
    for (const int threads : {256, 1024}) {
      for (const size_t bytes : {8, 64, 512, 4096, 32768, 262144})
        ping_pongs<By::block>(threads, bytes);
    }
  }

  template <By kBy>
  void barriers_by(int threads) {
    constexpr int kCount = 300;
    const auto kernel = [&](auto which) {
      void* none[] = {nullptr};
      int count = kCount;
      none[0] = &count;
      return time(true, [&] {
        MUST(nvshmemx_collective_launch(reinterpret_cast<const void*>(which), dim3(1),
                                        dim3(static_cast<unsigned>(threads)), none, 0, stream_));
      });
    };
    say("device_barrier", name_of(kBy), 1, threads, 0, "us", kernel(barriers<kBy, false>) / kCount);
    say("device_sync", name_of(kBy), 1, threads, 0, "us", kernel(barriers<kBy, true>) / kCount);
  }

  void all_barriers() {
    barriers_by<By::thread>(1);
    barriers_by<By::warp>(32);
    barriers_by<By::block>(256);
    barriers_by<By::block>(1024);
  }

  void captured(const char* name, size_t bytes, int count, const std::function<void()>& work) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    MUST(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < count; ++i) work();
    MUST(cudaStreamEndCapture(stream_, &graph));
    MUST(cudaGraphInstantiate(&ready, graph, 0));
    const double us = time(true, [&] { MUST(cudaGraphLaunch(ready, stream_)); });
    say(name, "graph", count, 0, bytes, "us", us / count);
    MUST(cudaGraphExecDestroy(ready));
    MUST(cudaGraphDestroy(graph));
  }
  void streamed(const char* name, bool by_all, size_t bytes, const std::function<void()>& work) {
    constexpr int kCount = 200;
    const double us = time(by_all, [&] {
      for (int i = 0; i < kCount; ++i) work();
    });
    say(name, "stream", 1, 0, bytes, "us", us / kCount);
  }

  void streams() {
    const auto barrier = [&] { nvshmemx_barrier_all_on_stream(stream_); };
    captured("barrier", 0, 1000, barrier);
    streamed("barrier", true, 0, barrier);
    for (const size_t bytes :
         {size_t{8}, size_t{8192}, size_t{65536}, size_t{131072}, size_t{1} << 20}) {
      streamed("put_on_stream", false, bytes,
               [&] { nvshmemx_putmem_on_stream(dest_, source_, bytes, peer_, stream_); });
      streamed("get_on_stream", false, bytes,
               [&] { nvshmemx_getmem_on_stream(dest_, source_, bytes, peer_, stream_); });
      streamed("put_signal_on_stream", false, bytes, [&] {
        nvshmemx_putmem_signal_on_stream(dest_, source_, bytes, signal_ + 128, 1,
                                         NVSHMEM_SIGNAL_SET, peer_, stream_);
      });
    }
    streamed("quiet_on_stream", false, 0, [&] { nvshmemx_quiet_on_stream(stream_); });
  }

  void hosted(const char* name, bool by_all, size_t bytes, const std::function<void()>& work) {
    constexpr int kCount = 200;
    std::vector<double> rounds;
    for (int round = -1; round < kRounds; ++round) {
      nvshmem_barrier_all();
      if (!by_all && job_.rank != 0) continue;
      const auto began = std::chrono::steady_clock::now();
      for (int i = 0; i < kCount; ++i) work();
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - began;
      if (round >= 0) rounds.push_back(took.count() / kCount);
    }
    nvshmem_barrier_all();
    if (rounds.empty()) return say(name, "host", 1, 0, bytes, "us", 0);
    std::sort(rounds.begin(), rounds.end());
    say(name, "host", 1, 0, bytes, "us", rounds[kRounds / 2]);
  }

  void host() {
    hosted("host_barrier", true, 0, [] { nvshmem_barrier_all(); });
    hosted("host_p", false, 4, [&] { nvshmem_int_p(reinterpret_cast<int*>(dest_), 1, peer_); });
    hosted("host_g", false, 4,
           [&] { (void)nvshmem_int_g(reinterpret_cast<const int*>(dest_), peer_); });
    hosted("host_put", false, 4096, [&] { nvshmem_putmem(dest_, source_, 4096, peer_); });
  }

  const Job job_;
  const bool alone_;
  int peer_ = 0;
  char* source_ = nullptr;
  char* dest_ = nullptr;
  uint64_t* signal_ = nullptr;
  uint64_t told_ = 0;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  std::vector<std::string> parts(argv + std::min(argc, 2), argv + argc);
  if (parts.empty()) parts = {"copies", "words", "signals", "barriers", "streams", "host"};
  if (size < 1) {
    std::fprintf(stderr, "usage: %s [GPUS [PART...]]\n", argv[0]);
    return 2;
  }
  setenv("NVSHMEM_SYMMETRIC_SIZE", "256M", 0);
  return bench::run_job(size, kBytesMax, [&](const Job& job) {
    Bench bench(job);
    for (const std::string& part : parts) {
      if (!bench.run(part)) {
        std::fprintf(stderr, "there is no part %s\n", part.c_str());
        _exit(2);
      }
    }
  });
}
