// Operations on names: looking up, making, removing, moving.
#include "operations.h"

#include <cstring>
#include <linux/fs.h>

namespace penstock::fuse {
namespace {

InodeId id_of(fuse_ino_t inode) {
  return InodeId{inode};
}

// Whether the call is about the virtual directory, or would put something real over it. If so it
// has been answered.
bool refused_as_virtual(Call& call, fuse_ino_t parent, const char* name, int error) {
  const VirtualDirectory* directory = call.front().virtual_directory;
  if (!is_virtual(parent) && !(directory && directory->is_its_name(id_of(parent), name))) {
    return false;
  }
  call.error(error);
  return true;
}

// The kernel keeps that a name does not exist, as it keeps names that do.
void reply_missing(Call& call, InodeId parent, const char* name) {
  fuse_entry_param entry{};
  entry.entry_timeout = entry_seconds(call.front(), parent, name, {});
  call.entry(entry);
}

std::optional<meta::FileType> node_type(mode_t mode) {
  switch (mode & S_IFMT) {
    case 0:
    case S_IFREG:
      return meta::FileType::regular;
    case S_IFIFO:
      return meta::FileType::fifo;
    case S_IFSOCK:
      return meta::FileType::socket;
    case S_IFCHR:
      return meta::FileType::character;
    case S_IFBLK:
      return meta::FileType::block;
    default:
      return {};
  }
}

}  // namespace

void lookup(Call& call, fuse_ino_t parent, const char* name) {
  Front& front = call.front();
  VirtualDirectory* directory = front.virtual_directory;
  if (is_virtual(parent) || (directory && directory->is_its_name(id_of(parent), name))) {
    if (!directory) return call.error(ENOENT);
    return directory->lookup(call, parent, name);
  }
  front.cache->touch(id_of(parent));
  const bool is_dot = std::strcmp(name, ".") == 0;
  const auto found = is_dot ? front.files.attributes(id_of(parent))
                            : front.files.lookup(call.credentials(), id_of(parent), name);
  if (found && is_dot) return reply_entry(call, *found);
  if (found) {
    return reply_entry(call, *found, entry_seconds(front, id_of(parent), name, found->inode));
  }
  if (found.error().code() == Code::not_found) return reply_missing(call, id_of(parent), name);
  call.status(found.error());
}

void forget(Call& call, fuse_ino_t inode, uint64_t count) {
  Front& front = call.front();
  if (!is_virtual(inode)) {
    front.cache->forget(id_of(inode), count);
  } else if (front.virtual_directory) {
    front.virtual_directory->forget(inode, count);
  }
  call.none();
}

void forget_many(Call& call, size_t count, fuse_forget_data* forgets) {
  Front& front = call.front();
  for (size_t i = 0; i < count; i++) {
    if (!is_virtual(forgets[i].ino)) {
      front.cache->forget(id_of(forgets[i].ino), forgets[i].nlookup);
    } else if (front.virtual_directory) {
      front.virtual_directory->forget(forgets[i].ino, forgets[i].nlookup);
    }
  }
  call.none();
}

void read_link(Call& call, fuse_ino_t inode) {
  if (is_virtual(inode)) {
    VirtualDirectory* directory = call.front().virtual_directory;
    return directory ? directory->read_link(call, inode) : call.error(ENOENT);
  }
  const auto link_target = call.front().files.meta().read_symlink(id_of(inode));
  if (!link_target) return call.status(link_target.error());
  call.front().files.note_access(id_of(inode), call.front().options.access_times());
  call.text(*link_target);
}

void make_node(Call& call, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
  if (refused_as_virtual(call, parent, name, EPERM)) return;
  const auto type = node_type(mode);
  if (!type) return call.error(EINVAL);
  Front& front = call.front();
  front.cache->touch(id_of(parent));
  const auto made = front.files.make_node(call.credentials(), id_of(parent), name, *type,
                                          mode & 07777, device, front.cache);
  if (!made) return call.status(made.error());
  reply_entry(call, *made);
}

void make_directory(Call& call, fuse_ino_t parent, const char* name, mode_t mode) {
  if (refused_as_virtual(call, parent, name, EPERM)) return;
  Front& front = call.front();
  front.cache->touch(id_of(parent));
  const auto made = front.files.make_directory(call.credentials(), id_of(parent), name,
                                               mode & 07777, front.cache);
  if (!made) return call.status(made.error());
  reply_entry(call, *made);
}

void unlink(Call& call, fuse_ino_t parent, const char* name) {
  Front& front = call.front();
  if (is_virtual(parent) && front.virtual_directory) {
    return front.virtual_directory->unlink(call, parent, name);
  }
  if (refused_as_virtual(call, parent, name, EPERM)) return;
  front.cache->touch(id_of(parent));
  call.status(front.files.unlink(call.credentials(), id_of(parent), name, front.cache));
}

void remove_directory(Call& call, fuse_ino_t parent, const char* name) {
  if (refused_as_virtual(call, parent, name, EPERM)) return;
  Front& front = call.front();
  front.cache->touch(id_of(parent));
  call.status(front.files.remove_directory(call.credentials(), id_of(parent), name, front.cache));
}

void make_symlink(Call& call, const char* link_target, fuse_ino_t parent, const char* name) {
  Front& front = call.front();
  if (is_virtual(parent) && front.virtual_directory) {
    return front.virtual_directory->make_link(call, parent, name, link_target);
  }
  if (refused_as_virtual(call, parent, name, EPERM)) return;
  front.cache->touch(id_of(parent));
  const auto made =
      front.files.make_symlink(call.credentials(), id_of(parent), name, link_target, front.cache);
  if (!made) return call.status(made.error());
  reply_entry(call, *made);
}

void rename(Call& call, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
            const char* new_name, unsigned flags) {
  if (refused_as_virtual(call, parent, name, EPERM)) return;
  if (refused_as_virtual(call, new_parent, new_name, EPERM)) return;
  if (flags & ~static_cast<unsigned>(RENAME_NOREPLACE | RENAME_EXCHANGE)) return call.error(EINVAL);
  meta::RenameFlags how;
  how.no_replace = (flags & RENAME_NOREPLACE) != 0;
  how.exchange = (flags & RENAME_EXCHANGE) != 0;
  Front& front = call.front();
  front.cache->touch(id_of(parent));
  front.cache->touch(id_of(new_parent));
  call.status(front.files.rename(call.credentials(), id_of(parent), name, id_of(new_parent),
                                 new_name, how, front.cache));
}

void link(Call& call, fuse_ino_t inode, fuse_ino_t new_parent, const char* new_name) {
  if (is_virtual(inode)) return call.error(EPERM);
  if (refused_as_virtual(call, new_parent, new_name, EPERM)) return;
  Front& front = call.front();
  front.cache->touch(id_of(inode));
  front.cache->touch(id_of(new_parent));
  const auto linked =
      front.files.link(call.credentials(), id_of(inode), id_of(new_parent), new_name, front.cache);
  if (!linked) return call.status(linked.error());
  reply_entry(call, *linked);
}

}  // namespace penstock::fuse
