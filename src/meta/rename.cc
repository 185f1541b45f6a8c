// rename: one entry to another directory or name, perhaps replacing or exchanging what is there.
#include "counted_in.h"
#include "namespace.h"
#include "tree_usage.h"

#include "penstock/meta/records/limits.h"

namespace penstock::meta {
namespace {

struct EntryName {
  InodeId parent;
  std::string_view name;
};

// One attempt of a rename, inside one transaction.
class Renaming {
 public:
  Renaming(View& view, const Credentials& credentials, EntryName from, EntryName to,
           RenameFlags flags, FileTime now)
      : view_(view), credentials_(credentials), from_(from), to_(to), flags_(flags), now_(now) {}

  // True if there is something to do.
  Result<bool> prepare();
  // What the replaced inode was, if any, with its link not yet taken.
  std::optional<Inode>& replaced() { return existing_inode_; }
  // Before either of these two: what it changes for quotas. busy: that nothing else may do at this
  // time, so with the gate for itself.
  struct Tables {
    QuotaTable& quotas;
    TrashTable& trash;
  };
  Status charge(Charges& charges, const Tables& tables, Charges::Gate gate);
  Status move(uint64_t new_cookie);
  Status exchange();

 private:
  bool one_directory() const { return from_.parent == to_.parent; }
  // The directory of the new name; the same object as that of the old name if it is the same.
  Inode& new_directory() { return one_directory() ? old_directory_ : other_directory_; }
  Status charge_one(Inode& moved, InodeId from, InodeId to, Charges& charges, const Tables& tables,
                    Charges::Gate gate);
  Status check_trash();
  Status check_permissions();
  Status check_types();
  Status check_loop(const Inode& moved, InodeId into, Code otherwise);
  Status set_parent(Inode& moved, Inode& before, Inode& after);
  Status stamp(Inode& moved);
  Status finish();

  View& view_;
  const Credentials& credentials_;
  const EntryName from_;
  const EntryName to_;
  const RenameFlags flags_;
  const FileTime now_;
  Inode old_directory_;
  Inode other_directory_;
  Dentry source_;
  Inode source_inode_;
  std::optional<Dentry> existing_;
  std::optional<Inode> existing_inode_;
};

Result<bool> Renaming::prepare() {
  TRY_ASSIGN(old_directory_, view_.directory(from_.parent));
  if (!one_directory()) {
    TRY_ASSIGN(other_directory_, view_.directory(to_.parent));
  }
  TRY(require(credentials_, old_directory_.attributes, kAccessExecute));
  TRY(require(credentials_, new_directory().attributes, kAccessExecute));
  TRY_ASSIGN(const std::optional<Dentry> source, view_.find(from_.parent, from_.name));
  if (!source) return Code::not_found;
  source_ = *source;
  TRY_ASSIGN(source_inode_, view_.named_inode(source_.inode));
  TRY_ASSIGN(existing_, view_.find(to_.parent, to_.name));
  if (existing_ && flags_.no_replace) return Code::already_exists;
  if (!existing_ && flags_.exchange) return Code::not_found;
  if (existing_) {
    TRY_ASSIGN(existing_inode_, view_.named_inode(existing_->inode));
  }
  TRY(check_trash());
  if (source_inode_.is_directory()) {
    TRY(check_loop(source_inode_, to_.parent, Code::invalid_argument));
  }
  if (existing_inode_ && existing_inode_->is_directory()) {
    // The source lies inside what it would replace: that is not empty.
    TRY(check_loop(*existing_inode_, from_.parent,
                   flags_.exchange ? Code::invalid_argument : Code::not_empty));
  }
  TRY(check_permissions());
  // Two names of one file, or one name twice: POSIX wants nothing to happen.
  if (existing_ && existing_->inode == source_.inode) return false;
  TRY(check_types());
  return true;
}

// Out of the trash, and nowhere else.
Status Renaming::check_trash() {
  TRY(require_addable(new_directory(), to_.name));
  TRY(require_own(source_inode_));
  if (existing_inode_) TRY(require_own(*existing_inode_));
  return flags_.exchange ? require_addable(old_directory_, from_.name) : Status();
}

Status Renaming::check_permissions() {
  TRY(require_take(credentials_, old_directory_.attributes, source_inode_.attributes));
  TRY(require_add(credentials_, new_directory().attributes));
  if (existing_inode_) {
    TRY(require_take(credentials_, new_directory().attributes, existing_inode_->attributes));
  }
  // Moving a directory rewrites its "..".
  if (one_directory()) return {};
  if (source_inode_.is_directory()) {
    TRY(require(credentials_, source_inode_.attributes, kAccessWrite));
  }
  if (flags_.exchange && existing_inode_->is_directory()) {
    TRY(require(credentials_, existing_inode_->attributes, kAccessWrite));
  }
  return {};
}

Status Renaming::check_types() {
  if (!existing_inode_ || flags_.exchange) return {};
  if (source_inode_.is_directory() && !existing_inode_->is_directory()) return Code::not_directory;
  if (!source_inode_.is_directory() && existing_inode_->is_directory()) return Code::is_directory;
  if (!existing_inode_->is_directory()) return {};
  TRY(view_.times(existing_inode_->id()));  // to conflict with a transaction that adds an entry
  TRY_ASSIGN(const bool empty, view_.is_empty(existing_inode_->id()));
  if (!empty) return Code::not_empty;
  return {};
}

// Ends with `otherwise` if `into` is `moved` or below it. Every directory on the way joins the read
// set, so that two renames cannot make a loop together.
Status Renaming::check_loop(const Inode& moved, InodeId into, Code otherwise) {
  if (one_directory()) return {};
  InodeId here = into;
  for (int depth = 0; here != kRootInode; ++depth) {
    if (here == moved.id()) return otherwise;
    if (depth == kDepthMax) {
      log::error("metadata corrupt: directory {} is not below the root", into.value);
      return Code::corrupt;
    }
    TRY_ASSIGN(const Inode directory, view_.inode(here));
    if (!directory.is_directory()) return Code::not_directory;
    here = directory.parent;
  }
  return {};
}

// `moved` has left `before` for `after`.
Status Renaming::set_parent(Inode& moved, Inode& before, Inode& after) {
  if (!moved.is_directory() || before.id() == after.id()) return {};
  ASSERT(moved.id() != after.id() && moved.id() != before.id());
  if (after.attributes.links >= kLinksMax) return Code::too_many_links;
  ASSERT(!is_trash(after) && !is_trash(moved));
  if (!is_trash(before)) {
    drop_subdirectory(before);
    view_.put(before);
  }
  ++after.attributes.links;
  moved.parent = after.id();
  moved.trash = TrashPart::none;
  view_.put(after);
  return {};
}

Status Renaming::charge(Charges& charges, const Tables& tables, Charges::Gate gate) {
  if (one_directory()) return {};
  TRY(charge_one(source_inode_, from_.parent, to_.parent, charges, tables, gate));
  if (!flags_.exchange) return {};
  return charge_one(*existing_inode_, to_.parent, from_.parent, charges, tables, gate);
}

Status Renaming::charge_one(Inode& moved, InodeId from, InodeId to, Charges& charges,
                            const Tables& tables, Charges::Gate gate) {
  ASSERT(from != to);
  if (!moved.is_directory()) {
    TRY(charges.removed(view_, moved));
    TRY(note_name_moved(view_, moved, from, to));
    return charges.added(view_, moved);
  }
  QuotaTable& quotas = tables.quotas;
  if (!quotas.any_of_directories() && !tables.trash.any()) return {};
  if (gate != Charges::Gate::alone) return Code::busy;
  TRY_ASSIGN(const QuotaEntries before, quotas.above(view_, from));
  TRY_ASSIGN(const QuotaEntries after, quotas.above(view_, to));
  if (before != after) {
    TRY_ASSIGN(const std::optional<UsageRecord> tree,
               usage_of_tree(view_, moved, kCountedByRenameMax));
    if (!tree) return Code::cross_device;
    TRY(charges.moved(view_, from, *tree, -1));
    TRY(charges.moved(view_, to, *tree, 1));
  }
  // Ways through it are others from now on.
  quotas.forget_ways();
  tables.trash.forget_ways();
  return {};
}

Status Renaming::move(uint64_t new_cookie) {
  ASSERT(existing_.has_value() == existing_inode_.has_value() && !flags_.exchange);
  ASSERT(source_.inode == source_inode_.id());
  ASSERT(one_directory() || existing_ || new_cookie != 0);
  Dentry moved = source_;
  if (existing_) {
    moved.cookie = existing_->cookie;  // the new name was there all the time
    if (existing_inode_->is_directory()) {
      drop_subdirectory(new_directory());
      view_.put(new_directory());
    }
  } else if (!one_directory()) {
    moved.cookie = new_cookie;
  }
  TRY(set_parent(source_inode_, old_directory_, new_directory()));
  view_.erase(from_.parent, from_.name, source_);
  view_.put(to_.parent, to_.name, moved);
  return finish();
}

Status Renaming::exchange() {
  ASSERT(existing_ && existing_inode_ && flags_.exchange);
  ASSERT(existing_->inode == existing_inode_->id() && existing_->inode != source_.inode);
  Inode& old_parent = old_directory_;
  Inode& new_parent = new_directory();
  const bool source_moves = source_inode_.is_directory() && !one_directory();
  const bool existing_moves = existing_inode_->is_directory() && !one_directory();
  // Two directories change names without changing a count.
  if (source_moves != existing_moves) {
    const Inode& gains = source_moves ? new_parent : old_parent;
    if (gains.attributes.links >= kLinksMax) return Code::too_many_links;
  }
  if (source_moves) {
    source_inode_.parent = new_parent.id();
    drop_subdirectory(old_parent);
    ++new_parent.attributes.links;
  }
  if (existing_moves) {
    existing_inode_->parent = old_parent.id();
    drop_subdirectory(new_parent);
    ++old_parent.attributes.links;
  }
  if (source_moves != existing_moves) {
    view_.put(old_parent);
    view_.put(new_parent);
  }
  view_.put(from_.parent, from_.name, {existing_->inode, existing_->type, source_.cookie});
  view_.put(to_.parent, to_.name, {source_.inode, source_.type, existing_->cookie});
  TRY(stamp(*existing_inode_));
  return finish();
}

Status Renaming::stamp(Inode& moved) {
  moved.attributes.changed = now_;
  view_.put(moved);
  if (moved.is_directory()) {
    TRY_ASSIGN(const DirectoryTimes times, view_.times(moved.id()));
    view_.put_times(moved.id(), {times.modified, now_});
  }
  return {};
}

Status Renaming::finish() {
  TRY(stamp(source_inode_));
  view_.touch(from_.parent, now_);
  if (!one_directory()) view_.touch(to_.parent, now_);
  return {};
}

}  // namespace

Status Namespace::rename(const Credentials& credentials, InodeId parent, std::string_view name,
                         InodeId new_parent, std::string_view new_name, RenameFlags flags,
                         Removed* removed) {
  TRY(check_name(name));
  TRY(check_name(new_name));
  if (flags.no_replace && flags.exchange) return Code::invalid_argument;
  if (is_dots(name) || is_dots(new_name)) {
    return flags.no_replace && is_dots(new_name) ? Code::already_exists : Code::in_use;
  }
  uint64_t cookie = 0;
  if (parent != new_parent) {
    TRY_ASSIGN(cookie, counters_.new_id());
  }
  TRY_ASSIGN(TrashIds ids, trash_ids(1));
  bool wants_gate = false;
  const auto rename_by = [&](Charges::Gate gate) {
    return charged(
        engine::KvMode::write,
        [&](View& view, Charges& charges) -> Result<Removed> {
          ids.begin();
          const FileTime now = clock_.wall();
          Renaming renaming(view, credentials, {parent, name}, {new_parent, new_name}, flags, now);
          TRY_ASSIGN(const bool anything, renaming.prepare());
          if (!anything) return Removed();
          const Status charged = renaming.charge(charges, {quotas_, trash_}, gate);
          wants_gate = charged == Code::busy;
          TRY(charged);
          if (flags.exchange) {
            TRY(renaming.exchange());
            return Removed();
          }
          TRY(renaming.move(cookie));
          if (!renaming.replaced()) return Removed();
          return drop_link(view, *renaming.replaced(), {new_parent, new_name, now, ids}, charges);
        },
        gate);
  };
  Result<Removed> done = rename_by(Charges::Gate::shared);
  if (!done && wants_gate) done = rename_by(Charges::Gate::alone);
  if (!done) return done.error();
  note_removed(*done);
  if (removed != nullptr) *removed = *done;
  return {};
}

}  // namespace penstock::meta
