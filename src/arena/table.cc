#include "table.h"

#include "penstock/arena/order.h"

namespace penstock::arena {

// Only the agent writes the memory, so its own reads of it are plain.
const Entry* Table::find(Extent extent) const {
  auto at = home_of(extent, mask_);
  for (uint32_t i = 0; i < kProbesMax; ++i, at = (at + 1) & mask_) {
    const Entry& entry = entries_[at];
    if (entry.inode == 0) return nullptr;
    if (entry.inode == extent.inode.value && entry.extent == extent.number) return &entry;
  }
  return nullptr;
}

bool Table::insert(Extent extent, SlotRef ref) {
  DASSERT(find(extent) == nullptr && extent.inode != InodeId{});
  ASSERT(ref.valid > 0 && ref.valid <= kExtentBytes);
  auto at = home_of(extent, mask_);
  for (uint32_t i = 0; i < kProbesMax; ++i, at = (at + 1) & mask_) {
    if (entries_[at].inode != 0) continue;
    write(entries_[at], extent, ref);
    return true;
  }
  return false;
}

// Entries behind the gap move into it as long as that brings them nearer to where their probing
// begins: then a search may end at the first empty entry. A reader in between may miss an entry
// that is on the move; it then asks the agent, as after any miss.
void Table::erase(const Entry* entry) {
  ASSERT(entry >= entries_ && entry <= entries_ + mask_ && entry->inode != 0);
  const uint64_t before = entry->sequence;
  auto gap = static_cast<uint32_t>(entry - entries_);
  for (uint32_t at = (gap + 1) & mask_; entries_[at].inode != 0; at = (at + 1) & mask_) {
    const Entry& next = entries_[at];
    const uint32_t distance = (at - home_of({InodeId(next.inode), next.extent}, mask_)) & mask_;
    if (distance < ((at - gap) & mask_)) continue;
    write(entries_[gap], {InodeId(next.inode), next.extent}, {next.slot, next.valid});
    gap = at;
  }
  write(entries_[gap], {}, {});
  // Every ticket for it is void: pairs with the look at the sequence in Reader::still().
  ASSERT(entry->sequence > before);
}

void Table::write(Entry& entry, Extent extent, SlotRef ref) {
  const uint64_t sequence = entry.sequence;
  // Only the agent writes it, and no other change of it is under way: a reader does not believe an
  // entry whose sequence is odd.
  ASSERT((sequence & 1) == 0);
  LongWord(entry.sequence).store(sequence + 1, std::memory_order_relaxed);
  // Pairs with order_loads() in Reader::still(): a reader that sees a field, or a byte of the slot,
  // that is stored after this sees the odd sequence or a later one.
  order_stores();
  LongWord(entry.inode).store(extent.inode.value, std::memory_order_relaxed);
  Word(entry.extent).store(extent.number, std::memory_order_relaxed);
  Word(entry.slot).store(ref.slot, std::memory_order_relaxed);
  Word(entry.valid).store(ref.valid, std::memory_order_relaxed);
  // Release pairs with the acquire in Reader::find(): the fields, the slot's bytes and its
  // checksums are there.
  LongWord(entry.sequence).store(sequence + 2, std::memory_order_release);
}

}  // namespace penstock::arena
