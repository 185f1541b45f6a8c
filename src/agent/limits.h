// Bounds of the agent, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::agent::limits {

using namespace penstock::limits;  // NOLINT(google-build-using-namespace): one name for all bounds

// Inodes, and as many names, whose records are kept in memory, some 450 bytes for both: twice as
// many as the node cache holds files at most, so that what is read from there is found there, too,
// as records that are half as many as there are places seldom displace each other. At least what a
// mount and some programs use, 60 MB of memory; at most half a gigabyte.
inline constexpr size_t kMetaRecordsMin = 128 * 1024;
inline constexpr size_t kMetaRecordsMax = 1024 * 1024;

// How long a shard polls before it sleeps. With processors to spare, as long as the answer of a
// neighbour or a quick disk takes.
inline constexpr std::chrono::microseconds kSpinAlone{50};
// With few, where each that polls keeps another from answering: what it takes to be woken, so that
// no more is wasted than is saved; and nothing where there are no rings of applications, since all
// else comes from the kernel, which wakes those that sleep (decision 0010).
inline constexpr std::chrono::microseconds kSpin{10};
// So many processors for each shard, and in all, are processors to spare: a small cluster on one
// machine has a loop for each node, and a client.
inline constexpr size_t kSpinProcessors = 4;
inline constexpr size_t kSpinProcessorsMin = 8;

// A stopping agent waits so long for descriptors to be closed before it leaves them to the kernel.
inline constexpr std::chrono::milliseconds kClosePatience{2000};

// What people wait for, such as the free space, is asked of the node with the names for so long at
// most, and a question that has to be answered some time again after a pause.
inline constexpr std::chrono::milliseconds kQuickQuestion{1000};
inline constexpr std::chrono::milliseconds kAskAgain{1000};

// A node with names waits so long at its start for sessions of agents to have ended: for those that
// say nothing, their lease, and the lease of each storage node that has to hear of it.
inline constexpr std::chrono::seconds kSessionsEnd{60};
inline constexpr std::chrono::milliseconds kSessionsLook{20};
// One order to fence a session, and the pause before it is given again.
inline constexpr std::chrono::seconds kFenceTime{10};
inline constexpr std::chrono::milliseconds kFenceAgain{250};

// What ended sessions had is settled by so many threads, of which each may wait for a target.
inline constexpr uint32_t kSettleThreads = 4;
// Files of a node that is restricted, which it shows at a time: each takes two calls.
inline constexpr uint32_t kShowThreads = 4;

// Lines of the file of limits: users of one node that root has set something for.
inline constexpr size_t kLimitLinesMax = 65536;

// Free bytes that a file system must have for a store to be opened or made in it: enough for the
// logs of the databases to be written.
inline constexpr uint64_t kFreeBytesToOpen = 8 * kMiB;
inline constexpr uint64_t kFreeBytesToCreate = 64 * kMiB;

// Disks that a node may list: as many as the largest machines have, twice over. Their stores have
// numbers behind those of targets in the node's directory, of which there are 64 at most.
inline constexpr uint32_t kDisksMax = 256;
inline constexpr uint32_t kFirstDiskTarget = 512;
// Of the path of a disk: what is kept of it fits a small file.
inline constexpr size_t kDiskPathBytesMax = 2048;
static_assert(kDiskPathBytesMax + 256 < kKeptFileBytesMax);

// The address of a database of names: two of them fit the small file that says where names are, and
// one the mark in a database.
inline constexpr size_t kNamesUrlBytesMax = 1500;
static_assert(2 * kNamesUrlBytesMax + 256 < kKeptFileBytesMax);
// Threads for transactions on names that are submitted: as many as a server gets connections.
inline constexpr int kNamesThreads = 8;
// Where several directories of one node wait for their turn: how often each looks whether the one
// that has it renews its lease, how often it says that it waits, and how often that one looks who
// does. A lease lasts eight renewals, and a standby is seen for a minute.
inline constexpr auto kTurnLook = std::chrono::milliseconds(250);
inline constexpr auto kStandBySaid = std::chrono::seconds(5);
inline constexpr auto kStandbysLook = std::chrono::seconds(2);
// For so long a program of the node's own waits for names while the node has no lease.
inline constexpr auto kLeasePatience = std::chrono::seconds(30);
inline constexpr auto kLeaseLook = std::chrono::milliseconds(50);

// A key signs capabilities for so long: sixteen of them count, so that what is signed last is good
// for two weeks, and then asked for anew.
inline constexpr engine::Duration kSigningKeyTime = std::chrono::hours(24);
// Capabilities of single files that a node which is restricted keeps, and that wait to be asked
// for: what is beyond is asked for again.
inline constexpr size_t kCapabilitiesKept = 65'536;
inline constexpr size_t kCapabilitiesWanted = 4096;

}  // namespace penstock::agent::limits
