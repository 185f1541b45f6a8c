// POSIX access control lists, in the bytes that system.posix_acl_access and _default have on Linux:
// a version of 4 bytes, then 8 for each entry (tag and permissions of 2 each, an id of 4), little
// endian, in the order of tags and ids.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "penstock/meta.h"

namespace penstock::meta {

inline constexpr std::string_view kAccessAclXattr = "system.posix_acl_access";
inline constexpr std::string_view kDefaultAclXattr = "system.posix_acl_default";

// Whether the bytes are a list that the kernel would take: every tag where it belongs, a mask when
// a user or group is named, ids in order and none twice.
bool acl_is_good(std::string_view acl);
// What it grants, a sum of Access, to a user that is not root; the file belongs to `owner`.
uint32_t acl_grants(const Credentials& credentials, const Attributes& attributes, uint32_t wanted);

// The permission bits (0777) that a list stands for; nullopt in `acl_for` when they say it all.
uint32_t mode_of_acl(std::string_view acl);
bool acl_is_minimal(std::string_view acl);
// The list after chmod.
std::string acl_with_mode(std::string_view acl, uint32_t mode);
// What a new inode gets from the default list of its directory: the list, and the mode (0777) with
// what the list does not grant taken away. The list is empty when the mode says it all.
struct Inherited {
  std::string acl;
  uint32_t mode = 0;
};
Inherited inherit(std::string_view default_acl, uint32_t mode);

}  // namespace penstock::meta
