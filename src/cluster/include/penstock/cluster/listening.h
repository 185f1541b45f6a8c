// Where a node is to listen.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "penstock/controller.h"
#include "penstock/tcp.h"

namespace penstock::cluster {

// For a node that was not told: its own address on the way to the controller, and the controller's
// port, or any that is free where that one is not. HOST:PORT. Fails if there is no way there.
Outcome<std::string> choose_listen(const tcp::SocketAddress& controller);

// One of the places where a node listens: a network card of it.
struct ListenAt {
  tcp::SocketAddress address;
  uint16_t rail = 0;             // cards of one rail reach each other best
  std::optional<uint16_t> numa;  // none: the kernel is asked
};
// Of places where a node is not, but would be if it were started there: they have a rail of their
// own in the map, so that they come last (docs/decisions/0069-names-taken-over.md).
inline constexpr uint16_t kStandbyRail = UINT16_MAX;

// "HOST:PORT", then perhaps ",rail=N" and ",numa=N". Fails, with a reason for people, for anything
// else, and for an address that others cannot call.
Outcome<ListenAt> parse_listen(std::string_view text);

// As the cluster's map has it. Asks the kernel for the NUMA node of the card where it was not told;
// 0 where the kernel does not know one.
controller::CardAddress card_of(const ListenAt& at);

// Whether a socket can listen there at this moment, else why not, for people. Another process may
// take the port meanwhile.
Outcome<void> check_free(const tcp::SocketAddress& address);

}  // namespace penstock::cluster
