// Bounds of this library.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/engine.h"

namespace penstock::kv {

// Operations waiting for a worker: far more than the shards of a node have in flight together, so
// that "busy" means that the disk cannot keep up.
inline constexpr size_t kQueueMax = 4096;

inline constexpr int kWorkerThreadsMax = 64;

// Attempts before a transaction that keeps conflicting runs alone. Rare conflicts end well before;
// a hot key is faster one at a time than by chance.
inline constexpr int kSharedAttempts = 6;
static_assert(kSharedAttempts < engine::kKvAttemptsMax);

// Keys are hashed to versions, 8 bytes each, and versions share locks. Two keys of one version
// conflict without need: with 2^18 that is one commit in thousands while 100,000 a second run.
inline constexpr uint32_t kVersionCount = 1u << 18;
inline constexpr uint32_t kVersionLocks = 1u << 12;
static_assert(is_power_of_two(kVersionCount) && is_power_of_two(kVersionLocks));
static_assert(kVersionLocks <= kVersionCount, "one lock guards whole versions");

// The log, replayed at open, twice: about a second.
inline constexpr uint64_t kLogBytesMax = 96 * kMiB;

// A write buffer takes no more than this share of the file system, so that logs, tables that are
// being written and compactions together, some twelve buffers, take a tenth; but at least so much.
inline constexpr uint64_t kWriteBufferShare = 128;
inline constexpr uint64_t kWriteBufferBytesMin = 1 * kMiB;

// What an opening writes besides tables and logs: a new manifest, which is allocated ahead.
inline constexpr uint64_t kOpenBytes = 5 * kMiB;

// At open the checksums of all tables are verified if they are no larger than this together: below
// a second. In a larger database damage is found when it is read.
inline constexpr uint64_t kVerifyBytesMax = 256 * kMiB;

inline constexpr int kOpenFilesMax = 256;
inline constexpr size_t kInfoLogBytesMax = 1 * kMiB;  // of one info log file; two are kept

// A database that stopped on an error is opened anew at most so often, and takes no more than this
// share of the time.
inline constexpr engine::Duration kReopenInterval = std::chrono::milliseconds(500);
inline constexpr int kReopenShare = 4;
// So long a commit waits while another thread opens the database: much longer than replaying the
// largest logs takes.
inline constexpr std::chrono::seconds kReopenPatience{5};

}  // namespace penstock::kv
