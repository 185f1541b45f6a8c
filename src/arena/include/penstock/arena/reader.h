// An application's view of its segment.
#pragma once

#include <atomic>
#include <memory>

#include "penstock/arena/extent.h"
#include "penstock/arena/layout.h"
#include "penstock/base.h"

namespace penstock::arena {

// What still() looks at.
struct Ticket {
  uint64_t sequence = 0;
  uint32_t entry = 0;
};

// Where an extent lay when it was found.
struct Found {
  const std::byte* data = nullptr;       // null: it is not here
  const Checksums* checksums = nullptr;  // of its blocks; to be validated as the bytes are
  uint32_t valid = 0;                    // bytes; the file ends there if less than kExtentBytes
  uint32_t slot = 0;
  Ticket ticket;

  explicit operator bool() const { return data != nullptr; }
};

// Everything but add_slab() from any thread, without locks or allocation. A look-up promises
// nothing: the agent may give the slot to another extent at any time. So: find, copy, and use the
// copy only if still() says so afterwards; else ask the agent. Slots that follow one another are
// neighbours in memory, across slabs, too.
//
// The agent is trusted for the truth of what it publishes, but whatever the memory holds, no access
// leaves it.
class Reader {
 public:
  // `index` is what the agent handed out. bad_message or wrong_version when it is no index, or
  // could shrink while it is mapped.
  static Result<std::unique_ptr<Reader>> open(UniqueFd index);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Maps the next slab, number slabs_mapped(). One thread at a time.
  Status add_slab(const UniqueFd& slab);
  uint32_t slabs_mapped() const { return slabs_.load(std::memory_order_relaxed); }
  // Slabs that the agent has to give by now.
  uint32_t slabs_offered() const;

  // Whether the agent vouches for its memory at `now`, nanoseconds on CLOCK_MONOTONIC. To be asked
  // after a copy was made, with a time taken then: an agent that has died withdraws nothing.
  bool is_valid_at(uint64_t now) const;

  Found find(Extent extent) const;
  // Whether what was copied since find() is what was found.
  bool still(const Ticket& ticket) const;
  // Starts to bring the entry into the processor's cache.
  void prefetch(Extent extent) const {
    __builtin_prefetch(&entries_[home_of(extent, geometry_.entries - 1)]);
  }

  // All slots there can be, mapped or not: to be registered with a device as one range. Each slab
  // lies at a multiple of its size.
  Bytes slots() const { return {slots_, uint64_t{geometry_.slots_max} * kExtentBytes}; }
  const Geometry& geometry() const { return geometry_; }

 private:
  Reader(const Geometry& geometry, const std::byte* index, std::byte* slots);

  const Geometry geometry_;
  const std::byte* const index_;
  const Entry* const entries_;
  const Checksums* const checksums_;
  std::byte* const slots_;
  // Release after a slab was mapped pairs with the acquire in find().
  std::atomic<uint32_t> slabs_{0};
};

}  // namespace penstock::arena
