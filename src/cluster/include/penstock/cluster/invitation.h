// What a node that joins is told: which cluster it is, and where its controller answers.
#pragma once

#include <string>
#include <string_view>

#include "penstock/controller.h"
#include "penstock/tcp.h"

namespace penstock::cluster {

struct Invitation {
  controller::Uuid cluster;
  tcp::SocketAddress controller;
};

// "TOKEN@HOST:PORT": the token is the cluster's id, 32 hexadecimal digits. It proves nothing yet.
std::string text_of(const Invitation& invitation);
// Fails with a reason for people.
Outcome<Invitation> parse_invitation(std::string_view text);

std::string text_of(const controller::Uuid& uuid);
// 32 hexadecimal digits, not all of them 0.
Result<controller::Uuid> parse_uuid(std::string_view text);
controller::Uuid random_uuid();

}  // namespace penstock::cluster
