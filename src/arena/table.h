// The agent's side of a segment's hash table. Owned by the thread that holds the segment's mutex.
#pragma once

#include "penstock/arena/extent.h"

namespace penstock::arena {

class Table {
 public:
  // `entries` is zeroed memory of `count` entries, a power of two.
  Table(Entry* entries, uint32_t count) : entries_(entries), mask_(count - 1) {}

  struct SlotRef {
    uint32_t slot = 0;
    uint32_t valid = 0;
  };
  // The ref of an extent, or null. Until the table changes.
  const Entry* find(Extent extent) const;
  // False, and nothing happens, when there is no room within kProbesMax. The extent must not be
  // there.
  bool insert(Extent extent, SlotRef ref);
  // Withdraws an entry: when this returns, every ticket for it is void, and what is stored from now
  // on into its slot is seen only by readers that also see that.
  void erase(const Entry* entry);

 private:
  static void write(Entry& entry, Extent extent, SlotRef ref);

  Entry* const entries_;
  const uint32_t mask_;
};

}  // namespace penstock::arena
