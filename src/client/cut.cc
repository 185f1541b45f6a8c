// Attributes that are set, and with them lengths: the one place where a file becomes shorter.
//
// A cut must never lose bytes that a power cut might still need: the new length is on stable
// storage before the targets forget anything. And a power cut must not bring cut bytes back: until
// the targets have made the removal durable, the file has no write session, so that its recorded
// length counts after a crash, and not the end of its data (InodeTable::cut).
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

// The gate is closed and meta has recorded the new length, not yet durably.
Status FileSystemImpl::shrink(Inode& inode, uint64_t length, engine::WallTime modified) {
  const meta::Settled settled{
      .length = length, .modified = modified, .only_grow = false, .end_session = inode.session};
  TRY(meta_.settle(inode.id, settled, true));
  inode.session = false;
  const uint64_t cut = table_.mark_cut(inode.id);
  static_cast<void>(cut);
  inode.length.store(length, std::memory_order_release);
  inode.cuts.fetch_add(1, std::memory_order_release);
  inode.durable_length.store(length, std::memory_order_relaxed);
  const Status cleared = targets_.clear_beyond(inode.id, inode.placement, length, false);
  inode.tail_known = cleared.ok();
  return cleared;
}

Result<Attributes> FileSystemImpl::change_length(Inode& inode, const Credentials& credentials,
                                                 const meta::SetAttributes& changes) {
  const uint64_t length = *changes.length;
  if (length > inode.placement.file_bytes_max()) return Code::too_large;
  if (length > inode.length.load(std::memory_order_relaxed)) TRY(know_tail(inode));
  close_gate(inode);
  const uint64_t before = inode.length.load(std::memory_order_relaxed);
  Result<Attributes> set = meta_.set_attributes(credentials, inode.id, changes);
  if (!set) {
    inode.gate.open();
    return set;
  }
  Status status;
  if (length < before) {
    status = shrink(inode, length, set->modified);
  } else {
    inode.length.store(length, std::memory_order_release);
  }
  inode.modified.store(set->modified.nanoseconds, std::memory_order_relaxed);
  const uint64_t change = inode.changes.fetch_add(1, std::memory_order_seq_cst) + 1;
  if (inode.length.load(std::memory_order_relaxed) == length) {
    inode.settled = change;
    inode.settled_length = length;
  }
  inode.gate.open();
  if (!status.ok()) return status;
  merge(*set, inode);
  return set;
}

Result<Attributes> FileSystemImpl::set_attributes(const Credentials& credentials, InodeId id,
                                                  const meta::SetAttributes& changes,
                                                  Observer* self) {
  TRY(check_open());
  const std::shared_ptr<Inode> inode = table_.acquire(id);
  uint64_t first = 0;
  uint64_t bytes = 0;
  const auto apply = [&]() -> Result<Attributes> {
    const std::lock_guard lock(inode->control);
    if (changes.length) {
      if (!inode->loaded.load(std::memory_order_relaxed)) {
        TRY_ASSIGN(const Attributes found, meta_.attributes(id));
        if (found.type == meta::FileType::directory) return Code::is_directory;
        if (found.type != meta::FileType::regular) return Code::invalid_argument;
        TRY(load(*inode, found));
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
    TRY_ASSIGN(Attributes set, meta_.set_attributes(credentials, id, changes));
    if (loaded) {
      inode->modified.store(set.modified.nanoseconds, std::memory_order_relaxed);
      inode->changes.fetch_add(1, std::memory_order_seq_cst);
      merge(set, *inode);
    }
    return set;
  };
  Result<Attributes> set = apply();
  const Status dropped = give_back(inode, false);
  static_cast<void>(dropped);  // Nothing was settled: this was no writer.
  if (set) tell_changed(id, first, bytes, self);
  return set;
}

}  // namespace penstock::client
