// Calls to a controller. What is asked and what is answered lie in exposed memory, as both may be
// longer than a message; their format is the membership library's (docs/formats/membership.md).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "penstock/base.h"
#include "penstock/wire/node_version.h"

namespace penstock::wire {

enum class MembershipMethod : uint16_t {
  ask = 64,  // exposure 0, access fetch: what is asked; 1, access place: where the answer goes
};

// Of what is asked, and of an answer: a map comes in pieces of that size.
inline constexpr uint32_t kMembershipBytesMax = 64 * kKiB;
// The service that every controller's node has. Services of a node's own targets are their places
// there, from 0 on; those of replicas are this and the number that the controller gave the target.
inline constexpr uint32_t kControllerService = UINT32_MAX;
// At the same node, for those who are no node yet: what they ask comes along with the call, and is
// short.
inline constexpr uint32_t kGuestService = UINT32_MAX - 1;
inline constexpr uint32_t kGuestBytesMax = 14 * kKiB;
inline constexpr uint32_t kFirstReplicaService = 1U << 30;
// At the node that has the names (docs/formats/meta-calls.md). The two numbers between are taken.
inline constexpr uint32_t kMetaService = UINT32_MAX - 4;
// There as well (docs/formats/holds.md, locks.md).
inline constexpr uint32_t kHoldsService = UINT32_MAX - 5;
inline constexpr uint32_t kLocksService = UINT32_MAX - 6;
// All of these are above it.
inline constexpr uint32_t kLastReplicaService = UINT32_MAX - 16;

struct MembershipRequest {
  uint32_t version = kNodeVersion;  // of what is asked, and then of the answer
  uint32_t length = 0;              // of what is asked, in exposure 0
};
// With ok, and with wrong_version.
struct MembershipResponse {
  uint32_t length = 0;  // of the answer, in exposure 1; with wrong_version 0
  // What the controller speaks.
  uint16_t lowest = kNodeVersionLeast;
  uint16_t highest = kNodeVersion;
};
static_assert(sizeof(MembershipRequest) == 8 && sizeof(MembershipResponse) == 8);

// Foreign input: wrong_version for one that is not spoken, bad_message for what cannot be.
inline Result<MembershipRequest> decode_membership_request(Bytes message,
                                                           const Protocol& speaks = kNodeProtocol) {
  MembershipRequest request;
  if (message.size() != sizeof request) return Code::bad_message;
  std::memcpy(&request, message.data(), sizeof request);
  const bool is_spoken = request.version >= speaks.lowest && request.version <= speaks.highest;
  if (!is_spoken) return Code::wrong_version;
  const bool is_good = request.length > 0 && request.length <= kMembershipBytesMax;
  if (!is_good) return Code::bad_message;
  return request;
}
// `has_answer`: the call ended with ok.
inline Result<MembershipResponse> decode_membership_response(Bytes message, bool has_answer) {
  MembershipResponse response;
  if (message.size() != sizeof response) return Code::bad_message;
  std::memcpy(&response, message.data(), sizeof response);
  const bool is_good = (response.length > 0) == has_answer &&
                       response.length <= kMembershipBytesMax && response.lowest > 0 &&
                       response.lowest <= response.highest;
  if (!is_good) return Code::bad_message;
  return response;
}

}  // namespace penstock::wire
