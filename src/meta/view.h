// One transaction, seen as inodes and entries instead of keys and bytes. A record that does not
// decode is logged with its key and ends the transaction with corrupt.
#pragma once

#include "record_cache.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/meta.h"
#include "penstock/meta/keys.h"
#include "penstock/meta/records.h"

namespace penstock::meta {

// What a transaction has to do with the cache of records, if there is one.
struct CacheUse {
  RecordCache* kept = nullptr;  // of transactions that only read: keeps what they have read
  uint64_t began = 0;
  RecordCache::Changes* changes = nullptr;  // of those that write
};

class View {
 public:
  View(engine::KvTransaction& transaction, const Keys& keys, CacheUse cache = {})
      : transaction_(transaction), keys_(keys), cache_(cache) {}

  // not_found if there is none. Of directories without the times that change with entries.
  Result<Inode> inode(InodeId id);
  // An inode that an entry names: corrupt if there is none.
  Result<Inode> named_inode(InodeId id);
  // The same of many, in their order, asked for together; with the times of directories.
  Result<std::vector<Attributes>> named_attributes(std::span<const InodeId> ids);
  // Also not_directory if it is something else, and not_found if it was removed.
  Result<Inode> directory(InodeId id);
  // The attributes whole.
  Result<Attributes> attributes(const Inode& inode);
  void put(const Inode& inode);
  // One whose number no inode had before.
  void put_new(const Inode& inode);
  void erase(const Inode& inode);

  Result<DirectoryTimes> times(InodeId directory);
  Result<DirectoryTimes> times_in(std::string_view key,
                                  const std::optional<std::string>& value) const;
  void put_times(InodeId directory, const DirectoryTimes& times);
  // An entry was added, removed or replaced.
  void touch(InodeId directory, FileTime now) { put_times(directory, {now, now}); }

  Result<std::optional<Dentry>> find(InodeId parent, std::string_view name);
  void put(InodeId parent, std::string_view name, const Dentry& dentry);
  // Where this transaction has found none.
  void put_new(InodeId parent, std::string_view name, const Dentry& dentry);
  void erase(InodeId parent, std::string_view name, const Dentry& dentry);
  Result<bool> is_empty(InodeId directory);
  // Entries with a cookie above `after`, in order, until `visit` returns false.
  Status scan_entries(InodeId directory, uint64_t after,
                      const std::function<bool(uint64_t cookie, CookieEntry&)>& visit);

  Result<std::optional<std::string>> xattr(InodeId inode, std::string_view name);
  void put_xattr(InodeId inode, std::string_view name, std::string_view value);
  void erase_xattr(InodeId inode, std::string_view name);
  Status scan_xattrs(InodeId inode, const std::function<void(std::string_view name)>& visit);

  // 'O' and 'W': marks on inodes, with a number.
  void put_mark(const std::string& key, uint64_t number);
  void erase_mark(const std::string& key) { writing().erase(key); }
  Result<std::optional<uint64_t>> mark(const std::string& key);
  Status scan_ids(char kind, InodeId after, const std::function<bool(InodeId)>& visit);

  // Of quotas: decision 0065. What is not there is nothing.
  Result<UsageRecord> usage(QuotaSubject subject, uint64_t lane);
  void put(QuotaSubject subject, uint64_t lane, const UsageRecord& usage);
  void put(QuotaSubject subject, const QuotaRecord& quota);
  Result<std::optional<QuotaRecord>> quota(QuotaSubject subject);
  void erase(QuotaSubject subject) { writing().erase(keys_.quota(subject)); }
  Status scan_quotas(const std::function<void(QuotaSubject, QuotaRecord&)>& visit);
  Status scan_usage(QuotaSubject subject,
                    const std::function<void(uint64_t lane, const UsageRecord&)>& visit);
  // For how long what is removed below a directory is kept: decision 0068.
  void put_trash(InodeId directory, const TrashRecord& record);
  void erase_trash(InodeId directory) { writing().erase(keys_.trash_days(directory)); }
  Status scan_trash(const std::function<void(InodeId, TrashRecord&)>& visit);
  Result<uint64_t> names_in(InodeId inode, InodeId directory);
  void put_names(InodeId inode, InodeId directory, uint64_t count);
  // The directories in which names of it are counted.
  Result<std::vector<InodeId>> directories_of(InodeId inode);
  Status scan_inodes(const std::function<void(const Inode&)>& visit);
  void erase_usage(QuotaSubject subject, uint64_t lane) {
    writing().erase(keys_.usage(subject, lane));
  }

  Result<std::optional<uint64_t>> number(std::string_view system_name);
  void put_number(std::string_view system_name, uint64_t number);
  void erase_number(std::string_view system_name);

  const Keys& keys() const { return keys_; }

 private:
  Status corrupt(std::string_view key, std::string_view what) const;
  // For what changes something: what a transaction that only reads has found may be kept.
  engine::KvTransaction& writing() const {
    ASSERT(cache_.kept == nullptr);
    return transaction_;
  }

  engine::KvTransaction& transaction_;
  const Keys& keys_;
  const CacheUse cache_;
};

}  // namespace penstock::meta
