// The versions of what nodes say to one another: greetings of connections, calls to replicas of
// chains, questions to the controller. One number counts for all of it (decision 0055).
//
// A node speaks the version of its release and the one before. To each peer it speaks the highest
// that both do, which it knows before it says anything: of replicas from the map, as each node says
// in its record which versions it speaks; of the controller from its last answer. An answer is in
// the version of what it answers.
#pragma once

#include <bit>
#include <cstdint>

#include "penstock/wire/session_version.h"

// 1 in a build that plays the next release, for tests of both side by side.
#ifndef PENSTOCK_NEXT_PROTOCOL
#define PENSTOCK_NEXT_PROTOCOL 0
#endif

namespace penstock::wire {

inline constexpr uint16_t kNodeVersion = PENSTOCK_NEXT_PROTOCOL ? 2 : 1;
inline constexpr uint16_t kNodeVersionLeast = 1;
inline constexpr Protocol kNodeProtocol{kNodeVersionLeast, kNodeVersion, 0};
// Versions are bits of a node's record, and bytes of a greeting.
inline constexpr uint16_t kNodeVersionMost = 63;
static_assert(kNodeVersion - kNodeVersionLeast <= 1, "its own, and the one before");
static_assert(kNodeVersion <= kNodeVersionMost);

// As bits of a node's record, one for each version: that of version 1 is 2.
constexpr uint64_t features_of(const Protocol& speaks) {
  uint64_t features = 0;
  for (uint32_t version = speaks.lowest; version <= speaks.highest; ++version) {
    features |= uint64_t{1} << version;
  }
  return features;
}

// The highest version that both speak; the lowest of `mine` where there is none, as the transport
// refuses such a peer and says so. A record without bits is of a node that speaks version 1.
constexpr uint16_t version_for(const Protocol& mine, uint64_t features) {
  const uint64_t theirs = features == 0 ? features_of({1, 1, 0}) : features;
  const uint64_t both = features_of(mine) & theirs;
  return static_cast<uint16_t>(both == 0 ? mine.lowest : std::bit_width(both) - 1);
}

}  // namespace penstock::wire
