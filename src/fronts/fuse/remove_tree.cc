#include "remove_tree.h"

#include "limits.h"

#include <vector>

namespace penstock::fuse {
namespace {

// A directory on the way down.
struct Level {
  InodeId parent;
  std::string name;
  InodeId inode;
};

Result<std::string> path_inside(const Front& front, const std::string& path) {
  if (path.empty()) return Code::invalid_argument;
  if (path.front() != '/') return "/" + path;
  const std::string& mount = front.mount_point;
  if (!path.starts_with(mount + "/")) return Code::invalid_argument;
  return path.substr(mount.size());
}

Result<std::vector<meta::DirectoryEntry>> first_entries(Front& front,
                                                        const client::Credentials& who,
                                                        InodeId directory) {
  TRY_ASSIGN(const auto attributes, front.files.attributes(directory));
  TRY(meta::check_access(who, attributes, meta::kAccessRead));
  TRY(front.files.begin_listing(who, directory));
  std::vector<meta::DirectoryEntry> entries;
  TRY(front.files.meta().read_directory(
      directory, 0, kDirectoryBatchMax, false,
      [&](const meta::DirectoryEntry& entry, const meta::Attributes*) {
        entries.push_back(entry);
        return true;
      }));
  return entries;
}

}  // namespace

Status remove_tree(Front& front, const client::Credentials& who, const std::string& path) {
  TRY_ASSIGN(const std::string inside, path_inside(front, path));
  TRY_ASSIGN(const auto end, front.files.resolve_parent(who, inside));
  if (end.name.empty() || end.name == "." || end.name == "..") return Code::invalid_argument;
  return remove_tree_in(front, who, end.parent, end.name);
}

Status remove_tree_in(Front& front, const client::Credentials& who, InodeId parent,
                      const std::string& name) {
  TRY_ASSIGN(const auto top, front.files.lookup(who, parent, name));
  // This mount's kernel has not made these removals, and must be told of them: no observer is named
  // as their maker.
  if (top.type != meta::FileType::directory) {
    return front.files.unlink(who, parent, name, nullptr);
  }
  std::vector<Level> levels{{parent, name, top.inode}};
  while (!levels.empty()) {
    const Level level = levels.back();
    TRY_ASSIGN(const auto entries, first_entries(front, who, level.inode));
    if (entries.empty()) {
      TRY(front.files.remove_directory(who, level.parent, level.name, nullptr));
      levels.pop_back();
      continue;
    }
    for (const meta::DirectoryEntry& entry : entries) {
      if (entry.type == meta::FileType::directory) {
        levels.push_back({level.inode, entry.name, entry.inode});
        break;
      }
      TRY(front.files.unlink(who, level.inode, entry.name, nullptr));
    }
  }
  return {};
}

}  // namespace penstock::fuse
