// Bounds of the agent, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::agent::limits {

using namespace penstock::limits;  // NOLINT(google-build-using-namespace): one name for all bounds

// Inodes, and as many names, whose records are kept in memory, some 450 bytes for both: as many as
// the node cache holds files at most, so that what is read from there is found there, too. At least
// what a mount uses, 30 MB of memory; at most half a gigabyte.
inline constexpr size_t kMetaRecordsMin = 64 * 1024;
inline constexpr size_t kMetaRecordsMax = 1024 * 1024;

// A stopping agent waits so long for descriptors to be closed before it leaves them to the kernel.
inline constexpr std::chrono::milliseconds kClosePatience{2000};

// Lines of the file of limits: users of one node that root has set something for.
inline constexpr size_t kLimitLinesMax = 65536;

// Free bytes that a file system must have for a store to be opened or made in it: enough for the
// logs of the databases to be written.
inline constexpr uint64_t kFreeBytesToOpen = 8 * kMiB;
inline constexpr uint64_t kFreeBytesToCreate = 64 * kMiB;

}  // namespace penstock::agent::limits
