// Bounds of this library, each with its reason.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::job::limits {

// Ranks of a job: what a room tells each of them in one frame stays below a megabyte.
inline constexpr uint32_t kRanksMax = 65536;
// The name of a meeting: a word and some numbers.
inline constexpr size_t kNameBytesMax = 255;
// What a rank brings to a meeting: handles and sizes, no data.
inline constexpr size_t kBringBytesMax = 1 * kMiB;
// What all bring together: every rank gets it as one frame.
inline constexpr size_t kMeetingBytesMax = 256 * kMiB;
// Descriptors that a rank brings: a few segments, one for each growth of a heap.
inline constexpr size_t kDescriptorsMax = 64;
// Meetings that one rank waits in at once: one per thread that makes a group.
inline constexpr size_t kMeetingsAtOnceMax = 64;
// Meetings of a rank that failed and wait for a rank to be told so. More come of a program that
// tries again and again while another sleeps.
inline constexpr size_t kOverdueMax = 256;
// Why a job is aborted, and other text for people.
inline constexpr size_t kTextBytesMax = 1024;

// A line of labelled output. Longer ones come in pieces, so that ranks that print no end of a line
// do not fill the launcher's memory.
inline constexpr size_t kLineBytesMax = 64 * kKiB;
// Labelled output that waits for its reader before ranks that print wait, too.
inline constexpr size_t kOutputBytesWaiting = 256 * kKiB;

// What a part of the launcher on another node is to do: arguments and environment. The kernel takes
// no more of both than 6 MiB.
inline constexpr size_t kTaskBytesMax = 8 * kMiB;
// Output of a node, and input for it, that is under way and was not passed on yet. Below what the
// kernel receives for a process that is stopped: a connection whose receiver takes nothing for 9 s
// is taken for a dead one.
inline constexpr size_t kStreamBytesUnderWay = 64 * kKiB;
// Nodes that are being reached at once: each is a process of ssh, which computes keys.
inline constexpr size_t kNodesReachedAtOnce = 64;
// What a process of ssh says on its standard error; more is dropped.
inline constexpr size_t kShellBytesMax = 1 * kMiB;

static_assert(kBringBytesMax <= kMeetingBytesMax);
static_assert(kMeetingBytesMax <= UINT32_MAX / 2, "lengths of frames are 32 bits");

}  // namespace penstock::job::limits
