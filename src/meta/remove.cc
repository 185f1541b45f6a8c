// Taking links away, and what becomes of inodes without any.
#include "counted_in.h"
#include "namespace.h"

#include "penstock/meta/records/limits.h"

namespace penstock::meta {

Result<Removed> Namespace::drop_link(View& view, Inode& inode, const Leaving& from,
                                     Charges& charges) const {
  const auto& [parent, name, now, ids] = from;
  TRY(charges.removed(view, inode));
  Attributes& attributes = inode.attributes;
  // Who took no numbers began before days were set.
  if ((inode.is_directory() || attributes.links == 1) && trash_.any() && ids.has_two()) {
    TRY_ASSIGN(const TrashDays kept, trash_.days_of(view, parent));
    if (kept.days > 0) {
      TRY_ASSIGN(Removed removed, move_to_trash(view, inode, from, kept.days));
      TRY(charges.added(view, inode));
      return removed;
    }
  }
  // A damaged count must not overflow.
  const uint32_t left = attributes.links == 0 ? 0 : attributes.links - 1;
  attributes.links = inode.is_directory() ? 0 : left;
  attributes.changed = now;
  if (!inode.is_directory()) TRY(note_name_removed(view, inode, parent));
  TRY(charges.added(view, inode));
  view.put(inode);
  if (inode.is_directory()) view.touch(inode.id(), now);
  const bool last = attributes.links == 0;
  ASSERT(last || !inode.is_directory());
  if (last) view.put_mark(view.keys().orphan(inode.id()), kOrphanRemoved);
  Removed removed{inode.id(), last, attributes};
  if (inode.is_directory()) removed.attributes.modified = now;
  return removed;
}

Status Namespace::unlink(const Credentials& credentials, InodeId parent, std::string_view name,
                         Removed* removed) {
  TRY(check_name(name));
  if (is_dots(name)) return Code::is_directory;
  TRY_ASSIGN(TrashIds ids, trash_ids(1));
  TRY_ASSIGN(const Removed done,
             charged(engine::KvMode::write, [&](View& view, Charges& charges) -> Result<Removed> {
               ids.begin();
               TRY_ASSIGN(const Inode directory, view.directory(parent));
               TRY(require(credentials, directory.attributes, kAccessExecute));
               TRY_ASSIGN(const std::optional<Dentry> dentry, view.find(parent, name));
               if (!dentry) return Code::not_found;
               TRY_ASSIGN(Inode inode, view.named_inode(dentry->inode));
               TRY(require_take(credentials, directory.attributes, inode.attributes));
               if (inode.is_directory()) return Code::is_directory;
               const FileTime now = clock_.wall();
               view.erase(parent, name, *dentry);
               view.touch(parent, now);
               return drop_link(view, inode, {parent, name, now, ids}, charges);
             }));
  note_removed(done);
  if (removed != nullptr) *removed = done;
  return {};
}

Status Namespace::remove_directory(const Credentials& credentials, InodeId parent,
                                   std::string_view name, Removed* removed) {
  TRY(check_name(name));
  if (is_dots(name)) return name == "." ? Code::invalid_argument : Code::not_empty;
  // An hour of the trash goes while nothing is put there.
  const bool is_hour = parent == trash_.top() && parent != InodeId();
  TRY_ASSIGN(TrashIds ids, trash_ids(1));
  TRY_ASSIGN(const Removed done,
             charged(
                 engine::KvMode::write,
                 [&](View& view, Charges& charges) -> Result<Removed> {
                   ids.begin();
                   TRY_ASSIGN(Inode above, view.directory(parent));
                   TRY(require(credentials, above.attributes, kAccessExecute));
                   TRY_ASSIGN(const std::optional<Dentry> dentry, view.find(parent, name));
                   if (!dentry) return Code::not_found;
                   TRY_ASSIGN(Inode inode, view.named_inode(dentry->inode));
                   TRY(require_take(credentials, above.attributes, inode.attributes));
                   if (!inode.is_directory()) return Code::not_directory;
                   if (inode.trash == TrashPart::top) return Code::not_permitted;
                   // A transaction that adds an entry writes the times: reading them makes this one
                   // conflict.
                   TRY(view.times(inode.id()));
                   TRY_ASSIGN(const bool empty, view.is_empty(inode.id()));
                   if (!empty) return Code::not_empty;
                   const FileTime now = clock_.wall();
                   view.erase(parent, name, *dentry);
                   if (!is_trash(above)) {
                     drop_subdirectory(above);
                     view.put(above);
                   }
                   view.touch(parent, now);
                   return drop_link(view, inode, {parent, name, now, ids}, charges);
                 },
                 is_hour ? Charges::Gate::alone : Charges::Gate::shared));
  note_removed(done);
  if (removed != nullptr) *removed = done;
  return {};
}

Result<std::vector<InodeId>> Namespace::orphans(size_t limit, InodeId after) {
  if (limit == 0) return std::vector<InodeId>();
  TRY_ASSIGN(std::vector<InodeId> found,
             transact(engine::KvMode::read, [&](View& view) -> Result<std::vector<InodeId>> {
               std::vector<InodeId> orphans;
               TRY(view.scan_ids('O', after, [&](InodeId inode) {
                 orphans.push_back(inode);
                 return orphans.size() < limit;
               }));
               return orphans;
             }));
  ASSERT(found.size() <= limit);
  // A power cut must not restore a file whose chunks are gone.
  if (!found.empty()) TRY(sync());
  return found;
}

Result<bool> Namespace::forget_in(View& view, InodeId inode) {
  Result<Inode> found = view.inode(inode);
  const bool gone = !found && found.error().code() == Code::not_found;
  if (!found && !gone) return found.error();
  if (found && found->attributes.links != 0) return Code::in_use;
  view.erase_mark(view.keys().orphan(inode));
  view.erase_mark(view.keys().write_session(inode));
  if (gone) return false;
  if (found->xattr_bytes != 0) {
    std::vector<std::string> names;
    TRY(view.scan_xattrs(inode, [&](std::string_view name) { names.emplace_back(name); }));
    for (const std::string& name : names) view.erase_xattr(inode, name);
  }
  view.erase(*found);
  return true;
}

Status Namespace::forget_many(std::span<const InodeId> inodes) {
  TRY_ASSIGN(const int64_t forgotten,
             transact(engine::KvMode::write, [&](View& view) -> Result<int64_t> {
               int64_t count = 0;
               for (const InodeId inode : inodes) {
                 TRY_ASSIGN(const bool was_there, forget_in(view, inode));
                 count += was_there;
               }
               return count;
             }));
  if (quotas_.any()) {
    for (const InodeId inode : inodes) quotas_.settled(inode, 0, true);
  }
  ASSERT(forgotten >= 0 && static_cast<size_t>(forgotten) <= inodes.size());
  if (forgotten > 0) counters_.add_inodes(-forgotten);
  return {};
}

}  // namespace penstock::meta
