// For how long the node cache of an agent that was killed may still be believed.
//
// Applications read the cache without asking, and learn of the agent's death by their socket, but
// perhaps late (a process may be stopped). So the memory itself says until when it is valid,
// shortly ahead, and the agent that serves the store next waits until that time has passed if the
// agent before it did not end its cache in order. That it did not is seen from a file in the
// store's directory.
#pragma once

#include <string>

#include "penstock/base.h"

namespace penstock::node_cache {

class CacheLease {
 public:
  // Waits if an agent before this one left its lease behind. The store is locked by now. With
  // `keep`, this agent has a cache, and leaves the file until end().
  static Outcome<void> begin(const std::string& directory, bool keep);
  // The cache is over and no application believes it any more.
  static void end(const std::string& directory);
};

}  // namespace penstock::node_cache
