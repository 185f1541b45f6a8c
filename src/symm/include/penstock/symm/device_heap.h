// The heap of a group in its PEs' GPUs.
#pragma once

#include "penstock_device/symm/state.h"

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "penstock/gpu.h"
#include "penstock/symm/device_access.h"
#include "penstock/symm/group.h"

namespace penstock::symm {

struct DeviceHeapOptions {
  uint64_t bytes = 0;  // of each PE; 0: a quarter of the device's memory. Taken at once, as the
                       // driver gives none as it is touched.
  uint64_t most = 0;   // that it grows to; less than `bytes`: it does not grow
  // Whether PEs may be on several nodes, and on GPUs of one node that have no access to each other:
  // what hosts have to carry. The same on all PEs.
  bool spans_nodes = true;
};

struct PartFacts;  // device_parts.cc
class DeviceFar;

// Made and used as the group's own heap is: the same calls give the same places. Destroyed before
// the group and after the last kernel that uses it.
class DeviceHeap {
 public:
  // Together with all of the group, each with a device of its choice; several may share one.
  // PEs of other nodes, and those of this one whose device and this one's do not reach each other's
  // memory, are reached by kernels, not by addresses (decisions 0077 and 0078). not_supported:
  // there are some, and `spans_nodes` forbids it.
  static Outcome<std::unique_ptr<DeviceHeap>> make(Group& group, gpu::SymmetricDevice& device,
                                                   const DeviceHeapOptions& options);
  ~DeviceHeap();
  DeviceHeap(const DeviceHeap&) = delete;
  DeviceHeap& operator=(const DeviceHeap&) = delete;

  gpu::SymmetricDevice& device() { return device_; }
  uint32_t me() const { return group_.me(); }
  // As Heap's, of all that it has grown by, too.
  std::optional<uint64_t> allocate(uint64_t bytes, uint64_t alignment);
  bool release(uint64_t offset);
  uint64_t largest_free() const;
  // More memory, on all PEs or none, in which `bytes` have room in one piece. Together with all of
  // the group, in the same order as adopt(). no_memory: it has `most`, or some PE's device has no
  // more. Tell units again after it: state() has changed.
  Outcome<void> grow(uint64_t bytes);
  std::byte* address(uint64_t offset) const { return memory_.own + offset; }
  uint64_t offset(const void* address) const { return memory_.offset_of(address); }

  // Whether loads and stores of this PE's device reach that of the PE, and the other way round. Not
  // all PEs of a node need be near to each other, and one may be near to two that are not.
  bool is_near(uint32_t pe) const { return pe < group_.size() && (near_ >> pe & 1) != 0; }
  // Whether any two of the team are not near to each other. All of it find the same.
  bool has_far(const Team& team) const {
    return team.nodes() != nullptr || access_.has_any_in(team.set());
  }
  // Of each member of the team, bit by bit, the members that are near to it, with itself. All of
  // the team find the same.
  std::array<uint64_t, device::kSymmNearMax> near_members(const Team& team) const;
  // Which GPUs have no access to each other, and the PEs that this one shares memory with, as a
  // team (DeviceAccess::sharing()). The first is the same on all PEs.
  const DeviceAccess& access() const { return access_; }
  PeSet sharing() const;

  // As Group::at(), in device memory: an address for kernels and copies, not for the host's loads
  // and stores. Null also where the PE is not near.
  std::byte* at(const void* symmetric, uint64_t bytes, uint32_t pe) const {
    const uint64_t offset = memory_.offset_of(symmetric);
    const uint64_t reach = reach_.load(std::memory_order_relaxed);
    const bool is_held = offset < reach && bytes <= reach - offset;
    return is_held && is_near(pe) ? memory_.at(symmetric, pe) : nullptr;
  }

  // Whether it is symmetric, and the PE's instance is reached by kernels only.
  bool is_far(const void* symmetric, uint64_t bytes, uint32_t pe) const {
    return pe < group_.size() && !is_near(pe) && at(symmetric, bytes, group_.me()) != nullptr;
  }

  // Memory that each PE's program has made itself (gpu::Window::adopt) becomes symmetric: the
  // address at which it is so, beside the program's own, or why it is not on some PE, and then on
  // none. Together with all of the group, in the same order as disown(), with equal lengths,
  // multiples of the granule (2 MiB). Tell units again after it: state() has changed.
  Outcome<std::byte*> adopt(const void* memory, uint64_t bytes);
  // It is the program's alone again. Together with all of the group, when nobody uses it any more:
  // what was put into it on far PEs is complete (DeviceStreams::quiet()).
  // invalid_argument: nothing of that length was adopted there.
  Status disown(const void* symmetric, uint64_t bytes);

  // Whether any two of the group are not near to each other.
  bool has_far() const { return far_ != nullptr; }
  // What kernels are to know.
  const device::SymmState& state() const { return state_; }
  // Writes it where a unit of the program keeps it, an address in device memory.
  Status tell(void* unit) const;
  // Tells kernels of a team that the group has made, or of none of that number any more.
  Status tell_of(const Team& team);
  Status forget(uint32_t team);

 private:
  struct Made;
  static Outcome<Made> make_once(Group& group, gpu::SymmetricDevice& device,
                                 const DeviceHeapOptions& options, const DeviceAccess& known);
  static Outcome<Made> make_apart(Group& group, gpu::SymmetricDevice& device,
                                  const DeviceHeapOptions& options, Made& first);
  DeviceHeap(Group& group, gpu::SymmetricDevice& device, std::unique_ptr<gpu::Window> window,
             const Window& memory, uint64_t most, const DeviceAccess& access);
  Outcome<void> begin();
  Outcome<void> begin_far();
  Status tell_of_far(const Team& team);
  uint64_t place_for(uint64_t bytes) const;
  Outcome<void> grow_by(uint64_t bytes);
  Outcome<void> extend(uint64_t place, uint64_t bytes, const Outcome<UniqueFd>& own);
  Outcome<void> extend_at(uint64_t place, uint64_t bytes, const Outcome<UniqueFd>& own,
                          std::vector<bool>& is_mapped);
  Outcome<void> map_of_others(uint64_t place, uint64_t bytes, const std::vector<job::Brought>& all,
                              std::vector<bool>& is_mapped);
  Outcome<std::vector<job::Brought>> tell_of_part(const char* what, bool could,
                                                  const PartFacts& facts,
                                                  std::span<const int> descriptors);
  void tell_proxy(const std::map<uint64_t, uint64_t>& behind);
  void unmap_of_all(uint64_t place, const std::vector<bool>& is_mapped);
  void set_reach();

  Group& group_;
  gpu::SymmetricDevice& device_;
  const std::unique_ptr<gpu::Window> window_;
  const Window memory_;
  const uint64_t first_place_;
  const DeviceAccess access_;
  const uint64_t near_;                                           // PEs, bit by bit
  std::array<uint64_t, device::kSymmTeamsMax / 64> far_teams_{};  // as kernels have it
  const uint64_t most_;
  // These are of the thread that makes the calls which all make.
  Heap heap_;
  std::map<uint64_t, Heap> grown_;       // by offset
  std::map<uint64_t, uint64_t> behind_;  // lengths of what is behind the heap, by offset
  std::atomic<uint64_t> reach_;          // offsets below it are symmetric
  device::SymmState state_{};
  uint32_t* trouble_ = nullptr;     // of the host, for kernels; stays as long as the process
  std::unique_ptr<DeviceFar> far_;  // null: all PEs are near
};

}  // namespace penstock::symm
