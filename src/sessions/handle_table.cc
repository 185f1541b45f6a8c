#include "penstock/sessions/handle_table.h"

#include <algorithm>

#include "penstock/sessions/limits.h"

namespace penstock::sessions {

// Counts by looking at all: there are few, and publishing is rare.
bool HandleTable::has_room_for(const Publisher& publisher) const {
  if (entries_.size() >= limits::kPublishedMax) return false;
  const auto of_session = std::count_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry.second.session == publisher.session;
  });
  if (of_session >= limits::kPublishedPerSessionMax) return false;
  const auto of_user = std::count_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry.first.second == publisher.uid;
  });
  return publisher.uid == 0 || of_user < limits::kPublishedPerUserMax;
}

Status HandleTable::add(const Publisher& publisher, const wire::DeviceMemoryId& id,
                        PublishedHandle handle) {
  auto kept = std::make_shared<const PublishedHandle>(std::move(handle));
  const std::lock_guard lock(mutex_);
  const Key key(id, publisher.uid);
  if (entries_.contains(key)) return Code::already_exists;
  if (!has_room_for(publisher)) return Code::busy;
  entries_.emplace(key, Entry{publisher.session, std::move(kept)});
  return Code::ok;
}

Status HandleTable::remove(const Publisher& publisher, const wire::DeviceMemoryId& id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find({id, publisher.uid});
  if (found == entries_.end() || found->second.session != publisher.session) return Code::not_found;
  entries_.erase(found);
  return Code::ok;
}

void HandleTable::remove_all(uint64_t session) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& entry) { return entry.second.session == session; });
}

Result<std::shared_ptr<const PublishedHandle>> HandleTable::find(
    uint32_t uid, const wire::DeviceMemoryId& id) const {
  const std::lock_guard lock(mutex_);
  const auto mine = entries_.find({id, uid});
  if (mine != entries_.end()) return mine->second.handle;
  const auto any = entries_.lower_bound({id, 0});
  const bool of_another = any != entries_.end() && any->first.first == id;
  return of_another ? Code::access_denied : Code::not_found;
}

}  // namespace penstock::sessions
