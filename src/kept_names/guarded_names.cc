#include "penstock/kept_names/guarded_names.h"

#include <algorithm>
#include <memory>
#include <mutex>

namespace penstock::kept_names {

using holds::AgentId;
using holds::Part;
using meta::Attributes;
using meta::Credentials;

namespace {

// A part that says the name, or with none that the attributes change.
void add(std::vector<Part>& parts, InodeId inode, std::string_view name) {
  const auto is_it = [inode](const Part& part) { return part.inode == inode; };
  const auto found = std::find_if(parts.begin(), parts.end(), is_it);
  Part& part = found != parts.end() ? *found : parts.emplace_back(Part{inode, {}});
  part.names.emplace_back(name);
}

bool has(const std::vector<Part>& parts, InodeId inode) {
  return std::any_of(parts.begin(), parts.end(),
                     [inode](const Part& part) { return part.inode == inode; });
}

}  // namespace

// Outlives who waits, where that has given up.
struct NamesGuard::Waiting {
  holds::RequestId barrier;
  bool is_ready = false;
  bool is_given_up = false;
};

NamesGuard::~NamesGuard() = default;

void NamesGuard::stop() {
  const std::lock_guard lock(mutex_);
  is_stopping_ = true;
  wake_.notify_all();
}

// From before others are told until the outcome is known.
class NamesGuard::Change {
 public:
  Change(NamesGuard& guard, const std::vector<Part>& parts) : guard_(guard), parts_(parts) {
    for (const Part& part : parts_) guard_.changes_.begin(part.inode);
  }
  ~Change() {
    if (waiting_ != nullptr && waiting_->is_ready) guard_.holds_.over(waiting_->barrier, true);
    for (const Part& part : parts_) guard_.changes_.end(part.inode);
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  // closed: the guard is to stop. stale: the maker's session ended meanwhile: others who have
  // waited for that go on as if nothing of it could happen any more. Whoever gets a hold once this
  // has looked reads what is not steady before the change is over, and so keeps nothing of it.
  Status await_others(AgentId maker) {
    std::vector<Part> kept;
    for (const Part& part : parts_) {
      if (guard_.holds_.is_kept_elsewhere(part.inode, maker)) kept.push_back(part);
    }
    std::unique_lock lock(guard_.mutex_);
    if (guard_.is_stopping_) return Code::closed;
    if (kept.empty()) return Code::ok;
    waiting_ = std::make_shared<Waiting>();
    lock.unlock();
    const bool had_session = guard_.holds_.is_good(maker);
    const holds::RequestId barrier = guard_.holds_.barrier(
        maker, std::move(kept), [&guard = guard_, waiting = waiting_](const auto&) {
          const std::lock_guard is_ready(guard.mutex_);
          waiting->is_ready = true;
          if (waiting->is_given_up) guard.holds_.over(waiting->barrier, false);
          guard.wake_.notify_all();
        });
    lock.lock();
    waiting_->barrier = barrier;
    guard_.wake_.wait(lock, [this] { return waiting_->is_ready || guard_.is_stopping_; });
    if (!waiting_->is_ready) {
      waiting_->is_given_up = true;
      waiting_ = nullptr;
      return Code::closed;
    }
    lock.unlock();
    return had_session && !guard_.holds_.is_good(maker) ? Code::stale : Code::ok;
  }

 private:
  NamesGuard& guard_;
  const std::vector<Part>& parts_;
  std::shared_ptr<Waiting> waiting_;
};

template <class Body>
auto GuardedNames::guarded(const Parts& parts, const Body& change) -> decltype(change()) {
  ASSERT(parts.size() <= holds::limits::kBarrierPartsMax);
  NamesGuard::Change guarding(guard_, parts);
  if (const Status alone = guarding.await_others(maker_()); !alone.ok()) {
    has_given_up_ = alone == Code::closed;
    return alone;
  }
  return change();
}

void GuardedNames::add_target(Parts& parts, InodeId directory, std::string_view name) {
  meta::Look look{directory, std::string(name)};
  // What cannot be found is for the change itself to say.
  if (!inner_.look({&look, 1}).ok() || !look.found) return;
  add(parts, look.found->inode, {});
}

void GuardedNames::tell_of(const Parts& parts, const meta::Removed& removed) {
  if (removed.inode == InodeId() || has(parts, removed.inode)) return;
  Parts late;
  add(late, removed.inode, {});
  (void)guarded(late, [] { return Status(); });
}

Status GuardedNames::look(std::span<meta::Look> looks) {
  const holds::Changes::Moment since = guard_.changes_.now();
  TRY(inner_.look(looks));
  for (meta::Look& one : looks) {
    one.is_steady = one.is_steady && guard_.changes_.was_quiet(one.inode, since) &&
                    (!one.found || guard_.changes_.was_quiet(one.found->inode, since));
  }
  return Code::ok;
}

Result<Attributes> GuardedNames::set_layout(const Credentials& who, InodeId directory,
                                            const LayoutEdit& change) {
  Parts parts;
  add(parts, directory, {});
  return guarded(parts, [&] { return inner_.set_layout(who, directory, change); });
}

Result<Attributes> GuardedNames::create(const Credentials& who, InodeId parent,
                                        std::string_view name, uint32_t mode, bool exclusive,
                                        std::optional<meta::Layout> layout, bool* created,
                                        meta::Creation how) {
  Parts parts;
  add(parts, parent, name);
  return guarded(parts, [&] {
    return inner_.create(who, parent, name, mode, exclusive, layout, created, how);
  });
}

Result<Attributes> GuardedNames::make_directory(const Credentials& who, InodeId parent,
                                                std::string_view name, uint32_t mode) {
  Parts parts;
  add(parts, parent, name);
  return guarded(parts, [&] { return inner_.make_directory(who, parent, name, mode); });
}

Result<Attributes> GuardedNames::make_node(const Credentials& who, InodeId parent,
                                           std::string_view name, meta::FileType type,
                                           uint32_t mode, uint64_t device) {
  Parts parts;
  add(parts, parent, name);
  return guarded(parts, [&] { return inner_.make_node(who, parent, name, type, mode, device); });
}

Result<Attributes> GuardedNames::make_symlink(const Credentials& who, InodeId parent,
                                              std::string_view name, std::string_view target) {
  Parts parts;
  add(parts, parent, name);
  return guarded(parts, [&] { return inner_.make_symlink(who, parent, name, target); });
}

Result<Attributes> GuardedNames::link(const Credentials& who, InodeId inode, InodeId new_parent,
                                      std::string_view new_name) {
  Parts parts;
  add(parts, new_parent, new_name);
  add(parts, inode, {});
  return guarded(parts, [&] { return inner_.link(who, inode, new_parent, new_name); });
}

Status GuardedNames::create_files(const Credentials& who,
                                  const std::vector<meta::CompleteFile>& files,
                                  std::vector<Result<meta::MadeFile>>* made) {
  Parts parts;
  for (const meta::CompleteFile& file : files) {
    add(parts, file.place.parent, file.place.name);
    if (file.place.replace) add_target(parts, file.place.parent, file.place.name);
  }
  std::vector<Result<meta::MadeFile>> each;
  const Status status = guarded(parts, [&] { return inner_.create_files(who, files, &each); });
  for (const Result<meta::MadeFile>& one : each) {
    if (one) tell_of(parts, one->replaced);
  }
  if (made != nullptr) *made = std::move(each);
  return status;
}

Status GuardedNames::unlink(const Credentials& who, InodeId parent, std::string_view name,
                            meta::Removed* removed) {
  Parts parts;
  add(parts, parent, name);
  add_target(parts, parent, name);
  meta::Removed gone;
  TRY(guarded(parts, [&] { return inner_.unlink(who, parent, name, &gone); }));
  tell_of(parts, gone);
  if (removed != nullptr) *removed = std::move(gone);
  return Code::ok;
}

Status GuardedNames::remove_directory(const Credentials& who, InodeId parent, std::string_view name,
                                      meta::Removed* removed) {
  Parts parts;
  add(parts, parent, name);
  add_target(parts, parent, name);
  meta::Removed gone;
  TRY(guarded(parts, [&] { return inner_.remove_directory(who, parent, name, &gone); }));
  tell_of(parts, gone);
  if (removed != nullptr) *removed = std::move(gone);
  return Code::ok;
}

// What has moved may be another one than was looked at: of that only the time of its change is new,
// and it is told all the same before the maker hears.
Status GuardedNames::rename(const Credentials& who, InodeId parent, std::string_view name,
                            InodeId new_parent, std::string_view new_name, meta::RenameFlags flags,
                            meta::Removed* removed) {
  Parts parts;
  add(parts, parent, name);
  add(parts, new_parent, new_name);
  add_target(parts, parent, name);
  add_target(parts, new_parent, new_name);
  meta::Removed gone;
  TRY(guarded(
      parts, [&] { return inner_.rename(who, parent, name, new_parent, new_name, flags, &gone); }));
  tell_of(parts, gone);
  Parts moved;
  add_target(moved, new_parent, new_name);
  if (!moved.empty() && !has(parts, moved.front().inode))
    (void)guarded(moved, [] { return Status(); });
  if (removed != nullptr) *removed = std::move(gone);
  return Code::ok;
}

// The root gets a directory by it once.
Status GuardedNames::set_trash(InodeId directory, std::optional<uint32_t> days,
                               std::string_view path) {
  Parts parts;
  add(parts, meta::kRootInode, meta::kTrashName);
  return guarded(parts, [&] { return inner_.set_trash(directory, days, path); });
}

// What an hour has is looked at before; what others have put there since is told late, as above.
Result<meta::TrashEmptied> GuardedNames::empty_trash(InodeId hour, uint64_t after, size_t limit) {
  Parts parts;
  add(parts, hour, {});
  limit = std::min(limit, holds::limits::kBarrierPartsMax / 2);
  TRY(inner_.read_directory(hour, after, limit, false,
                            [&](const meta::DirectoryEntry& entry, const Attributes*) {
                              add(parts, hour, entry.name);
                              add(parts, entry.inode, {});
                              return true;
                            }));
  TRY_ASSIGN(meta::TrashEmptied emptied,
             guarded(parts, [&] { return inner_.empty_trash(hour, after, limit); }));
  for (const std::vector<InodeId>& some : {emptied.orphans, emptied.linked}) {
    for (const InodeId inode : some) {
      meta::Removed gone;
      gone.inode = inode;
      tell_of(parts, gone);
    }
  }
  return emptied;
}

}  // namespace penstock::kept_names
