// What quotas there are, and what of them is used, in memory. See decision 0065.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "penstock/engine.h"
#include "penstock/meta/quota.h"
#include "penstock/meta/records.h"

namespace penstock::meta {

class View;

// Shared by those that count, alone for those that change what is counted where. Who waits for it
// alone comes before those that arrive later, however many there are.
class QuotaGate {
 public:
  void lock_shared() {
    // Relaxed: who overlooks it is waited for.
    if (wanted_.load(std::memory_order_relaxed) > 0) {
      const std::lock_guard after_it(turn_);
    }
    gate_.lock_shared();
  }
  void unlock_shared() { gate_.unlock_shared(); }
  void lock() {
    wanted_.fetch_add(1, std::memory_order_relaxed);
    turn_.lock();
    gate_.lock();
  }
  void unlock() {
    gate_.unlock();
    turn_.unlock();
    wanted_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  std::atomic<uint32_t> wanted_{0};
  engine::Mutex turn_{engine::Held::across_calls};
  engine::SharedMutex gate_{engine::Held::across_calls};
};

// One quota. What changes is the table's, under its lock.
struct QuotaEntry {
  QuotaSubject subject;
  QuotaRecord record;
  UsageRecord used;
  UsageRecord pending;    // of transactions that may commit
  uint64_t promised = 0;  // bytes that open files may grow by

  // Whether so much more is within the limits. What gets less is always.
  // `covered`: bytes of what is promised that are among these.
  bool has_room_for(const UsageRecord& more, uint64_t covered = 0) const;
  Quota told() const;
};
using QuotaEntries = std::vector<std::shared_ptr<QuotaEntry>>;

// Thread safe. Locks for itself; `gate` is its users' to take.
class QuotaTable {
 public:
  QuotaGate gate;

  // Whether there is any quota, or any of a directory: what they say stays while the gate is held.
  bool any() const { return any_.load(std::memory_order_acquire); }
  bool any_of_directories() const { return directories_.load(std::memory_order_acquire) > 0; }

  // Under the gate, alone. What was there of the subject keeps what it counts.
  void put(QuotaSubject subject, const QuotaRecord& record);
  void erase(QuotaSubject subject);
  void forget_ways();
  void set_used(QuotaSubject subject, const UsageRecord& used);
  size_t size() const;

  // Under the gate, shared or alone. Those that bind what is made in `directory`, none if it is
  // gone; they outlive what finds them.
  Result<QuotaEntries> above(View& view, InodeId directory);
  std::shared_ptr<QuotaEntry> of_user(uint32_t uid) const;
  std::shared_ptr<QuotaEntry> find(QuotaSubject subject) const;
  std::vector<Quota> all(std::optional<QuotaSubject> after, size_t limit) const;
  Quota told(const QuotaEntry& entry) const;

  struct Change {
    std::shared_ptr<QuotaEntry> entry;
    UsageRecord by;
  };
  // All of them, or over_quota and none; what gets more counts as used until undone or applied.
  // `always`: also where there is no room. `covered`: what was promised to this inode pays for it.
  Status admit(const std::vector<Change>& changes, bool always, InodeId covered);
  void undo(const std::vector<Change>& changes);
  void apply(const std::vector<Change>& changes);
  // No: it is refused.
  bool fits(const std::vector<Change>& changes);
  // What was found to be missing in the count, or too much, which is complete then.
  void correct(QuotaSubject subject, const UsageRecord& by);

  // A number that nobody has at the moment, above 0, as low as there is.
  uint64_t take_lane();
  void give_lane(uint64_t lane);

  // Up to which length a file may grow, that has `length` on record and counts for these; it wants
  // to grow to `wanted`. `counts`: what is on record is counted.
  Result<uint64_t> reserve(InodeId inode, const QuotaEntries& entries, uint64_t length,
                           uint64_t wanted, bool counts);
  // What is recorded is counted now, and no more promised; `ended`: nothing is.
  void settled(InodeId inode, uint64_t length, bool ended);

 private:
  struct Promise {
    QuotaEntries entries;
    uint64_t length = 0;
    uint64_t bytes = 0;  // of each entry
  };
  void change_promise(Promise& promise, uint64_t bytes);

  std::atomic<bool> any_{false};
  std::atomic<size_t> directories_{0};
  metrics::Counter refused_{"quota.refused"};
  mutable engine::Mutex mutex_;
  std::map<QuotaSubject, std::shared_ptr<QuotaEntry>> entries_;
  std::unordered_map<InodeId, QuotaEntries> ways_;
  std::unordered_map<InodeId, Promise> promises_;
  std::vector<uint64_t> free_lanes_;
  uint64_t lanes_ = 1;
};

// What one call changes in what is counted. Used in the body of its transaction; holds the gate as
// long as it lives.
class Charges {
 public:
  enum class Gate : uint8_t { shared, alone };
  explicit Charges(QuotaTable& table, Gate gate = Gate::shared);
  ~Charges();
  Charges(const Charges&) = delete;
  Charges& operator=(const Charges&) = delete;

  // The body begins, perhaps once more.
  void begin();
  // An inode that counts from now on, or no more; one without links does not count.
  Status added(View& view, const Inode& inode) { return count(view, inode, 1); }
  Status removed(View& view, const Inode& inode) { return count(view, inode, -1); }
  // Above this directory.
  Status moved(View& view, InodeId directory, const UsageRecord& what, int sign);
  // What is promised to this inode pays for its growth.
  void covered_by(InodeId inode) { covered_ = inode; }
  // Whether all up to now is within the limits; no: it is refused.
  bool fits();
  struct Mark {
    std::vector<QuotaTable::Change> changes;
  };
  Mark mark() const { return {changes_}; }
  void back_to(Mark mark) { changes_ = std::move(mark.changes); }
  // The last thing in the body.
  Status finish(View& view, bool always = false);
  // How the transaction ended.
  void end(Status status);

 private:
  Status count(View& view, const Inode& inode, int sign);
  void add(const std::shared_ptr<QuotaEntry>& entry, const UsageRecord& by);
  void withdraw();

  QuotaTable& table_;
  const Gate gate_;
  std::vector<QuotaTable::Change> changes_;
  bool admitted_ = false;
  uint64_t lane_ = 0;
  InodeId covered_;
};

// What an inode counts for where it has a name.
inline UsageRecord usage_of(const Attributes& attributes) {
  const uint64_t length = attributes.type == FileType::regular ? attributes.length : 0;
  return {static_cast<int64_t>(quota_bytes(length)), 1};
}

}  // namespace penstock::meta
