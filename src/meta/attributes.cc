// chmod, chown, utimes, truncate, and the lengths that writers settle.
#include "acl.h"
#include "namespace.h"

#include <algorithm>
#include <sys/stat.h>

#include "penstock/meta/records/limits.h"

namespace penstock::meta {
namespace {

bool concerns_owner(const SetAttributes& changes) {
  return changes.uid || changes.gid || changes.chown_to_nobody;
}

Status check_flags(const Credentials& credentials, const Attributes& now_is, uint32_t flags) {
  if (now_is.type != FileType::regular && now_is.type != FileType::directory) {
    return Code::not_supported;
  }
  if ((flags & ~kInodeFlags) != 0) return Code::not_supported;
  TRY(require_owner(credentials, now_is));
  constexpr uint32_t kFixing = kInodeImmutable | kInodeAppendOnly;
  if (((flags ^ now_is.flags) & kFixing) != 0 && !privileged(credentials)) {
    return Code::not_permitted;
  }
  return {};
}

Status check_changes(const Credentials& credentials, const Attributes& now_is,
                     const SetAttributes& changes) {
  if (changes.mode || changes.uid || changes.gid || changes.length) TRY(require_mutable(now_is));
  if (changes.flags) TRY(check_flags(credentials, now_is, *changes.flags));
  if (changes.mode) {
    if (now_is.type == FileType::symlink) return Code::not_supported;
    TRY(require_owner(credentials, now_is));
  }
  if (changes.uid && !privileged(credentials)) {
    if (credentials.uid != now_is.uid || *changes.uid != now_is.uid) return Code::not_permitted;
  }
  if (changes.gid && !privileged(credentials)) {
    if (credentials.uid != now_is.uid) return Code::not_permitted;
    if (*changes.gid != now_is.gid && !in_group(credentials, *changes.gid)) {
      return Code::not_permitted;
    }
  }
  if (changes.chown_to_nobody && (now_is.flags & kInodeImmutable) != 0) return Code::not_permitted;
  if (changes.chown_to_nobody && now_is.type != FileType::directory &&
      without_set_id(credentials, now_is, credentials.uid == 0) != now_is.mode) {
    TRY(require_mutable(now_is));
    TRY(require_owner(credentials, now_is));
  }
  if (changes.length) {
    if (now_is.type == FileType::directory) return Code::is_directory;
    if (now_is.type != FileType::regular) return Code::invalid_argument;
    TRY(require(credentials, now_is, kAccessWrite));
    if (*changes.length > limits::kFileBytesMax) return Code::too_large;
  }
  // One time alone that is to be now is said as explicitly as another one.
  const bool one_is_now = changes.accessed_now != changes.modified_now && !changes.length;
  const bool explicit_times = (changes.accessed && !changes.accessed_now) ||
                              (changes.modified && !changes.modified_now) || one_is_now;
  if (explicit_times) {
    TRY(require_mutable(now_is));
    TRY(require_owner(credentials, now_is));
  }
  if ((changes.accessed_now || changes.modified_now) && (now_is.flags & kInodeImmutable) != 0) {
    return Code::not_permitted;
  }
  if ((changes.accessed_now || changes.modified_now) && !require_owner(credentials, now_is).ok()) {
    TRY(require(credentials, now_is, kAccessWrite));
  }
  return {};
}

void apply_changes(const Credentials& credentials, const SetAttributes& changes, FileTime now,
                   Attributes& attributes) {
  const bool regular = attributes.type == FileType::regular;
  if (concerns_owner(changes) && attributes.type != FileType::directory) {
    attributes.mode = without_set_id(credentials, attributes, credentials.uid == 0);
  }
  if (changes.uid) attributes.uid = *changes.uid;
  if (changes.gid) attributes.gid = *changes.gid;
  if (changes.mode) {
    attributes.mode = *changes.mode & 07777;
    if (!privileged(credentials) && !in_group(credentials, attributes.gid)) {
      attributes.mode &= ~kSetGroupId;
    }
    if (!attributes.acl.empty()) attributes.acl = acl_with_mode(attributes.acl, attributes.mode);
  }
  if (changes.flags) attributes.flags = *changes.flags;
  if (changes.length) {
    // Nothing is left of what is cut to nothing; what grows gets a hole.
    if (*changes.length == 0) attributes.sparse = false;
    if (*changes.length > attributes.length || changes.leaves_blocks) attributes.sparse = true;
    attributes.length = *changes.length;
    attributes.modified = now;
    const bool keeps = changes.keeps_set_ids.value_or(credentials.uid == 0);
    if (regular && !keeps && !changes.mode) {
      attributes.mode = without_set_id(credentials, attributes, false);
    }
  }
  ASSERT((attributes.mode & ~07777U) == 0 && (attributes.flags & ~kInodeFlags) == 0);
  ASSERT(!changes.length || attributes.length <= limits::kFileBytesMax);
  if (changes.accessed) attributes.accessed = *changes.accessed;
  if (changes.accessed_now) attributes.accessed = now;
  if (changes.modified) attributes.modified = *changes.modified;
  if (changes.modified_now) attributes.modified = now;
  attributes.changed = now;
}

bool changes_anything(const SetAttributes& changes) {
  return changes.mode || changes.length || changes.accessed || changes.modified || changes.flags ||
         changes.accessed_now || changes.modified_now || concerns_owner(changes);
}

}  // namespace

mode_t type_bits(FileType type) {
  switch (type) {
    case FileType::regular:
      return S_IFREG;
    case FileType::directory:
      return S_IFDIR;
    case FileType::symlink:
      return S_IFLNK;
    case FileType::fifo:
      return S_IFIFO;
    case FileType::socket:
      return S_IFSOCK;
    case FileType::character:
      return S_IFCHR;
    case FileType::block:
      return S_IFBLK;
  }
  return 0;
}

Status Namespace::change(const Credentials& credentials, const SetAttributes& changes,
                         Attributes& attributes) const {
  TRY(check_changes(credentials, attributes, changes));
  if (changes_anything(changes)) apply_changes(credentials, changes, clock_.wall(), attributes);
  return {};
}

Result<Attributes> Namespace::set_attributes(const Credentials& credentials, InodeId inode,
                                             const SetAttributes& changes) {
  Result<Attributes> set =
      charged(engine::KvMode::write, [&](View& view, Charges& charges) -> Result<Attributes> {
        TRY_ASSIGN(Inode found, view.inode(inode));
        TRY_ASSIGN(Attributes attributes, view.attributes(found));
        TRY(check_changes(credentials, attributes, changes));
        if (!changes_anything(changes)) return attributes;
        TRY(require_own(found));
        apply_changes(credentials, changes, clock_.wall(), attributes);
        if (attributes.type == FileType::regular && (changes.length || concerns_owner(changes))) {
          TRY(take_xattr(view, found, kCapabilityXattr));
        }
        const bool counts = changes.length || changes.uid;
        if (counts) TRY(charges.removed(view, found));
        if (changes.length) charges.covered_by(inode);
        found.attributes = attributes;
        if (counts) TRY(charges.added(view, found));
        view.put(found);
        if (found.is_directory()) {
          view.put_times(inode, {attributes.modified, attributes.changed});
        }
        return attributes;
      });
  if (set && changes.length && quotas_.any()) quotas_.settled(inode, *changes.length, false);
  return set;
}

Result<Attributes> Namespace::set_layout(const Credentials& credentials, InodeId directory,
                                         const LayoutEdit& change) {
  return transact(engine::KvMode::write, [&](View& view) -> Result<Attributes> {
    TRY_ASSIGN(Inode found, view.inode(directory));
    if (!found.is_directory()) return Code::not_directory;
    TRY_ASSIGN(Attributes attributes, view.attributes(found));
    TRY(require_mutable(attributes));
    TRY(require_owner(credentials, attributes));
    TRY(require_own(found));
    const Layout before = attributes.layout;
    TRY(change(attributes.layout));
    if (!layout_is_good(attributes.layout) || !attributes.layout.chains.empty()) {
      return Code::invalid_argument;
    }
    if (attributes.layout == before) return attributes;
    attributes.changed = clock_.wall();
    found.attributes = attributes;
    view.put(found);
    view.put_times(directory, {attributes.modified, attributes.changed});
    return attributes;
  });
}

Status Namespace::record_accessed(const std::vector<Accessed>& accesses) {
  return transact(engine::KvMode::write, [&](View& view) -> Status {
    for (const Accessed& access : accesses) {
      Result<Inode> found = view.inode(access.inode);
      if (!found && found.error().code() == Code::not_found) continue;
      if (!found) return found.error();
      found->attributes.accessed = access.when;
      view.put(*found);
    }
    return {};
  });
}

Result<PrivilegesTaken> Namespace::drop_privileges(const FileWriter& writer, InodeId inode) {
  return transact(engine::KvMode::write, [&](View& view) -> Result<PrivilegesTaken> {
    TRY_ASSIGN(Inode found, view.inode(inode));
    Attributes& attributes = found.attributes;
    if (attributes.type != FileType::regular) return Code::invalid_argument;
    const uint32_t before = attributes.mode;
    if (!writer.keeps_set_ids) attributes.mode = without_set_id(writer.who, attributes, false);
    TRY_ASSIGN(const bool had_capability, take_xattr(view, found, kCapabilityXattr));
    ASSERT((attributes.mode & ~before) == 0);
    const PrivilegesTaken taken{
        .any = attributes.mode != before || had_capability,
        .set_ids_left = (attributes.mode & (kSetUserId | kSetGroupId)) != 0,
    };
    if (!taken.any) return taken;
    attributes.changed = clock_.wall();
    view.put(found);
    return taken;
  });
}

Result<uint64_t> Namespace::begin_write(InodeId inode) {
  TRY_ASSIGN(const uint64_t token, counters_.new_id());
  return transact(engine::KvMode::write, [&](View& view) -> Result<uint64_t> {
    TRY_ASSIGN(const Inode found, view.inode(inode));
    if (found.is_directory()) return Code::is_directory;
    if (found.attributes.type != FileType::regular) return Code::invalid_argument;
    view.put_mark(view.keys().write_session(inode), token);
    return token;
  });
}

Status Namespace::settle(InodeId inode, const Settled& settled, bool durable) {
  if (settled.length > limits::kFileBytesMax) return Code::too_large;
  const auto mode = durable ? engine::KvMode::write_durable : engine::KvMode::write;
  uint64_t recorded = 0;
  const auto body = [&](View& view, Charges& charges) -> Status {
    TRY_ASSIGN(Inode found, view.inode(inode));
    if (found.attributes.type != FileType::regular) return Code::invalid_argument;
    Attributes& attributes = found.attributes;
    const bool shorter = settled.length < attributes.length;
    const uint64_t length = shorter && settled.only_grow ? attributes.length : settled.length;
    ASSERT(!settled.only_grow || length >= attributes.length);
    const bool sparse = settled.sparse.value_or(attributes.sparse);
    if (length != attributes.length || settled.modified != attributes.modified ||
        sparse != attributes.sparse) {
      // It was changed when it was written, not when that is recorded; a time that was set, and may
      // lie ahead, is recorded already.
      if (settled.modified != attributes.modified) {
        const FileTime written = std::min(settled.modified, FileTime(clock_.wall()));
        attributes.changed = std::max(attributes.changed, written);
      }
      TRY(charges.removed(view, found));
      attributes.length = length;
      attributes.modified = settled.modified;
      attributes.sparse = sparse;
      TRY(charges.added(view, found));
      view.put(found);
    }
    recorded = length;
    if (settled.end_session) view.erase_mark(view.keys().write_session(inode));
    return {};
  };
  // Its bytes are there: they are counted, whatever the limits.
  TRY(charged(mode, body, Charges::Gate::shared, true));
  if (quotas_.any()) quotas_.settled(inode, recorded, settled.end_session);
  return {};
}

Status Namespace::end_write(InodeId inode) {
  TRY(transact(engine::KvMode::write, [&](View& view) -> Status {
    view.erase_mark(view.keys().write_session(inode));
    return {};
  }));
  if (quotas_.any()) quotas_.settled(inode, 0, true);
  return {};
}

Result<std::vector<InodeId>> Namespace::unsettled() {
  return transact(engine::KvMode::read, [&](View& view) -> Result<std::vector<InodeId>> {
    std::vector<InodeId> inodes;
    TRY(view.scan_ids('W', InodeId(), [&](InodeId inode) {
      inodes.push_back(inode);
      return true;
    }));
    return inodes;
  });
}

Result<bool> Namespace::is_unsettled(InodeId inode) {
  return transact(engine::KvMode::read, [&](View& view) -> Result<bool> {
    TRY_ASSIGN(const std::optional<uint64_t> session, view.mark(view.keys().write_session(inode)));
    return session.has_value();
  });
}

}  // namespace penstock::meta
