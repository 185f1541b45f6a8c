// Bounds of this library, each with its reason.
#pragma once

#include <cstddef>

#include "penstock/controller.h"
#include "penstock/wire.h"

namespace penstock::membership::limits {

// Targets of one node: the disks of the largest machines, a few times over.
inline constexpr size_t kTargetsPerNode = 256;
// Of one heartbeat. What does not fit is said by the next, as long as it holds.
inline constexpr size_t kReportsPerHeartbeat = 1024;
inline constexpr size_t kAccusedPerHeartbeat = 1024;
static_assert(kTargetsPerNode * 14 + kReportsPerHeartbeat * 17 + kAccusedPerHeartbeat * 4 + 64 <
                  wire::kMembershipBytesMax,
              "a heartbeat fits a request");
// Of a refusal's reason: it is a sentence or two for people.
inline constexpr size_t kReasonBytesMax = 1024;
// Of one record of a map: a node with all of its cards and the longest names.
inline constexpr size_t kRecordBytesMax = 12 * kKiB;
static_assert(controller::limits::kCardsMax * (controller::limits::kNameBytesMax + 7) +
                      2 * controller::limits::kNameBytesMax + 128 <
                  kRecordBytesMax,
              "the largest record fits");
static_assert(kRecordBytesMax < wire::kMembershipBytesMax, "a piece holds a record at least");

}  // namespace penstock::membership::limits
