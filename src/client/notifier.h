// Tells observers of changes, from threads that may block.
#pragma once

#include "core.h"

namespace penstock::client {

// Thread safe; has no data of its own. A change has happened, and is counted in Inode::changes,
// before its observers are told: a watcher that was added too late to be told finds it.
class Notifier {
 public:
  explicit Notifier(Core& core) : core_(core) {}

  void add(Observer& observer) { core_.observers.add(observer); }
  void remove(Observer& observer);
  void watch(InodeId inode, Observer& observer);
  void unwatch(InodeId inode, Observer& observer);

  // Bytes or attributes of one inode have changed; returns when all observers but `self` have let
  // the change through.
  void changed(InodeId inode, uint64_t offset, uint64_t length, Observer* self);
  // Returns when all observers have let another agent have the inode.
  void recalled(InodeId inode);
  // As changed(), without waiting for them.
  void mention(InodeId inode, uint32_t watchers, uint64_t offset, uint64_t length);
  void entry_changed(InodeId parent, std::string_view name, Observer* self);
  // Of another agent: when this returns nobody keeps what was given of these until then.
  void entries_recalled(InodeId parent, const holds::KeptEntries::Given& given);

  // Counts a change of an inode that is in use, so that a sync of the file does not find it clean.
  void count_change(InodeId id);
  // The file counts as written: its time, too. changed() follows.
  void count_written(Inode& inode);

 private:
  Core& core_;
};

}  // namespace penstock::client
