#include "attribute_changes.h"

#include "held_inodes.h"

namespace penstock::client {

namespace {

// Of a session that is over meta takes nothing: it is done in the next one.
bool is_to_be_repeated(Status status, Held& held) {
  if (status != Code::stale || held.is_good()) return false;
  held.end();
  return true;
}

}  // namespace

// Under an exclusive hold, which is waited for.
Status AttributeChanges::under_hold(InodeId inode, const std::function<Status()>& apply) {
  Held held(held_);
  while (true) {
    TRY(held.begin(inode, holds::Hold::exclusive));
    const Status status = apply();
    if (!is_to_be_repeated(status, held)) return status;
  }
}

Result<Attributes> AttributeChanges::set_length(Inode& inode, const Credentials& credentials,
                                                const meta::SetAttributes& changes, Held& held,
                                                Range& range) {
  if (!inode.loaded.load(std::memory_order_relaxed)) {
    TRY_ASSIGN(const Attributes found, core_.meta.attributes(inode.id));
    if (found.type == meta::FileType::directory) return Code::is_directory;
    if (found.type != meta::FileType::regular) return Code::invalid_argument;
    TRY(loader_.load(inode, found, false));
    held.note_loaded(inode);
  }
  const uint64_t before = inode.length.load(std::memory_order_relaxed);
  Result<Attributes> set = cuts_.set_length(inode, credentials, changes);
  if (*changes.length != before) {
    range.first = std::min(before, *changes.length);
    range.length = INT64_MAX - range.first;
  }
  return set;
}

Result<Attributes> AttributeChanges::set_others(Inode& inode, const Credentials& credentials,
                                                const meta::SetAttributes& changes) {
  const bool loaded = inode.loaded.load(std::memory_order_relaxed);
  // A time that is set must not be overwritten by one that is yet to be recorded.
  if (loaded) TRY(core_.lengths.record(inode, false, false));
  const bool sets_accessed = changes.accessed || changes.accessed_now;
  const auto unrecorded =
      sets_accessed ? core_.accesses.forget(inode.id) : std::unique_lock<engine::Mutex>();
  const bool gives = loaded && changes.mode && (*changes.mode & kSetIdBits) != 0;
  if (gives) privileges_.begin_giving(inode);
  Result<Attributes> changed = core_.meta.set_attributes(credentials, inode.id, changes);
  if (gives) inode.gate.open();
  if (!changed) return changed;
  Attributes& set = *changed;
  if (!sets_accessed) core_.accesses.merge(set);
  if (loaded) {
    loader_.load_accessed(inode, set);
    inode.modified.store(set.modified, std::memory_order_relaxed);
    inode.changes.fetch_add(1, std::memory_order_seq_cst);
    live_.merge(set, inode);
  }
  return changed;
}

Result<Attributes> AttributeChanges::set(const Credentials& credentials, InodeId id,
                                         const meta::SetAttributes& changes, Observer* self) {
  const std::shared_ptr<Inode> inode = core_.table.acquire(id);
  core_.behind.flush(*inode);
  Range range;
  Held held(held_);
  const auto apply = [&]() -> Result<Attributes> {
    TRY(held.begin(id, holds::Hold::exclusive));
    const std::lock_guard lock(inode->control);
    TRY(held.make_fit_locked(*inode));
    return changes.length ? set_length(*inode, credentials, changes, held, range)
                          : set_others(*inode, credentials, changes);
  };
  Result<Attributes> set = apply();
  while (!set && is_to_be_repeated(set.error(), held)) set = apply();
  held.end();
  if (set) live_.fill_allocated(*set);
  closer_.give_back(inode);
  if (set) notifier_.changed(id, range.first, range.length, self);
  return set;
}

Status AttributeChanges::set_xattr(const Credentials& credentials, InodeId inode,
                                   std::string_view name, std::string_view value,
                                   meta::XattrMode mode, Observer* self) {
  const auto apply = [&] { return core_.meta.set_xattr(credentials, inode, name, value, mode); };
  TRY(under_hold(inode, [&] {
    return name == meta::kCapabilityXattr ? privileges_.giving(inode, apply) : apply();
  }));
  notifier_.count_change(inode);
  notifier_.changed(inode, 0, 0, self);
  return Code::ok;
}

Status AttributeChanges::remove_xattr(const Credentials& credentials, InodeId inode,
                                      std::string_view name, Observer* self) {
  TRY(under_hold(inode, [&] { return core_.meta.remove_xattr(credentials, inode, name); }));
  notifier_.count_change(inode);
  notifier_.changed(inode, 0, 0, self);
  return Code::ok;
}

}  // namespace penstock::client
