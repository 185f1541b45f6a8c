#include "trash_table.h"

#include "view.h"

#include "penstock/meta/records/limits.h"

namespace penstock::meta {

void TrashTable::put(InodeId directory, const TrashRecord& record) {
  const std::lock_guard lock(mutex_);
  TrashRecord& known = settings_[directory];
  if (known.days > 0) keeping_.fetch_sub(1);
  if (record.days > 0) keeping_.fetch_add(1, std::memory_order_release);
  known = record;
  ways_.clear();
}

void TrashTable::erase(InodeId directory) {
  const std::lock_guard lock(mutex_);
  const auto known = settings_.find(directory);
  if (known == settings_.end()) return;
  if (known->second.days > 0) keeping_.fetch_sub(1);
  settings_.erase(known);
  ways_.clear();
}

void TrashTable::forget_ways() {
  const std::lock_guard lock(mutex_);
  ways_.clear();
}

std::optional<uint32_t> TrashTable::find(InodeId directory) const {
  const std::lock_guard lock(mutex_);
  const auto known = settings_.find(directory);
  return known == settings_.end() ? std::nullopt : std::optional(known->second.days);
}

// What is remembered stays right whether or not this transaction commits: as QuotaTable::above().
Result<TrashDays> TrashTable::days_of(View& view, InodeId directory) {
  if (!any() || directory == InodeId()) return TrashDays();
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = ways_.find(directory); known != ways_.end()) return known->second;
  }
  TRY_ASSIGN(const TrashDays found, search(view, directory));
  const std::lock_guard lock(mutex_);
  if (ways_.size() >= kQuotaWaysMax) ways_.clear();
  ways_[directory] = found;
  return found;
}

Result<TrashDays> TrashTable::search(View& view, InodeId directory) const {
  InodeId here = directory;
  for (int depth = 0; depth < kDepthMax; ++depth) {
    if (const auto days = find(here)) return TrashDays{*days, here};
    if (here == kRootInode) return TrashDays();
    const Result<Inode> inode = view.inode(here);
    if (!inode && inode.error().code() == Code::not_found) return TrashDays();
    if (!inode) return inode.error();
    if (inode->trash != TrashPart::none) return TrashDays();
    here = inode->parent;
    if (here == InodeId()) return Code::corrupt;
  }
  log::error("metadata corrupt: directory {} is not below the root", directory.value);
  return Code::corrupt;
}

std::vector<TrashSetting> TrashTable::all(InodeId after, size_t limit) const {
  const std::lock_guard lock(mutex_);
  std::vector<TrashSetting> told;
  for (auto at = settings_.upper_bound(after); at != settings_.end() && told.size() < limit; ++at) {
    told.push_back({at->first, at->second.days, at->second.path});
  }
  return told;
}

size_t TrashTable::size() const {
  const std::lock_guard lock(mutex_);
  return settings_.size();
}

}  // namespace penstock::meta
