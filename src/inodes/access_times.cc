#include "penstock/inodes/access_times.h"

#include <algorithm>
#include <vector>

#include "penstock/inodes/limits.h"

namespace penstock::inodes {

bool access_is_due(const Attributes& attributes, meta::FileTime now) {
  constexpr int64_t kDaySeconds = 24 * 60 * 60;
  return attributes.accessed <= attributes.modified || attributes.accessed <= attributes.changed ||
         now.seconds() - attributes.accessed.seconds() >= kDaySeconds;
}

void AccessTimesNoted::note(InodeId inode, meta::FileTime when) {
  const std::lock_guard lock(mutex_);
  const auto found = noted_.find(inode);
  if (found != noted_.end()) {
    found->second = when;
  } else if (noted_.size() < limits::kAccessesMax) {
    noted_.emplace(inode, when);
    count_.store(noted_.size(), std::memory_order_relaxed);
  }
}

std::optional<meta::FileTime> AccessTimesNoted::noted(InodeId inode) const {
  if (count_.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = noted_.find(inode);
  if (found == noted_.end()) return std::nullopt;
  return found->second;
}

Status AccessTimesNoted::record() {
  const std::lock_guard one_at_a_time(recording_);
  std::vector<meta::Meta::Accessed> all;
  {
    const std::lock_guard lock(mutex_);
    all.reserve(noted_.size());
    for (const auto& [inode, when] : noted_) all.push_back({inode, when});
  }
  // In an order that does not depend on the hash table.
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.inode < b.inode; });
  for (size_t begin = 0; begin < all.size(); begin += limits::kAccessBatch) {
    const size_t end = std::min(all.size(), begin + limits::kAccessBatch);
    const std::vector<meta::Meta::Accessed> batch(all.begin() + static_cast<ptrdiff_t>(begin),
                                                  all.begin() + static_cast<ptrdiff_t>(end));
    TRY(meta_.record_accessed(batch));
    // Noted until it is recorded, so that no look in between finds an older time.
    const std::lock_guard lock(mutex_);
    for (const meta::Meta::Accessed& access : batch) {
      const auto found = noted_.find(access.inode);
      if (found != noted_.end() && found->second == access.when) noted_.erase(found);
    }
    count_.store(noted_.size(), std::memory_order_relaxed);
  }
  return Code::ok;
}

std::unique_lock<engine::Mutex> AccessTimesNoted::forget(InodeId inode) {
  std::unique_lock recording(recording_);
  const std::lock_guard lock(mutex_);
  noted_.erase(inode);
  count_.store(noted_.size(), std::memory_order_relaxed);
  return recording;
}

}  // namespace penstock::inodes
