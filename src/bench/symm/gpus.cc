#include "gpus.h"

#include "image.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace penstock::bench {
namespace {

constexpr uint32_t kBlock = 512;
constexpr uint64_t kAlignment = 256;
constexpr uint64_t kWordsBytes = 4096;
constexpr std::array<const char*, 6> kKernels = {
    "penstock_bench_put",   "penstock_bench_get",   "penstock_bench_put_signal",
    "penstock_bench_words", "penstock_bench_pings", "penstock_bench_together"};
// The words, each in lines of its own.
constexpr uint64_t kSumAt = 16;
constexpr uint64_t kSignalAt = 32;
constexpr uint64_t kPingAt = 48;

// Of the group's memory on hosts, for each PE: mail that hosts carry between GPUs.
constexpr uint64_t kMailBytes = kMiB;

// One that fails does not keep the others waiting for long.
constexpr std::chrono::seconds kJoinTime{20};

bool has(const std::vector<std::string>& all, const std::string& one) {
  return std::ranges::find(all, one) != all.end();
}

}  // namespace

GpuLink link_between(const PeFacts& from, const PeFacts& to) {
  if (from.gpu_uuid.empty() || to.gpu_uuid.empty()) return GpuLink::unknown;
  if (from.gpu_uuid == to.gpu_uuid) return GpuLink::same;
  const auto found = std::ranges::find(from.sees, to.gpu_uuid);
  // Hidden from it (CUDA_VISIBLE_DEVICES): it may be reached all the same.
  if (found == from.sees.end()) return GpuLink::unknown;
  if (!has(from.reaches, to.gpu_uuid)) return GpuLink::none;
  const auto link =
      gpu::peer_link(engine::DeviceId(from.gpu),
                     engine::DeviceId(static_cast<uint32_t>(found - from.sees.begin())));
  if (!link) return GpuLink::unknown;
  return *link == gpu::PeerLink::nvlink ? GpuLink::nvlink : GpuLink::pcie;
}

bool may_hosts_carry() {
  const char* const text = std::getenv("PENSTOCK_GPUS_OF_NODES");
  return text == nullptr || std::strcmp(text, "0") != 0;
}

std::string why_no_gpus(const std::vector<PeFacts>& of_node, bool hosts_carry) {
  for (const PeFacts& pe : of_node) {
    if (pe.gpus == 0) return pe.no_gpu.empty() ? "a PE has no GPU" : pe.no_gpu;
  }
  if (of_node.size() > device::kSymmNearMax) {
    return fmt::format("{} PEs on a node: their GPUs share memory among {} at most", of_node.size(),
                       device::kSymmNearMax);
  }
  if (hosts_carry) return "";
  for (const PeFacts& from : of_node) {
    for (const PeFacts& to : of_node) {
      if (from.gpu_uuid != to.gpu_uuid && has(from.sees, to.gpu_uuid) &&
          !has(from.reaches, to.gpu_uuid)) {
        return fmt::format(
            "GPU {} does not reach the memory of GPU {}, and PENSTOCK_GPUS_OF_NODES=0 forbids that "
            "hosts carry what goes between them; 'nvidia-smi topo -p2p rw' says more",
            from.gpu, to.gpu);
      }
    }
  }
  return "";
}

Outcome<std::unique_ptr<SymmGpus>> SymmGpus::make(job::Member& member, const PeFacts& own,
                                                  uint64_t bytes, bool hosts_carry) {
  std::unique_ptr<SymmGpus> gpus(new SymmGpus);
  const Outcome<void> begun = gpus->begin(member, own, bytes, hosts_carry);
  TRY_ASSIGN(const auto said, tell_others(member, "GPUs", ranks_of_own_node(member),
                                          begun ? "" : begun.error().message));
  if (!begun && begun.error().status != Code::timed_out) return begun.error();
  // Of those that fail, the ones that only waited for others know the least.
  for (const std::string& why : said) {
    if (!why.empty()) return Failure{Code::not_supported, why};
  }
  return gpus;
}

Outcome<void> SymmGpus::begin(job::Member& member, const PeFacts& own, uint64_t bytes,
                              bool hosts_carry) {
  symm::GroupOptions options;
  options.name = "measured GPUs";
  options.ranks = ranks_of_own_node(member);
  options.heap_bytes = kMiB + kMailBytes * options.ranks.size();
  options.time_to_join = kJoinTime;
  TRY_ASSIGN(group_, symm::Group::join(member, options));
  TRY_ASSIGN(auto* const devices, gpu::devices());
  multiprocessors_ = devices->devices()[own.gpu].multiprocessors;
  TRY_ASSIGN(heap_device_, gpu::open_symmetric_device(engine::DeviceId(own.gpu)));
  TRY_ASSIGN(device_, gpu::open_symmetric_device(engine::DeviceId(own.gpu)));
  const void* const image = symm_kernel_image();
  if (image == nullptr) return Failure{Code::not_supported, "this build has no CUDA parts"};
  TRY(device_->load_kernels(image, kKernels));
  bytes_ = bytes;
  TRY_ASSIGN(heap_, symm::DeviceHeap::make(*group_, *heap_device_,
                                           {.bytes = 2 * bytes + kWordsBytes + 4 * kAlignment,
                                            .spans_nodes = hosts_carry}));
  TRY_ASSIGN(streams_, symm::DeviceStreams::make(*heap_));
  const auto words = heap_->allocate(kWordsBytes, kAlignment);
  const auto here = heap_->allocate(bytes, kAlignment);
  const auto there = heap_->allocate(bytes, kAlignment);
  if (!words || !here || !there)
    return Failure{Code::no_memory, "the heap on the GPU is smaller than it was asked to be"};
  words_ = reinterpret_cast<uint64_t*>(heap_->address(*words));
  here_ = heap_->address(*here);
  there_ = heap_->address(*there);
  return {};
}

Status SymmGpus::end_of_stream() {
  TRY(device_->synchronize(device_->own_stream()));
  return streams_->failure() == device::kSymmNothing ? Status() : Status(Code::peer_gone);
}

template <class Give>
Outcome<double> SymmGpus::timed_stream(Give&& give) {
  return seconds_per_call(1, [&](uint64_t) -> Status {
    TRY(give());
    return end_of_stream();
  });
}

template <class... Argument>
Outcome<double> SymmGpus::timed(Kernel kernel, uint32_t blocks, uint32_t threads,
                                Argument... argument) {
  device::SymmState state = heap_->state();
  std::array<void*, sizeof...(Argument) + 1> addresses{&state, &argument...};
  return timed_stream([&] {
    return device_->launch({.kernel = static_cast<uint32_t>(kernel),
                            .blocks = blocks,
                            .threads = threads,
                            .arguments = addresses,
                            .stream = device_->own_stream()});
  });
}

Outcome<double> SymmGpus::copies(Kernel kernel, const Copy& copy, uint64_t rounds) {
  // A get comes into what is put from: both are the same to the wires.
  std::byte* const dest = kernel == Kernel::put ? there_ : here_;
  std::byte* const source = kernel == Kernel::put ? here_ : there_;
  return timed(kernel, copy.blocks, kBlock, dest, source, copy.bytes, static_cast<int>(copy.pe),
               rounds);
}

Outcome<double> SymmGpus::put_signals(const Copy& copy, uint64_t rounds) {
  return timed(Kernel::put_signal, 1, kBlock, there_, here_, copy.bytes, words_ + kSignalAt,
               static_cast<int>(copy.pe), rounds);
}

Outcome<double> SymmGpus::engine_puts(const Copy& copy, uint64_t rounds) {
  return timed_stream([&]() -> Status {
    for (uint64_t i = 0; i < rounds; ++i)
      TRY(streams_->put(there_, here_, copy.bytes, copy.pe, device_->own_stream()));
    return {};
  });
}

Outcome<double> SymmGpus::engine_gets(const Copy& copy, uint64_t rounds) {
  return timed_stream([&]() -> Status {
    for (uint64_t i = 0; i < rounds; ++i)
      TRY(streams_->get(here_, there_, copy.bytes, copy.pe, device_->own_stream()));
    return {};
  });
}

Outcome<double> SymmGpus::words(WordCall call, uint32_t pe, uint64_t rounds) {
  return timed(Kernel::words, 1, 1, words_, words_ + kSumAt, call, static_cast<int>(pe), rounds);
}

Outcome<double> SymmGpus::pings(uint32_t pe, bool first, const Pings& pings) {
  return timed(Kernel::pings, 1, 1, words_ + kPingAt, static_cast<int>(pe), first ? 1 : 0,
               pings.begin, pings.rounds);
}

Outcome<double> SymmGpus::together(Together what, uint64_t bytes, uint64_t rounds) {
  return timed(Kernel::together, 1, kBlock, there_, here_, bytes, what, rounds);
}

Outcome<double> SymmGpus::stream_barriers(uint64_t rounds) {
  return timed_stream([&]() -> Status {
    for (uint64_t i = 0; i < rounds; ++i)
      TRY(streams_->barrier(group_->world(), device_->own_stream()));
    return {};
  });
}

}  // namespace penstock::bench
