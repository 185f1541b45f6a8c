// Finding inodes by name and path.
#include "cached_walk.h"
#include "namespace.h"
#include "walk.h"

#include <algorithm>

#include "penstock/meta/records/limits.h"

namespace penstock::meta {

Result<Attributes> Namespace::lookup(const Credentials& credentials, InodeId parent,
                                     std::string_view name) {
  if (auto known = CachedWalk(cache_.get(), credentials).entry(parent, name)) return *known;
  return transact(engine::KvMode::read, [&](View& view) -> Result<Attributes> {
    TRY_ASSIGN(const Inode directory, view.directory(parent));
    TRY_ASSIGN(const Inode found, Walk(view, credentials).step(directory, name));
    return view.attributes(found);
  });
}

Result<Attributes> Namespace::resolve(const Credentials& credentials, std::string_view path,
                                      bool follow_last) {
  TRY(check_path(path));
  if (auto known = CachedWalk(cache_.get(), credentials).path(path, follow_last)) return *known;
  return transact(engine::KvMode::read, [&](View& view) -> Result<Attributes> {
    TRY_ASSIGN(Inode root, view.directory(kRootInode));
    TRY_ASSIGN(const Inode found,
               Walk(view, credentials).to(std::move(root), std::string(path), follow_last));
    return view.attributes(found);
  });
}

Result<std::vector<Result<Attributes>>> Namespace::resolve_many(
    const Credentials& credentials, const std::vector<std::string_view>& paths, bool follow_last) {
  std::vector<Result<Attributes>> all(paths.size(), Result<Attributes>(Code::not_found));
  std::vector<size_t> unknown;
  CachedWalk cached(cache_.get(), credentials);
  for (size_t i = 0; i < paths.size(); ++i) {
    if (std::optional<Attributes> known = cached.path(paths[i], follow_last)) {
      all[i] = std::move(*known);
    } else {
      unknown.push_back(i);
    }
  }
  ASSERT(all.size() == paths.size() && unknown.size() <= paths.size());
  if (unknown.empty()) return all;
  // In their own order neighbours share the database's blocks.
  std::sort(unknown.begin(), unknown.end(),
            [&](size_t a, size_t b) { return paths[a] < paths[b]; });
  TRY(transact(engine::KvMode::read, [&](View& view) -> Status {
    Walks walks(view, credentials);
    for (const size_t i : unknown) all[i] = walks.to(paths[i], follow_last);
    return {};
  }));
  return all;
}

Result<ResolvedParent> Namespace::resolve_parent(const Credentials& credentials,
                                                 std::string_view path) {
  TRY(check_path(path));
  size_t end = path.size();
  while (end > 0 && path[end - 1] == '/') --end;
  const size_t begin = end == 0 ? 0 : path.rfind('/', end - 1) + 1;
  ResolvedParent resolved;
  ASSERT(begin <= end && end <= path.size());
  resolved.must_be_directory = end != path.size();
  resolved.name = end == 0 ? "." : std::string(path.substr(begin, end - begin));
  TRY(check_name(resolved.name));
  // With a slash at the end, so that a link there is followed and must lead to a directory.
  const std::string parent = std::string(path.substr(0, begin)) + "/";
  TRY_ASSIGN(resolved.parent, transact(engine::KvMode::read, [&](View& view) -> Result<Attributes> {
               TRY_ASSIGN(Inode root, view.directory(kRootInode));
               TRY_ASSIGN(const Inode found,
                          Walk(view, credentials).to(std::move(root), parent, true));
               return view.attributes(found);
             }));
  return resolved;
}

Result<Attributes> Namespace::attributes(InodeId inode) {
  if (auto known = CachedWalk(cache_.get(), {}).inode(inode)) return *known;
  return transact(engine::KvMode::read, [&](View& view) -> Result<Attributes> {
    TRY_ASSIGN(const Inode found, view.inode(inode));
    return view.attributes(found);
  });
}

Status Namespace::look(std::span<Look> looks) {
  Credentials nobody_checks;
  nobody_checks.enforce = false;
  const CachedWalk cached(cache_.get(), nobody_checks);
  std::vector<Look*> unknown;
  for (Look& look : looks) {
    look.is_steady = true;
    std::optional<Attributes> known =
        look.name.empty() ? cached.inode(look.inode) : cached.entry(look.inode, look.name);
    if (known) {
      look.found = std::move(*known);
    } else {
      unknown.push_back(&look);
    }
  }
  if (unknown.empty()) return Code::ok;
  return transact(engine::KvMode::read, [&](View& view) -> Status {
    const auto find = [&](Look& look) -> Result<Attributes> {
      if (look.name.empty()) {
        TRY_ASSIGN(const Inode found, view.inode(look.inode));
        return view.attributes(found);
      }
      TRY_ASSIGN(const Inode directory, view.directory(look.inode));
      // Names that appear there nobody is told of before.
      if (!require_addable(directory, look.name).ok()) look.is_steady = false;
      TRY_ASSIGN(const Inode found, Walk(view, nobody_checks).step(directory, look.name));
      return view.attributes(found);
    };
    for (Look* const look : unknown) look->found = find(*look);
    return Code::ok;
  });
}

Result<std::string> Namespace::read_symlink(InodeId inode) {
  return transact(engine::KvMode::read, [&](View& view) -> Result<std::string> {
    TRY_ASSIGN(const Inode found, view.inode(inode));
    if (found.attributes.type != FileType::symlink) return Code::invalid_argument;
    return found.target;
  });
}

}  // namespace penstock::meta
