// GPUs' memory: by kernels, beside copy engines.
#include "rows.h"

#include <set>

namespace penstock::bench {
namespace {

constexpr uint64_t kLargest = 256 * kMiB;
constexpr uint64_t kOneBlockMost = 16 * kMiB;
constexpr uint64_t kManyBlocksLeast = 64 * kKiB;
constexpr const char* kEngineNote =
    "GPUs: a copy engine on a stream, one copy after the other; of times, less than 1 is better";

// A kernel that does it so many times; `run(rounds)`: seconds of all.
template <class Run>
Outcome<uint64_t> rounds_in(double seconds, Run&& run) {
  constexpr uint64_t kMost = uint64_t{1} << 22;
  uint64_t rounds = 1;
  TRY_ASSIGN(double took, run(rounds));
  while (took < seconds / 4 && rounds < kMost) {
    rounds *= 4;
    TRY_ASSIGN(took, run(rounds));
  }
  return rounds;
}

template <class Run>
Outcome<void> measure_into(std::vector<double>* to, uint64_t rounds, Run&& run) {
  TRY_ASSIGN(const double took, run(rounds));
  to->push_back(took / static_cast<double>(rounds));
  return {};
}

template <class Ours, class Reference>
Outcome<CallTimes> kernels_in_turn(const SymmBench& bench, Ours&& ours, Reference&& reference) {
  CallTimes times;
  TRY_ASSIGN(const uint64_t rounds, rounds_in(bench.seconds, ours));
  TRY_ASSIGN(const uint64_t others, rounds_in(bench.seconds, reference));
  for (uint32_t round = 0; round < bench.rounds; ++round) {
    TRY(measure_into(&times.ours, rounds, ours));
    TRY(measure_into(&times.references, others, reference));
  }
  return times;
}

template <class Ours>
Outcome<CallTimes> kernels_in_rounds(const SymmBench& bench, Ours&& ours) {
  CallTimes times;
  TRY_ASSIGN(const uint64_t rounds, rounds_in(bench.seconds, ours));
  for (uint32_t round = 0; round < bench.rounds; ++round)
    TRY(measure_into(&times.ours, rounds, ours));
  return times;
}

// ---- by PE 0's GPU alone, PE 1 of the node being the other one ----

constexpr uint32_t kOther = 1;

Outcome<void> copies_by_blocks(const SymmBench& bench, SymmGpus& gpus, uint64_t bytes,
                               uint32_t blocks) {
  const SymmGpus::Copy copy{bytes, kOther, blocks};
  const std::string by = blocks == 1 ? ".block" : ".blocks";
  const std::string by_title = blocks == 1 ? "by a block" : fmt::format("by {} blocks", blocks);
  TRY_ASSIGN(const CallTimes put,
             kernels_in_turn(
                 bench, [&](uint64_t rounds) { return gpus.puts(copy, rounds); },
                 [&](uint64_t rounds) { return gpus.engine_puts(copy, rounds); }));
  bench.lines->push_back(
      line_of_bytes("gpu.put" + by, "GPU: put " + by_title, bytes, put, kEngineNote));
  TRY_ASSIGN(const CallTimes get,
             kernels_in_turn(
                 bench, [&](uint64_t rounds) { return gpus.gets(copy, rounds); },
                 [&](uint64_t rounds) { return gpus.engine_gets(copy, rounds); }));
  bench.lines->push_back(
      line_of_bytes("gpu.get" + by, "GPU: get " + by_title, bytes, get, kEngineNote));
  std::fprintf(stderr, ".");
  return {};
}

Outcome<void> copies_of_gpu(const SymmBench& bench, SymmGpus& gpus) {
  for (const uint64_t bytes : sizes_up_to(gpus.bytes())) {
    if (bytes <= kOneBlockMost) TRY(copies_by_blocks(bench, gpus, bytes, 1));
    if (bytes >= kManyBlocksLeast)
      TRY(copies_by_blocks(bench, gpus, bytes, gpus.multiprocessors()));
  }
  for (const uint64_t bytes : sizes_up_to(std::min(kOneBlockMost, gpus.bytes()))) {
    const SymmGpus::Copy copy{bytes, kOther, 1};
    TRY_ASSIGN(const CallTimes times, kernels_in_rounds(bench, [&](uint64_t rounds) {
                 return gpus.put_signals(copy, rounds);
               }));
    bench.lines->push_back(
        line_of_bytes("gpu.put_signal.block", "GPU: put with signal by a block", bytes, times, ""));
  }
  return {};
}

Outcome<void> words_of_gpu(const SymmBench& bench, SymmGpus& gpus) {
  struct Named {
    WordCall call;
    const char* name;
    const char* title;
  };
  for (const Named& one :
       {Named{WordCall::put_quiet, "p", "p and quiet"}, Named{WordCall::get, "g", "g"},
        Named{WordCall::fetch_add, "fetch_add", "fetch_add"}, Named{WordCall::add, "add", "add"},
        Named{WordCall::compare_swap, "compare_swap", "compare_swap"}}) {
    TRY_ASSIGN(const CallTimes times, kernels_in_rounds(bench, [&](uint64_t rounds) {
                 return gpus.words(one.call, kOther, rounds);
               }));
    bench.lines->push_back(line_of_time(std::string("gpu.") + one.name,
                                        std::string("GPU: ") + one.title + " by a thread", times,
                                        ""));
  }
  return {};
}

// ---- by several ----

// As many rounds at each PE. PEs on one GPU give it to one another at each step.
Outcome<CallTimes> same_rounds(const SymmBench& bench, uint64_t rounds,
                               const std::function<Outcome<double>(uint64_t)>& run) {
  CallTimes times;
  TRY(run(1));
  for (uint32_t round = 0; round < bench.rounds; ++round)
    TRY(measure_into(&times.ours, rounds, run));
  return times;
}

Outcome<void> signals_of_gpus(const SymmBench& bench, SymmGpus& gpus, bool is_sharing) {
  const uint32_t me = gpus.group().me();
  if (me > kOther) return {};
  uint64_t begin = 0;
  TRY_ASSIGN(const CallTimes both_ways,
             same_rounds(bench, is_sharing ? 8 : 4'000, [&](uint64_t rounds) {
               const SymmGpus::Pings pings{begin, rounds};
               begin += rounds;
               return gpus.pings(me == 0 ? kOther : 0, me == 0, pings);
             }));
  CallTimes times;
  for (const double one : both_ways.ours) times.ours.push_back(one / 2);
  if (me == 0)
    bench.lines->push_back(line_of_time("gpu.signal", "GPU: signal, one way", times, ""));
  return {};
}

Outcome<void> all_of_node(const SymmBench& bench, SymmGpus& gpus, bool is_sharing) {
  const uint64_t pes = gpus.group().size();
  const auto add = [&](const std::string& name, const std::string& title, uint64_t rounds,
                       const std::function<Outcome<double>(uint64_t)>& run) -> Outcome<void> {
    TRY_ASSIGN(const CallTimes times, same_rounds(bench, is_sharing ? 4 : rounds, run));
    if (bench.me() == 0) {
      bench.lines->push_back(line_of_time("gpu." + name, "GPU: " + title, times, ""));
      std::fprintf(stderr, ".");
    }
    return {};
  };
  const std::string of = fmt::format(" of {} PEs", pes);
  TRY(add("barrier.stream", "barrier on streams" + of, 1'000,
          [&](uint64_t rounds) { return gpus.stream_barriers(rounds); }));
  TRY(add("barrier.block", "barrier of kernels" + of, 4'000,
          [&](uint64_t rounds) { return gpus.together(Together::barrier, 0, rounds); }));
  struct Named {
    Together what;
    const char* name;
  };
  for (const uint64_t bytes : {uint64_t{8}, uint64_t{4096}, 64 * kKiB, kMiB}) {
    if (bytes * pes > gpus.bytes()) break;
    for (const Named& one :
         {Named{Together::broadcast, "broadcast"}, Named{Together::fcollect, "fcollect"},
          Named{Together::alltoall, "alltoall"}, Named{Together::reduce, "reduce"}}) {
      const std::string name = std::string(one.name) + ".block." + short_size(bytes);
      const std::string title = std::string(one.what == Together::reduce ? "sum" : one.name) +
                                " by a block" + of + ", " + long_size(bytes) + " each";
      TRY(add(name, title, bytes < kManyBlocksLeast ? 1'000 : 100,
              [&](uint64_t rounds) { return gpus.together(one.what, bytes, rounds); }));
    }
  }
  return {};
}

// A power of two of which the heap, two of these and some more, is a small part of each GPU.
uint64_t bytes_that_fit(const std::vector<PeFacts>& of_node) {
  uint64_t bytes = kLargest;
  for (const PeFacts& pe : of_node) {
    while (bytes > kMiB && bytes * 2 * of_node.size() > pe.gpu_bytes / 2) bytes /= 2;
  }
  return bytes;
}

}  // namespace

Outcome<void> gpu_rows(const SymmBench& bench) {
  std::vector<PeFacts> of_node;
  std::set<std::string> uuids;
  for (const uint32_t rank : ranks_of_own_node(bench.member)) {
    of_node.push_back(bench.pes[rank]);
    uuids.insert(of_node.back().gpu_uuid);
  }
  const bool is_first_node = bench.member.place().node == bench.member.node_of(0);
  std::string lack = of_node.size() < 2 ? "PE 0 is alone on its node" : why_no_gpus(of_node, false);
  std::unique_ptr<SymmGpus> gpus;
  if (is_first_node && lack.empty()) {
    auto made = SymmGpus::make(bench.member, bench.pes[bench.me()], bytes_that_fit(of_node), false);
    if (made) gpus = std::move(*made);
    if (!made) lack = made.error().message;
  }
  if (bench.me() == 0 && !lack.empty())
    std::fprintf(stderr, "without GPUs' memory: %s\n", lack.c_str());
  if (gpus != nullptr) {
    const bool is_sharing = uuids.size() < of_node.size();
    if (bench.me() == 0) {
      std::fprintf(stderr, "GPUs' memory%s ", is_sharing ? ", PEs share a GPU," : "");
      TRY(copies_of_gpu(bench, *gpus));
      TRY(words_of_gpu(bench, *gpus));
    }
    // Until then the others' GPUs have nothing to do.
    TRY(tell_others(bench.member, "end of copies of GPUs", ranks_of_own_node(bench.member), ""));
    TRY(signals_of_gpus(bench, *gpus, is_sharing));
    TRY(all_of_node(bench, *gpus, is_sharing));
    if (bench.me() == 0) std::fprintf(stderr, "\n");
  }
  return bench.meet("end of GPUs");
}

}  // namespace penstock::bench
