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

// The cache of blocks: parts of some MiB, so that none is full while others are empty; and what of
// it indexes and filters keep before data takes it.
inline constexpr int kCacheShardBits = 3;
inline constexpr double kCacheShareOfIndexes = 0.5;
// Of an index or a filter, what is read together.
inline constexpr uint64_t kIndexPieceBytes = 4 * kKiB;

inline constexpr int kOpenFilesMax = 512;
inline constexpr int kTableGrowth = 2;                // of tables, from a level to the next
inline constexpr size_t kInfoLogBytesMax = 1 * kMiB;  // of one info log file; two are kept

// A database that stopped on an error is opened anew at most so often, and takes no more than this
// share of the time.
inline constexpr engine::Duration kReopenInterval = std::chrono::milliseconds(500);
inline constexpr int kReopenShare = 4;
// So long a commit waits while another thread opens the database: much longer than replaying the
// largest logs takes.
inline constexpr std::chrono::seconds kReopenPatience{5};

// PostgreSQL. A connection of ours each takes some 10 MiB of the server, whose default is 100.
inline constexpr int kPostgresConnectionsMax = 64;

// What a statement may take in the server, and what is given to it here: an answer that has not
// come then does not come.
inline constexpr std::chrono::seconds kPostgresStatementTime{10};
inline constexpr std::chrono::seconds kPostgresAnswerTime{15};
static_assert(kPostgresStatementTime < kPostgresAnswerTime);
// For a lock, which others hold for one flush of the server's log.
inline constexpr std::chrono::seconds kPostgresLockTime{5};
static_assert(kPostgresLockTime < kPostgresStatementTime);
// To connect to one host, and all that is said before the first statement.
inline constexpr std::chrono::seconds kPostgresConnectTime{5};
// Between two attempts to connect, from the first to any later one: an operation goes on at most so
// long after the server is back.
inline constexpr std::chrono::milliseconds kPostgresPauseMin{50};
inline constexpr std::chrono::milliseconds kPostgresPauseMax{1000};

// What libpq is told unless the address says otherwise: when a silent peer counts as gone.
struct PostgresConnectionWord {
  const char* name;
  const char* value;
};
inline constexpr PostgresConnectionWord kPostgresConnectionWords[] = {
    {"application_name", "penstock"}, {"keepalives_idle", "5"},     {"keepalives_interval", "3"},
    {"keepalives_count", "3"},        {"tcp_user_timeout", "5000"},
};

// To have a database alone, and between two attempts: a killed process's connections end in some
// 100 ms, those of a machine that is gone when the server's keep-alives say so, after 14 s.
inline constexpr std::chrono::seconds kPostgresOwnerTime{16};
inline constexpr std::chrono::milliseconds kPostgresOwnerPause{100};
// Who watches a process that has the names takes a server that answers later for one that does not.
inline constexpr std::chrono::seconds kPostgresLookTime{3};

// Conflicts after which a transaction takes the gate and runs alone: a repetition here costs trips.
inline constexpr int kPostgresSharedAttempts = 3;
static_assert(kPostgresSharedAttempts < engine::kKvAttemptsMax);

// Keys that a commit locks one by one; one of more takes the gate alone. A server has room for 64
// locks of each connection, of which a commit takes some for tables and indexes.
inline constexpr size_t kPostgresLocksMax = 48;

// Commits on one row of a connection. As long as somebody reads from an older snapshot, each commit
// looks through the versions of its row that are left: 0.1 ms for a thousand.
inline constexpr uint64_t kPostgresCommitsOfRow = 1000;

// Keys of a scan that come in one trip, from the first to any later one: who wants to know whether
// there is one gets few. With values of 64 KiB the largest is 16 MiB.
inline constexpr uint64_t kPostgresScanRowsMin = 16;
inline constexpr uint64_t kPostgresScanRowsMax = 256;

// A move copies so many records in one transaction, or so many bytes; and of keys that changed
// meanwhile, of which each may have 64 KiB.
inline constexpr size_t kMoveRecords = 1000;
inline constexpr size_t kMoveBytes = 1 * kMiB;
inline constexpr size_t kMoveKeys = 256;
// Keys that changed: so many are copied before the copy of everything goes on; so few before
// changes are held back for the rest; and beyond the last number whoever changes something waits.
// What copying that many takes, a second or two on a server, is how long one of them waits then.
inline constexpr size_t kMoveNotedSome = 4096;
inline constexpr size_t kMoveNotedFew = 512;
inline constexpr size_t kMoveNotedMax = 16384;
static_assert(kMoveNotedFew < kMoveNotedSome && kMoveNotedSome < kMoveNotedMax);
// Keys that are noted at most, some 200 bytes each: where a new place is away for so long that
// writers have waited in vain. Beyond it the move is given up.
inline constexpr size_t kMoveNotedEnd = size_t{1} << 20;
// As writers wait at the bound, rounds become no longer, but perhaps no shorter either.
inline constexpr uint64_t kMoveRoundsMax = 10'000;
// Changes are held back for so long, and then go on where they were; then again, after a while.
// What the switch itself takes, a commit, comes on top of it: less than 5 s in all.
inline constexpr std::chrono::milliseconds kMovePauseTime{3000};
inline constexpr std::chrono::milliseconds kMoveBetweenPauses{1000};
// A writer waits no longer, whatever the mover waits for: then it goes on where it was, and so do
// all others. Only where the switch itself is under way it has no choice.
inline constexpr std::chrono::milliseconds kMoveWaitMax{4000};
static_assert(kMovePauseTime < kMoveWaitMax);
// A commit to the new place that may have happened is made again so often.
inline constexpr int kMoveAttempts = 3;
inline constexpr uint64_t kMovePausesMax = 20;
// A switch whose answer did not come is asked for again as often.
inline constexpr std::chrono::milliseconds kMoveSwitchPause{200};

}  // namespace penstock::kv
