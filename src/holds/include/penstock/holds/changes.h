// Whether something of an inode was changed while it was being read, so that it is kept by nobody.
#pragma once

#include <array>
#include <atomic>

#include "penstock/engine.h"

namespace penstock::holds {

// Thread safe, and never waits. Inodes share a fixed number of places: that another one was
// changed is now and then taken for a change of this one, never the other way round.
class Changes {
 public:
  using Moment = uint64_t;

  // Around a change: begin() before anybody is told of it, end() when its outcome is known.
  void begin(InodeId inode) { place(inode).under_way.fetch_add(1); }
  void end(InodeId inode) {
    Place& at = place(inode);
    const Moment moment = moment_.fetch_add(1) + 1;
    // Ends of others may have been later.
    Moment last = at.last.load();
    while (last < moment && !at.last.compare_exchange_weak(last, moment)) {
    }
    [[maybe_unused]] const uint64_t were = at.under_way.fetch_sub(1);
    ASSERT(were > 0);
  }
  // One that happened elsewhere, and is heard of in this moment.
  void note(InodeId inode) {
    begin(inode);
    end(inode);
  }

  // Before something is read.
  Moment now() const { return moment_.load(); }
  // When it was: since that moment no change of the inode was under way.
  bool was_quiet(InodeId inode, Moment since) const {
    const Place& at = place(inode);
    return at.under_way.load() == 0 && at.last.load() <= since;
  }

 private:
  static constexpr size_t kPlaces = 4096;
  struct Place {
    std::atomic<uint64_t> under_way{0};
    std::atomic<Moment> last{0};  // when the latest ended
  };

  const Place& place(InodeId inode) const { return places_[mix64(inode.value) % kPlaces]; }
  Place& place(InodeId inode) { return places_[mix64(inode.value) % kPlaces]; }

  std::atomic<Moment> moment_{0};
  std::array<Place, kPlaces> places_;
};

}  // namespace penstock::holds
