// The observers of a node, which are told of changes: mounts and the node cache.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <vector>

#include "penstock/inodes/inode.h"
#include "penstock/inodes/recent_bytes.h"

namespace penstock::inodes {

// A change of a file's bytes, from before a reader can find any of the new ones until no reader can
// find any of the old ones. Its maker owns it and keeps it in place meanwhile.
struct Change : ListNode {
  ByteRange range;
  Inode* inode = nullptr;  // null: it is not under way
  bool is_announced = false;
};

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
  void inode_recalled(uint32_t watchers, InodeId inode, std::function<void()> done);
  void entry_changed(uint32_t watchers, const Observer* origin, InodeId parent,
                     std::string_view name);
  void entry_recalled(uint32_t watchers, InodeId parent, std::string_view name, engine::Time until);

  // Before the change, and when it is over. Those watchers that hear of beginnings are told when it
  // begins, if there are any.
  void begin(Change& change, Inode& inode, ByteRange range);
  void end(Change& change);
  // For an observer that hears of beginnings and has begun to watch the inode: what is being
  // changed in it, where it was not told or may have been told too early. The whole file where
  // nobody was told. What begins later it is told of.
  std::vector<ByteRange> under_way(const Inode& inode);

  // Forgets what changes, before any byte of it does.
  RecentBytes& recent() { return recent_; }

  // Whether another than `origin` is among `watchers`.
  bool concerns(uint32_t watchers, const Observer* origin) const;

 private:
  using Part = std::function<void(Observer&, std::function<void()> done)>;
  void tell(uint32_t watchers, const Observer* origin, std::function<void()> done,
            const Part& part);

  mutable engine::SharedMutex mutex_;
  std::array<Observer*, kObserversMax> slots_{};
  // Those that hear of beginnings; changes under mutex_.
  std::atomic<uint32_t> hearing_{0};
  engine::Mutex changes_mutex_;
  IntrusiveList<Change> changes_;  // that are announced
  RecentBytes recent_;
};

}  // namespace penstock::inodes
