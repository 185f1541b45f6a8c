// Calls to a controller. What is asked and what is answered lie in exposed memory, as both may be
// longer than a message; their format is the membership library's (docs/formats/membership.md).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "penstock/base.h"

namespace penstock::wire {

enum class MembershipMethod : uint16_t {
  ask = 64,  // exposure 0, access fetch: what is asked; 1, access place: where the answer goes
};

inline constexpr uint32_t kMembershipVersion = 1;
// Of what is asked, and of an answer: a map comes in pieces of that size.
inline constexpr uint32_t kMembershipBytesMax = 64 * kKiB;
// The service that every controller's node has; services of targets are the targets' numbers.
inline constexpr uint32_t kControllerService = UINT32_MAX;

struct MembershipRequest {
  uint32_t version = kMembershipVersion;
  uint32_t length = 0;  // of what is asked, in exposure 0
};
struct MembershipResponse {
  uint32_t length = 0;  // of the answer, in exposure 1
  uint32_t reserved = 0;
};
static_assert(sizeof(MembershipRequest) == 8 && sizeof(MembershipResponse) == 8);

// Foreign input: wrong_version for another version, bad_message for what cannot be.
inline Result<MembershipRequest> decode_membership_request(Bytes message) {
  MembershipRequest request;
  if (message.size() != sizeof request) return Code::bad_message;
  std::memcpy(&request, message.data(), sizeof request);
  if (request.version != kMembershipVersion) return Code::wrong_version;
  const bool is_good = request.length > 0 && request.length <= kMembershipBytesMax;
  if (!is_good) return Code::bad_message;
  return request;
}
inline Result<MembershipResponse> decode_membership_response(Bytes message) {
  MembershipResponse response;
  if (message.size() != sizeof response) return Code::bad_message;
  std::memcpy(&response, message.data(), sizeof response);
  const bool is_good = response.length > 0 && response.length <= kMembershipBytesMax;
  if (!is_good || response.reserved != 0) return Code::bad_message;
  return response;
}

}  // namespace penstock::wire
