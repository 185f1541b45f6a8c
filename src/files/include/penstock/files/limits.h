// Bounds of lists of files, and of files of models, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::files::limits {

// NOLINTNEXTLINE(google-build-using-namespace): one name for all bounds.
using namespace penstock::limits;

// Files of other file systems: threads that read for each link of a load, and how many different
// numbers of them one process may use, as each keeps its transfers. On a machine with many
// processors half of them, up to the latter: 16 copy 39 GB/s out of tmpfs where 8 copy 25, and more
// than 16 no more.
inline constexpr uint32_t kLocalThreads = 8;
inline constexpr uint32_t kLocalThreadsMany = 16;
inline constexpr uint32_t kLocalThreadsMax = 256;
inline constexpr size_t kLocalSettingsMax = 4;

// What a load or save with a deadline gets beyond it, to end in order: to cancel, close and remove.
inline constexpr std::chrono::seconds kGrace{5};

// Host memory between a session's files and the headers, or host tensors, of models.
inline constexpr uint64_t kHostStepBytes = 4 * kMiB;

// Lists of files: one piece of memory through which bytes go that are wanted in plain memory or on
// a GPU, for each thread at a time; rooms above that size are not taken for the size of the file;
// threads that work on one long list, each with a request under way; and as many files are worth
// one more thread. A kernel copies more files than that out of the memory: the copy engine takes
// as long for each as for 200 KiB.
inline constexpr uint64_t kStagingBytes = 8 * kMiB;
inline constexpr uint64_t kStagedUnseenMax = 32 * 1024;
inline constexpr uint32_t kListThreadsMax = 4;
inline constexpr size_t kFilesPerListThread = 64;
inline constexpr size_t kStagedCopiesByEngine = 8;
// Files that are asked for together while they come from the disk.
inline constexpr size_t kListFilesFromDisk = 128;

}  // namespace penstock::files::limits
