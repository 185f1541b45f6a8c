// What a user may do, and what a name may be.
#pragma once

#include <string_view>

#include "penstock/meta.h"

namespace penstock::meta {

inline constexpr uint32_t kSetUserId = 04000;
inline constexpr uint32_t kSetGroupId = 02000;
inline constexpr uint32_t kSticky = 01000;
inline constexpr uint32_t kGroupExecute = 00010;

// check_access() unless the caller's front has checked.
Status require(const Credentials& credentials, const Attributes& attributes, uint32_t wanted);
// not_permitted unless the caller owns the inode or is root.
Status require_owner(const Credentials& credentials, const Attributes& attributes);
// Flags hold for all users, root and kernels included; not_permitted where they forbid.
// Changing what is immutable or only appended to: its mode, its owner, its names.
Status require_mutable(const Attributes& attributes);
// Adding an entry to `directory`.
Status require_add(const Credentials& credentials, const Attributes& directory);
// Taking `entry` out of `directory`.
Status require_take(const Credentials& credentials, const Attributes& directory,
                    const Attributes& entry);
// As Linux with fs.protected_hardlinks: one may link what one owns, and regular files that one may
// read and write and that do not run as another user. not_permitted otherwise.
Status require_linkable(const Credentials& credentials, const Attributes& inode);
// The mode after a change of owner, length or bytes by these credentials: without the bits that
// make a program run as another user. Set-group-id without group execution means something else,
// and stays for members of the group and holders of CAP_FSETID; the groups count in any case.
uint32_t without_set_id(const Credentials& credentials, const Attributes& attributes,
                        bool has_fsetid);
bool in_group(const Credentials& credentials, uint32_t gid);
// root for this purpose: also a caller that was checked elsewhere.
bool privileged(const Credentials& credentials);

// What a name must be to be looked for: not empty (not_found), not too long, without '/' and NUL.
Status check_name(std::string_view name);
bool is_dots(std::string_view name);

}  // namespace penstock::meta
