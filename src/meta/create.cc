// Making inodes and entries.
#include "acl.h"
#include "counted_in.h"
#include "namespace.h"

#include "penstock/meta/records/limits.h"

namespace penstock::meta {

namespace {

// The default list of the directory takes the place of the umask.
void apply_masks(const Credentials& credentials, const Inode& parent, Inode& made) {
  ASSERT(parent.is_directory());
  Attributes& attributes = made.attributes;
  if (parent.default_acl.empty()) {
    attributes.mode &= ~(credentials.umask & 0777);
    return;
  }
  Inherited inherited = inherit(parent.default_acl, attributes.mode & 0777);
  attributes.mode = (attributes.mode & ~0777U) | inherited.mode;
  attributes.acl = std::move(inherited.acl);
  if (attributes.type == FileType::directory) made.default_acl = parent.default_acl;
}

}  // namespace

Inode Namespace::build(const Credentials& credentials, const Inode& parent, uint64_t id,
                       const NewInode& what) const {
  ASSERT(id != 0 && parent.is_directory());
  const Attributes& above = parent.attributes;
  Inode inode;
  Attributes& made = inode.attributes;
  made.inode = InodeId(id);
  made.type = what.type;
  made.mode = what.mode & 07777;
  if (what.type != FileType::symlink) apply_masks(credentials, parent, inode);
  made.uid = credentials.uid;
  made.gid = credentials.gid;
  if ((above.mode & kSetGroupId) != 0) {
    made.gid = above.gid;
    if (what.type == FileType::directory) {
      made.mode |= kSetGroupId;
    } else if ((made.mode & kGroupExecute) != 0 && !privileged(credentials) &&
               !in_group(credentials, made.gid)) {
      made.mode &= ~kSetGroupId;  // a user gets no group by making a program for it
    }
  }
  // As ext4; what fixes a directory is not passed on.
  made.flags = above.flags & (kInodeNoDump | kInodeNoAtime);
  made.links = what.type == FileType::directory ? 2 : 1;
  made.device = what.device;
  made.accessed = made.modified = made.changed = made.created = clock_.wall();
  made.layout = what.layout.value_or(above.layout);
  if (what.type == FileType::regular) settle_layout(made.layout, made.inode);
  made.generation = 1;
  inode.parent = parent.id();
  if (what.type == FileType::directory) {
    made.length = kDirectoryLength;
  }
  if (what.type == FileType::symlink) {
    inode.target = what.target;
    made.length = what.target.size();
  }
  return inode;
}

Result<Namespace::Made> Namespace::make(const Credentials& credentials, InodeId parent,
                                        std::string_view name, const NewInode& what,
                                        bool existing_is_fine) {
  TRY(check_name(name));
  if (is_dots(name)) return existing_is_fine ? Code::is_directory : Code::already_exists;
  if (what.layout && !layout_is_good(*what.layout)) return Code::invalid_argument;
  uint64_t id = what.id.value;
  if (id == 0) {
    TRY_ASSIGN(id, counters_.new_id());
  }
  Result<Made> result =
      charged(engine::KvMode::write, [&](View& view, Charges& charges) -> Result<Made> {
        TRY_ASSIGN(Inode directory, view.directory(parent));
        TRY(require(credentials, directory.attributes, kAccessExecute));
        TRY_ASSIGN(const std::optional<Dentry> existing, view.find(parent, name));
        if (existing) {
          if (!existing_is_fine) return Code::already_exists;
          if (existing->type == FileType::directory) return Code::is_directory;
          TRY_ASSIGN(const Inode found, view.named_inode(existing->inode));
          return Made{found.attributes, false};
        }
        TRY(require_addable(directory, name));
        TRY(require_add(credentials, directory.attributes));
        const Inode inode = build(credentials, directory, id, what);
        if (what.type == FileType::regular) TRY(check_reach(inode.attributes.layout));
        const FileTime now = inode.attributes.created;
        if (inode.is_directory()) {
          if (directory.attributes.links >= kLinksMax) return Code::too_many_links;
          ++directory.attributes.links;
          view.put(directory);
          view.touch(inode.id(), now);
        }
        TRY(charges.added(view, inode));
        view.put(inode);
        if (what.writer) view.put_mark(view.keys().write_session(inode.id()), *what.writer);
        view.put(parent, name, {inode.id(), what.type, id});
        view.touch(parent, now);
        return Made{inode.attributes, true};
      });
  if (result && result->created) counters_.add_inodes(1);
  return result;
}

Result<Attributes> Namespace::create(const Credentials& credentials, InodeId parent,
                                     std::string_view name, uint32_t mode, bool exclusive,
                                     std::optional<Layout> layout, bool* created, Creation how) {
  NewInode what;
  what.mode = mode;
  what.layout = std::move(layout);
  what.id = how.id;
  if (how.begin_write) {
    TRY_ASSIGN(what.writer, counters_.new_id());
  }
  TRY_ASSIGN(const Made made, make(credentials, parent, name, what, !exclusive));
  if (created != nullptr) *created = made.created;
  return made.attributes;
}

Result<InodeId> Namespace::unused_id() {
  TRY_ASSIGN(const uint64_t id, counters_.new_id());
  return InodeId(id);
}

Result<Attributes> Namespace::create_unnamed(const Credentials& credentials, InodeId parent,
                                             uint32_t mode, InodeId id) {
  NewInode what;
  what.mode = mode;
  TRY_ASSIGN(const Attributes made,
             transact(engine::KvMode::write, [&](View& view) -> Result<Attributes> {
               TRY_ASSIGN(const Inode directory, view.directory(parent));
               TRY(require(credentials, directory.attributes, kAccessExecute));
               TRY(require_addable(directory, {}));
               TRY(require_add(credentials, directory.attributes));
               Inode inode = build(credentials, directory, id.value, what);
               TRY(check_reach(inode.attributes.layout));
               inode.attributes.links = 0;
               view.put(inode);
               view.put_mark(view.keys().orphan(inode.id()), kOrphanUnnamed);
               return inode.attributes;
             }));
  counters_.add_inodes(1);
  return made;
}

Result<Attributes> Namespace::make_directory(const Credentials& credentials, InodeId parent,
                                             std::string_view name, uint32_t mode) {
  NewInode what;
  what.type = FileType::directory;
  what.mode = mode;
  TRY_ASSIGN(const Made made, make(credentials, parent, name, what, false));
  return made.attributes;
}

Result<Attributes> Namespace::make_node(const Credentials& credentials, InodeId parent,
                                        std::string_view name, FileType type, uint32_t mode,
                                        uint64_t device) {
  if (type == FileType::directory || type == FileType::symlink) return Code::invalid_argument;
  const bool is_device = type == FileType::character || type == FileType::block;
  if (is_device && !privileged(credentials)) return Code::not_permitted;
  NewInode what;
  what.type = type;
  what.mode = mode;
  what.device = is_device ? device : 0;
  TRY_ASSIGN(const Made made, make(credentials, parent, name, what, false));
  return made.attributes;
}

Result<Attributes> Namespace::make_symlink(const Credentials& credentials, InodeId parent,
                                           std::string_view name, std::string_view target) {
  if (target.empty()) return Code::not_found;
  if (target.size() > limits::kPathBytesMax) return Code::name_too_long;
  if (target.find('\0') != std::string_view::npos) return Code::invalid_argument;
  NewInode what;
  what.type = FileType::symlink;
  what.mode = 0777;
  what.target = target;
  TRY_ASSIGN(const Made made, make(credentials, parent, name, what, false));
  return made.attributes;
}

Result<Attributes> Namespace::link(const Credentials& credentials, InodeId inode,
                                   InodeId new_parent, std::string_view new_name) {
  TRY(check_name(new_name));
  if (is_dots(new_name)) return Code::already_exists;
  TRY_ASSIGN(const uint64_t cookie, counters_.new_id());
  return charged(engine::KvMode::write, [&](View& view, Charges& charges) -> Result<Attributes> {
    TRY_ASSIGN(Inode linked, view.inode(inode));
    TRY_ASSIGN(const Inode directory, view.directory(new_parent));
    TRY(require(credentials, directory.attributes, kAccessExecute));
    TRY_ASSIGN(const std::optional<Dentry> existing, view.find(new_parent, new_name));
    if (existing) return Code::already_exists;
    TRY(require_addable(directory, new_name));
    // What was opened without a name is linked through the open file, which is the right to do so.
    const bool unnamed = linked.attributes.links == 0;
    if (unnamed) {
      TRY_ASSIGN(const std::optional<uint64_t> mark, view.mark(view.keys().orphan(inode)));
      if (mark != kOrphanUnnamed) return Code::not_found;
    } else {
      TRY(require_linkable(credentials, linked.attributes));
    }
    TRY(require_add(credentials, directory.attributes));
    TRY(require_mutable(linked.attributes));
    if (linked.is_directory()) return Code::not_permitted;
    if (linked.attributes.links >= kLinksMax) return Code::too_many_links;
    const FileTime now = clock_.wall();
    TRY(charges.removed(view, linked));
    if (unnamed) {
      view.erase_mark(view.keys().orphan(inode));
      linked.parent = new_parent;
    } else {
      TRY(note_name_added(view, linked, new_parent));
    }
    ++linked.attributes.links;
    TRY(charges.added(view, linked));
    linked.attributes.changed = now;
    view.put(linked);
    view.put(new_parent, new_name, {inode, linked.attributes.type, cookie});
    view.touch(new_parent, now);
    return linked.attributes;
  });
}

}  // namespace penstock::meta
