// Bounds of a mount, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::fuse {

// The largest read or write that the kernel sends: 256 pages, which is as far as libfuse 3.14 goes.
inline constexpr size_t kRequestBytesMax = 1 * kMiB;

// What stands before the payload of a write: struct fuse_in_header and struct fuse_write_in. A
// worker reads a request to an address that puts the payload on a page boundary, so that it can go
// to the disk from there.
inline constexpr size_t kRequestHeaderBytes = 80;
inline constexpr size_t kPageBytes = 4096;
static_assert(kRequestHeaderBytes < kPageBytes);

// Workers: each blocks on one request, so their number is the mount's queue depth. Sixteen cover
// four readers with 4 MiB of read-ahead each.
inline constexpr uint32_t kThreadsDefault = 16;
inline constexpr uint32_t kThreadsMax = 256;

// How often a worker that is to end is interrupted while it waits for a request: a signal that
// comes just before it waits is lost.
inline constexpr std::chrono::milliseconds kInterruptEvery{5};

// Requests that the kernel keeps in progress without a program waiting (read-ahead, write-back).
inline constexpr unsigned kBackgroundMax = 64;

// Entries of other sessions' changes that wait to be told to the kernel. Changes of inodes need no
// bound of their own: there is one at most for each inode that the kernel knows.
inline constexpr size_t kEntryChangesMax = 65536;

// A change waits this long at most until the kernel has dropped what it knew. Only two mounts of
// one node that write the same page at the same moment can make each other wait so long: each
// kernel holds its page locked until the other's is dropped.
inline constexpr std::chrono::milliseconds kInvalidationDeadline{2000};

// Where other nodes have the same files: what the kernel keeps of names and attributes it keeps so
// long at most, and never longer than the node's lease runs. Who changes a name waits no longer for
// a kernel that has its directory locked.
inline constexpr std::chrono::milliseconds kSharedKeep{1000};
// The kernel counts from when the program that asked runs again.
inline constexpr std::chrono::milliseconds kSharedKeepLate{100};
static_assert(kSharedKeep + kSharedKeepLate < kInvalidationDeadline);

// A file that is changed this often in a row, each time soon after the last, without the kernel
// asking for it in between: the kernel is made to drop all of it, and needs no further telling.
inline constexpr uint32_t kQuietChangesMax = 16;
inline constexpr std::chrono::milliseconds kQuietGap{10};

// The kernel does not say when it serves a read from its cache. So that a read is seen where it
// changes the time of access, the kernel drops the pages of a file that is opened for it, if they
// are no more than this; of a longer file the opening counts as the read.
inline constexpr uint64_t kReadAgainBytesMax = 1 * kMiB;

// Links of one user in a mount's virtual directory: those of a few processes with as many regions
// as a session may have. What one costs here beside the letters of its names.
inline constexpr uint32_t kLinksPerUserMax = 262144;
inline constexpr uint64_t kLinkHeapBytes = 256;

// Names of one directory that are read from meta at a time.
inline constexpr size_t kDirectoryBatchMax = 1024;

}  // namespace penstock::fuse
