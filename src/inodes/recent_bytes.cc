#include "penstock/inodes/recent_bytes.h"

#include <cstring>
#include <new>

#include "penstock/inodes/limits.h"

namespace penstock::inodes {

// First those that have ended: were both equal, none was under way at that moment.
std::optional<uint64_t> RecentBytes::quiet_changes(const Inode& inode) {
  const uint64_t ended = inode.changes_ended.load(std::memory_order_seq_cst);
  const uint64_t begun = inode.changes_begun.load(std::memory_order_seq_cst);
  ASSERT(ended <= begun);
  if (ended != begun) return std::nullopt;
  return begun;
}

void RecentBytes::keep(Inode& inode, uint64_t quiet_before, std::span<const std::byte> bytes) {
  ASSERT(!bytes.empty() && bytes.size() <= limits::kRecentFileBytes);
  Kept kept;
  kept.bytes.reset(new (std::nothrow) std::byte[bytes.size()]);
  if (kept.bytes == nullptr) return;
  std::memcpy(kept.bytes.get(), bytes.data(), bytes.size());
  kept.length = bytes.size();
  const std::lock_guard lock(mutex_);
  // Before the count is looked at: either a change that begins sees that there may be something, or
  // it is seen here.
  inode.may_be_recent.store(true, std::memory_order_seq_cst);
  if (quiet_changes(inode) != quiet_before + 1) return;
  drop(inode.id);
  while (!order_.empty() && bytes_ + kept.length > limits::kRecentBytesMax) drop(order_.front());
  kept.place = order_.insert(order_.end(), inode.id);
  bytes_ += kept.length;
  kept_.emplace(inode.id, std::move(kept));
  count_.store(kept_.size(), std::memory_order_relaxed);
}

bool RecentBytes::read(const Inode& inode, uint64_t offset, MutableBytes into) {
  if (count_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(mutex_);
  const Found found = kept_.find(inode.id);
  if (found == kept_.end()) return false;
  const Kept& kept = found->second;
  if (!range_within(offset, into.size(), kept.length)) return false;
  std::memcpy(into.data(), kept.bytes.get() + offset, into.size());
  if (offset + into.size() == kept.length) erase(found);
  return true;
}

// Who finds nothing to be there has come after another that has dropped it: the flag falls only
// behind that.
void RecentBytes::changing(Inode& inode) {
  if (!inode.may_be_recent.load(std::memory_order_seq_cst)) [[likely]]
    return;
  const std::lock_guard lock(mutex_);
  drop(inode.id);
  inode.may_be_recent.store(false, std::memory_order_seq_cst);
}

void RecentBytes::drop(InodeId inode) {
  const Found found = kept_.find(inode);
  if (found != kept_.end()) erase(found);
}

void RecentBytes::erase(Found found) {
  ASSERT(bytes_ >= found->second.length);
  bytes_ -= found->second.length;
  order_.erase(found->second.place);
  kept_.erase(found);
  count_.store(kept_.size(), std::memory_order_relaxed);
}

uint64_t RecentBytes::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace penstock::inodes
