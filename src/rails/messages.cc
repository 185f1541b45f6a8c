#include "messages.h"

#include <algorithm>
#include <cstring>

#include "penstock/rails/limits.h"

namespace penstock::rails::internal {

WantedBytes encode(const Wanted& wanted) {
  WantedBytes bytes{};
  std::memcpy(bytes.data(), &wanted.service, sizeof wanted.service);
  const verbs::OfferBytes offer = verbs::encode_offer(wanted.offer);
  std::memcpy(bytes.data() + 8, offer.data(), offer.size());
  return bytes;
}

Result<Wanted> decode_wanted(Bytes bytes) {
  if (bytes.size() != kWantedBytes) return Code::bad_message;
  Wanted wanted;
  uint32_t reserved = 0;
  std::memcpy(&wanted.service, bytes.data(), sizeof wanted.service);
  std::memcpy(&reserved, bytes.data() + 4, sizeof reserved);
  if (reserved != 0) return Code::bad_message;
  TRY_ASSIGN(wanted.offer, verbs::decode_offer(bytes.subspan(8)));
  return wanted;
}

std::string printable(Bytes bytes) {
  std::string text;
  for (const std::byte byte :
       bytes.first(std::min<size_t>(bytes.size(), limits::kReasonBytesMax))) {
    const auto character = static_cast<char>(byte);
    text += character >= ' ' && character <= '~' ? character : '?';
  }
  return text;
}

}  // namespace penstock::rails::internal
