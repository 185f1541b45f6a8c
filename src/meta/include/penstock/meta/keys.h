// Keys: an optional prefix, a letter for the kind, then ids in big-endian order so that they sort.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "penstock/base.h"
#include "penstock/meta/quota.h"

namespace penstock::meta {

class Keys {
 public:
  explicit Keys(std::string prefix) : prefix_(std::move(prefix)) {}

  std::string inode(InodeId inode) const { return of('I', inode); }
  std::string times(InodeId directory) const { return of('T', directory); }
  std::string dentry(InodeId parent, std::string_view name) const { return of('D', parent, name); }
  std::string cookie(InodeId parent, uint64_t cookie) const;
  std::string xattr(InodeId inode, std::string_view name) const { return of('X', inode, name); }
  std::string orphan(InodeId inode) const { return of('O', inode); }
  std::string write_session(InodeId inode) const { return of('W', inode); }
  std::string quota(QuotaSubject subject) const;
  std::string usage(QuotaSubject subject, uint64_t lane) const;
  // How many names in a directory a file has, that has several.
  std::string names(InodeId inode, InodeId directory) const;
  // For how long what is removed below it is kept.
  std::string trash_days(InodeId directory) const { return of('K', directory); }
  std::string system(std::string_view name) const;

  // Where a scan over all keys of a kind, or all of a kind and an inode, begins and ends.
  std::string begin(char kind) const { return prefix_ + kind; }
  std::string end(char kind) const { return prefix_ + static_cast<char>(kind + 1); }
  std::string begin(char kind, InodeId inode) const { return of(kind, inode); }
  std::string end(char kind, InodeId inode) const { return of(kind, InodeId(inode.value + 1)); }
  // Of everything under the prefix. An empty end means to the last key.
  std::string begin() const { return prefix_; }
  std::string end() const;

  // What follows the kind (and the inode) in a key of that shape; nullopt if it has another.
  std::optional<InodeId> inode_of(std::string_view key) const;
  std::optional<uint64_t> cookie_of(std::string_view key) const;
  std::optional<std::string_view> name_of(std::string_view key) const;
  std::optional<QuotaSubject> subject_of(std::string_view key) const;

 private:
  std::string of(char kind, InodeId inode, std::string_view rest = {}) const;

  const std::string prefix_;
};

// A key for people.
std::string printable(std::string_view key);

}  // namespace penstock::meta
