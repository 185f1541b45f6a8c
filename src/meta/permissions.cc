#include "permissions.h"

#include "acl.h"

#include <algorithm>

#include "penstock/meta/records/limits.h"

namespace penstock::meta {

Status check_access(const Credentials& credentials, const Attributes& attributes, uint32_t wanted) {
  ASSERT((wanted & ~7U) == 0);
  if (credentials.uid == 0) {
    const bool execute_file =
        (wanted & kAccessExecute) != 0 && attributes.type != FileType::directory;
    if (execute_file && (attributes.mode & 0111) == 0) return Code::access_denied;
    return {};
  }
  uint32_t granted = attributes.mode & 07;
  if (credentials.uid == attributes.uid) {
    granted = attributes.mode >> 6 & 07;
  } else if (!attributes.acl.empty() && (attributes.mode & 070) != 0) {
    // As Linux: a list whose mask grants nothing is not looked at.
    granted = acl_grants(credentials, attributes, wanted);
  } else if (in_group(credentials, attributes.gid)) {
    granted = attributes.mode >> 3 & 07;
  }
  if ((wanted & ~granted) != 0) return Code::access_denied;
  return {};
}

Status require(const Credentials& credentials, const Attributes& attributes, uint32_t wanted) {
  if (!credentials.enforce) return {};
  return check_access(credentials, attributes, wanted);
}

Status require_owner(const Credentials& credentials, const Attributes& attributes) {
  if (privileged(credentials) || credentials.uid == attributes.uid) return {};
  return Code::not_permitted;
}

namespace {

// In a sticky directory only the owner of the entry or of the directory may take the entry away.
Status require_removable(const Credentials& credentials, const Attributes& directory,
                         const Attributes& entry) {
  if ((directory.mode & kSticky) == 0 || privileged(credentials)) return {};
  if (credentials.uid == directory.uid || credentials.uid == entry.uid) return {};
  return Code::not_permitted;
}

}  // namespace

Status require_mutable(const Attributes& attributes) {
  const bool fixed = (attributes.flags & (kInodeImmutable | kInodeAppendOnly)) != 0;
  return fixed ? Status(Code::not_permitted) : Status();
}

Status require_add(const Credentials& credentials, const Attributes& directory) {
  if ((directory.flags & kInodeImmutable) != 0) return Code::not_permitted;
  return require(credentials, directory, kAccessWrite);
}

Status require_take(const Credentials& credentials, const Attributes& directory,
                    const Attributes& entry) {
  if ((directory.flags & kInodeImmutable) != 0) return Code::not_permitted;
  TRY(require(credentials, directory, kAccessWrite));
  TRY(require_mutable(directory));
  TRY(require_removable(credentials, directory, entry));
  return require_mutable(entry);
}

Status check_open(const Attributes& attributes, OpenKind kind) {
  if (!kind.write) return {};
  const bool rewrites = !kind.append || kind.truncate;
  if ((attributes.flags & kInodeImmutable) != 0) return Code::not_permitted;
  return (attributes.flags & kInodeAppendOnly) != 0 && rewrites ? Status(Code::not_permitted)
                                                                : Status();
}

Status require_linkable(const Credentials& credentials, const Attributes& inode) {
  if (privileged(credentials) || credentials.uid == inode.uid) return {};
  constexpr uint32_t kRunsAsGroup = kSetGroupId | kGroupExecute;
  const bool runs_as_another =
      (inode.mode & kSetUserId) != 0 || (inode.mode & kRunsAsGroup) == kRunsAsGroup;
  if (inode.type != FileType::regular || runs_as_another) return Code::not_permitted;
  const bool allowed = check_access(credentials, inode, kAccessRead | kAccessWrite).ok();
  return allowed ? Status() : Status(Code::not_permitted);
}

uint32_t without_set_id(const Credentials& credentials, const Attributes& attributes,
                        bool has_fsetid) {
  const uint32_t mode = attributes.mode & ~kSetUserId;
  const bool runs = (mode & kGroupExecute) != 0;
  const bool outsider = !has_fsetid && !in_group(credentials, attributes.gid);
  return runs || outsider ? mode & ~kSetGroupId : mode;
}

bool in_group(const Credentials& credentials, uint32_t gid) {
  return credentials.gid == gid || std::find(credentials.groups.begin(), credentials.groups.end(),
                                             gid) != credentials.groups.end();
}

bool privileged(const Credentials& credentials) {
  return credentials.uid == 0 || !credentials.enforce;
}

Status check_name(std::string_view name) {
  if (name.empty()) return Code::not_found;
  if (name.size() > limits::kNameBytesMax) return Code::name_too_long;
  if (name.find_first_of(std::string_view("/\0", 2)) != std::string_view::npos) {
    return Code::invalid_argument;
  }
  return {};
}

bool is_dots(std::string_view name) {
  return name == "." || name == "..";
}

}  // namespace penstock::meta
