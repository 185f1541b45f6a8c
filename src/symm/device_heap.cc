#include "penstock/symm/device_heap.h"

#include "device_far.h"
#include "gpu_proxy_device.h"
#include "limits.h"

#include <algorithm>
#include <cstring>

namespace penstock::symm {

using device::SymmControl;
using device::SymmState;
using device::SymmTeam;

namespace {

// Of a heap: the words of PEs, and behind them the teams as this PE's kernels see them.
constexpr uint64_t kTeamsAt = sizeof(SymmControl);
constexpr uint64_t kFirstPlace = kTeamsAt + device::kSymmTeamsMax * sizeof(SymmTeam);

// Where PEs are on several nodes, behind them: the ring's part in the GPU, and memory for
// reductions.
constexpr uint64_t kFarAt = align_up(kFirstPlace, 128);
constexpr uint64_t kFarControlAt = kFarAt + sizeof(device::SymmFar);
constexpr uint64_t kFarWaitingAt = align_up(kFarControlAt + sizeof(device::FarControl), 128);
constexpr uint64_t kFarScratchAt =
    align_up(kFarWaitingAt + DeviceFar::kEntries * sizeof(uint32_t), 256);
constexpr uint64_t kFarScratchBytes = 65536;
constexpr uint64_t kFirstFarPlace = kFarScratchAt + device::kSymmTeamsMax * kFarScratchBytes;

uint64_t first_place(const Group& group) {
  return group.has_far() ? kFirstFarPlace : kFirstPlace;
}

// Of the host, for kernels: whether somebody has ended, and what a kernel reports, apart from it.
constexpr uint64_t kFailureAt = 64;
constexpr uint64_t kHostBytes = 128;

// All windows fit into what a process has of addresses.
constexpr uint64_t kHeapBytesMax =
    limits::kWindowsBytesMax / device::kSymmNearMax - limits::kAdoptedBytesMax;
static_assert(limits::kWindowsBytesMax / device::kSymmNearMax > 2 * limits::kAdoptedBytesMax - 1);

// What a PE tells the others first.
struct HeapFacts {
  uint64_t version = device::kSymmVersion;
  uint64_t bytes = 0;
};

// A quarter of the device, as programs put most of what they have elsewhere.
uint64_t bytes_wanted(const DeviceHeapOptions& options, uint64_t memory_bytes) {
  return options.bytes != 0 ? options.bytes : std::max(memory_bytes / 4, limits::kHeapBytesMin);
}

Outcome<HeapFacts> agree_on_heap(const std::vector<job::Brought>& all) {
  HeapFacts agreed;
  for (size_t pe = 0; pe < all.size(); ++pe) {
    HeapFacts facts;
    if (all[pe].bytes.size() != sizeof facts) {
      return Failure{Code::wrong_version,
                     fmt::format("PE {} speaks another version of Penstock", pe)};
    }
    std::memcpy(&facts, all[pe].bytes.data(), sizeof facts);
    if (facts.version != agreed.version) {
      return Failure{
          Code::wrong_version,
          fmt::format("PE {} runs another build of Penstock; all PEs must run the same", pe)};
    }
    agreed.bytes = pe == 0 ? facts.bytes : std::min(agreed.bytes, facts.bytes);
  }
  return agreed;
}

// A step that each PE has done, or not: all learn of it, and go on together or not at all. Else
// those where it went well would wait for the others. What fails is the first PE's that failed.
Outcome<std::vector<job::Brought>> agree_on_step(Group& group, const char* step,
                                                 const Outcome<void>& own,
                                                 std::span<const int> descriptors) {
  std::string told;
  if (!own) {
    // As long as others take it.
    const auto code = static_cast<uint16_t>(own.error().status.code());
    told.assign(reinterpret_cast<const char*>(&code), sizeof code);
    told += own.error().message.substr(0, job::limits::kTextBytesMax);
    descriptors = {};
  }
  TRY_ASSIGN(auto all, group.exchange(step, {std::as_bytes(std::span(told)), descriptors}));
  for (size_t pe = 0; pe < all.size(); ++pe) {
    const std::vector<std::byte>& bytes = all[pe].bytes;
    if (bytes.empty()) continue;
    uint16_t code = 0;
    if (bytes.size() < sizeof code)
      return Failure{Code::bad_message, fmt::format("PE {} told something else", pe)};
    std::memcpy(&code, bytes.data(), sizeof code);
    const auto* const text = reinterpret_cast<const char*>(bytes.data() + sizeof code);
    return Failure{
        static_cast<Code>(code != 0 ? code : static_cast<uint16_t>(Code::bad_message)),
        fmt::format("PE {}: {}", pe, std::string_view(text, bytes.size() - sizeof code))};
  }
  return all;
}

// This PE's memory, at its place; a failure names the GPU.
Outcome<UniqueFd> make_own(gpu::SymmetricDevice& device, uint64_t bytes_of_all, uint64_t offset,
                           uint64_t bytes, std::unique_ptr<gpu::Window>& window) {
  TRY_ASSIGN(window, device.reserve(bytes_of_all));
  if (limits::kGranule % window->granule() != 0) {
    return Failure{Code::not_supported,
                   fmt::format("GPU {} maps {} bytes at once, not {}", device.id().value,
                               window->granule(), limits::kGranule)};
  }
  return window->allocate(offset, bytes);
}

// Those of the others of this node, beside it; a failure names the PE.
Outcome<void> map_others(gpu::Window& window, const Window& placed, const Group& group,
                         const std::vector<job::Brought>& all) {
  for (uint32_t pe = 0; pe < all.size(); ++pe) {
    if (pe == group.me() || !group.is_near(pe)) continue;
    if (all[pe].descriptors.size() != 1) {
      return Failure{Code::bad_message,
                     fmt::format("PE {} gave no descriptor of its GPU's memory", pe)};
    }
    if (const auto mapped =
            window.map(pe * placed.stride, placed.bytes, all[pe].descriptors[0].get());
        !mapped) {
      return Failure{mapped.error().status,
                     fmt::format("the memory of PE {}: {}", pe, mapped.error().message)};
    }
  }
  return {};
}

}  // namespace

Outcome<std::unique_ptr<DeviceHeap>> DeviceHeap::make(Group& group, gpu::SymmetricDevice& device,
                                                      const DeviceHeapOptions& options) {
  if (group.size() > device::kSymmNearMax) {
    return Failure{Code::not_supported,
                   fmt::format("{} PEs: GPUs share their memory among {} PEs at most", group.size(),
                               device::kSymmNearMax)};
  }
  if (group.has_far() && !options.spans_nodes) {
    return Failure{Code::not_supported,
                   "PEs on several nodes: their GPUs do not reach one another's memory yet; keep "
                   "the PEs of a job with GPUs on one node"};
  }
  HeapFacts facts;
  facts.bytes = bytes_wanted(options, device.memory_bytes());
  TRY_ASSIGN(const auto told,
             group.exchange("device facts", {std::as_bytes(std::span(&facts, 1)), {}}));
  TRY_ASSIGN(const HeapFacts agreed, agree_on_heap(told));

  // All have agreed on it, so all refuse it.
  if (agreed.bytes > kHeapBytesMax) {
    return Failure{Code::no_memory, fmt::format("a heap of {} bytes: one on a GPU has {} at most",
                                                agreed.bytes, kHeapBytesMax)};
  }
  Window placed;
  placed.bytes = align_up(first_place(group) + agreed.bytes, limits::kGranule);
  placed.stride = placed.bytes + limits::kAdoptedBytesMax;
  std::unique_ptr<gpu::Window> window;
  const Outcome<UniqueFd> own = make_own(device, placed.stride * group.size(),
                                         group.me() * placed.stride, placed.bytes, window);
  const int descriptor = own ? own->get() : -1;
  TRY_ASSIGN(const auto all, agree_on_step(group, "device memory",
                                           own ? Outcome<void>() : own.error(), {&descriptor, 1}));
  placed.peers = window->begin();
  placed.own = placed.peers + group.me() * placed.stride;
  std::unique_ptr<DeviceHeap> heap;
  Outcome<void> ready = map_others(*window, placed, group, all);
  if (ready) {
    heap.reset(new DeviceHeap(group, device, std::move(window), placed));
    ready = heap->begin();
  }
  if (ready && group.has_far()) ready = heap->begin_far(options);
  // Nobody's kernels write before all have mapped.
  TRY_ASSIGN(const auto all_ready, agree_on_step(group, "device mapped", ready, {}));
  if (heap->far_ != nullptr) TRY(heap->far_->start());
  return heap;
}

DeviceHeap::DeviceHeap(Group& group, gpu::SymmetricDevice& device,
                       std::unique_ptr<gpu::Window> window, const Window& memory)
    : group_(group),
      device_(device),
      window_(std::move(window)),
      memory_(memory),
      heap_(first_place(group), memory.bytes),
      reach_(memory.bytes) {}

DeviceHeap::~DeviceHeap() {
  far_ = nullptr;  // before what it uses
  if (trouble_ != nullptr) group_.unfollow_trouble(trouble_);
}

Outcome<void> DeviceHeap::begin() {
  TRY_ASSIGN(const MutableBytes words, device_.host_words(kHostBytes));
  state_.version = device::kSymmVersion;
  state_.bytes = sizeof state_;
  state_.me = static_cast<int32_t>(group_.me());
  state_.size = static_cast<int32_t>(group_.size());
  state_.heap = reinterpret_cast<char*>(memory_.own);
  state_.heap_bytes = memory_.bytes;
  state_.peers = reinterpret_cast<char*>(memory_.peers);
  state_.stride = memory_.stride;
  for (uint32_t pe = 0; pe < group_.size(); ++pe) {
    if (group_.is_near(pe)) state_.near_pes[pe / 64] |= uint64_t{1} << (pe % 64);
  }
  state_.teams = reinterpret_cast<SymmTeam*>(memory_.own + kTeamsAt);
  trouble_ = reinterpret_cast<uint32_t*>(words.data());
  group_.follow_trouble(trouble_);
  state_.trouble = trouble_;
  state_.failure = reinterpret_cast<uint32_t*>(words.data() + kFailureAt);
  for (const Team* const team : {&group_.world(), &group_.node()}) {
    if (const Status told = tell_of(*team); !told.ok()) {
      return Failure{told, fmt::format("GPU {}: its teams cannot be written", device_.id().value)};
    }
  }
  return {};
}

// The kernels' part of the ring, behind the teams; zeros, as a new heap is.
Outcome<void> DeviceHeap::begin_far(const DeviceHeapOptions& options) {
  TRY_ASSIGN(const MutableBytes host, device_.host_words(DeviceFar::host_bytes()));
  TRY_ASSIGN(auto gpu, GpuProxyDevice::make(options.open_device, device_.id()));
  GpuProxyDevice& proxy_device = *gpu;
  ProxyOptions proxy;
  proxy.me = group_.me();
  proxy.pes = group_.size();
  for (uint32_t pe = 0; pe < group_.size(); ++pe) {
    if (!group_.is_near(pe)) proxy.far.set(pe);
  }
  proxy.heap = reinterpret_cast<uintptr_t>(memory_.own);
  proxy.heap_bytes = memory_.bytes;
  proxy.private_begin = kTeamsAt;
  proxy.private_end = first_place(group_);
  proxy.trouble = trouble_;
  TRY_ASSIGN(far_, DeviceFar::make(group_, std::move(gpu), host, proxy));
  device::SymmFar view = far_->view();
  view.control = reinterpret_cast<device::FarControl*>(memory_.own + kFarControlAt);
  view.waiting = reinterpret_cast<uint32_t*>(memory_.own + kFarWaitingAt);
  view.scratch = reinterpret_cast<char*>(memory_.own + kFarScratchAt);
  view.scratch_bytes = kFarScratchBytes;
  state_.far = reinterpret_cast<device::SymmFar*>(memory_.own + kFarAt);
  Status told = device_.copy(state_.far, &view, sizeof view, device_.own_stream());
  if (told.ok()) told = device_.synchronize(device_.own_stream());
  if (!told.ok())
    return Failure{told, fmt::format("GPU {}: its ring cannot be written", device_.id().value)};
  proxy_device.set_state(state_);
  return {};
}

Status DeviceHeap::tell(void* unit) const {
  TRY(device_.copy(unit, &state_, sizeof state_, device_.own_stream()));
  return device_.synchronize(device_.own_stream());
}

Status DeviceHeap::tell_of(const Team& team) {
  if (team.id() >= device::kSymmTeamsMax) return Code::busy;
  const PeSet& set = team.set();
  const SymmTeam facts = {.start = static_cast<int32_t>(set.start),
                          .stride = static_cast<int32_t>(set.stride),
                          .size = static_cast<int32_t>(set.size),
                          .index = static_cast<int32_t>(team.index()),
                          .syncs = 0,
                          .small_reduces = 0};
  // Words that an earlier team of this number has left.
  static constexpr device::SymmTeamControl kNothing{};
  auto* const control = reinterpret_cast<SymmControl*>(memory_.own);
  TRY(device_.copy(&control->teams[team.id()], &kNothing, sizeof kNothing, device_.own_stream()));
  TRY(device_.fill_zeros(&control->grids[team.id()], sizeof(device::SymmGridControl),
                         device_.own_stream()));
  TRY(device_.copy(&state_.teams[team.id()], &facts, sizeof facts, device_.own_stream()));
  return device_.synchronize(device_.own_stream());
}

Status DeviceHeap::forget(uint32_t team) {
  static constexpr SymmTeam kNone{};
  if (team >= device::kSymmTeamsMax) return {};
  TRY(device_.copy(&state_.teams[team], &kNone, sizeof kNone, device_.own_stream()));
  return device_.synchronize(device_.own_stream());
}

}  // namespace penstock::symm
