// Attributes that are set, and with them lengths: the one place where a file becomes shorter.
//
// A cut of a file of which anything may be on stable storage is durable itself. First the new
// length, recorded without a write session: a power cut before leaves the old file, and after it
// the recorded length counts and not the end of the data. Then the removal in the targets, before
// any longer length can be recorded: bytes that were cut never come back. What is left behind by a
// crash in between is removed when the file is next opened for writing (know_tail).
#include "file_system.h"

namespace penstock::client {

void FileSystemImpl::close_gate(Inode& inode) {
  WriteGate::Waiter drained;
  struct Turn {
    engine::Loop* loop = nullptr;
    engine::Op* done = nullptr;
  } turn;
  const Status status = targets_.wait([&](engine::Loop& loop, engine::Op& done) {
    turn = {&loop, &done};
    drained.loop = &loop;
    drained.owner = &turn;
    drained.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Turn>();
      self.loop->complete(*self.done, Code::ok);
    };
    inode.gate.close(drained);
  });
  ASSERT(status.ok());
}

Result<Attributes> FileSystemImpl::change_length(Inode& inode, const Credentials& credentials,
                                                 const meta::SetAttributes& changes) {
  const uint64_t length = *changes.length;
  if (length > inode.placement.file_bytes_max()) return Code::too_large;
  if (length > inode.length.load(std::memory_order_relaxed)) TRY(know_tail(inode));
  close_gate(inode);
  const bool shrinks = length < inode.length.load(std::memory_order_relaxed);
  const bool promised = !inode.fresh || inode.synced.load(std::memory_order_relaxed) > 0 ||
                        inode.durable_length.load(std::memory_order_relaxed) > 0;
  Result<Attributes> set = record_length(inode, credentials, changes, shrinks && promised);
  if (!set) {
    // As before, and what was recorded is behind again as long as somebody writes.
    const Status begun = inode.writers > 0 ? lengths_.begin_session(inode) : Code::ok;
    inode.gate.open();
    return begun.ok() ? set : begun;
  }
  if (length == 0 || set->sparse) {
    inode.sparse.store(length != 0, std::memory_order_relaxed);
  }
  inode.length.store(length, std::memory_order_release);
  if (changes.accessed || changes.accessed_now) load_accessed(inode, *set);
  inode.access_due.store(!inode.no_access_times.load(std::memory_order_relaxed),
                         std::memory_order_relaxed);
  inode.modified.store(set->modified, std::memory_order_relaxed);
  Status status;
  if (shrinks) {
    inode.cuts.fetch_add(1, std::memory_order_release);
    if (promised) inode.durable_length.store(length, std::memory_order_relaxed);
    // Of targets that may have nothing any more nobody is asked later: see Inode::spread.
    const bool leaves_targets =
        inode.spread.load(std::memory_order_relaxed) && inode.placement.chain_count() > 1;
    status = targets_.clear_beyond(inode.id, inode.placement, length, promised || leaves_targets);
    inode.tail_known = status.ok();
    if (status.ok() && inode.writers > 0) status = lengths_.begin_session(inode);
  }
  inode.settled = inode.changes.fetch_add(1, std::memory_order_seq_cst) + 1;
  inode.settled_length = length;
  inode.gate.open();
  if (!status.ok()) return status;
  merge(*set, inode);
  return set;
}

// Records attributes with a length. When `careful` it is durable, and a crash in between finds the
// old length or the new one and no write session.
Result<Attributes> FileSystemImpl::record_length(Inode& inode, const Credentials& credentials,
                                                 const meta::SetAttributes& changes, bool careful) {
  if (!careful) return meta_.set_attributes(credentials, inode.id, changes);
  if (inode.session) TRY(lengths_.record(inode, false, true));
  TRY_ASSIGN(Attributes set, meta_.set_attributes(credentials, inode.id, changes));
  const Status synced = meta_.sync();
  if (synced.ok()) return set;
  // Nothing was removed: the file keeps its length, which is recorded again.
  inode.changes.fetch_add(1, std::memory_order_seq_cst);
  return synced;
}

// Bytes that were taken before this are as good as written before.
void FileSystemImpl::begin_giving(Inode& inode) {
  {
    const std::lock_guard taking(inode.behind.mutex);
    // Release pairs with the acquire of writers.
    inode.privilege_changes.fetch_add(1, std::memory_order_release);
  }
  close_gate(inode);
}

Result<Attributes> FileSystemImpl::set_attributes(const Credentials& credentials, InodeId id,
                                                  const meta::SetAttributes& changes,
                                                  Observer* self) {
  TRY(check_open());
  const std::shared_ptr<Inode> inode = table_.acquire(id);
  behind_.flush(*inode);
  uint64_t first = 0;
  uint64_t bytes = 0;
  const auto apply = [&]() -> Result<Attributes> {
    const std::lock_guard lock(inode->control);
    if (changes.length) {
      if (!inode->loaded.load(std::memory_order_relaxed)) {
        TRY_ASSIGN(const Attributes found, meta_.attributes(id));
        if (found.type == meta::FileType::directory) return Code::is_directory;
        if (found.type != meta::FileType::regular) return Code::invalid_argument;
        TRY(load(*inode, found, false));
      }
      const uint64_t before = inode->length.load(std::memory_order_relaxed);
      Result<Attributes> set = change_length(*inode, credentials, changes);
      if (*changes.length != before) {
        first = std::min(before, *changes.length);
        bytes = INT64_MAX - first;
      }
      return set;
    }
    const bool loaded = inode->loaded.load(std::memory_order_relaxed);
    // A time that is set must not be overwritten by one that is yet to be recorded.
    if (loaded) TRY(lengths_.record(*inode, false, false));
    const bool sets_accessed = changes.accessed || changes.accessed_now;
    const auto unrecorded = sets_accessed ? accesses_.forget(id) : std::unique_lock<std::mutex>();
    const bool gives = loaded && changes.mode && (*changes.mode & kSetIdBits) != 0;
    if (gives) begin_giving(*inode);
    Result<Attributes> changed = meta_.set_attributes(credentials, id, changes);
    if (gives) inode->gate.open();
    if (!changed) return changed;
    Attributes& set = *changed;
    if (!sets_accessed) accesses_.merge(set);
    if (loaded) {
      load_accessed(*inode, set);
      inode->modified.store(set.modified, std::memory_order_relaxed);
      inode->changes.fetch_add(1, std::memory_order_seq_cst);
      merge(set, *inode);
    }
    return changed;
  };
  Result<Attributes> set = apply();
  if (set) fill_allocated(*set);
  const Status dropped = give_back(inode, false);
  static_cast<void>(dropped);  // Nothing was settled: this was no writer.
  if (set) tell_changed(id, first, bytes, self);
  return set;
}

}  // namespace penstock::client
