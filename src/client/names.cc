#include "names.h"

#include "held.h"

namespace penstock::client {

Result<Attributes> Names::lookup(const Credentials& credentials, InodeId parent,
                                 std::string_view name) {
  listed_.about_to_look(parent, name);
  const uint64_t drops = core_.table.drops();
  return live_.merged(core_.meta.lookup(credentials, parent, name), drops);
}

Result<Attributes> Names::resolve(const Credentials& credentials, std::string_view path,
                                  bool follow) {
  const uint64_t drops = core_.table.drops();
  return live_.merged(core_.meta.resolve(credentials, path, follow), drops);
}

Result<std::vector<Result<Attributes>>> Names::resolve_many(
    const Credentials& credentials, const std::vector<std::string_view>& paths, bool follow) {
  const uint64_t drops = core_.table.drops();
  TRY_ASSIGN(std::vector<Result<Attributes>> all,
             core_.meta.resolve_many(credentials, paths, follow));
  ASSERT(all.size() == paths.size());
  listed_.bring_files(all);
  for (Result<Attributes>& found : all) found = live_.merged(std::move(found), drops);
  return all;
}

Result<FileSystem::PathEnd> Names::resolve_parent(const Credentials& credentials,
                                                  std::string_view path) {
  TRY_ASSIGN(meta::ResolvedParent found, core_.meta.resolve_parent(credentials, path));
  return FileSystem::PathEnd{found.parent.inode, std::move(found.name)};
}

Result<Attributes> Names::make_directory(const Credentials& credentials, InodeId parent,
                                         std::string_view name, uint32_t mode, Observer* self) {
  TRY_ASSIGN(Attributes made, core_.meta.make_directory(credentials, parent, name, mode));
  live_.fill_allocated(made);
  notifier_.entry_changed(parent, name, self);
  return made;
}

Result<Attributes> Names::make_node(const Credentials& credentials, InodeId parent,
                                    std::string_view name, meta::FileType type, uint32_t mode,
                                    uint64_t device, Observer* self) {
  TRY_ASSIGN(Attributes made, core_.meta.make_node(credentials, parent, name, type, mode, device));
  notifier_.entry_changed(parent, name, self);
  return made;
}

Result<Attributes> Names::make_symlink(const Credentials& credentials, InodeId parent,
                                       std::string_view name, std::string_view target,
                                       Observer* self) {
  TRY_ASSIGN(Attributes made, core_.meta.make_symlink(credentials, parent, name, target));
  notifier_.entry_changed(parent, name, self);
  return made;
}

Result<Attributes> Names::link(const Credentials& credentials, InodeId inode, InodeId parent,
                               std::string_view name, Observer* self) {
  const uint64_t drops = core_.table.drops();
  TRY_ASSIGN(Attributes linked,
             live_.merged(core_.meta.link(credentials, inode, parent, name), drops));
  notifier_.count_change(inode);
  if (linked.links == 1) collector_.take_out(inode);
  notifier_.entry_changed(parent, name, self);
  notifier_.changed(inode, 0, 0, self);
  return linked;
}

void Names::lost_name(const meta::Removed& removed, Observer* self) {
  if (removed.inode == InodeId{}) return;
  if (removed.last_link) collector_.add(removed.inode);
  notifier_.changed(removed.inode, 0, 0, self);
  if (!removed.kept) return;
  // Nobody made it by that name: a kernel may have asked for it before.
  const meta::KeptInTrash& kept = *removed.kept;
  core_.drops->may_give_way.store(true, std::memory_order_relaxed);
  if (kept.is_new_hour) notifier_.entry_changed(kept.top, kept.hour_name, nullptr);
  notifier_.entry_changed(kept.hour, kept.name, nullptr);
}

Status Names::set_trash(InodeId directory, std::optional<uint32_t> days, std::string_view path) {
  TRY(core_.meta.set_trash(directory, days, path));
  notifier_.entry_changed(meta::kRootInode, meta::kTrashName, nullptr);
  return Code::ok;
}

Result<meta::TrashEmptied> Names::empty_trash(InodeId hour, uint64_t after, size_t limit) {
  // Of what goes, kernels may know.
  std::vector<std::string> names;
  TRY(core_.meta.read_directory(hour, after, limit, false,
                                [&](const meta::DirectoryEntry& entry, const Attributes*) {
                                  names.push_back(entry.name);
                                  return true;
                                }));
  TRY_ASSIGN(meta::TrashEmptied emptied, core_.meta.empty_trash(hour, after, limit));
  for (const std::string& name : names) notifier_.entry_changed(hour, name, nullptr);
  for (const InodeId orphan : emptied.orphans) {
    collector_.add(orphan);
    notifier_.changed(orphan, 0, 0, nullptr);
  }
  for (const InodeId inode : emptied.linked) notifier_.changed(inode, 0, 0, nullptr);
  if (emptied.gone.empty()) return emptied;
  Credentials unchecked;
  unchecked.enforce = false;
  const auto top = core_.meta.lookup(unchecked, meta::kRootInode, meta::kTrashName);
  if (top) notifier_.entry_changed(top->inode, emptied.gone, nullptr);
  return emptied;
}

Status Names::unlink(const Credentials& credentials, InodeId parent, std::string_view name,
                     Observer* self) {
  meta::Removed gone;
  TRY(core_.meta.unlink(credentials, parent, name, &gone));
  notifier_.entry_changed(parent, name, self);
  lost_name(gone, self);
  return Code::ok;
}

Status Names::remove_directory(const Credentials& credentials, InodeId parent,
                               std::string_view name, Observer* self) {
  meta::Removed gone;
  TRY(core_.meta.remove_directory(credentials, parent, name, &gone));
  notifier_.entry_changed(parent, name, self);
  lost_name(gone, self);
  return Code::ok;
}

// A kernel that renames keeps the entry for as long as it was given under its old name. So that it
// is told when another node changes that under the new one, this node has a hold of the new
// directory from before: a recall of it waits for the kernel, which is in the middle of the rename.
Status Names::bring_given(InodeId parent, std::string_view name, InodeId new_parent,
                          std::string_view new_name) {
  const engine::Time until = core_.config.entries->given(parent, name);
  if (until <= core_.clock().now()) return Code::ok;
  Held held(held_);
  TRY(held.begin(new_parent, holds::Hold::shared));
  core_.config.entries->give_renamed(new_parent, new_name, until);
  return Code::ok;
}

Status Names::rename(const Credentials& credentials, InodeId parent, std::string_view name,
                     InodeId new_parent, std::string_view new_name, meta::RenameFlags flags,
                     Observer* self) {
  if (core_.config.entries != nullptr) {
    TRY(bring_given(parent, name, new_parent, new_name));
    if (flags.exchange) TRY(bring_given(new_parent, new_name, parent, name));
  }
  meta::Removed gone;
  TRY(core_.meta.rename(credentials, parent, name, new_parent, new_name, flags, &gone));
  notifier_.entry_changed(parent, name, self);
  notifier_.entry_changed(new_parent, new_name, self);
  lost_name(gone, self);
  return Code::ok;
}

}  // namespace penstock::client
