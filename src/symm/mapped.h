// What a group has mapped: its own memory and the windows onto the others'.
#pragma once

#include "far_address.h"
#include "far_frame.h"

#include "penstock/base.h"
#include "penstock/symm/group.h"
#include "penstock/verbs.h"

namespace penstock::symm {

// Addresses of the process, given back in the end.
class Addresses {
 public:
  Addresses() = default;
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses();

  // Reserves them, from a multiple of `alignment` on, which is a power of two and no less than a
  // page; nothing can be read or written there before it is mapped.
  Status reserve(uint64_t bytes, uint64_t alignment);
  // Memory behind a descriptor, from its beginning, at `offset` of them.
  Status map(uint64_t offset, uint64_t bytes, int descriptor);
  std::byte* begin() const { return begin_; }

 private:
  std::byte* begin_ = nullptr;
  uint64_t bytes_ = 0;
};

// What meetings of a group's ranks are called.
std::string exchange_name(const std::string& group, const std::string& what);
// Turns of a call that waits for PEs of other nodes before it sleeps.
uint32_t far_looks(bool is_crowded);
// Where windows of so many bytes stand: at multiples of it.
uint64_t alignment_of(uint64_t bytes);
std::chrono::nanoseconds join_time(const GroupOptions& options);

// RDMA of this process; or why it has none.
struct FoundCard {
  std::unique_ptr<verbs::Provider> provider = nullptr;
  FarLack lack = FarLack::off;
  std::string why = text_of(FarLack::off);
};

struct Group::Mapped {
  bool is_crowded = false;      // all PEs say the same: they meet in another way then
  bool has_one_caller = false;  // of all PEs: GroupOptions
  std::vector<uint32_t> slots;  // by PE, where some are on other nodes; of these kNoSlot
  std::vector<uint32_t> nodes;  // by PE, there
  Window memory;
  Window data;
  // Makes the three of them.
  Outcome<void> reach_far(job::Member& member, const GroupOptions& options,
                          const std::vector<uint32_t>& ranks, const std::vector<job::Brought>& all,
                          const FarSecret& secret, FarListener listener, FoundCard card);

  Addresses memory_addresses;
  Addresses data_addresses;
  std::unique_ptr<FarMemory> far;  // there; ends before what it writes to
};

}  // namespace penstock::symm
