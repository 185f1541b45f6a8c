#include "penstock/cluster/invitation.h"

#include <cstring>
#include <fmt/format.h>

namespace penstock::cluster {

namespace {

std::string hex(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::optional<std::array<uint8_t, 16>> parse_hex(std::string_view text) {
  std::array<uint8_t, 16> bytes{};
  if (text.size() != 2 * bytes.size()) return std::nullopt;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = "0123456789abcdef";
    const size_t digit = digits.find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    bytes[i / 2] = static_cast<uint8_t>(bytes[i / 2] << 4 | digit);
  }
  return bytes;
}

// SECRET.FINGERPRINT
std::optional<TokenSecret> parse_secret(std::string_view text) {
  const size_t dot = text.find('.');
  const auto secret = parse_hex(text.substr(0, dot));
  if (dot == std::string_view::npos || !secret) return std::nullopt;
  const auto authority = parse_hex(text.substr(dot + 1));
  if (!authority) return std::nullopt;
  TokenSecret token;
  token.secret = *secret;
  std::memcpy(token.authority.data(), authority->data(), sizeof token.authority);
  return token;
}

}  // namespace

std::string text_of(const controller::Uuid& uuid) {
  return hex(uuid.bytes);
}

Result<controller::Uuid> parse_uuid(std::string_view text) {
  const auto bytes = parse_hex(text);
  if (!bytes || *bytes == controller::Uuid().bytes) return Code::invalid_argument;
  return controller::Uuid{*bytes};
}

controller::Uuid random_uuid() {
  controller::Uuid uuid;
  const std::array<uint64_t, 2> bits{engine::system_seed(), engine::system_seed() | 1};
  static_assert(sizeof bits == sizeof uuid.bytes);
  std::memcpy(uuid.bytes.data(), bits.data(), sizeof bits);
  return uuid;
}

std::string text_of(const Invitation& invitation) {
  std::string token = text_of(invitation.cluster);
  if (invitation.token) {
    std::array<uint8_t, sizeof(tls::Fingerprint)> authority{};
    std::memcpy(authority.data(), invitation.token->authority.data(), sizeof authority);
    token += "." + hex(invitation.token->secret) + "." + hex(authority);
  }
  return token + "@" + invitation.controller.text();
}

Outcome<Invitation> parse_invitation(std::string_view text) {
  const size_t at = text.find('@');
  const std::string_view words = text.substr(0, at);
  const size_t dot = words.find('.');
  const auto cluster = parse_uuid(words.substr(0, dot));
  std::optional<TokenSecret> token;
  const bool has_token = dot != std::string_view::npos;
  if (has_token) token = parse_secret(words.substr(dot + 1));
  if (at == std::string_view::npos || !cluster || (has_token && !token)) {
    return Failure{Code::invalid_argument,
                   "this is no invitation: it is TOKEN@HOST:PORT, as 'penstock token create' "
                   "prints it on the first node"};
  }
  const auto address = tcp::SocketAddress::parse(text.substr(at + 1));
  if (!address) {
    return Failure{Code::invalid_argument,
                   fmt::format("'{}' is no address: give a numeric one and a port, such as "
                               "127.0.0.1:9180 or [::1]:9180",
                               text.substr(at + 1))};
  }
  return Invitation{*cluster, *address, token};
}

}  // namespace penstock::cluster
