// The versions of the session protocol, and how two sides agree on one: containers bring libraries
// of other releases than the node's.
//
// Hello, Welcome and the reply that refuses a hello keep their fields in every version, so that any
// two sides understand each other so far.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/base.h"

namespace penstock::wire {

// What one side speaks: all versions from `lowest` to `highest`, and bits of features that came
// within a version. A side ignores the bits that it does not know, and uses a feature only where
// both have its bit.
struct Protocol {
  uint32_t lowest = 0;
  uint32_t highest = 0;
  uint64_t features = 0;

  friend bool operator==(const Protocol&, const Protocol&) = default;
};
// An agent has it whose node's network cards may reach GPU memory.
inline constexpr uint64_t kFeatureDeviceRegions = 1;

// What this release speaks.
inline constexpr uint32_t kSessionVersion = 3;
inline constexpr Protocol kProtocol{kSessionVersion, kSessionVersion, kFeatureDeviceRegions};

// What two sides speak to each other.
struct Agreement {
  uint32_t version = 0;
  uint64_t features = 0;

  friend bool operator==(const Agreement&, const Agreement&) = default;
};
// The highest version that both speak, and their common features. wrong_version: there is none.
Result<Agreement> agree(const Protocol& mine, const Protocol& theirs);
// What an agent said in a Welcome to have been agreed on: foreign input. wrong_version when it is
// nothing that `mine` speaks.
Result<Agreement> agreed(const Protocol& mine, const Agreement& said);
// Why there is none and what to do, for people.
std::string no_common_version(const Protocol& agent, const Protocol& application);

}  // namespace penstock::wire
