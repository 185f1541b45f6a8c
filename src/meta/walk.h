// Following paths inside one transaction.
#pragma once

#include "permissions.h"
#include "view.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "penstock/meta/records/limits.h"

namespace penstock::meta {

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
    ASSERT(directory.is_directory());
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
    ASSERT(directory.is_directory());
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

inline Status check_path(std::string_view path) {
  if (path.empty()) return Code::not_found;
  if (path.size() > limits::kPathBytesMax) return Code::name_too_long;
  if (path.front() != '/' || path.find('\0') != std::string_view::npos) {
    return Code::invalid_argument;
  }
  return {};
}

// Walks many paths inside one transaction, and each directory once. The paths outlive it.
class Walks {
 public:
  struct Directory {
    Result<Inode> inode;
    uint32_t followed = 0;
  };

  Walks(View& view, const Credentials& credentials) : view_(view), credentials_(credentials) {}

  Result<Attributes> to(std::string_view path, bool follow_last) {
    TRY(check_path(path));
    // A slash at the end makes a link there lead on, and a path without one starts at the root.
    const size_t name = path.rfind('/') + 1;
    const Directory& above = directory(path.substr(0, name));
    if (!above.inode) return above.inode.error();
    Walk walk(view_, credentials_, above.followed);
    TRY_ASSIGN(const Inode found,
               walk.to(*above.inode, std::string(path.substr(name)), follow_last));
    return view_.attributes(found);
  }

  // What an absolute path that ends in a slash leads to.
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

 private:
  View& view_;
  const Credentials& credentials_;
  std::unordered_map<std::string_view, Directory> directories_;
};

}  // namespace penstock::meta
