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

// How often an operation of a thread that waits for a hold looks whether it is still to wait.
inline constexpr auto kHoldLook = std::chrono::seconds(1);
// What renews and gives back inodes, in threads that wait for meta and targets; and how soon what
// could not be recorded is tried again.
inline constexpr uint32_t kHoldThreads = 8;
inline constexpr auto kHoldRetry = std::chrono::milliseconds(250);

}  // namespace penstock::client::limits
