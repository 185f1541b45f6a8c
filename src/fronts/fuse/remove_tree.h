// Removing a directory with everything below.
#pragma once

#include "front.h"

#include <string>

namespace penstock::fuse {

// `path` is absolute and inside the mount, or relative to its root; anything else is refused, as is
// the root itself. Every right is checked as if the user `who` removed each thing. Stops at the
// first thing that cannot be removed.
Status remove_tree(Front& front, const client::Credentials& who, const std::string& path);
// The same for one name in a directory.
Status remove_tree_in(Front& front, const client::Credentials& who, InodeId parent,
                      const std::string& name);

}  // namespace penstock::fuse
