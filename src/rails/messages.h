// What is asked for the set-up of a queue pair, and what is answered (docs/formats/verbs.md).
#pragma once

#include <array>
#include <string_view>

#include "penstock/verbs.h"

namespace penstock::rails::internal {

enum class Method : uint16_t {
  introduce = 1,  // the service that is wanted, and an offer; answered by an offer
  watch = 2,      // nothing; answered after limits::kWatchTime
};

struct Wanted {
  uint32_t service = 0;
  verbs::Offer offer;
};

inline constexpr size_t kWantedBytes = 8 + verbs::limits::kOfferBytes;
using WantedBytes = std::array<std::byte, kWantedBytes>;
WantedBytes encode(const Wanted& wanted);
// bad_message; wrong_version.
Result<Wanted> decode_wanted(Bytes bytes);

// Words of a peer, for a log: printable ones, and not too many.
std::string printable(Bytes bytes);

}  // namespace penstock::rails::internal
