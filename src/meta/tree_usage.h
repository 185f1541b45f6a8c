// What a tree of directories counts for.
#pragma once

#include "quota_table.h"
#include "view.h"

#include <functional>
#include <optional>
#include <string>

namespace penstock::meta {

// All below `top`, each inode once; files only where they are counted in the directory that names
// them. `unplaced` hears of files that are counted in none. Nothing if there are more than
// `inodes_max`. Within one transaction; directories of any size.
using Unplaced = std::function<void(const Inode& file, InodeId directory, const std::string& name)>;
Result<std::optional<UsageRecord>> usage_below(View& view, InodeId top, size_t inodes_max,
                                               const Unplaced& unplaced);
// With the directory itself.
Result<std::optional<UsageRecord>> usage_of_tree(View& view, const Inode& top, size_t inodes_max);

}  // namespace penstock::meta
