// The client's side of chains: a Net whose services are chains.
//
// What a client asks of a chunk is said as ever (wire::ChunkMethod), to the address of a chain
// instead of one of a target. ChainNet finds the replica that is to do it, asks again where
// something failed, and sees to it that an update happens once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "penstock/chain/capabilities.h"
#include "penstock/chain/known_chains.h"

namespace penstock::chain {

// Node 0 is none: so no service of a node has such an address.
constexpr engine::Address address_of(ChainId chain) {
  return {NodeId{}, chain.value};
}

struct ChainNetConfig {
  engine::Loop* loop = nullptr;
  engine::Net* net = nullptr;  // to the replicas, and of calls to all other addresses
  KnownChains* chains = nullptr;
  // Of request ids: this node, and the incarnation that the controller gave its process.
  NodeId node;
  uint64_t incarnation = 0;
  std::string rack{};  // of this node; empty: of none
  // Requests that may be under way in each chain, and the number of the first: a chain remembers 64
  // of a node, which the ChainNets of its loops share out.
  uint32_t first_slot = 0;
  uint32_t slots = 1;
  // For which session of this node's agent a call changes chunks (AgentSession::word()); asked in
  // the loop when a call begins, whose tries and parts all name that one. None: it has no sessions.
  std::function<uint64_t()> session{};
  // What targets that ask for capabilities are shown. Null: there are none.
  CapabilitySource* capabilities = nullptr;
};

// Owner thread of its loop only. What the config points to outlives it; its calls have ended when
// it goes. Beside what Net says:
//
// - read, probe: from the nearest serving replica: on this node, else in its rack, else any; among
//   those that are as near from the one of which least is asked. Ends with timed_out, peer_gone or
//   not_serving when no replica has answered by the deadline.
// - write, clear, remove: always durable. Once it was sent to a replica it cannot be cancelled any
//   more. Ends with may_have_happened when the outcome is not known by the deadline, or when only
//   some chunks could be removed. Ends with stale, for good, when its session was fenced.
// - sync has nothing to do: ok.
// - end_query: `allocated_bytes` is where each chunk ends, in whole blocks.
//
// Without a deadline a call has limits::kCallTime.
class ChainNet : public engine::Net {
 public:
  static std::unique_ptr<ChainNet> make(const ChainNetConfig& config);
};

}  // namespace penstock::chain
