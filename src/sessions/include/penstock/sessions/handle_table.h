// GPU memory that sessions have published for other processes of their users: its handles, which
// the agent keeps and gives away and never uses.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "penstock/base.h"
#include "penstock/engine.h"
#include "penstock/resources.h"
#include "penstock/wire.h"

namespace penstock::sessions {

// The session that has published a handle, and its user.
struct Publisher {
  uint64_t session = 0;
  uint32_t uid = 0;
};

struct PublishedHandle {
  wire::DeviceHandle handle;
  resources::ForeignFd fd;  // if handle.descriptor
};

// Thread safe. Two users may use one id; each finds their own.
class HandleTable {
 public:
  // already_exists: the user has published something under this id. busy: a limit is reached.
  Status add(const Publisher& publisher, const wire::DeviceMemoryId& id, PublishedHandle handle);
  // not_found unless this session has published it.
  Status remove(const Publisher& publisher, const wire::DeviceMemoryId& id);
  // Everything of a session.
  void remove_all(uint64_t session);

  // not_found: no session has published this id; access_denied: one of another user has. The
  // descriptor stays open as long as the answer is held.
  Result<std::shared_ptr<const PublishedHandle>> find(uint32_t uid,
                                                      const wire::DeviceMemoryId& id) const;

 private:
  using Key = std::pair<wire::DeviceMemoryId, uint32_t>;  // and the user
  struct Entry {
    uint64_t session = 0;
    std::shared_ptr<const PublishedHandle> handle;
  };
  // With mutex_ held.
  bool has_room_for(const Publisher& publisher) const;

  mutable engine::Mutex mutex_;
  std::map<Key, Entry> entries_;
};

}  // namespace penstock::sessions
