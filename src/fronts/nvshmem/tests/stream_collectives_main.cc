// Makes every collective operation of the host, on streams, in graphs and until it is complete, on
// all PEs of a job, with several sizes and alignments, and looks at all bytes that came out. Linked
// with the source that programs.py makes.
#include "stream_collectives.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr size_t kGuard = 64;
constexpr unsigned char kUntouched = 0x5a;
constexpr size_t kSourceBytes = size_t{80} << 20;
constexpr size_t kDestBytes = size_t{160} << 20;

int me, pes, failed, done;
cudaStream_t stream;
char *source_area, *dest_area;

void must(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%d: %s: %s\n", me, what, cudaGetErrorString(result));
  nvshmem_global_exit(1);
}
void expect(bool so, const std::string& what) {
  ++done;
  if (so) return;
  ++failed;
  if (failed <= 20) std::printf("FAIL %d: %s\n", me, what.c_str());
}

struct Team {
  nvshmem_team_t number;
  int size;
  int index;
};

struct Case {
  size_t count;
  size_t source_at = 0;  // elements from an aligned address
  size_t dest_at = 0;
  bool in_place = false;
  bool by_host = false;
  int root = 0;
};

size_t elements_given(Does does, size_t count, int size) {
  const bool each = does == Does::alltoall || does == Does::reducescatter;
  return each ? count * static_cast<size_t>(size) : count;
}
size_t elements_got(Does does, size_t count, int size) {
  const bool each = does == Does::alltoall || does == Does::fcollect;
  return each ? count * static_cast<size_t>(size) : count;
}

// One operation with its memory: what a PE gives depends on its index and on `salt` alone.
class Trial {
 public:
  Trial(const TriedCollective& tried, const Team& team, Case which, size_t salt)
      : tried_(tried), team_(team), case_(which), salt_(salt) {
    if (tried.does == Does::alltoall) case_.in_place = false;
    case_.root %= team.size;
    given_ = elements_given(tried.does, case_.count, team.size) * tried.element;
    got_ = elements_got(tried.does, case_.count, team.size) * tried.element;
    source_ = source_area + kGuard + case_.source_at * tried.element;
    dest_ = dest_area + kGuard + case_.dest_at * tried.element;
    if (!case_.in_place) return;
    const size_t own = static_cast<size_t>(team.index) * case_.count * tried.element;
    if (tried.does == Does::fcollect) {
      source_ = dest_ + own;
    } else if (tried.does == Does::reducescatter) {
      source_ = dest_area + kGuard;
      dest_ = source_ + own;
    } else {
      source_ = dest_;
    }
  }

  // Nothing here waits for the other PEs: the operation itself has to.
  void run() {
    std::vector<char> source(given_);
    for (size_t i = 0; i < given_ / tried_.element; ++i)
      tried_.make(source.data() + i * tried_.element, team_.index, i + salt_);
    must(cudaMemsetAsync(dest_ - kGuard / 2, kUntouched, got_ + kGuard, stream), "memset");
    must(cudaMemcpyAsync(source_, source.data(), given_, cudaMemcpyHostToDevice, stream), "copy");
    if (case_.by_host) must(cudaStreamSynchronize(stream), "synchronize");
    const Call call = {team_.number, dest_, source_, case_.count, case_.root, stream};
    const int result = case_.by_host ? tried_.by_host(call) : tried_.on_stream(call);
    expect(result == 0, name() + " gave " + std::to_string(result));
    std::vector<char> got(got_ + kGuard);
    must(
        cudaMemcpyAsync(got.data(), dest_ - kGuard / 2, got.size(), cudaMemcpyDeviceToHost, stream),
        "copy");
    must(cudaStreamSynchronize(stream), tried_.name);
    check(got);
  }

 private:
  std::string name() const {
    return std::string(tried_.name) + (case_.by_host ? " by host" : "") + ", " +
           std::to_string(case_.count) + " elements" + (case_.in_place ? " in place" : "") +
           ", apart " + std::to_string(case_.source_at) + "/" + std::to_string(case_.dest_at) +
           ", team of " + std::to_string(team_.size);
  }

  void element(size_t i, char* out) const {
    const size_t count = case_.count;
    const auto index = static_cast<size_t>(team_.index);
    switch (tried_.does) {
      case Does::broadcast:
        tried_.make(out, case_.root, i + salt_);
        return;
      case Does::fcollect:
        tried_.make(out, static_cast<int>(i / count), i % count + salt_);
        return;
      case Does::alltoall:
        tried_.make(out, static_cast<int>(i / count), i % count + count * index + salt_);
        return;
      case Does::reduce:
      case Does::reducescatter: {
        char all[64 * 8];
        const size_t at = tried_.does == Does::reduce ? i : i + count * index;
        for (int other = 0; other < team_.size; ++other)
          tried_.make(all + tried_.element * static_cast<size_t>(other), other, at + salt_);
        tried_.combine(out, all, team_.size);
        return;
      }
    }
  }

  void check(const std::vector<char>& got) const {
    size_t wrong = 0, first = 0;
    char expected[16];
    for (size_t i = 0; i < got_ / tried_.element; ++i) {
      element(i, expected);
      if (std::memcmp(expected, got.data() + kGuard / 2 + i * tried_.element, tried_.element) !=
          0) {
        if (wrong++ == 0) first = i;
      }
    }
    expect(wrong == 0, name() + ": " + std::to_string(wrong) + " elements wrong, the first " +
                           std::to_string(first));
    if (case_.in_place && tried_.does == Does::reducescatter) return;
    bool untouched = true;
    for (size_t i = 0; i < kGuard / 2; ++i) {
      untouched = untouched && got[i] == static_cast<char>(kUntouched) &&
                  got[kGuard / 2 + got_ + i] == static_cast<char>(kUntouched);
    }
    expect(untouched, name() + ": wrote beside its dest");
  }

  const TriedCollective& tried_;
  const Team team_;
  Case case_;
  const size_t salt_;
  size_t given_, got_;
  char *source_, *dest_;
};

void every_function(const Team& team) {
  const Case cases[] = {{1},
                        {7, 1, 1},
                        {1000, 0, 0, true, false, 1},
                        {333, 3, 0, false, true, 2},
                        {9001, 1, 1, false, false, 3},
                        {8200, 0, 1}};
  size_t salt = 0;
  for (int i = 0; i < tried_collectives_count; ++i) {
    for (const Case& one : cases) Trial(tried_collectives[i], team, one, ++salt).run();
  }
}

const TriedCollective& find(const char* name) {
  for (int i = 0; i < tried_collectives_count; ++i) {
    if (std::strcmp(tried_collectives[i].name, name) == 0) return tried_collectives[i];
  }
  std::fprintf(stderr, "no %s\n", name);
  std::exit(1);
}

const char* const kSome[] = {
    "nvshmemx_float_sum_reduce_on_stream", "nvshmemx_half_max_reduce_on_stream",
    "nvshmemx_uint8_xor_reduce_on_stream", "nvshmemx_double_sum_reducescatter_on_stream",
    "nvshmemx_broadcastmem_on_stream",     "nvshmemx_fcollectmem_on_stream",
    "nvshmemx_alltoallmem_on_stream",
};

void sizes(const Team& team) {
  size_t salt = 77;
  for (const char* const name : kSome) {
    const TriedCollective& tried = find(name);
    for (size_t bytes = 8; bytes <= (size_t{32} << 20); bytes *= 8) {
      const size_t count = bytes / static_cast<size_t>(team.size) / tried.element;
      if (count == 0) continue;
      Trial(tried, team, {count, 0, 0, false, false, static_cast<int>(salt)}, ++salt).run();
      Trial(tried, team, {count - count / 9, 0, 0, true, false, static_cast<int>(salt)}, ++salt)
          .run();
      Trial(tried, team, {count - 1 + (count == 1), 5, 2, false, false, static_cast<int>(salt)},
            ++salt)
          .run();
    }
  }
}

// Sums in place, again and again, of sizes that go different ways, with nothing between them.
void in_graphs(const Team& team) {
  const size_t counts[] = {1, 100, 1500, 20'000, 1, 300'000, 3};
  constexpr int kEach = 7, kRounds = 5, kLaunches = 3;
  auto* const words = reinterpret_cast<uint64_t*>(dest_area);
  auto* const collected = reinterpret_cast<uint64_t*>(source_area);
  size_t begin[kEach], total = 0;
  for (int i = 0; i < kEach; ++i) {
    begin[i] = total;
    total += counts[i];
  }
  std::vector<uint64_t> values(total);
  for (size_t i = 0; i < total; ++i) values[i] = scrambled(static_cast<uint64_t>(team.index), i);
  must(cudaMemcpy(words, values.data(), total * 8, cudaMemcpyHostToDevice), "copy");
  cudaGraph_t graph;
  cudaGraphExec_t launched;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kEach; ++i) {
      nvshmemx_uint64_sum_reduce_on_stream(team.number, words + begin[i], words + begin[i],
                                           counts[i], stream);
    }
    nvshmemx_uint64_fcollect_on_stream(team.number, collected, words, 1000, stream);
  }
  must(cudaStreamEndCapture(stream, &graph), "end of capture");
  must(cudaGraphInstantiate(&launched, graph, 0), "instantiate");
  for (int i = 0; i < kLaunches; ++i) must(cudaGraphLaunch(launched, stream), "launch");
  std::vector<uint64_t> got(total), got_of_all(1000 * static_cast<size_t>(team.size));
  must(cudaMemcpyAsync(got.data(), words, total * 8, cudaMemcpyDeviceToHost, stream), "copy");
  must(cudaMemcpyAsync(got_of_all.data(), collected, got_of_all.size() * 8, cudaMemcpyDeviceToHost,
                       stream),
       "copy");
  must(cudaStreamSynchronize(stream), "graph");
  size_t wrong = 0;
  for (size_t i = 0; i < total; ++i) {
    uint64_t sum = 0;
    for (int other = 0; other < team.size; ++other)
      sum += scrambled(static_cast<uint64_t>(other), i);
    for (int k = 1; k < kRounds * kLaunches; ++k) sum *= static_cast<uint64_t>(team.size);
    if (got[i] != sum) ++wrong;
  }
  for (size_t i = 0; i < got_of_all.size(); ++i) {
    if (got_of_all[i] != got[i % 1000]) ++wrong;
  }
  expect(wrong == 0, "in a graph: " + std::to_string(wrong) + " words wrong");
  must(cudaGraphExecDestroy(launched), "destroy");
  must(cudaGraphDestroy(graph), "destroy");
}

void mistakes() {
  auto* const word = reinterpret_cast<float*>(dest_area);
  expect(nvshmemx_float_sum_reduce_on_stream(NVSHMEM_TEAM_INVALID, word, word, 1, stream) == -1,
         "a team that is not there");
  expect(nvshmem_float_broadcast(100, word, word, 1, 0) == -1, "a team that is not there");
  expect(nvshmem_float_fcollect(NVSHMEM_TEAM_WORLD, word, word, 0) == 0, "nothing to do");
}

void timings() {
  if (me == 0) std::printf("# one after the other on a stream, and in a graph of 100; us\n");
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin), "event");
  must(cudaEventCreate(&end), "event");
  const auto time = [&](int count, auto&& work) {
    float best = 1e9f;
    for (int i = 0; i < 4; ++i) {
      must(cudaEventRecord(begin, stream), "event");
      work();
      must(cudaEventRecord(end, stream), "event");
      must(cudaEventSynchronize(end), "timed");
      float ms = 0;
      must(cudaEventElapsedTime(&ms, begin, end), "event");
      best = std::min(best, ms);
    }
    return best * 1000 / static_cast<float>(count);
  };
  for (const char* const name : kSome) {
    const TriedCollective& tried = find(name);
    for (size_t bytes = 8; bytes <= (size_t{64} << 20); bytes *= 8) {
      const size_t count =
          tried.does == Does::reduce || tried.does == Does::broadcast
              ? bytes / tried.element
              : std::max<size_t>(1, bytes / tried.element / static_cast<size_t>(pes));
      const Call call = {NVSHMEM_TEAM_WORLD, dest_area, source_area, count, 0, stream};
      const int repeats = bytes > (1 << 20) ? 10 : 100;
      const float alone = time(repeats, [&] {
        for (int i = 0; i < repeats; ++i) tried.on_stream(call);
      });
      cudaGraph_t graph;
      cudaGraphExec_t launched;
      must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
      for (int i = 0; i < repeats; ++i) tried.on_stream(call);
      must(cudaStreamEndCapture(stream, &graph), "capture");
      must(cudaGraphInstantiate(&launched, graph, 0), "instantiate");
      const float in_graph =
          time(repeats, [&] { must(cudaGraphLaunch(launched, stream), "launch"); });
      if (me == 0) {
        std::printf("%-46s %9zu B %9.2f %9.2f  %7.1f GB/s\n", name, bytes, alone, in_graph,
                    static_cast<double>(bytes) / in_graph / 1000);
      }
      must(cudaGraphExecDestroy(launched), "destroy");
      must(cudaGraphDestroy(graph), "destroy");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  setenv("NVSHMEM_SYMMETRIC_SIZE", "512M", 0);
  nvshmem_init();
  int devices = 0;
  must(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  must(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices), "cudaSetDevice");
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  me = nvshmem_my_pe();
  pes = nvshmem_n_pes();
  source_area = static_cast<char*>(nvshmem_malloc(kSourceBytes));
  dest_area = static_cast<char*>(nvshmem_malloc(kDestBytes));
  const Team world = {NVSHMEM_TEAM_WORLD, pes, me};
  const auto wanted = [&](const char* what) {
    return argc == 1 || std::find_if(argv + 1, argv + argc, [&](const char* one) {
                          return std::strcmp(one, what) == 0;
                        }) != argv + argc;
  };
  const auto part = [&](const char* what, auto&& run) {
    if (!wanted(what)) return;
    failed = done = 0;
    run();
    std::printf("%s %d of %d: %s: %d looked at, %d wrong\n", failed == 0 ? "PASS" : "FAIL", me, pes,
                what, done, failed);
    std::fflush(stdout);
  };
  int all_failed = 0;
  const auto parted = [&](const char* what, auto&& run) {
    part(what, run);
    all_failed += failed;
    failed = 0;
  };
  parted("mistakes", [&] { mistakes(); });
  parted("graphs", [&] { in_graphs(world); });
  parted("sizes", [&] { sizes(world); });
  parted("every", [&] { every_function(world); });
  if (pes >= 3) {
    // Every other PE, and all but the first.
    nvshmem_team_t every_other, others;
    nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 2, (pes + 1) / 2, nullptr, 0, &every_other);
    nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 1, 1, pes - 1, nullptr, 0, &others);
    for (const nvshmem_team_t team : {every_other, others}) {
      if (team == NVSHMEM_TEAM_INVALID) continue;
      const Team one = {team, nvshmem_team_n_pes(team), nvshmem_team_my_pe(team)};
      parted("graphs", [&] { in_graphs(one); });
      parted("sizes", [&] { sizes(one); });
    }
  }
  // PEs that share a GPU hand it over for each operation: nothing to be timed.
  if (pes <= devices) parted("timings", [&] { timings(); });
  nvshmem_barrier_all();
  nvshmem_finalize();
  return all_failed == 0 ? 0 : 1;
}
