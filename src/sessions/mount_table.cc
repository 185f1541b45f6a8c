#include "penstock/sessions/mount_table.h"

#include <algorithm>
#include <poll.h>

#include "penstock/base.h"

namespace penstock::sessions {

void MountTable::add(uint64_t device, int connection) {
  ASSERT(connection >= 0);
  const std::lock_guard lock(mutex_);
  connections_.emplace(device, connection);
}

void MountTable::remove(uint64_t device) {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(device);
  if (found != connections_.end()) connections_.erase(found);
}

bool MountTable::holds(uint64_t device) const {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = connections_.equal_range(device);
  // The kernel ends the connection before it gives the number away, and its device says so.
  return std::any_of(first, last, [](const auto& mount) {
    pollfd connection{mount.second, 0, 0};
    return ::poll(&connection, 1, 0) == 0;
  });
}

}  // namespace penstock::sessions
