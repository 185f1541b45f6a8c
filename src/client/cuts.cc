#include "cuts.h"

namespace penstock::client {

Result<Attributes> Cuts::set_length(Inode& inode, const Credentials& credentials,
                                    const meta::SetAttributes& changes) {
  DASSERT(inode.control.is_held());
  ASSERT(changes.length.has_value());
  ASSERT(inode.loaded.load(std::memory_order_relaxed));
  const uint64_t length = *changes.length;
  if (length > inode.placement.file_bytes_max()) return Code::too_large;
  if (length > inode.length.load(std::memory_order_relaxed)) TRY(loader_.know_tail(inode));
  close_gate(core_, inode);
  const bool shrinks = length < inode.length.load(std::memory_order_relaxed);
  const bool promised = !inode.fresh || inode.synced.load(std::memory_order_relaxed) > 0 ||
                        inode.durable_length.load(std::memory_order_relaxed) > 0;
  Result<Attributes> set = record(inode, credentials, changes, shrinks && promised);
  if (!set) {
    // As before, and what was recorded is behind again as long as there are writers.
    const Status begun = inode.writers > 0 ? core_.lengths.begin_session(inode) : Code::ok;
    inode.gate.open();
    return begun.ok() ? set : begun;
  }
  if (length == 0 || set->sparse) {
    inode.sparse.store(length != 0, std::memory_order_relaxed);
  }
  inode.length.store(length, std::memory_order_release);
  if (changes.accessed || changes.accessed_now) loader_.load_accessed(inode, *set);
  inode.access_due.store(!inode.no_access_times.load(std::memory_order_relaxed),
                         std::memory_order_relaxed);
  inode.modified.store(set->modified, std::memory_order_relaxed);
  const Status status = shrinks ? remove_beyond(inode, length, promised) : Status();
  inode.settled = inode.changes.fetch_add(1, std::memory_order_seq_cst) + 1;
  inode.settled_length = length;
  // The gate was closed all the while: no writer has moved the end.
  ASSERT(inode.length.load(std::memory_order_relaxed) == length);
  inode.gate.open();
  if (!status.ok()) return status;
  live_.merge(*set, inode);
  return set;
}

// The length is recorded, and readers see it. A write session begins again only when nothing is
// left behind the end.
Status Cuts::remove_beyond(Inode& inode, uint64_t length, bool promised) {
  // A session that outlived the record would let a crash bring back what is cut here.
  ASSERT(!promised || !inode.session);
  inode.cuts.fetch_add(1, std::memory_order_release);
  if (promised) inode.durable_length.store(length, std::memory_order_relaxed);
  // Targets that may have nothing any more are not asked later: see Inode::spread.
  const bool leaves_targets =
      inode.spread.load(std::memory_order_relaxed) && inode.placement.chain_count() > 1;
  Status status =
      core_.targets.clear_beyond(inode.id, inode.placement, length, promised || leaves_targets);
  inode.tail_known = status.ok();
  if (status.ok() && inode.writers > 0) status = core_.lengths.begin_session(inode);
  return status;
}

// Records attributes with a length. When `careful` it is durable, and a crash in between finds the
// old length or the new one and no write session.
Result<Attributes> Cuts::record(Inode& inode, const Credentials& credentials,
                                const meta::SetAttributes& changes, bool careful) {
  if (!careful) return core_.meta.set_attributes(credentials, inode.id, changes);
  if (inode.session) TRY(core_.lengths.record(inode, false, true));
  ASSERT(!inode.session);
  TRY_ASSIGN(Attributes set, core_.meta.set_attributes(credentials, inode.id, changes));
  const Status synced = core_.meta.sync();
  if (synced.ok()) return set;
  // Nothing was removed: the file keeps its length, which is recorded again.
  inode.changes.fetch_add(1, std::memory_order_seq_cst);
  return synced;
}

}  // namespace penstock::client
