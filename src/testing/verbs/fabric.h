// The parts of a simulated fabric.
#pragma once

#include <optional>

#include "penstock/testing_verbs.h"

namespace penstock::test {

// On its way to a queue pair. Requests go to the one that serves, with `verb` send, write or read;
// answers come back as the verb of what they answer.
struct SimFabric::Packet {
  verbs::Verb verb = verbs::Verb::send;
  uint32_t from = 0;  // queue pair
  NodeId sender;
  engine::Time arrives{};
  bool lost = false;    // and is sent again, if its queue pair lives still
  uint64_t flight = 0;  // that it belongs to
  uint64_t address = 0;
  uint32_t key = 0;
  uint64_t length = 0;  // of all that is to be read
  uint64_t done = 0;    // read: answered so far. Its data: where they belong
  bool first = true;
  bool last = true;
  Status status;  // of an answer
  std::vector<std::byte> bytes;
};

// A work request that has begun.
struct SimFabric::Flight {
  verbs::WorkRequest request;
  uint64_t number = 0;
  uint64_t emitted = 0;  // bytes
  bool all_emitted = false;
  bool done = false;
};

struct SimFabric::Pair {
  enum class State : uint8_t { made, joined, broken };
  SimDevice* owner = nullptr;
  uint32_t number = 0;
  uint32_t other = 0;
  uint32_t first_packet = 0;
  State state = State::made;
  uint64_t flights = 0;  // so far
  engine::Time since{};  // that the first of them waits for an answer
  std::deque<verbs::WorkRequest> posted;
  std::deque<Flight> flying;
  std::deque<Packet> requests;  // from the other one
  std::deque<Packet> answers;
  // A packet whose key was good, that is being copied to there.
  std::optional<Packet> copied{};
  std::byte* copied_to = nullptr;
  verbs::MemoryId copied_memory;
};

}  // namespace penstock::test
