// Names and attributes: passed on to meta, with what only this process knows merged in.
#include "file_system.h"

namespace penstock::client {

void FileSystemImpl::merge(Attributes& attributes, const Inode& inode) const {
  if (!inode.loaded.load(std::memory_order_acquire)) return;
  attributes.length = inode.visible_length();
  const meta::FileTime modified = inode.modified.load(std::memory_order_relaxed);
  // A write that is yet to be recorded changes both. A time that was set is recorded, and may lie
  // anywhere.
  if (modified != attributes.modified) {
    attributes.changed = std::max(attributes.changed, std::min(modified, now()));
  }
  attributes.modified = modified;
  attributes.sparse = inode.sparse.load(std::memory_order_relaxed);
  attributes.accessed = inode.accessed.load(std::memory_order_relaxed);
}

void FileSystemImpl::fill_allocated(Attributes& attributes) {
  const bool has_blocks =
      attributes.type == meta::FileType::regular || attributes.type == meta::FileType::directory;
  attributes.allocated = has_blocks ? align_up(attributes.length, limits::kBlockBytes) : 0;
  if (!attributes.sparse || !Placement::is_good(attributes.layout, config_.targets.size())) return;
  const Result<uint64_t> bytes = targets_.allocated(attributes.inode, Placement(attributes.layout));
  // A target that does not answer is no reason to know nothing of the file.
  if (bytes) attributes.allocated = *bytes;
}

// `found` was read from meta after `drops_before` was.
Result<Attributes> FileSystemImpl::merged(Result<Attributes> found, uint64_t drops_before) {
  if (!found) return found;
  accesses_.merge(*found);
  if (found->type != meta::FileType::regular) {
    fill_allocated(*found);
    return found;
  }
  while (true) {
    if (const std::shared_ptr<Inode> inode = table_.peek(found->inode)) {
      // Only the targets know what a file with holes takes up.
      if (inode->sparse.load(std::memory_order_relaxed)) behind_.flush(*inode);
      merge(*found, *inode);
      fill_allocated(*found);
      return found;
    }
    const uint64_t drops = table_.drops();
    if (drops == drops_before) {
      fill_allocated(*found);
      return found;
    }
    // Its last user may have settled and left between the two looks.
    drops_before = drops;
    Result<Attributes> again = meta_.attributes(found->inode);
    if (!again) return again;
    found = std::move(again);
    accesses_.merge(*found);
  }
}

Result<Attributes> FileSystemImpl::lookup(const Credentials& credentials, InodeId parent,
                                          std::string_view name) {
  TRY(check_open());
  const uint64_t drops = table_.drops();
  return merged(meta_.lookup(credentials, parent, name), drops);
}

Result<Attributes> FileSystemImpl::resolve(const Credentials& credentials, std::string_view path,
                                           bool follow) {
  TRY(check_open());
  const uint64_t drops = table_.drops();
  return merged(meta_.resolve(credentials, path, follow), drops);
}

Result<std::vector<Result<Attributes>>> FileSystemImpl::resolve_many(
    const Credentials& credentials, const std::vector<std::string_view>& paths, bool follow) {
  TRY(check_open());
  const uint64_t drops = table_.drops();
  TRY_ASSIGN(std::vector<Result<Attributes>> all, meta_.resolve_many(credentials, paths, follow));
  for (Result<Attributes>& found : all) found = merged(std::move(found), drops);
  return all;
}

Result<Attributes> FileSystemImpl::attributes(InodeId inode) {
  TRY(check_open());
  const uint64_t drops = table_.drops();
  return merged(meta_.attributes(inode), drops);
}

Result<Attributes> FileSystemImpl::make_directory(const Credentials& credentials, InodeId parent,
                                                  std::string_view name, uint32_t mode,
                                                  Observer* self) {
  TRY(check_open());
  TRY_ASSIGN(Attributes made, meta_.make_directory(credentials, parent, name, mode));
  fill_allocated(made);
  tell_entry(parent, name, self);
  return made;
}

Result<Attributes> FileSystemImpl::make_node(const Credentials& credentials, InodeId parent,
                                             std::string_view name, meta::FileType type,
                                             uint32_t mode, uint64_t device, Observer* self) {
  TRY(check_open());
  TRY_ASSIGN(Attributes made, meta_.make_node(credentials, parent, name, type, mode, device));
  tell_entry(parent, name, self);
  return made;
}

Result<Attributes> FileSystemImpl::make_symlink(const Credentials& credentials, InodeId parent,
                                                std::string_view name, std::string_view target,
                                                Observer* self) {
  TRY(check_open());
  TRY_ASSIGN(Attributes made, meta_.make_symlink(credentials, parent, name, target));
  tell_entry(parent, name, self);
  return made;
}

Result<Attributes> FileSystemImpl::link(const Credentials& credentials, InodeId inode,
                                        InodeId parent, std::string_view name, Observer* self) {
  TRY(check_open());
  const uint64_t drops = table_.drops();
  TRY_ASSIGN(Attributes linked, merged(meta_.link(credentials, inode, parent, name), drops));
  note_change(inode);
  if (linked.links == 1) named(inode);
  tell_entry(parent, name, self);
  tell_changed(inode, 0, 0, self);
  return linked;
}

// An unnamed file got its first name: it is not to be collected any more.
void FileSystemImpl::named(InodeId id) {
  if (const std::shared_ptr<Inode> inode = table_.peek(id)) {
    inode->unlinked.store(false, std::memory_order_relaxed);
    inode->named = inode->changes.load(std::memory_order_relaxed);
  }
  drops_->removed.fetch_sub(1, std::memory_order_relaxed);
}

// So that a sync of the file does not find it clean.
void FileSystemImpl::note_change(InodeId id) {
  if (const std::shared_ptr<Inode> inode = table_.peek(id)) {
    inode->changes.fetch_add(1, std::memory_order_seq_cst);
    const bool never = inode->no_access_times.load(std::memory_order_relaxed);
    inode->access_due.store(!never, std::memory_order_relaxed);
  }
}

void FileSystemImpl::removed(const meta::Removed& removed, Observer* self) {
  if (removed.inode == InodeId{}) return;
  if (removed.last_link) {
    drops_->removed.fetch_add(1, std::memory_order_relaxed);
    // Whoever uses it still will ask for the collector when it lets go.
    if (!table_.mark_unlinked(removed.inode)) {
      collect_wanted_.store(true, std::memory_order_relaxed);
      drops_->wake();
    }
  }
  tell_changed(removed.inode, 0, 0, self);
}

Status FileSystemImpl::unlink(const Credentials& credentials, InodeId parent, std::string_view name,
                              Observer* self) {
  TRY(check_open());
  meta::Removed gone;
  TRY(meta_.unlink(credentials, parent, name, &gone));
  tell_entry(parent, name, self);
  removed(gone, self);
  return Code::ok;
}

Status FileSystemImpl::remove_directory(const Credentials& credentials, InodeId parent,
                                        std::string_view name, Observer* self) {
  TRY(check_open());
  meta::Removed gone;
  TRY(meta_.remove_directory(credentials, parent, name, &gone));
  tell_entry(parent, name, self);
  removed(gone, self);
  return Code::ok;
}

Status FileSystemImpl::rename(const Credentials& credentials, InodeId parent, std::string_view name,
                              InodeId new_parent, std::string_view new_name,
                              meta::RenameFlags flags, Observer* self) {
  TRY(check_open());
  meta::Removed gone;
  TRY(meta_.rename(credentials, parent, name, new_parent, new_name, flags, &gone));
  tell_entry(parent, name, self);
  tell_entry(new_parent, new_name, self);
  removed(gone, self);
  return Code::ok;
}

// Does what gives a file something that writes take.
Status FileSystemImpl::giving(InodeId id, const std::function<Status()>& apply) {
  const std::shared_ptr<Inode> inode = table_.acquire(id);
  Status status;
  {
    const std::lock_guard lock(inode->control);
    begin_giving(*inode);
    status = apply();
    inode->gate.open();
  }
  const Status dropped = give_back(inode, false);
  static_cast<void>(dropped);  // Nothing was settled: this was no writer.
  return status;
}

Status FileSystemImpl::set_xattr(const Credentials& credentials, InodeId inode,
                                 std::string_view name, std::string_view value,
                                 meta::XattrMode mode, Observer* self) {
  TRY(check_open());
  const auto apply = [&] { return meta_.set_xattr(credentials, inode, name, value, mode); };
  TRY(name == meta::kCapabilityXattr ? giving(inode, apply) : apply());
  note_change(inode);
  tell_changed(inode, 0, 0, self);
  return Code::ok;
}

Status FileSystemImpl::remove_xattr(const Credentials& credentials, InodeId inode,
                                    std::string_view name, Observer* self) {
  TRY(check_open());
  TRY(meta_.remove_xattr(credentials, inode, name));
  note_change(inode);
  tell_changed(inode, 0, 0, self);
  return Code::ok;
}

Result<FileSystem::PathEnd> FileSystemImpl::resolve_parent(const Credentials& credentials,
                                                           std::string_view path) {
  TRY(check_open());
  TRY_ASSIGN(meta::ResolvedParent found, meta_.resolve_parent(credentials, path));
  return PathEnd{found.parent.inode, std::move(found.name)};
}

}  // namespace penstock::client
