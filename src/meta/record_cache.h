// Inodes and entries that were read lately, so that finding them again reads nothing from the
// store.
//
// Never stale, as long as every change goes by way of the same Namespace. A record that a
// transaction changes is out of here before the transaction commits, and none of it is kept until
// the transaction has ended; and what a transaction has read is kept only if nothing of it has
// changed since before it took its snapshot. So what is found here was current at the moment when
// it was found. That something is not there is never kept: what a transaction makes anew needs no
// care. Several records that are found one after the other are not a snapshot: a caller that
// finds something odd asks the store.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/meta/records.h"

namespace penstock::meta {

// Thread safe. Slots are few for each record, and the next one that comes there takes the oldest.
class RecordCache {
 public:
  // So many inodes at most, and as many entries.
  explicit RecordCache(size_t records);

  std::shared_ptr<const Inode> inode(InodeId id) const;
  std::optional<Dentry> entry(InodeId parent, std::string_view name) const;

  // To be asked for before a transaction takes its snapshot, for what it reads then.
  uint64_t now() const { return now_.load(std::memory_order_acquire); }
  void keep(const Inode& inode, uint64_t began);
  void keep(InodeId parent, std::string_view name, const Dentry& dentry, uint64_t began);

  // What one transaction changes, from before its commit until this object ends, which is after it.
  class Changes {
   public:
    explicit Changes(RecordCache* cache) : cache_(cache) {}  // null: there is none
    ~Changes();
    Changes(const Changes&) = delete;
    Changes& operator=(const Changes&) = delete;

    void of(InodeId inode);
    void of(InodeId parent, std::string_view name);
    // It failed, but may be found to have happened later: nothing of it is ever kept.
    void stay_open() { changed_.clear(); }

   private:
    struct Changed {
      bool is_inode = false;
      uint64_t hash = 0;
    };
    RecordCache* const cache_;
    std::vector<Changed> changed_;
  };

 private:
  struct Entry {
    InodeId parent;
    std::string name;
    Dentry dentry;
  };
  static constexpr size_t kWays = 8;
  static constexpr size_t kLocks = 256;
  template <class Record>
  struct Bucket {
    uint64_t changed_at = 0;
    uint32_t changing = 0;  // transactions
    uint32_t next = 0;      // the way that is used next
    std::array<uint64_t, kWays> hashes{};
    std::array<std::shared_ptr<const Record>, kWays> records;
  };
  template <class Record>
  struct Table {
    explicit Table(size_t count) : buckets(count) { ASSERT(is_power_of_two(count)); }
    std::vector<Bucket<Record>> buckets;
    mutable std::array<engine::Mutex, kLocks> locks;
    engine::Mutex& lock_of(uint64_t hash) const { return locks[hash % kLocks]; }
    Bucket<Record>& bucket_of(uint64_t hash) { return buckets[hash & (buckets.size() - 1)]; }
    const Bucket<Record>& bucket_of(uint64_t hash) const {
      return buckets[hash & (buckets.size() - 1)];
    }
  };
  template <class Record>
  static void keep_in(Table<Record>& table, uint64_t hash, std::shared_ptr<const Record> record,
                      uint64_t began);
  template <class Record>
  static void begin_change(Table<Record>& table, uint64_t hash);
  template <class Record>
  void end_change(Table<Record>& table, uint64_t hash);

  // Counts ends of changes. Release at the end of each, behind its commit, pairs with now(): a
  // transaction that sees the end takes a snapshot that has the change.
  std::atomic<uint64_t> now_{1};
  Table<Inode> inodes_;
  Table<Entry> entries_;
};

}  // namespace penstock::meta
