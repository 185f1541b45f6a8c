// Collective operations on streams by PEs that are threads of one process, so that their kernels
// run at the same time also where they share a GPU, where processes take turns. Looks at what they
// give, again and again, and how long they take. Built on demand; for machines with GPUs:
//   symm_threads [PES [MIB_MAX [ROUNDS]]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime_api.h>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/symm.h"

namespace penstock::symm {
namespace {

#define MUST(condition)                                                         \
  do {                                                                          \
    if (!(condition)) {                                                         \
      std::fprintf(stderr, "FAIL %s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::fflush(stdout);                                                      \
      std::_Exit(1);                                                            \
    }                                                                           \
  } while (false)

// Some of what is looked at, whatever is timed.
constexpr uint64_t kBytesLeast = uint64_t{4} << 20;

struct Options {
  uint32_t pes = 2;
  uint64_t bytes_max = uint64_t{256} << 20;
  int rounds = 100;
};

uint64_t value_of(uint64_t pe, uint64_t i) {
  return (pe + 1) * 0x9e3779b97f4a7c15U + i * 0x94d049bb133111ebU;
}

class ThreadPe {
 public:
  ThreadPe(const Options& options, const job::UniqueId& id, uint32_t rank) : options_(options) {
    auto member = job::Member::by_unique_id(
        id, rank, options.pes, std::chrono::steady_clock::now() + std::chrono::seconds(60));
    MUST(member);
    member_ = std::move(*member);
    auto group = Group::join(*member_, {.heap_bytes = uint64_t{1} << 20});
    MUST(group);
    group_ = std::move(*group);
    int devices = 0;
    MUST(cudaGetDeviceCount(&devices) == cudaSuccess);
    const int device = static_cast<int>(rank) % devices;
    MUST(cudaSetDevice(device) == cudaSuccess);
    auto opened = gpu::open_symmetric_device(engine::DeviceId(static_cast<uint32_t>(device)));
    MUST(opened);
    device_ = std::move(*opened);
    const uint64_t most = options.bytes_max;
    auto heap =
        DeviceHeap::make(*group_, *device_, {.bytes = most * (options.pes + 1) + (1 << 22)});
    if (!heap) std::fprintf(stderr, "%s\n", heap.error().message.c_str());
    MUST(heap);
    heap_ = std::move(*heap);
    auto streams = DeviceStreams::make(*heap_);
    if (!streams) std::fprintf(stderr, "%s\n", streams.error().message.c_str());
    MUST(streams);
    streams_ = std::move(*streams);
    source_ = heap_->address(*heap_->allocate(most, 512));
    dest_ = heap_->address(*heap_->allocate(most * options.pes, 512));
    MUST(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess);
    meet();
  }

  void run() {
    sums_again_and_again();
    bytes_again_and_again();
    times();
    meet();
  }

  void leave() {
    streams_.reset();
    heap_.reset();
    group_.reset();
    member_->leave();
  }

 private:
  void meet() { MUST(group_->barrier(group_->world()).ok()); }
  DeviceCollectives& operations() { return streams_->collectives(); }
  const Team& world() { return group_->world(); }
  void wait() {
    MUST(cudaStreamSynchronize(stream_) == cudaSuccess);
    MUST(streams_->failure() == device::kSymmNothing);
  }
  void passed(const char* what) {
    meet();
    if (group_->me() == 0) std::printf("PASS %u PEs as threads: %s\n", options_.pes, what);
    std::fflush(stdout);
  }

  cudaGraphExec_t captured(const std::function<void()>& work) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t out = nullptr;
    // One after the other: nothing is made while kernels wait.
    for (uint32_t pe = 0; pe < group_->size(); ++pe) {
      meet();
      if (pe != group_->me()) continue;
      MUST(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
      work();
      MUST(cudaStreamEndCapture(stream_, &graph) == cudaSuccess);
      MUST(cudaGraphInstantiate(&out, graph, 0) == cudaSuccess);
      MUST(cudaGraphUpload(out, stream_) == cudaSuccess);
      MUST(cudaStreamSynchronize(stream_) == cudaSuccess);
      MUST(cudaGraphDestroy(graph) == cudaSuccess);
    }
    meet();
    return out;
  }

  void sums_again_and_again() {
    const std::vector<uint64_t> counts = {1, 100, 3000, 20'000, 2, 200'001, 3, 1500};
    auto* const words = reinterpret_cast<uint64_t*>(dest_);
    std::vector<uint64_t> begins;
    uint64_t total = 0;
    for (const uint64_t count : counts) {
      begins.push_back(total);
      total += count;
    }
    std::vector<uint64_t> values(total);
    for (uint64_t i = 0; i < total; ++i) values[i] = value_of(group_->me(), i);
    MUST(cudaMemcpy(words, values.data(), total * 8, cudaMemcpyHostToDevice) == cudaSuccess);
    const auto all = [&] {
      for (size_t i = 0; i < counts.size(); ++i) {
        uint64_t* const at = words + begins[i];
        MUST(operations()
                 .reduce(world(), {Combine::sum, Element::u64}, at, at, counts[i], stream_)
                 .ok());
      }
    };
    cudaGraphExec_t graph = captured(all);
    int done = 0;
    for (int round = 0; round < options_.rounds; ++round) {
      MUST(cudaGraphLaunch(graph, stream_) == cudaSuccess);
      all();
      done += 2;
    }
    wait();
    MUST(cudaMemcpy(values.data(), words, total * 8, cudaMemcpyDeviceToHost) == cudaSuccess);
    for (uint64_t i = 0; i < total; ++i) {
      uint64_t sum = 0;
      for (uint32_t pe = 0; pe < options_.pes; ++pe) sum += value_of(pe, i);
      for (int k = 1; k < done; ++k) sum *= options_.pes;
      MUST(values[i] == sum);
    }
    passed("sums in place, alone and in graphs");
    MUST(cudaGraphExecDestroy(graph) == cudaSuccess);
  }

  // What each round broadcasts is what the one before collected.
  void bytes_again_and_again() {
    const std::vector<uint64_t> sizes = {8, 1000, 40'000, 3'000'000, 17, 20'000};
    for (const uint64_t bytes : sizes) {
      std::vector<uint64_t> values(bytes / 8 + 1), got(bytes / 8 * options_.pes + options_.pes);
      for (uint64_t i = 0; i < values.size(); ++i) values[i] = value_of(group_->me(), i);
      MUST(cudaMemcpy(source_, values.data(), bytes, cudaMemcpyHostToDevice) == cudaSuccess);
      meet();
      for (int round = 0; round < options_.rounds; ++round) {
        const auto root = static_cast<uint32_t>(round) % options_.pes;
        MUST(operations().fcollect(world(), dest_, source_, bytes, stream_).ok());
        // Everybody's source becomes the next one's.
        const uint32_t next = (group_->me() + 1) % options_.pes;
        MUST(cudaMemcpyAsync(source_, dest_ + next * bytes, bytes, cudaMemcpyDeviceToDevice,
                             stream_) == cudaSuccess);
        MUST(operations().broadcast(world(), dest_, source_, bytes, root, stream_).ok());
      }
      MUST(operations().fcollect(world(), dest_, source_, bytes, stream_).ok());
      wait();
      MUST(cudaMemcpy(got.data(), dest_, bytes * options_.pes, cudaMemcpyDeviceToHost) ==
           cudaSuccess);
      for (uint32_t pe = 0; pe < options_.pes; ++pe) {
        const uint32_t from = (pe + static_cast<uint32_t>(options_.rounds)) % options_.pes;
        for (uint64_t i = 0; i < values.size(); ++i) values[i] = value_of(from, i);
        MUST(std::memcmp(values.data(), reinterpret_cast<char*>(got.data()) + pe * bytes, bytes) ==
             0);
      }
      meet();
    }
    passed("fcollect and broadcast in turns");
  }

  double timed(int count, const std::function<void()>& work) {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      meet();
      const auto begin = std::chrono::steady_clock::now();
      work();
      wait();
      best = std::min(
          best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best / count * 1e6;
  }

  void time_one(const char* name, uint64_t bytes, const std::function<void()>& work) {
    const int count = bytes > (4 << 20) ? 10 : 100;
    const auto many = [&] {
      for (int i = 0; i < count; ++i) work();
    };
    const double alone = timed(count, many);
    cudaGraphExec_t graph = captured(many);
    const double in_graph =
        timed(count, [&] { MUST(cudaGraphLaunch(graph, stream_) == cudaSuccess); });
    MUST(cudaGraphExecDestroy(graph) == cudaSuccess);
    if (group_->me() != 0) return;
    std::printf("%-16s %10lu B  alone %9.2f us  in a graph %9.2f us %8.1f GB/s\n", name, bytes,
                alone, in_graph, static_cast<double>(bytes) / in_graph / 1e3);
    std::fflush(stdout);
  }

  void times() {
    time_one("barrier", 0, [&] { MUST(streams_->barrier(world(), stream_).ok()); });
    for (uint64_t bytes = 8; bytes <= options_.bytes_max; bytes *= bytes < 65536 ? 8 : 4) {
      time_one("reduce f32", bytes, [&] {
        MUST(operations()
                 .reduce(world(), {Combine::sum, Element::f32}, dest_, source_, bytes / 4, stream_)
                 .ok());
      });
      time_one("reduce f16", bytes, [&] {
        MUST(operations()
                 .reduce(world(), {Combine::sum, Element::f16}, dest_, source_, bytes / 2, stream_)
                 .ok());
      });
      if (bytes / options_.pes >= 4) {
        time_one("reducescatter", bytes, [&] {
          MUST(operations()
                   .reducescatter(world(), {Combine::sum, Element::f32}, dest_, source_,
                                  bytes / 4 / options_.pes, stream_)
                   .ok());
        });
        time_one("alltoall", bytes, [&] {
          MUST(operations().alltoall(world(), dest_, source_, bytes / options_.pes, stream_).ok());
        });
      }
      time_one("broadcast", bytes, [&] {
        MUST(operations().broadcast(world(), dest_, source_, bytes, 0, stream_).ok());
      });
      time_one("fcollect", bytes,
               [&] { MUST(operations().fcollect(world(), dest_, source_, bytes, stream_).ok()); });
    }
  }

  const Options options_;
  std::unique_ptr<job::Member> member_;
  std::unique_ptr<Group> group_;
  std::unique_ptr<gpu::SymmetricDevice> device_;
  std::unique_ptr<DeviceHeap> heap_;
  std::unique_ptr<DeviceStreams> streams_;
  std::byte* source_ = nullptr;
  std::byte* dest_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace
}  // namespace penstock::symm

int main(int argc, char** argv) {
  using namespace penstock;
  symm::Options options;
  if (argc > 1) options.pes = static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 10));
  if (argc > 2) options.bytes_max = std::strtoull(argv[2], nullptr, 10) << 20;
  if (argc > 3) options.rounds = std::atoi(argv[3]);
  if (options.pes == 0 || options.bytes_max < symm::kBytesLeast || options.rounds <= 0) {
    std::fprintf(stderr, "usage: symm_threads [PES [MIB_MAX [ROUNDS]]], with 4 MiB at least\n");
    return 2;
  }
  auto gate = job::Gate::open("lo");
  MUST(gate);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < options.pes; ++rank) {
    threads.emplace_back([&options, id = (*gate)->id(), rank] {
      symm::ThreadPe pe(options, id, rank);
      pe.run();
      pe.leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("PASS threads\n");
  return 0;
}
