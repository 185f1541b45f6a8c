// Bounds of this library.
#pragma once

#include <cstddef>

#include "penstock/meta_records.h"

namespace penstock::meta_text {

// A byte of a name that is not shown as it is: \xHH.
inline constexpr size_t kEscapedBytes = 4;

// Words, numbers, times and their separators of any line, without the bytes of its names: an inode
// has about twenty fields of 30 bytes at most.
inline constexpr size_t kLineFieldBytesMax = 1024;

// The longest line is that of an extended attribute, each byte of it escaped.
inline constexpr size_t kLineBytesMax =
    kLineFieldBytesMax + kEscapedBytes * (meta::kXattrNameBytesMax + meta::kXattrValueBytesMax);
static_assert(kLineBytesMax >= kLineFieldBytesMax +
                                   kEscapedBytes * (limits::kPathBytesMax + 2 * meta::kAclBytesMax),
              "a symbolic link, or a directory with both its lists, has room");

// Text that is read from a source, or gathered for a sink, at a time: large enough that a system
// call for each does not count.
inline constexpr size_t kTextBytes = 256 * kKiB;

// Records that are read from the store at a time, of each kind; and the bytes after which fewer
// are.
inline constexpr size_t kScanRecords = 1024;
inline constexpr size_t kScanBytes = 1 * kMiB;

// What one transaction of a load takes: enough that a transaction for each does not count, and so
// few bytes that those of a store's write buffer are not reached.
inline constexpr size_t kBatchRecords = 4096;
inline constexpr size_t kBatchBytes = 1 * kMiB;
static_assert(kBatchBytes >= meta::kXattrValueBytesMax, "any record has room");

// Sums by which a check compares links with names, of 8 bytes each: with 2^20 one thing that is
// wrong has few others to be told from.
inline constexpr size_t kCheckBuckets = size_t{1} << 20;
// Numbers in sums that do not fit which are looked at one by one; of more only these.
inline constexpr size_t kCheckSuspectsMax = 100'000;

}  // namespace penstock::meta_text
