// For which session of an agent bytes are changed, as one word of messages (decision 0061).
#pragma once

#include <compare>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::wire {

// A stretch of time in which an agent's lease never lapsed. A node's are numbered upwards, from 1.
// The default is none: of a process that has no sessions, which is never fenced.
struct AgentSession {
  NodeId node;
  uint64_t number = 0;

  // The node is in the upper 16 bits, the number in the lower 48.
  static constexpr int kNumberBits = 48;
  static constexpr uint64_t kNumberMost = (uint64_t{1} << kNumberBits) - 1;
  static constexpr uint32_t kNodeMost = UINT16_MAX;

  constexpr uint64_t word() const {
    ASSERT(node.value <= kNodeMost && number <= kNumberMost);
    ASSERT((node == NodeId()) == (number == 0));
    return uint64_t{node.value} << kNumberBits | number;
  }
  static constexpr AgentSession of_word(uint64_t word) {
    return {NodeId(static_cast<uint32_t>(word >> kNumberBits)), word & kNumberMost};
  }
  // Whether a word says something: none, or both the node and the number.
  static constexpr bool is_word(uint64_t word) {
    const AgentSession session = of_word(word);
    return (session.node == NodeId()) == (session.number == 0);
  }

  friend constexpr auto operator<=>(const AgentSession&, const AgentSession&) = default;
};
static_assert(AgentSession::of_word(AgentSession{NodeId(UINT16_MAX), 5}.word()).number == 5);
static_assert(AgentSession().word() == 0, "none");

}  // namespace penstock::wire
