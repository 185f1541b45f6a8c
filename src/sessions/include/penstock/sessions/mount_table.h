// Which devices are mounts of this file system: descriptors of their files prove what their sender
// may do with them.
#pragma once

#include <cstdint>
#include <map>

#include "penstock/engine.h"

namespace penstock::sessions {

// Thread safe.
class MountTable {
 public:
  // `connection` is the mount's FUSE device, open until it is removed.
  void add(uint64_t device, int connection);
  void remove(uint64_t device);
  // Not one that was unmounted: any other file system may have its number now.
  bool holds(uint64_t device) const;

 private:
  mutable engine::Mutex mutex_;
  std::multimap<uint64_t, int> connections_;
};

}  // namespace penstock::sessions
