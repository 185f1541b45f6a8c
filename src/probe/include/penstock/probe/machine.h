// What this machine has for its network, as the kernel tells it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/probe/messages.h"

namespace penstock::probe {

// Where the process listens.
struct OwnAddress {
  std::string host;  // a numeric address, without a port
  uint16_t rail = 0;
};

// The card that has a numeric address; of a name that is empty where none has it.
CardFacts card_at(const std::string& host);

// With the cards of these addresses; without any of them with all cards that have one, but for
// loopback. May block for as long as the kernel takes to list them.
MachineFacts look_at_machine(const std::vector<OwnAddress>& own);

}  // namespace penstock::probe
