// Bounds of sessions, each with its reason.
#pragma once

#include <cstdint>

#include "penstock/base.h"

namespace penstock::sessions::limits {

using namespace penstock::limits;  // NOLINT(google-build-using-namespace): one name for all bounds

// What a session's account is charged with of the agent's heap for an open file.
inline constexpr uint64_t kFileHeapBytes = 1 * kKiB;

// Memory of all rings of a session: mapped here for as long as the session lives. Addresses, not
// pages: what the application has not used is not there.
inline constexpr uint64_t kRingBytesMax = 16 * kGiB;

// GPU memory that is published at once. Each may hold a descriptor, of which a process often has no
// more than a few thousand; programs publish a few large pieces, not many small ones.
inline constexpr uint32_t kPublishedMax = 1024;
// Of these, by one user who is not root, and by one session.
inline constexpr uint32_t kPublishedPerUserMax = 512;
inline constexpr uint32_t kPublishedPerSessionMax = 256;
static_assert(kPublishedPerSessionMax < kPublishedPerUserMax &&
                  kPublishedPerUserMax < kPublishedMax,
              "neither a session nor a user can take all of it");

}  // namespace penstock::sessions::limits
