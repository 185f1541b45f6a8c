// Finding inodes by name and path.
#include "limits.h"
#include "namespace.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace penstock::meta {
namespace {

// Walks paths inside one transaction.
class Walk {
 public:
  // `followed`: symbolic links that led to where the walk begins.
  Walk(View& view, const Credentials& credentials, uint32_t followed = 0)
      : view_(view), credentials_(credentials), followed_(followed) {}
  uint32_t followed() const { return followed_; }

  // From `directory` (which is known to be one), for every component of `path`; symbolic links are
  // followed, the last one only if `follow_last` or a slash comes after it.
  Result<Inode> to(Inode directory, std::string path, bool follow_last) {
    Inode here = std::move(directory);
    std::string rest = std::move(path);
    size_t at = 0;
    while (true) {
      while (at < rest.size() && rest[at] == '/') ++at;
      if (at == rest.size()) break;
      const size_t slash = std::min(rest.find('/', at), rest.size());
      const std::string_view name = std::string_view(rest).substr(at, slash - at);
      TRY_ASSIGN(Inode next, step(here, name));
      at = slash;
      const bool last = at == rest.size();
      if (next.attributes.type == FileType::symlink && (!last || follow_last)) {
        if (++followed_ > limits::kSymlinksFollowedMax) return Code::too_many_symlinks;
        rest = next.target + rest.substr(at);
        at = 0;
        if (rest.front() == '/') {
          TRY_ASSIGN(here, view_.directory(kRootInode));
        }
        continue;
      }
      if (!last && !next.is_directory()) return Code::not_directory;
      here = std::move(next);
    }
    return here;
  }

  // One component, not followed.
  Result<Inode> step(const Inode& directory, std::string_view name) {
    TRY(check_name(name));
    TRY(require(credentials_, directory.attributes, kAccessExecute));
    if (name == ".") return directory;
    if (name == "..") return view_.directory(directory.parent);
    TRY_ASSIGN(const std::optional<Dentry> dentry, view_.find(directory.id(), name));
    if (!dentry) return Code::not_found;
    return view_.named_inode(dentry->inode);
  }

 private:
  View& view_;
  const Credentials& credentials_;
  uint32_t followed_ = 0;
};

Status check_path(std::string_view path) {
  if (path.empty()) return Code::not_found;
  if (path.size() > limits::kPathBytesMax) return Code::name_too_long;
  if (path.front() != '/' || path.find('\0') != std::string_view::npos) {
    return Code::invalid_argument;
  }
  return {};
}

// Walks many paths inside one transaction, and each directory once.
class Walks {
 public:
  Walks(View& view, const Credentials& credentials) : view_(view), credentials_(credentials) {}

  Result<Attributes> to(std::string_view path) {
    TRY(check_path(path));
    // A slash at the end makes a link there lead on, and a path without one starts at the root.
    const size_t name = path.rfind('/') + 1;
    const Directory& above = directory(path.substr(0, name));
    if (!above.inode) return above.inode.error();
    Walk walk(view_, credentials_, above.followed);
    TRY_ASSIGN(const Inode found, walk.to(*above.inode, std::string(path.substr(name)), true));
    return view_.attributes(found);
  }

 private:
  struct Directory {
    Result<Inode> inode;
    uint32_t followed = 0;
  };

  const Directory& directory(std::string_view path) {
    const auto known = directories_.find(path);
    if (known != directories_.end()) return known->second;
    Walk walk(view_, credentials_);
    Result<Inode> inode = view_.directory(kRootInode);
    if (inode) inode = walk.to(std::move(*inode), std::string(path), true);
    if (inode && !inode->is_directory()) inode = Code::not_directory;
    return directories_.try_emplace(path, Directory{std::move(inode), walk.followed()})
        .first->second;
  }

  View& view_;
  const Credentials& credentials_;
  std::unordered_map<std::string_view, Directory> directories_;
};

}  // namespace

Result<Attributes> Namespace::lookup(const Credentials& credentials, InodeId parent,
                                     std::string_view name) {
  return transact(engine::KvMode::read, [&](View& view) -> Result<Attributes> {
    TRY_ASSIGN(const Inode directory, view.directory(parent));
    TRY_ASSIGN(const Inode found, Walk(view, credentials).step(directory, name));
    return view.attributes(found);
  });
}

Result<Attributes> Namespace::resolve(const Credentials& credentials, std::string_view path,
                                      bool follow_last) {
  TRY(check_path(path));
  return transact(engine::KvMode::read, [&](View& view) -> Result<Attributes> {
    TRY_ASSIGN(Inode root, view.directory(kRootInode));
    TRY_ASSIGN(const Inode found,
               Walk(view, credentials).to(std::move(root), std::string(path), follow_last));
    return view.attributes(found);
  });
}

Result<std::vector<Result<Attributes>>> Namespace::resolve_many(
    const Credentials& credentials, const std::vector<std::string_view>& paths) {
  using All = std::vector<Result<Attributes>>;
  // In their own order neighbours share the database's blocks.
  std::vector<size_t> order(paths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return paths[a] < paths[b]; });
  return transact(engine::KvMode::read, [&](View& view) -> Result<All> {
    All all(paths.size(), Result<Attributes>(Code::not_found));
    Walks walks(view, credentials);
    for (const size_t i : order) all[i] = walks.to(paths[i]);
    return all;
  });
}

Result<ResolvedParent> Namespace::resolve_parent(const Credentials& credentials,
                                                 std::string_view path) {
  TRY(check_path(path));
  size_t end = path.size();
  while (end > 0 && path[end - 1] == '/') --end;
  const size_t begin = end == 0 ? 0 : path.rfind('/', end - 1) + 1;
  ResolvedParent resolved;
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
  return transact(engine::KvMode::read, [&](View& view) -> Result<Attributes> {
    TRY_ASSIGN(const Inode found, view.inode(inode));
    return view.attributes(found);
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
