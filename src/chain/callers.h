// Who may say what to a replica: whoever called, by the transport's word, and never by the
// message's.
#pragma once

#include "part.h"

#include <algorithm>

#include "penstock/engine.h"
#include "penstock/wire.h"

namespace penstock::chain {

inline bool is_of(const Member* member, NodeId node) {
  return member != nullptr && member->address.node == node;
}

// Of a call whose request has the version of `part`, or that is a client's. Clients are the nodes
// of the cluster, as long as there are no capabilities.
inline bool may_call(wire::ChainMethod method, const engine::Peer& caller, const Part& part) {
  const auto is_member = [&](std::span<const Member> members) {
    return std::any_of(members.begin(), members.end(),
                       [&](const Member& one) { return is_of(&one, caller.node); });
  };
  switch (method) {
    case wire::ChainMethod::read:
    case wire::ChainMethod::update:
    case wire::ChainMethod::probe:
    case wire::ChainMethod::chunks:
    case wire::ChainMethod::inodes:
      return caller.roles != 0;
    default:
      break;
  }
  if ((caller.roles & engine::kRoleStorage) == 0) return false;
  switch (method) {
    case wire::ChainMethod::hello:
    case wire::ChainMethod::forward:
    case wire::ChainMethod::committed:
    case wire::ChainMethod::list:
    case wire::ChainMethod::replace:
    case wire::ChainMethod::grant:
      // Who stands at another place in the version has no call for it: that is told by its part.
      return part.predecessor() == nullptr || is_of(part.predecessor(), caller.node);
    default:
      return is_member(part.view().members);
  }
}

// A client changes chunks in its own name: requests are told apart by it.
inline bool is_own(const RequestId& request, const engine::Peer& caller) {
  return request.node == caller.node.value;
}

}  // namespace penstock::chain
