// Following paths through records that are cached, without a transaction.
#pragma once

#include "permissions.h"
#include "record_cache.h"
#include "walk.h"

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace penstock::meta {

// Finds what is there, may be reached, and is no directory (whose times change on their own); of
// all else, also of dots and of links to be followed, it knows nothing, and a transaction has to
// say it. Used in one thread, for a short time: it remembers where directories are. The paths
// outlive it.
class CachedWalk {
 public:
  // Null: nothing is cached.
  CachedWalk(const RecordCache* cache, const Credentials& credentials)
      : cache_(cache), credentials_(credentials) {}

  std::optional<Attributes> inode(InodeId id) const {
    return cache_ == nullptr ? std::nullopt : plain(cache_->inode(id));
  }

  // Of an entry as it is, also of a symbolic link.
  std::optional<Attributes> entry(InodeId parent, std::string_view name) const {
    if (cache_ == nullptr) return std::nullopt;
    return named(step(cache_->inode(parent), name));
  }

  std::optional<Attributes> path(std::string_view path, bool follow_last) {
    if (cache_ == nullptr || !check_path(path).ok()) return std::nullopt;
    const size_t name = path.rfind('/') + 1;
    const auto [known, is_new] = directories_.try_emplace(path.substr(0, name));
    if (is_new) known->second = directory(path.substr(0, name));
    std::optional<Attributes> found = named(step(known->second, path.substr(name)));
    if (found && follow_last && found->type == FileType::symlink) return std::nullopt;
    return found;
  }

 private:
  using Found = std::shared_ptr<const Inode>;

  static std::optional<Attributes> plain(const Found& inode) {
    if (inode == nullptr || inode->is_directory()) return std::nullopt;
    return inode->attributes;
  }
  // It may have lost its name since the entry was found.
  static std::optional<Attributes> named(const Found& inode) {
    if (inode == nullptr || inode->attributes.links == 0) return std::nullopt;
    return plain(inode);
  }

  Found step(const Found& from, std::string_view name) const {
    if (from == nullptr || !from->is_directory() || from->attributes.links == 0) return nullptr;
    if (!require(credentials_, from->attributes, kAccessExecute).ok()) return nullptr;
    const std::optional<Dentry> entry = cache_->entry(from->id(), name);
    return entry ? cache_->inode(entry->inode) : nullptr;
  }

  // Of a path that begins and ends with a slash.
  Found directory(std::string_view path) const {
    Found here = cache_->inode(kRootInode);
    for (size_t at = 1; at < path.size() && here != nullptr;) {
      const size_t slash = path.find('/', at);
      if (slash > at) here = step(here, path.substr(at, slash - at));
      at = slash + 1;
    }
    return here;
  }

  const RecordCache* const cache_;
  const Credentials& credentials_;
  std::unordered_map<std::string_view, Found> directories_;
};

}  // namespace penstock::meta
