// How long pieces are as bytes, and what the controller's service makes of its state.
#pragma once

#include "penstock/membership/cluster_map.h"

namespace penstock::membership {

// Of a piece without what it lists: version, kind, version of the map, last, how many, checksum.
inline constexpr size_t kPieceBytes = 1 + 1 + 8 + 1 + 2 + 4;
// Of a record without its own bytes: place and length.
inline constexpr size_t kPieceRecordBytes = 1 + 4 + 2;
// Of a node without its targets, and of one of these.
inline constexpr size_t kNodeSeenBytes = 4 + 1 + 1 + 8 + 8 + 4 + 4 + 8 + 2;
inline constexpr size_t kTargetSeenBytes = 4 + 4 + 8;
static_assert(kPieceBytes + kNodeSeenBytes + limits::kTargetsPerNode * kTargetSeenBytes <
                  wire::kMembershipBytesMax,
              "a piece holds a node at least");

// What was seen of nodes, from that number on.
NodesPiece nodes_of(const controller::State& state, NodeId from);

}  // namespace penstock::membership
