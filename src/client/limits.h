// Bounds of the file system, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::client::limits {

using namespace penstock::limits;  // NOLINT(google-build-using-namespace): one name for all bounds

// How often a name is looked up again when the file that it led to was replaced before it could be
// opened: each takes another program that replaces it in just that moment.
inline constexpr uint32_t kOpenTriesMax = 16;

// Removed files per round of the collector: one sync of the targets is shared by so many.
inline constexpr size_t kCollectBatch = 256;
// Every so many rounds the collector looks at all removed files, and not only at later ones.
inline constexpr uint32_t kCollectAllEvery = 100;
// Records of removed files that it takes out of meta in one transaction.
inline constexpr size_t kForgetBatch = 64;
// Lists of files without a name that wait for their chunks to be removed, as targets cannot be
// asked: some megabytes.
inline constexpr size_t kDiscardedMax = 1024;
// When collecting failed, it is tried again after this time at the latest.
inline constexpr auto kCollectRetry = std::chrono::seconds(10);

// The trash: how often it is looked at, and how soon after the start; entries removed in one
// transaction, which is over in a moment; and the pause after it at least, so that ten million take
// half an hour.
inline constexpr auto kTrashLook = std::chrono::minutes(1);
inline constexpr auto kTrashFirstLook = std::chrono::seconds(5);
inline constexpr size_t kTrashBatch = 64;
inline constexpr auto kTrashPause = std::chrono::milliseconds(10);
// No more is removed while so many wait to be collected: these are slower.
inline constexpr int64_t kTrashWaitingMax = 4096;
// It gives way when less than one part in so many is free, until that is so of the second.
inline constexpr uint64_t kTrashGivesWay = 20;
inline constexpr uint64_t kTrashGaveWay = 10;
static_assert(kTrashGaveWay < kTrashGivesWay);
// After the wall clock has jumped so far it is believed when it has not for so long.
inline constexpr auto kTrashClockJump = std::chrono::minutes(10);
inline constexpr auto kTrashClockTrust = std::chrono::hours(1);
// And at a start when the newest hour is so far away.
inline constexpr auto kTrashClockAway = std::chrono::hours(24);

// How often an operation of a thread that waits for a hold looks whether it is still to wait.
inline constexpr auto kHoldLook = std::chrono::seconds(1);
// What renews and gives back inodes, in threads that wait for meta and targets; and how soon what
// could not be recorded is tried again.
inline constexpr uint32_t kHoldThreads = 8;
inline constexpr auto kHoldRetry = std::chrono::milliseconds(250);

// Names that were listed and that nobody has looked at: some megabytes where names are short; and
// for how long it is likely that the program which listed a directory looks at them. How many are
// looked at one by one, before it is taken that all of them will be; how many are brought together
// then, or where a program asks for many; and how long that waits for files which others have in
// use.
inline constexpr size_t kListedMax = 65'536;
inline constexpr auto kListedFor = std::chrono::seconds(10);
inline constexpr size_t kLooksBeforeAll = 1;
inline constexpr size_t kBroughtAtOnce = 256;
inline constexpr size_t kLooksAtOnce = 1024;
inline constexpr auto kBringMost = std::chrono::seconds(1);

}  // namespace penstock::client::limits
