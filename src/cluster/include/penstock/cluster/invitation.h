// What a node that joins is told: which cluster it is, and where its controller answers.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/controller.h"
#include "penstock/membership.h"
#include "penstock/tcp.h"
#include "penstock/tls.h"

namespace penstock::cluster {

// What a newcomer proves itself by, and what it knows the cluster by.
struct TokenSecret {
  std::array<uint8_t, membership::limits::kSecretBytes> secret{};
  tls::Fingerprint authority{};

  friend bool operator==(const TokenSecret&, const TokenSecret&) = default;
};

struct Invitation {
  controller::Uuid cluster;
  tcp::SocketAddress controller;
  std::optional<TokenSecret> token{};  // none: of nodes that were let in before, or without TLS
};

// "TOKEN@HOST:PORT"; the token is CLUSTER.SECRET.FINGERPRINT, or CLUSTER alone, each of them 32
// hexadecimal digits.
std::string text_of(const Invitation& invitation);
// Fails with a reason for people.
Outcome<Invitation> parse_invitation(std::string_view text);

std::string text_of(const controller::Uuid& uuid);
// 32 hexadecimal digits, not all of them 0.
Result<controller::Uuid> parse_uuid(std::string_view text);
controller::Uuid random_uuid();

}  // namespace penstock::cluster
