// What is stored under each kind of key. Formats: docs/formats/meta.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "penstock/meta.h"

namespace penstock::meta {

inline constexpr uint8_t kRecordVersion = 1;
// Of inodes and of the times of directories. Version 1 is read, with times of 64 bits since 1970,
// and written as this one when it changes.
inline constexpr uint8_t kInodeVersion = 2;
inline constexpr uint64_t kFormatVersion = 4;
// Of one that never had a trash: what is new in version 4.
inline constexpr uint64_t kFormatWithoutTrash = 3;
inline constexpr uint64_t kFormatVersionMin = 1;
// Names of 'S' records.
inline constexpr std::string_view kVersionName = "version";
inline constexpr std::string_view kNextIdName = "next";
inline constexpr std::string_view kInodesName = "inodes";  // there only after a clean close

// 'I': an inode. Of directories, `modified` and `changed` are not part of it: see DirectoryTimes.
struct Inode {
  Attributes attributes;
  // Of directories. Of others the directory that they are counted in: one that names them; 0: not
  // known, as they were made before it was kept.
  InodeId parent;
  uint32_t xattr_bytes = 0;  // of the names of all extended attributes, each with one end byte
  std::string target;        // of symbolic links: what they lead to
  std::string default_acl;   // of directories: what is created in them inherits it
  TrashPart trash = TrashPart::none;  // of directories

  InodeId id() const { return attributes.inode; }
  bool is_directory() const { return attributes.type == FileType::directory; }
};

// 'T': the times of a directory that change with its entries. Apart from the inode so that creating
// and removing entries overwrites them unread and does not conflict; remove_directory() reads them
// and so conflicts with a transaction that adds an entry.
struct DirectoryTimes {
  FileTime modified;
  FileTime changed;
};

// 'D': a name in a directory.
struct Dentry {
  InodeId inode;
  FileType type = FileType::regular;
  uint64_t cookie = 0;
};

// 'C': the same entry by its cookie.
struct CookieEntry {
  std::string name;
  InodeId inode;
  FileType type = FileType::regular;
};

// What an encoder takes; one that gets another ends the process. For what comes from elsewhere than
// a record or an operation.
bool is_storable(const Inode& inode);
bool is_storable(const CookieEntry& entry);

// Decoders return nullopt for anything but what the encoder makes. decode_inode() sets `id`.
std::string encode(const Inode& inode);
std::optional<Inode> decode_inode(InodeId id, std::string_view bytes);
std::string encode(const DirectoryTimes& times);
std::optional<DirectoryTimes> decode_directory_times(std::string_view bytes);
std::string encode(const Dentry& dentry);
std::optional<Dentry> decode_dentry(std::string_view bytes);
std::string encode(const CookieEntry& entry);
std::optional<CookieEntry> decode_cookie_entry(std::string_view bytes);

// 'O' says whether the inode may get a name: only if it was made without one.
inline constexpr uint64_t kOrphanRemoved = 0;
inline constexpr uint64_t kOrphanUnnamed = 1;

// 'Q': a quota. Its subject is in the key.
struct QuotaRecord {
  QuotaLimits limits;
  bool counted = false;  // what was there before it was set is part of what is counted
  std::string path;      // where the directory was when it was set, for people
};
// 'U': a part of what is counted for a quota; may be below 0, as only the sum is not.
struct UsageRecord {
  int64_t bytes = 0;
  int64_t inodes = 0;
};
std::string encode(const QuotaRecord& quota);
std::optional<QuotaRecord> decode_quota(std::string_view bytes);
// 'K': for how long what is removed below a directory is kept.
struct TrashRecord {
  uint32_t days = 0;
  std::string path;  // where it was when that was set, for people
};
std::string encode(const TrashRecord& trash);
std::optional<TrashRecord> decode_trash(std::string_view bytes);
std::string encode(const UsageRecord& usage);
std::optional<UsageRecord> decode_usage(std::string_view bytes);

// 'S', 'O', 'W' and 'L': one number.
std::string encode_number(uint64_t number);
std::optional<uint64_t> decode_number(std::string_view bytes);

}  // namespace penstock::meta
