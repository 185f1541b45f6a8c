// Bounds of records and of what is done with them. Lengths of names and paths are in
// penstock/base/limits.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/meta.h"

namespace penstock::meta {

// As ext4 has it. Directories count their subdirectories.
inline constexpr uint32_t kLinksMax = 65'000;

// Ids that one durable transaction reserves. A restart wastes at most so many of 2^63.
inline constexpr uint64_t kIdsPerBatch = 4096;
// Ids below are reserved: 1 is the root, and cookies of "." and ".." must not meet real ones.
inline constexpr uint64_t kFirstId = kCookieMin;
inline constexpr uint64_t kIdMax = uint64_t{1} << 62;
static_assert(kFirstId > kRootInode.value);

// As Linux has them (linux/limits.h).
inline constexpr size_t kXattrNameBytesMax = 255;
inline constexpr size_t kXattrValueBytesMax = 64 * kKiB;
inline constexpr size_t kXattrListBytesMax = 64 * kKiB;  // all names of an inode, with their ends

// An access control list: as ext4 bounds it by a block, about 500 entries.
inline constexpr size_t kAclHeaderBytes = 4;
inline constexpr size_t kAclEntryBytes = 8;
inline constexpr size_t kAclBytesMax = kAclHeaderBytes + 508 * kAclEntryBytes;

inline constexpr uint64_t kDirectoryLength = 4096;  // what stat shows; programs divide by it

// Levels of directories that the loop check of rename climbs before it takes the tree for damaged.
inline constexpr int kDepthMax = 1 << 20;

// Entries that read_directory() reads in one transaction, and inodes counted in one.
inline constexpr size_t kEntriesPerTransaction = 1024;

// Quotas: all are in memory, each with its path.
inline constexpr size_t kQuotasMax = 65'536;
// Directories whose quotas are remembered: about 100 bytes each.
inline constexpr size_t kQuotaWaysMax = 65'536;
// What is promised to a file beyond what was asked for; or this part of what is left.
inline constexpr uint64_t kQuotaAheadBytes = 64 * kMiB;
inline constexpr uint64_t kQuotaShare = 16;
// The same where no quota binds.
inline constexpr uint64_t kUnboundAheadBytes = 1024 * kMiB;
// Directories that say how long the trash below them is kept: all are in memory, with their paths.
inline constexpr size_t kTrashSettingsMax = 65'536;
// Entries of the trash that are removed in one transaction.
inline constexpr size_t kTrashStepMax = 1024;
// Inodes of a tree that a rename counts in its transaction.
inline constexpr size_t kCountedByRenameMax = 20'000;
// Files that name no directory, which a count gives one, in one go.
inline constexpr size_t kAdoptedMax = 100'000;

inline constexpr size_t kKeyPrefixBytesMax = 16;

}  // namespace penstock::meta
