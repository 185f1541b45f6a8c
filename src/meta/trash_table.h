// Which directories say for how long what is removed below them is kept, in memory. See decision
// 0068.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "penstock/engine.h"
#include "penstock/meta/records.h"

namespace penstock::meta {

class View;

// Thread safe. Locks for itself; what it says stays while the gate of quotas is held.
class TrashTable {
 public:
  // Whether anything is kept anywhere.
  bool any() const { return keeping_.load(std::memory_order_acquire) > 0; }
  // The directory .trash; 0 before there is one. Never changes afterwards.
  InodeId top() const { return InodeId(top_.load(std::memory_order_acquire)); }
  void set_top(InodeId top) { top_.store(top.value, std::memory_order_release); }

  // Under the gate, alone.
  void put(InodeId directory, const TrashRecord& record);
  void erase(InodeId directory);
  void forget_ways();

  // Under the gate, shared or alone. What holds for what is removed in it; in the trash nothing.
  Result<TrashDays> days_of(View& view, InodeId directory);
  std::vector<TrashSetting> all(InodeId after, size_t limit) const;
  size_t size() const;
  bool has(InodeId directory) const { return find(directory).has_value(); }

 private:
  std::optional<uint32_t> find(InodeId directory) const;
  Result<TrashDays> search(View& view, InodeId directory) const;

  std::atomic<size_t> keeping_{0};  // directories that say more than 0 days
  std::atomic<uint64_t> top_{0};
  mutable engine::Mutex mutex_;
  std::map<InodeId, TrashRecord> settings_;
  std::unordered_map<InodeId, TrashDays> ways_;
};

// Numbers for what one call may put into the trash, taken before its transaction begins, as that
// may begin again.
class TrashIds {
 public:
  TrashIds() = default;
  explicit TrashIds(std::vector<uint64_t> ids) : ids_(std::move(ids)) {}
  // The transaction begins, perhaps once more.
  void begin() { next_ = 0; }
  // One for an entry, and one for an hour.
  bool has_two() const { return ids_.size() - next_ >= 2; }
  uint64_t take() {
    ASSERT(next_ < ids_.size());
    return ids_[next_++];
  }

 private:
  std::vector<uint64_t> ids_;
  size_t next_ = 0;
};

}  // namespace penstock::meta
