#include "all_files.h"

namespace penstock::client {

struct AllFiles::Syncing {
  std::shared_ptr<Inode> inode;
  uint64_t changes = 0;
  Lengths::Recorded recorded;
};

// The lengths of what the targets hold durably.
Status AllFiles::record(std::vector<Syncing>& all) {
  for (Syncing& one : all) {
    const std::lock_guard lock(one.inode->control);
    if (!one.inode->loaded.load(std::memory_order_relaxed)) continue;
    TRY(core_.lengths.record(*one.inode, false, false));
    one.recorded = Lengths::recorded(*one.inode);
  }
  return Code::ok;
}

Status AllFiles::sync() {
  core_.behind.flush_all();
  closer_.give_back_dropped();
  std::vector<Syncing> all;
  for (std::shared_ptr<Inode>& inode : core_.table.acquire_all()) {
    const uint64_t changes = inode->changes.load(std::memory_order_acquire);
    all.push_back({std::move(inode), changes, {}});
  }
  Status status = core_.accesses.record();
  if (status.ok()) status = core_.targets.sync_all();
  if (status.ok()) status = record(all);
  if (status.ok()) status = core_.meta.sync();
  for (Syncing& one : all) {
    if (status.ok()) {
      const std::lock_guard lock(one.inode->control);
      Lengths::note_synced(*one.inode, one.recorded, one.changes);
    }
    closer_.give_back(one.inode);
  }
  return status;
}

Status AllFiles::record_final() {
  // The targets first: a length that is recorded as final must not be ahead of its data.
  TRY(core_.targets.sync_all());
  Status first;
  for (const std::shared_ptr<Inode>& inode : core_.table.acquire_all()) {
    // Nobody answers who would record it: whoever ends this session finds what is in the targets.
    if (first.ok() || !core_.is_alone()) {
      const std::lock_guard lock(inode->control);
      if (inode->loaded.load(std::memory_order_relaxed)) {
        const Status recorded = core_.lengths.record(*inode, false, true);
        ASSERT(!recorded.ok() || !inode->session);
        if (first.ok()) first = recorded;
      }
    }
    core_.table.release(inode);
  }
  const Status synced = core_.meta.sync();
  return first.ok() ? synced : first;
}

}  // namespace penstock::client
