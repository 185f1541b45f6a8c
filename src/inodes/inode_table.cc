#include "penstock/inodes/inode_table.h"

#include <algorithm>

namespace penstock::inodes {

std::shared_ptr<Inode> InodeTable::acquire(InodeId id) {
  Shard& shard = shard_of(id);
  const std::lock_guard lock(shard.mutex);
  Entry& entry = shard.entries[id];
  ASSERT((entry.inode == nullptr) == (entry.users == 0));
  if (entry.inode == nullptr) {
    entry.inode = std::make_shared<Inode>(id);
    entry.inode->watchers.store(entry.watchers, std::memory_order_relaxed);
    if (holding_ != nullptr) {
      entry.inode->fit.store(holds::Hold::none, std::memory_order_relaxed);
      holding_->use(id);
    }
  }
  ++entry.users;
  return entry.inode;
}

std::shared_ptr<Inode> InodeTable::peek(InodeId id) const {
  const Shard& shard = shard_of(id);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find(id);
  return found == shard.entries.end() ? nullptr : found->second.inode;
}

void InodeTable::release(const std::shared_ptr<Inode>& inode) {
  Shard& shard = shard_of(inode->id);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find(inode->id);
  ASSERT(found != shard.entries.end() && found->second.inode == inode && found->second.users > 0);
  Entry& entry = found->second;
  if (--entry.users > 0) return;
  if (holding_ != nullptr) holding_->unuse(inode->id);
  // An operation that is still on its way keeps the object; the next user gets another one, with
  // what meta knows then.
  entry.inode = nullptr;
  drops_.fetch_add(1, std::memory_order_release);
  if (!entry.is_needed()) shard.entries.erase(found);
}

bool InodeTable::is_open(InodeId id) const {
  const Shard& shard = shard_of(id);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find(id);
  return found != shard.entries.end() && found->second.users > 0;
}

bool InodeTable::mark_unlinked(InodeId id) {
  Shard& shard = shard_of(id);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find(id);
  if (found == shard.entries.end() || found->second.inode == nullptr) return false;
  ASSERT(found->second.users > 0);
  found->second.inode->unlinked.store(true, std::memory_order_relaxed);
  return true;
}

uint64_t InodeTable::open_count() const {
  uint64_t count = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    count += static_cast<uint64_t>(std::count_if(shard.entries.begin(), shard.entries.end(),
                                                 [](const auto& e) { return e.second.users; }));
  }
  return count;
}

std::vector<InodeId> InodeTable::all() const {
  std::vector<InodeId> all;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (const auto& [id, entry] : shard.entries) all.push_back(id);
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::shared_ptr<Inode>> InodeTable::acquire_all() {
  std::vector<std::shared_ptr<Inode>> all;
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (auto& [id, entry] : shard.entries) {
      if (entry.inode == nullptr) continue;
      ASSERT(entry.users > 0);
      ++entry.users;
      all.push_back(entry.inode);
    }
  }
  // In an order that does not depend on the hash table.
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  return all;
}

void InodeTable::watch(InodeId id, uint32_t observer_bit) {
  Shard& shard = shard_of(id);
  const std::lock_guard lock(shard.mutex);
  Entry& entry = shard.entries[id];
  entry.watchers |= observer_bit;
  if (entry.inode != nullptr) entry.inode->watchers.fetch_or(observer_bit);
}

void InodeTable::unwatch(InodeId id, uint32_t observer_bit) {
  Shard& shard = shard_of(id);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find(id);
  if (found == shard.entries.end()) return;
  found->second.watchers &= ~observer_bit;
  if (found->second.inode != nullptr) found->second.inode->watchers.fetch_and(~observer_bit);
  if (!found->second.is_needed()) shard.entries.erase(found);
}

void InodeTable::unwatch_all(uint32_t observer_bit) {
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (auto it = shard.entries.begin(); it != shard.entries.end();) {
      Entry& entry = it->second;
      entry.watchers &= ~observer_bit;
      if (entry.inode != nullptr) entry.inode->watchers.fetch_and(~observer_bit);
      it = entry.is_needed() ? std::next(it) : shard.entries.erase(it);
    }
  }
}

uint32_t InodeTable::watchers(InodeId id) const {
  const Shard& shard = shard_of(id);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.entries.find(id);
  return found == shard.entries.end() ? 0 : found->second.watchers;
}

}  // namespace penstock::inodes
