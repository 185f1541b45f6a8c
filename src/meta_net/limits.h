// Bounds of this library, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/engine.h"
#include "penstock/meta_records.h"
#include "penstock/wire.h"

namespace penstock::meta_net::limits {

using penstock::limits::kNameBytesMax;
using penstock::limits::kPathBytesMax;

// ---- one call ----

// Of what is asked: all files that a front makes at a time are one transaction.
inline constexpr size_t kRequestBytesMax = kMiB;
inline constexpr size_t kFilesMax = wire::kFilesAtOnceMax;
// Supplementary groups of a user, as Linux bounds them (NGROUPS_MAX).
inline constexpr size_t kGroupsMax = 65536;
inline constexpr size_t kVarint32Bytes = 5;
inline constexpr size_t kCredentialsBytesMax = kVarint32Bytes * (kGroupsMax + 4) + 1;
// A layout: ten numbers and a list of chains.
inline constexpr size_t kLayoutBytesMax = 64 + kVarint32Bytes * meta::kListedChainsMax;
// Chains of a layout that is asked for, which may be one that is refused.
inline constexpr size_t kChainsMax = 2 * meta::kListedChainsMax;
// A file that is to be made: numbers, a name, a layout, attributes to set.
inline constexpr size_t kNewFileBytesMax = 192 + kNameBytesMax + kLayoutBytesMax;
static_assert(kCredentialsBytesMax + kFilesMax * kNewFileBytesMax + kKiB < kRequestBytesMax,
              "what fronts make at a time is one request");
// Texts of any kind: longer ones than names and paths may be, so that Meta itself refuses these.
inline constexpr size_t kTextBytesMax = 2 * meta::kXattrValueBytesMax;
static_assert(kCredentialsBytesMax + 2 * kTextBytesMax + kKiB < kRequestBytesMax);
// Paths of one request; it may be full before.
inline constexpr size_t kPathsMax = 1024;
// Numbers of inodes in one request or answer.
inline constexpr size_t kInodesMax = 65536;
inline constexpr size_t kVarint64Bytes = 10;
static_assert(kInodesMax * 2 * kVarint64Bytes > kRequestBytesMax &&
                  kInodesMax * kVarint64Bytes + kKiB < kRequestBytesMax,
              "as many as fit");
// Times of access in one request: a number and a time each.
inline constexpr size_t kAccessesMax = 32768;
static_assert(kAccessesMax * (kVarint64Bytes + 8) + kKiB < kRequestBytesMax);

// Of an answer: attributes may each have an access control list.
inline constexpr size_t kAttributesBytesMax = 192 + kLayoutBytesMax + meta::kAclBytesMax;
inline constexpr size_t kAnswerBytesMax = 8 * kMiB;
static_assert(kFilesMax * 2 * (kAttributesBytesMax + 32) + kKiB < kAnswerBytesMax,
              "of each file that is made its own, and those of what it replaced");
static_assert(kPathsMax * (kAttributesBytesMax + 32) + kKiB < kAnswerBytesMax);
// A page of a listing: as many entries as Meta reads in one transaction, with attributes of the
// usual length.
inline constexpr size_t kEntriesPerPage = meta::kEntriesPerTransaction;
inline constexpr size_t kPageBytesMax = 256 * kKiB;
static_assert(kPageBytesMax > 2 * (kAttributesBytesMax + kNameBytesMax + 64));
// Inodes of one step of emptying the trash: its entries, and their directory.
inline constexpr size_t kTrashPerAnswer = meta::kTrashStepMax + 1;
// Quotas of one answer, or days of directories, each with its path.
inline constexpr size_t kQuotasPerAnswer = 1024;
static_assert(kQuotasPerAnswer * (penstock::limits::kPathBytesMax + 128) + kKiB < kAnswerBytesMax);

// Names of extended attributes of one inode, each with a byte at least.
inline constexpr size_t kXattrNamesMax = meta::kXattrListBytesMax;

// Chains of a node's own: more than a process has loops.
inline constexpr uint64_t kOwnChainsMax = 4096;

// ---- the service ----

// Calls at a time, and bytes that they ask with: of all, and of one node, so that one cannot keep
// others out.
inline constexpr size_t kCallsMax = 16384;
inline constexpr size_t kCallsPerNode = 1024;
inline constexpr size_t kAskedBytesMax = 256 * kMiB;
inline constexpr size_t kAskedBytesPerNode = 32 * kMiB;
static_assert(kAskedBytesPerNode / kRequestBytesMax >= 16);
// Repeats that wait for the answer of the same call: a caller has one at a time, and the others are
// what a network makes of them.
inline constexpr size_t kWaitingMax = 4;
// Calls that change something, of one caller at a time.
inline constexpr uint32_t kSlotsMax = 64;
// Callers whose last answers are kept: of all nodes, and of one, whose process may begin anew.
inline constexpr size_t kCallersMax = 16384;
inline constexpr size_t kCallersPerNode = 64;
// A caller that has not asked for so long repeats nothing any more.
inline constexpr engine::Duration kCallerIdle = std::chrono::minutes(2);
// The answers that are kept, of all and of one node. One that has no room is forgotten: its repeat
// is told that it may have happened.
inline constexpr size_t kKeptBytesMax = 256 * kMiB;
inline constexpr size_t kKeptBytesPerNode = 16 * kMiB;
static_assert(kKeptBytesPerNode >= kAnswerBytesMax, "the longest answer can be asked for again");

// ---- nodes that are restricted ----

// Numbers of files that a node was shown and that are remembered, some 40 bytes each: what a kernel
// has cached of a large working set.
inline constexpr size_t kProvenPerNode = 262'144;
// How long it counts where a directory lies, and of how many that is known: a path that was renamed
// leads elsewhere that much later.
inline constexpr engine::Duration kJudgedTime = std::chrono::seconds(1);
inline constexpr size_t kJudgedPerNode = 65'536;

// ---- the caller ----

// All tries of one call together.
inline constexpr engine::Duration kCallTime = std::chrono::seconds(20);
// One try: a call that is lost is asked for again some times.
inline constexpr engine::Duration kTryTime = std::chrono::seconds(5);
static_assert(kTryTime * 4 <= kCallTime);
static_assert(kCallTime * 4 < kCallerIdle, "who still repeats is still known");
// Between two tries: at first what a message takes, then what a service that is busy does not feel.
inline constexpr engine::Duration kPauseFirst = std::chrono::milliseconds(2);
inline constexpr engine::Duration kPauseMost = std::chrono::milliseconds(500);
// How often a layout is edited anew when others change it meanwhile.
inline constexpr int kEditsMax = 16;
// Room for a long answer that is asked for at once; one that is longer is asked for again.
inline constexpr size_t kUsualLongAnswer = 64 * kKiB;
inline constexpr size_t kUsualAttributesBytes = 512;

}  // namespace penstock::meta_net::limits
