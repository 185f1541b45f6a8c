// Memory that the device knows. What was announced stays registered, in parts, as far as there is
// room; the rest is registered while somebody uses it. On devices whose windows do not close at
// once, all is: there the deregistration is what ends a use.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "penstock/verbs/provider.h"

namespace penstock::verbs {

// Owner thread of the loop only.
class Registrations {
 public:
  // One use of one registration, or of several: as many give_back() as take().
  struct Entry : ListNode {
    Region region;
    MemoryId memory;
    uint32_t uses = 0;
    bool announced = false;
    bool registered = false;
    bool refused = false;  // the device does not take it as a whole
  };

  Registrations(Provider& provider, uint64_t bytes_max)
      : provider_(provider), bytes_max_(bytes_max) {}
  // Nothing is in use.
  ~Registrations();

  // Of memory that is not empty. busy: there is no room; not_supported: of a GPU, and it was not
  // announced or the device does not take it; and whatever else the provider has against it.
  Result<Entry*> take(const engine::MemoryRef& memory, bool writable);
  void give_back(Entry& entry);

  void announce(const Region& region);
  // in_use; not_found.
  Status take_back(MutableBytes region);

  uint64_t pinned() const { return pinned_; }
  uint64_t temporary() const { return temporary_; }

 private:
  Entry* announced_around(MutableBytes bytes);
  bool keeps(Entry& entry);
  Result<Entry*> take_once(const Region& region, bool writable);
  Status add(Entry& entry, bool writable);
  void remove(Entry& entry);
  bool make_room(uint64_t bytes);

  Provider& provider_;
  const uint64_t bytes_max_;
  uint64_t pinned_ = 0;  // bytes
  uint64_t idle_bytes_ = 0;
  uint64_t temporary_ = 0;  // registrations so far
  std::map<std::byte*, std::unique_ptr<Entry>> announced_;
  IntrusiveList<Entry> idle_;  // announced and registered, the longest unused first
  std::vector<std::unique_ptr<Entry>> others_;
  std::vector<Entry*> free_;  // of them
};

}  // namespace penstock::verbs
