// Names of requests and of updates, as they go over wires and to disks (decision 0044).
#pragma once

#include <compare>
#include <cstdint>
#include <type_traits>

#include "penstock/base/id.h"

namespace penstock {

// One request of a client for an update. A client uses a slot for one request at a time, and counts
// its sequence up: so what was executed last says of every request of the slot whether it was.
struct RequestId {
  uint64_t incarnation = 0;  // of the client's node; grows
  uint64_t sequence = 0;     // of the slot, from 1
  uint32_t node = 0;         // a NodeId
  uint32_t slot = 0;

  friend constexpr auto operator<=>(const RequestId&, const RequestId&) = default;
};

// Two updates of a chunk are the same if their names are. The default is that of a chunk that was
// never written.
struct UpdateName {
  uint64_t chain_version = 0;  // in which it was accepted first
  uint64_t counter = 0;        // of the chunk, from 1
  RequestId request;           // the first, if it joins several

  friend constexpr auto operator<=>(const UpdateName&, const UpdateName&) = default;
};

static_assert(sizeof(RequestId) == 24 && sizeof(UpdateName) == 40);
static_assert(std::is_trivially_copyable_v<UpdateName> &&
              std::has_unique_object_representations_v<UpdateName>);

}  // namespace penstock
