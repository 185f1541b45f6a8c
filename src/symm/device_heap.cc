#include "penstock/symm/device_heap.h"

#include "device_access.h"
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

// Where some PEs are far to each other, behind them: the ring's part in the GPU, and memory for
// reductions.
constexpr uint64_t kFarAt = align_up(kFirstPlace, 128);
constexpr uint64_t kFarControlAt = kFarAt + sizeof(device::SymmFar);
constexpr uint64_t kFarWaitingAt = align_up(kFarControlAt + sizeof(device::FarControl), 128);
constexpr uint64_t kFarScratchAt =
    align_up(kFarWaitingAt + DeviceFar::kEntries * sizeof(uint32_t), 256);
constexpr uint64_t kFarScratchBytes = 65536;
constexpr uint64_t kFirstFarPlace = kFarScratchAt + device::kSymmTeamsMax * kFarScratchBytes;

uint64_t first_place(bool has_ring) {
  return has_ring ? kFirstFarPlace : kFirstPlace;
}

// Bit by bit, those that this PE's GPU and the PE's reach in one another.
uint64_t near_pes(const Group& group, const DeviceAccess& access) {
  uint64_t near = 0;
  for (uint32_t pe = 0; pe < group.size(); ++pe) {
    if (group.is_near(pe) && !access.are_apart(group.me(), pe)) near |= uint64_t{1} << pe;
  }
  return near;
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
  uint64_t most = 0;
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
    agreed.most = pe == 0 ? facts.most : std::min(agreed.most, facts.most);
  }
  return agreed;
}

// What each PE tells of a step: that it has done it, and some bytes, or why not. All learn of it,
// and go on together or not at all. Else those where it went well would wait for the others. What
// fails is the first PE's that failed.
Outcome<std::vector<job::Brought>> agree_on_step(Group& group, const char* step,
                                                 const Outcome<void>& own,
                                                 const job::Bring& bring) {
  // As long as others take it.
  const auto code = own ? uint16_t{0} : static_cast<uint16_t>(own.error().status.code());
  std::string told(reinterpret_cast<const char*>(&code), sizeof code);
  job::Bring all_told = {{}, bring.descriptors};
  if (own) {
    told.append(reinterpret_cast<const char*>(bring.bytes.data()), bring.bytes.size());
  } else {
    told += own.error().message.substr(0, job::limits::kTextBytesMax);
    all_told.descriptors = {};
  }
  all_told.bytes = std::as_bytes(std::span(told));
  TRY_ASSIGN(auto all, group.exchange(step, all_told));
  for (size_t pe = 0; pe < all.size(); ++pe) {
    std::vector<std::byte>& bytes = all[pe].bytes;
    uint16_t theirs = 0;
    if (bytes.size() < sizeof theirs)
      return Failure{Code::bad_message, fmt::format("PE {} told something else", pe)};
    std::memcpy(&theirs, bytes.data(), sizeof theirs);
    bytes.erase(bytes.begin(), bytes.begin() + sizeof theirs);
    if (theirs == 0) continue;
    return Failure{
        static_cast<Code>(theirs),
        fmt::format("PE {}: {}", pe,
                    std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()))};
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

// Those of the others of this node, beside it, but for those that are known to be apart; a failure
// names the PE. Where this GPU has no access, `told` says so, and why.
Outcome<void> map_others(gpu::Window& window, const Window& placed, const Group& group,
                         const DeviceAccess& access, const std::vector<job::Brought>& all,
                         AccessTold* told) {
  for (uint32_t pe = 0; pe < all.size(); ++pe) {
    if (!group.is_near(pe)) continue;
    told->facts.tried |= uint64_t{1} << pe;
    if (access.are_apart(group.me(), pe)) continue;
    if (pe != group.me()) {
      if (all[pe].descriptors.size() != 1) {
        return Failure{Code::bad_message,
                       fmt::format("PE {} gave no descriptor of its GPU's memory", pe)};
      }
      if (const auto mapped =
              window.map(pe * placed.stride, placed.bytes, all[pe].descriptors[0].get());
          !mapped) {
        Failure why{mapped.error().status,
                    fmt::format("the memory of PE {}: {}", pe, mapped.error().message)};
        if (why.status.code() != Code::not_supported) return why;
        if (told->why.empty()) told->why = why.message.substr(0, job::limits::kTextBytesMax);
        continue;
      }
    }
    told->facts.mapped |= uint64_t{1} << pe;
  }
  return {};
}

}  // namespace

// What making a heap once has come to: who has no access is known by then.
struct DeviceHeap::Made {
  std::unique_ptr<DeviceHeap> heap;
  DeviceAccess access;
  std::vector<AccessTold> told;
};

// With what all have agreed on.
Outcome<DeviceHeap::Made> DeviceHeap::make_once(Group& group, gpu::SymmetricDevice& device,
                                                const DeviceHeapOptions& options,
                                                const DeviceAccess& known) {
  const bool has_ring = group.has_far() || known.has_any();
  Window placed;
  placed.bytes = align_up(first_place(has_ring) + options.bytes, limits::kGranule);
  placed.stride = placed.bytes + limits::kAdoptedBytesMax;
  std::unique_ptr<gpu::Window> window;
  const Outcome<UniqueFd> own = make_own(device, placed.stride * group.size(),
                                         group.me() * placed.stride, placed.bytes, window);
  const int descriptor = own ? own->get() : -1;
  TRY_ASSIGN(const auto all,
             agree_on_step(group, "device memory", own ? Outcome<void>() : own.error(),
                           {{}, {&descriptor, 1}}));
  placed.peers = window->begin();
  placed.own = placed.peers + group.me() * placed.stride;
  AccessTold told;
  told.facts.asks_hosts = options.spans_nodes ? 1 : 0;
  Made made;
  Outcome<void> ready = map_others(*window, placed, group, known, all, &told);
  if (ready) {
    made.heap.reset(new DeviceHeap(group, device, std::move(window), placed, options.most, known));
    ready = made.heap->begin();
  }
  if (ready && has_ring) ready = made.heap->begin_far();
  // Nobody's kernels write before all have mapped.
  TRY_ASSIGN(const auto all_ready,
             agree_on_step(group, "device mapped", ready, {encode(told), {}}));
  for (size_t pe = 0; pe < all_ready.size(); ++pe) {
    const auto theirs = decode_access(all_ready[pe].bytes);
    if (!theirs) return Failure{Code::bad_message, fmt::format("PE {} told something else", pe)};
    made.told.push_back(*theirs);
  }
  made.access = access_of(made.told);
  return made;
}

Outcome<std::unique_ptr<DeviceHeap>> DeviceHeap::make(Group& group, gpu::SymmetricDevice& device,
                                                      const DeviceHeapOptions& options) {
  if (group.size() > device::kSymmNearMax) {
    return Failure{Code::not_supported,
                   fmt::format("{} PEs: GPUs share their memory among {} PEs at most", group.size(),
                               device::kSymmNearMax)};
  }
  if (group.has_far() && !options.spans_nodes) {
    return Failure{Code::not_supported,
                   "PEs on several nodes, whose GPUs do not reach one another's memory: "
                   "PENSTOCK_GPUS_OF_NODES=0 forbids that hosts carry what goes between them"};
  }
  HeapFacts facts;
  facts.bytes = bytes_wanted(options, device.memory_bytes());
  facts.most = options.most;
  TRY_ASSIGN(const auto told,
             group.exchange("device facts", {std::as_bytes(std::span(&facts, 1)), {}}));
  TRY_ASSIGN(const HeapFacts agreed, agree_on_heap(told));

  // All have agreed on it, so all refuse it.
  if (agreed.bytes > kHeapBytesMax) {
    return Failure{Code::no_memory, fmt::format("a heap of {} bytes: one on a GPU has {} at most",
                                                agreed.bytes, kHeapBytesMax)};
  }
  // Most often all GPUs of a node reach one another: others begin once more.
  DeviceHeapOptions all = options;
  all.bytes = agreed.bytes;
  all.most = agreed.most;
  TRY_ASSIGN(Made made, make_once(group, device, all, {}));
  if (made.access.has_any()) {
    TRY_ASSIGN(made, make_apart(group, device, all, made));
  }
  if (made.heap->far_ != nullptr) TRY(made.heap->far_->start());
  return std::move(made.heap);
}

// Once more, with what was found out. The first memory is gone everywhere before the second is
// made.
Outcome<DeviceHeap::Made> DeviceHeap::make_apart(Group& group, gpu::SymmetricDevice& device,
                                                 const DeviceHeapOptions& options, Made& first) {
  TRY(check_access(first.access, first.told));
  first.heap.reset();
  TRY_ASSIGN(const auto gone, agree_on_step(group, "device memory given back", {}, {}));
  TRY_ASSIGN(Made made, make_once(group, device, options, first.access));
  if (made.access != first.access) {
    return Failure{Code::not_supported,
                   "which GPUs reach one another's memory has changed meanwhile; try again"};
  }
  if (group.me() == 0) {
    log::warning(
        "GPUs without access to each other's memory: {}; symmetric memory goes through "
        "shared memory of the host there",
        describe(first.access, first.told));
  }
  return made;
}

DeviceHeap::DeviceHeap(Group& group, gpu::SymmetricDevice& device,
                       std::unique_ptr<gpu::Window> window, const Window& memory, uint64_t most,
                       const DeviceAccess& access)
    : group_(group),
      device_(device),
      window_(std::move(window)),
      memory_(memory),
      first_place_(first_place(group.has_far() || access.has_any())),
      access_(access),
      near_(near_pes(group, access)),
      most_(most),
      heap_(first_place_, memory.bytes),
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
  state_.near_pes[0] = near_;
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
Outcome<void> DeviceHeap::begin_far() {
  TRY_ASSIGN(const MutableBytes host, device_.host_words(DeviceFar::host_bytes()));
  TRY_ASSIGN(auto gpu, GpuProxyDevice::make(device_.id(), *group_.waits().clock));
  GpuProxyDevice& proxy_device = *gpu;
  ProxyOptions proxy;
  proxy.me = group_.me();
  proxy.pes = group_.size();
  for (uint32_t pe = 0; pe < group_.size(); ++pe) {
    if (!is_near(pe)) proxy.far.set(pe);
  }
  proxy.heap = reinterpret_cast<uintptr_t>(memory_.own);
  proxy.heap_bytes = memory_.bytes;
  proxy.private_begin = kTeamsAt;
  proxy.private_end = first_place_;
  proxy.trouble = trouble_;
  TRY_ASSIGN(far_, DeviceFar::make(group_, std::move(gpu), host, proxy));
  device::SymmFar view = far_->view();
  view.control = reinterpret_cast<device::FarControl*>(memory_.own + kFarControlAt);
  view.waiting = reinterpret_cast<uint32_t*>(memory_.own + kFarWaitingAt);
  view.scratch = reinterpret_cast<char*>(memory_.own + kFarScratchAt);
  view.scratch_bytes = kFarScratchBytes;
  std::copy(far_teams_.begin(), far_teams_.end(), view.far_teams);
  state_.far = reinterpret_cast<device::SymmFar*>(memory_.own + kFarAt);
  Status told = device_.copy(state_.far, &view, sizeof view, device_.own_stream());
  if (told.ok()) told = device_.synchronize(device_.own_stream());
  if (!told.ok())
    return Failure{told, fmt::format("GPU {}: its ring cannot be written", device_.id().value)};
  return proxy_device.start(state_, *view.changes);
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
  TRY(tell_of_far(team));
  return device_.synchronize(device_.own_stream());
}

// Bytes of the host that change when this returns: the caller waits for the stream.
Status DeviceHeap::tell_of_far(const Team& team) {
  const uint64_t bit = uint64_t{1} << (team.id() % 64);
  uint64_t& word = far_teams_[team.id() / 64];
  word = has_far(team) ? word | bit : word & ~bit;
  if (state_.far == nullptr) return {};
  return device_.copy(state_.far->far_teams, far_teams_.data(), sizeof far_teams_,
                      device_.own_stream());
}

std::array<uint64_t, device::kSymmNearMax> DeviceHeap::near_members(const Team& team) const {
  std::array<uint64_t, device::kSymmNearMax> near{};
  ASSERT(team.size() <= near.size());
  for (uint32_t index = 0; index < team.size(); ++index) {
    const uint32_t pe = team.set().pe(index);
    near[index] |= uint64_t{1} << index;
    for (uint32_t other = 0; other < index; ++other) {
      const uint32_t other_pe = team.set().pe(other);
      if (group_.node_of(pe) != group_.node_of(other_pe) || access_.are_apart(pe, other_pe))
        continue;
      near[index] |= uint64_t{1} << other;
      near[other] |= uint64_t{1} << index;
    }
  }
  return near;
}

PeSet DeviceHeap::sharing() const {
  uint64_t node = 0;
  for (uint32_t pe = 0; pe < group_.size(); ++pe) {
    if (group_.is_near(pe)) node |= uint64_t{1} << pe;
  }
  return access_.sharing(node, group_.me());
}

Status DeviceHeap::forget(uint32_t team) {
  static constexpr SymmTeam kNone{};
  if (team >= device::kSymmTeamsMax) return {};
  TRY(device_.copy(&state_.teams[team], &kNone, sizeof kNone, device_.own_stream()));
  return device_.synchronize(device_.own_stream());
}

}  // namespace penstock::symm
