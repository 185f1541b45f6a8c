#include "cuts.h"

#include <algorithm>

namespace penstock::client {
namespace {

bool may_be_spread(const Inode& inode) {
  if (inode.placement.chain_count() == 1) return false;
  return inode.spread.load(std::memory_order_relaxed) ||
         inode.sparse.load(std::memory_order_relaxed) ||
         inode.stray.load(std::memory_order_relaxed);
}

}  // namespace

Result<Attributes> Cuts::set_length(Inode& inode, const Credentials& credentials,
                                    const meta::SetAttributes& changes) {
  DASSERT(inode.control.is_held());
  ASSERT(changes.length.has_value());
  ASSERT(inode.loaded.load(std::memory_order_relaxed));
  const uint64_t length = *changes.length;
  if (length > inode.placement.file_bytes_max()) return Code::too_large;
  if (length > inode.length.load(std::memory_order_relaxed)) TRY(loader_.know_tail(inode));
  close_gate(core_, inode);
  const Cut cut{.length = length,
                .before = inode.length.load(std::memory_order_relaxed),
                .promised = !inode.fresh || inode.synced.load(std::memory_order_relaxed) > 0 ||
                            inode.durable_length.load(std::memory_order_relaxed) > 0,
                .spread = may_be_spread(inode)};
  const uint64_t first = std::min(length, cut.before);
  inodes::Change change;
  core_.observers.begin(change, inode, {first, INT64_MAX - first});
  Result<Attributes> set = record(inode, credentials, changes, cut);
  if (!set) {
    // As before, and what was recorded is behind again as long as there are writers.
    const Status begun = inode.writers > 0 ? core_.lengths.begin_session(inode) : Code::ok;
    core_.observers.end(change);
    inode.gate.open();
    return begun.ok() ? set : begun;
  }
  // What grows gets a hole.
  if (length > cut.before) inode.sparse.store(true, std::memory_order_relaxed);
  inode.length.store(length, std::memory_order_release);
  // The record has it, so quotas have let it.
  if (length > inode.allowed.load(std::memory_order_relaxed)) {
    inode.allowed.store(length, std::memory_order_relaxed);
  }
  if (changes.accessed || changes.accessed_now) loader_.load_accessed(inode, *set);
  inode.access_due.store(!inode.no_access_times.load(std::memory_order_relaxed),
                         std::memory_order_relaxed);
  inode.modified.store(set->modified, std::memory_order_relaxed);
  Status status = cut.shrinks() ? remove_beyond(inode, cut) : Status();
  inode.settled = inode.changes.fetch_add(1, std::memory_order_seq_cst) + 1;
  inode.settled_length = length;
  if (status.ok()) status = note_removed(inode, cut, *set);
  // The gate was closed all the while: no writer has moved the end.
  ASSERT(inode.length.load(std::memory_order_relaxed) == length);
  core_.observers.end(change);
  inode.gate.open();
  if (!status.ok()) return status;
  live_.merge(*set, inode);
  return set;
}

// The length is recorded, and readers see it. A write session begins again only when nothing is
// left behind the end.
Status Cuts::remove_beyond(Inode& inode, const Cut& cut) {
  // A session that outlived the record would let a crash bring back what is cut here.
  ASSERT(!cut.promised || !inode.session);
  inode.cuts.fetch_add(1, std::memory_order_release);
  if (cut.promised) inode.durable_length.store(cut.length, std::memory_order_relaxed);
  // Bytes behind the former end are on no chain that has none before it.
  const uint64_t end = knows_chunks(inode) ? cut.before : inode.placement.file_bytes_max();
  // Targets that may have nothing any more are not asked later: see Inode::spread.
  const bool durable = cut.promised || cut.spread;
  Status status = core_.targets.clear_beyond(inode.id, inode.placement, {cut.length, end}, durable);
  // A target of another process may die alone, and take back what is not durable.
  inode.tail_known = status.ok() && durable;
  if (!status.ok()) inode.sparse.store(true, std::memory_order_relaxed);
  if (status.ok() && inode.writers > 0) status = core_.lengths.begin_session(inode);
  return status;
}

// Whether no chunk lies beyond the end; where nobody has looked, the record may tell (decision
// 0047).
bool Cuts::knows_chunks(const Inode& inode) {
  if (inode.stray.load(std::memory_order_relaxed)) return false;
  if (inode.tail_known) return true;
  if (inode.sparse.load(std::memory_order_relaxed)) return false;
  const Result<bool> unsettled = core_.meta.is_unsettled(inode.id);
  return unsettled && !*unsettled;
}

// Nothing lies beyond the end any more, but for writes of which nobody knows whether they still
// happen. With a writer the record says so when its session ends.
Status Cuts::note_removed(Inode& inode, const Cut& cut, const Attributes& set) {
  const bool stray = inode.stray.load(std::memory_order_relaxed);
  if (cut.length == 0) inode.sparse.store(stray, std::memory_order_relaxed);
  const bool sparse = inode.sparse.load(std::memory_order_relaxed);
  if (set.sparse == sparse || inode.writers > 0) return Code::ok;
  return core_.meta.settle(
      inode.id, {.length = cut.length, .modified = set.modified, .sparse = sparse}, false);
}

// Records attributes with a length. Where something is promised that shrinks it is durable, and a
// crash in between finds the old length or the new one and no write session.
Result<Attributes> Cuts::record(Inode& inode, const Credentials& credentials,
                                const meta::SetAttributes& changes, const Cut& cut) {
  meta::SetAttributes all = changes;
  all.leaves_blocks = cut.spread;
  const bool careful = cut.shrinks() && cut.promised;
  if (careful && inode.session) TRY(core_.lengths.record(inode, false, true));
  ASSERT(!careful || !inode.session);
  TRY_ASSIGN(Attributes set, core_.meta.set_attributes(credentials, inode.id, all));
  // What a power cut takes back must not be what tells of other chains; see Inode::reach.
  const bool tells = cut.length > inode.reach.load(std::memory_order_relaxed);
  if (careful || tells) TRY(sync(inode));
  if (!inode.session || tells) {
    const uint64_t reach = inode.session ? UINT64_MAX : inode.placement.reach_of(cut.length);
    inode.reach.store(reach, std::memory_order_relaxed);
  }
  return set;
}

Status Cuts::sync(Inode& inode) {
  const Status synced = core_.meta.sync();
  // Nothing was removed: the file keeps its length, which is recorded again.
  if (!synced.ok()) inode.changes.fetch_add(1, std::memory_order_seq_cst);
  return synced;
}

}  // namespace penstock::client
