// Extended attributes.
#include "acl.h"
#include "namespace.h"

#include "penstock/meta/records/limits.h"

namespace penstock::meta {
namespace {

enum class Space { user, trusted, security, acl };

Result<Space> space_of(std::string_view name) {
  if (name.empty() || name.size() > kXattrNameBytesMax) return Code::result_too_large;  // as Linux
  if (name.find('\0') != std::string_view::npos) return Code::invalid_argument;
  const auto in = [name](std::string_view prefix) {
    return name.substr(0, prefix.size()) == prefix;
  };
  if (name == kAccessAclXattr || name == kDefaultAclXattr) return Space::acl;
  std::optional<Space> space;
  size_t prefix = 0;
  if (in("user.")) {
    space = Space::user;
    prefix = 5;
  } else if (in("trusted.")) {
    space = Space::trusted;
    prefix = 8;
  } else if (in("security.")) {
    space = Space::security;
    prefix = 9;
  }
  if (!space) return Code::not_supported;
  if (name.size() == prefix) return Code::invalid_argument;
  return *space;
}

bool has_user_space(FileType type) {
  return type == FileType::regular || type == FileType::directory;
}

Status may_read(const Credentials& credentials, const Attributes& attributes, Space space) {
  switch (space) {
    case Space::user:
      if (!has_user_space(attributes.type)) return Code::no_data;
      return require(credentials, attributes, kAccessRead);
    case Space::trusted:
      return privileged(credentials) ? Status() : Status(Code::no_data);
    case Space::security:
    case Space::acl:
      break;
  }
  return {};
}

Status may_write(const Credentials& credentials, const Attributes& attributes, Space space) {
  TRY(require_mutable(attributes));
  if (space == Space::acl) {
    if (attributes.type == FileType::symlink) return Code::not_supported;
    return require_owner(credentials, attributes);
  }
  if (space != Space::user) {
    return privileged(credentials) ? Status() : Status(Code::not_permitted);
  }
  if (!has_user_space(attributes.type)) return Code::not_permitted;
  if (attributes.type == FileType::directory && (attributes.mode & kSticky) != 0) {
    TRY(require_owner(credentials, attributes));
  }
  return require(credentials, attributes, kAccessWrite);
}

uint32_t listed_bytes(std::string_view name) {
  return static_cast<uint32_t>(name.size() + 1);
}

// The change is one to the inode: it joins two writers of different names, and shows in ctime.
Status put_changed(View& view, Inode& inode, FileTime now) {
  TRY(require_own(inode));
  inode.attributes.changed = now;
  view.put(inode);
  if (inode.is_directory()) {
    TRY_ASSIGN(const DirectoryTimes times, view.times(inode.id()));
    view.put_times(inode.id(), {times.modified, now});
  }
  return {};
}

// Sets one of the lists, or takes it away when `value` has no entries.
Status put_acl(const Credentials& credentials, Inode& inode, std::string_view name,
               std::string_view value) {
  const bool taken = value.size() == kAclHeaderBytes || value.empty();
  if (!taken && !acl_is_good(value)) return Code::invalid_argument;
  Attributes& attributes = inode.attributes;
  if (name == kDefaultAclXattr) {
    if (!inode.is_directory()) return taken ? Status() : Status(Code::access_denied);
    inode.default_acl = taken ? std::string_view() : value;
    return {};
  }
  if (taken) {
    attributes.acl.clear();
    return {};
  }
  attributes.mode = (attributes.mode & ~0777U) | mode_of_acl(value);
  if (!privileged(credentials) && !in_group(credentials, attributes.gid)) {
    attributes.mode &= ~kSetGroupId;
  }
  attributes.acl = acl_is_minimal(value) ? std::string_view() : value;
  return {};
}

const std::string& acl_of(const Inode& inode, std::string_view name) {
  return name == kDefaultAclXattr ? inode.default_acl : inode.attributes.acl;
}

}  // namespace

Result<bool> take_xattr(View& view, Inode& inode, std::string_view name) {
  if (inode.xattr_bytes == 0) return false;
  TRY_ASSIGN(const std::optional<std::string> existing, view.xattr(inode.id(), name));
  if (!existing) return false;
  inode.xattr_bytes -= std::min(inode.xattr_bytes, listed_bytes(name));
  view.erase_xattr(inode.id(), name);
  return true;
}

std::optional<Result<std::string>> xattr_of(const Credentials& credentials,
                                            const Attributes& attributes, std::string_view name) {
  const Result<Space> space = space_of(name);
  if (!space) return Result<std::string>(space.error());
  if (const Status may = may_read(credentials, attributes, *space); !may.ok()) {
    return Result<std::string>(may);
  }
  if (name == kAccessAclXattr && !attributes.acl.empty()) return attributes.acl;
  // The default list of a directory is not among its attributes.
  const bool has_none = *space == Space::acl
                            ? name == kAccessAclXattr || attributes.type != FileType::directory
                            : !attributes.has_xattrs;
  if (!has_none) return std::nullopt;
  return Result<std::string>(Code::no_data);
}

Result<std::string> Namespace::get_xattr(const Credentials& credentials, InodeId inode,
                                         std::string_view name) {
  TRY_ASSIGN(const Space space, space_of(name));
  return transact(engine::KvMode::read, [&](View& view) -> Result<std::string> {
    TRY_ASSIGN(const Inode found, view.inode(inode));
    TRY(may_read(credentials, found.attributes, space));
    if (space == Space::acl) {
      const std::string& acl = acl_of(found, name);
      return acl.empty() ? Result<std::string>(Code::no_data) : acl;
    }
    if (found.xattr_bytes == 0) return Code::no_data;
    TRY_ASSIGN(std::optional<std::string> value, view.xattr(inode, name));
    if (!value) return Code::no_data;
    return std::move(*value);
  });
}

Status Namespace::set_xattr(const Credentials& credentials, InodeId inode, std::string_view name,
                            std::string_view value, XattrMode mode) {
  TRY_ASSIGN(const Space space, space_of(name));
  if (value.size() > kXattrValueBytesMax) return Code::too_large;
  return transact(engine::KvMode::write, [&](View& view) -> Status {
    TRY_ASSIGN(Inode found, view.inode(inode));
    TRY(may_write(credentials, found.attributes, space));
    if (space == Space::acl) {
      const bool has = !acl_of(found, name).empty();
      if (has && mode == XattrMode::create) return Code::already_exists;
      if (!has && mode == XattrMode::replace) return Code::no_data;
      const uint32_t mode_before = found.attributes.mode;
      const std::string acl_before = acl_of(found, name);
      TRY(put_acl(credentials, found, name, value));
      // As on ext4 it is no change to set what is there; the same below.
      const bool same = found.attributes.mode == mode_before && acl_of(found, name) == acl_before;
      return same ? Status() : put_changed(view, found, clock_.wall());
    }
    TRY_ASSIGN(const std::optional<std::string> existing, view.xattr(inode, name));
    if (existing && mode == XattrMode::create) return Code::already_exists;
    if (!existing && mode == XattrMode::replace) return Code::no_data;
    if (existing && *existing == value) return {};
    if (!existing) {
      if (found.xattr_bytes + listed_bytes(name) > kXattrListBytesMax) return Code::no_space;
      found.xattr_bytes += listed_bytes(name);
      ASSERT(found.xattr_bytes <= kXattrListBytesMax);
    }
    view.put_xattr(inode, name, value);
    return put_changed(view, found, clock_.wall());
  });
}

Result<std::vector<std::string>> Namespace::list_xattrs(const Credentials& credentials,
                                                        InodeId inode) {
  using Names = std::vector<std::string>;
  return transact(engine::KvMode::read, [&](View& view) -> Result<Names> {
    TRY_ASSIGN(const Inode found, view.inode(inode));
    Names names;
    for (const std::string_view name : {kAccessAclXattr, kDefaultAclXattr}) {
      if (!acl_of(found, name).empty()) names.emplace_back(name);
    }
    if (found.xattr_bytes == 0) return names;
    TRY(view.scan_xattrs(inode, [&](std::string_view name) {
      const Result<Space> space = space_of(name);
      const bool hidden = !space || (*space == Space::trusted && credentials.uid != 0);
      if (!hidden) names.emplace_back(name);
    }));
    return names;
  });
}

Status Namespace::remove_xattr(const Credentials& credentials, InodeId inode,
                               std::string_view name) {
  TRY_ASSIGN(const Space space, space_of(name));
  return transact(engine::KvMode::write, [&](View& view) -> Status {
    TRY_ASSIGN(Inode found, view.inode(inode));
    TRY(may_write(credentials, found.attributes, space));
    if (space == Space::acl) {
      // As on ext4 there is nothing wrong with removing a list that is not there.
      if (acl_of(found, name).empty()) return Code::ok;
      TRY(put_acl(credentials, found, name, {}));
      return put_changed(view, found, clock_.wall());
    }
    TRY_ASSIGN(const bool taken, take_xattr(view, found, name));
    if (!taken) return Code::no_data;
    return put_changed(view, found, clock_.wall());
  });
}

}  // namespace penstock::meta
