// The regions of a session.
#pragma once

#include "context.h"
#include "shares.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "penstock/engine.h"

namespace penstock::sessions {

// Thread safe.
class Regions {
 public:
  Regions(const Context& context, Shares& shares) : context_(context), shares_(shares) {}
  ~Regions() { ASSERT(regions_.empty()); }

  Answer add(const wire::RegisterRegion& m, int fd);
  // Not where the node has no network cards.
  Answer add_device(const wire::RegisterDevice& m, resources::ForeignFd dma_buf);
  Answer attach(const wire::AttachRegion& m);
  Answer release(const wire::ReleaseRegion& m);

  // Makes all regions known to a share. No region is made or released meanwhile.
  void announce_all(serving::Announced& announced);
  void add_to(SessionStatus* status) const;
  // No request runs and no share is left.
  void end();

 private:
  // Neither memory nor device while it is being made or released.
  struct Region {
    std::unique_ptr<resources::ForeignMemory> memory;
    std::unique_ptr<resources::DeviceAddresses> device;  // of a GPU's memory
    resources::ForeignFd dma_buf;                        // the same
    resources::Charge pinned;
    engine::BufferId buffer = engine::kNoBuffer;
    bool announced = false;  // to network cards

    bool is_made() const { return memory != nullptr || device != nullptr; }
    MutableBytes bytes() const { return memory != nullptr ? memory->bytes() : device->bytes(); }
    serving::ServedRegion served() const;
  };

  Answer make(uint32_t id, int fd, uint64_t offset, uint64_t size);
  // Takes the number and the bytes out of what the session may have.
  Outcome<void> reserve(uint32_t id, uint64_t size);
  Failure give_up(uint32_t id, uint64_t size, Status status, const std::string& why);
  void pin(Region& region);
  void announce(Region& region, const verbs::Region& as);
  Answer keep(uint32_t id, Region region);
  void unmap(uint32_t id, Region region);

  const Context& context_;
  Shares& shares_;
  mutable engine::Mutex mutex_;  // never held while something blocks
  std::map<uint32_t, Region> regions_;
  serving::TableRoom room_;
  uint64_t bytes_ = 0;
};

}  // namespace penstock::sessions
