// One version of a chain, as the controller's table has it.
#pragma once

#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/wire.h"

namespace penstock::chain {

enum class Standing : uint8_t {
  serving,
  syncing,       // at most one: follows new updates while it is repaired
  waiting,       // up, with data that may be old
  last_serving,  // served in the last version in which any did
  offline,
};

struct Member {
  TargetId target;
  uint64_t incarnation = 0;  // of the target: of this opening
  engine::Address address;
  Standing standing = Standing::offline;
  std::string rack{};  // of its node; empty: of none
  // In which messages are said to it: the highest that it and this node speak. A version of a chain
  // holds for processes that do not change theirs (decision 0055).
  uint16_t protocol = wire::kNodeVersionLeast;
};

// Serving members come first, the head at the front; then the syncing one, then all others.
struct View {
  ChainId chain;
  uint64_t version = 0;
  std::vector<Member> members;

  size_t serving() const {
    size_t count = 0;
    while (count < members.size() && members[count].standing == Standing::serving) ++count;
    return count;
  }
  const Member* syncing() const {
    const size_t at = serving();
    const bool there = at < members.size() && members[at].standing == Standing::syncing;
    return there ? &members[at] : nullptr;
  }
};

}  // namespace penstock::chain
