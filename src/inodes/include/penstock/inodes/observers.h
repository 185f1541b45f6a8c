// The observers of a node: mounts that are told of changes.
#pragma once

#include <array>
#include <functional>

#include "penstock/open_files.h"

namespace penstock::inodes {

// Thread safe. Observers are known by the bit of their slot. They are called under a shared lock,
// which is what makes remove() wait for calls in progress.
class Observers {
 public:
  // The bit given to it. ASSERTs that fewer than kObserversMax are there.
  uint32_t add(Observer& observer);
  // Its bit; 0 if it is not there.
  uint32_t remove(Observer& observer);
  uint32_t bit_of(const Observer& observer) const;

  // Tells those of `watchers` but `origin`; `done` runs exactly once, in any thread and perhaps
  // before this returns, when all of them have let the change through.
  void data_changed(uint32_t watchers, const Observer* origin, InodeId inode, uint64_t offset,
                    uint64_t length, std::function<void()> done);
  void entry_changed(uint32_t watchers, const Observer* origin, InodeId parent,
                     std::string_view name);

  // Whether another than `origin` is among `watchers`.
  bool concerns(uint32_t watchers, const Observer* origin) const;

 private:
  mutable engine::SharedMutex mutex_;
  std::array<Observer*, kObserversMax> slots_{};
};

}  // namespace penstock::inodes
