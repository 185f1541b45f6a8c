#include "penstock/cluster/invitation.h"

#include <cstring>
#include <fmt/format.h>

namespace penstock::cluster {

std::string text_of(const controller::Uuid& uuid) {
  std::string text;
  for (const uint8_t byte : uuid.bytes) text += fmt::format("{:02x}", byte);
  ASSERT(text.size() == 2 * uuid.bytes.size());
  return text;
}

Result<controller::Uuid> parse_uuid(std::string_view text) {
  controller::Uuid uuid;
  if (text.size() != 2 * uuid.bytes.size()) return Code::invalid_argument;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = "0123456789abcdef";
    const size_t digit = digits.find(text[i]);
    if (digit == std::string_view::npos) return Code::invalid_argument;
    uuid.bytes[i / 2] = static_cast<uint8_t>(uuid.bytes[i / 2] << 4 | digit);
  }
  if (uuid == controller::Uuid()) return Code::invalid_argument;
  return uuid;
}

controller::Uuid random_uuid() {
  controller::Uuid uuid;
  const std::array<uint64_t, 2> bits{engine::system_seed(), engine::system_seed() | 1};
  static_assert(sizeof bits == sizeof uuid.bytes);
  std::memcpy(uuid.bytes.data(), bits.data(), sizeof bits);
  return uuid;
}

std::string text_of(const Invitation& invitation) {
  return text_of(invitation.cluster) + "@" + invitation.controller.text();
}

Outcome<Invitation> parse_invitation(std::string_view text) {
  const size_t at = text.find('@');
  const auto cluster = parse_uuid(text.substr(0, at));
  if (at == std::string_view::npos || !cluster) {
    return Failure{Code::invalid_argument,
                   fmt::format("'{}' is no invitation: it is TOKEN@HOST:PORT, as 'penstock up' "
                               "prints it on the first node",
                               text)};
  }
  const auto address = tcp::SocketAddress::parse(text.substr(at + 1));
  if (!address) {
    return Failure{Code::invalid_argument,
                   fmt::format("'{}' is no address: give a numeric one and a port, such as "
                               "127.0.0.1:9180 or [::1]:9180",
                               text.substr(at + 1))};
  }
  return Invitation{*cluster, *address};
}

}  // namespace penstock::cluster
