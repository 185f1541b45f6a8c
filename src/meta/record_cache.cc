#include "record_cache.h"

#include <algorithm>
#include <functional>

namespace penstock::meta {
namespace {

uint64_t hash_of(InodeId inode) {
  return mix64(inode.value);
}

uint64_t hash_of(InodeId parent, std::string_view name) {
  return mix64(hash_of(parent) ^ std::hash<std::string_view>()(name));
}

size_t buckets_for(size_t records, size_t ways) {
  return std::bit_ceil(std::max<size_t>(records / ways, 1));
}

}  // namespace

RecordCache::RecordCache(size_t records)
    : inodes_(buckets_for(records, kWays)), entries_(buckets_for(records, kWays)) {}

std::shared_ptr<const Inode> RecordCache::inode(InodeId id) const {
  const uint64_t hash = hash_of(id);
  const std::lock_guard lock(inodes_.lock_of(hash));
  const Bucket<Inode>& bucket = inodes_.bucket_of(hash);
  for (size_t way = 0; way < kWays; ++way) {
    const std::shared_ptr<const Inode>& record = bucket.records[way];
    if (bucket.hashes[way] == hash && record != nullptr && record->id() == id) return record;
  }
  return nullptr;
}

std::optional<Dentry> RecordCache::entry(InodeId parent, std::string_view name) const {
  const uint64_t hash = hash_of(parent, name);
  const std::lock_guard lock(entries_.lock_of(hash));
  const Bucket<Entry>& bucket = entries_.bucket_of(hash);
  for (size_t way = 0; way < kWays; ++way) {
    if (bucket.hashes[way] != hash || bucket.records[way] == nullptr) continue;
    const Entry& entry = *bucket.records[way];
    if (entry.parent == parent && entry.name == name) return entry.dentry;
  }
  return std::nullopt;
}

void RecordCache::keep(const Inode& inode, uint64_t began) {
  keep_in(inodes_, hash_of(inode.id()), std::make_shared<const Inode>(inode), began);
}

void RecordCache::keep(InodeId parent, std::string_view name, const Dentry& dentry,
                       uint64_t began) {
  auto entry = std::make_shared<const Entry>(Entry{parent, std::string(name), dentry});
  keep_in<Entry>(entries_, hash_of(parent, name), std::move(entry), began);
}

template <class Record>
void RecordCache::keep_in(Table<Record>& table, uint64_t hash, std::shared_ptr<const Record> record,
                          uint64_t began) {
  // What goes is destroyed without the lock.
  std::shared_ptr<const Record> replaced = std::move(record);
  const std::lock_guard lock(table.lock_of(hash));
  Bucket<Record>& bucket = table.bucket_of(hash);
  ASSERT(replaced != nullptr);
  if (bucket.changing > 0 || bucket.changed_at > began) return;
  const auto same = std::find(bucket.hashes.begin(), bucket.hashes.end(), hash);
  const size_t way = same != bucket.hashes.end() ? static_cast<size_t>(same - bucket.hashes.begin())
                                                 : bucket.next++ % kWays;
  ASSERT(way < kWays);
  bucket.hashes[way] = hash;
  bucket.records[way].swap(replaced);
}

template <class Record>
void RecordCache::begin_change(Table<Record>& table, uint64_t hash) {
  const std::lock_guard lock(table.lock_of(hash));
  Bucket<Record>& bucket = table.bucket_of(hash);
  ++bucket.changing;
  for (size_t way = 0; way < kWays; ++way) {
    if (bucket.hashes[way] == hash) bucket.records[way].reset();
  }
}

template <class Record>
void RecordCache::end_change(Table<Record>& table, uint64_t hash) {
  const std::lock_guard lock(table.lock_of(hash));
  Bucket<Record>& bucket = table.bucket_of(hash);
  // Each end has its beginning, so that nothing is kept while a transaction changes it.
  ASSERT(bucket.changing > 0);
  --bucket.changing;
  // What was kept before the change is gone, and none was kept meanwhile: pairs with begin_change()
  // and keep_in().
  for (size_t way = 0; way < kWays; ++way) {
    ASSERT(bucket.hashes[way] != hash || bucket.records[way] == nullptr);
  }
  const uint64_t ended = now_.fetch_add(1, std::memory_order_acq_rel) + 1;
  ASSERT(ended > bucket.changed_at);
  bucket.changed_at = ended;
}

void RecordCache::Changes::of(InodeId inode) {
  if (cache_ == nullptr) return;
  changed_.push_back({true, hash_of(inode)});
  begin_change(cache_->inodes_, changed_.back().hash);
}

void RecordCache::Changes::of(InodeId parent, std::string_view name) {
  if (cache_ == nullptr) return;
  changed_.push_back({false, hash_of(parent, name)});
  begin_change(cache_->entries_, changed_.back().hash);
}

RecordCache::Changes::~Changes() {
  ASSERT(cache_ != nullptr || changed_.empty());
  for (const Changed& changed : changed_) {
    if (changed.is_inode) {
      cache_->end_change(cache_->inodes_, changed.hash);
    } else {
      cache_->end_change(cache_->entries_, changed.hash);
    }
  }
}

}  // namespace penstock::meta
