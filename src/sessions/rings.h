// The rings of a session: each is mapped here, woken by its eventfd and served by one shard.
#pragma once

#include "cache_access.h"
#include "context.h"
#include "shares.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "penstock/engine.h"
#include "penstock/ring.h"

namespace penstock::sessions {

// Thread safe.
class Rings {
 public:
  Rings(const Context& context, Shares& shares, CacheAccess& cache)
      : context_(context), shares_(shares), cache_(cache) {}
  ~Rings() { ASSERT(rings_.empty()); }

  Answer create(const wire::CreateRing& m, int memory, resources::ForeignFd wake);
  Answer destroy(const wire::DestroyRing& m);
  Answer cancel(const wire::CancelOperation& m);

  void add_to(SessionStatus* status) const;
  // Cancels and waits for what is in flight. No request runs.
  void end();

 private:
  struct Ring {
    resources::Charge heap, mapping;                   // of its operations
    std::unique_ptr<resources::ForeignMemory> memory;  // null while it is being made or destroyed
    resources::ForeignFd wake;
    uint32_t shard = 0;
    bool watched = false;
    bool watched_by_shard = false;
  };

  Outcome<void> reserve(uint32_t id, uint64_t size);
  // Maps the memory, and looks at its header.
  Outcome<Ring> map(int fd, uint64_t size, ring::Memory* layout);
  void give_up(uint32_t id, uint64_t size);
  Status watch(Ring& ring);
  void unwatch(Ring& ring);
  void end(uint32_t id, Ring ring);

  const Context& context_;
  Shares& shares_;
  CacheAccess& cache_;
  mutable engine::Mutex mutex_;  // never held while something blocks
  std::map<uint32_t, Ring> rings_;
  uint64_t bytes_ = 0;
};

}  // namespace penstock::sessions
