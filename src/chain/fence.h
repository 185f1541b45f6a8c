// Which sessions of agents may change something: what a head looks at before it gives an update its
// number (decision 0061).
#pragma once

#include <map>

#include "penstock/wire.h"

namespace penstock::chain {

// Of one target. It has seen all of the map by which the target has its lease.
class Fence {
 public:
  // False if no session is fenced by it that was not before.
  bool raise(const wire::AgentSession& lowest) {
    ASSERT(lowest.node != NodeId() && lowest.number <= wire::AgentSession::kNumberMost);
    uint64_t& known = lowest_[lowest.node];
    if (lowest.number <= known) return false;
    known = lowest.number;
    return true;
  }
  // What names no session never is.
  bool has(const wire::AgentSession& session) const {
    if (session.number == 0) return false;
    const auto found = lowest_.find(session.node);
    return found != lowest_.end() && session.number < found->second;
  }

 private:
  std::map<NodeId, uint64_t> lowest_;
};

}  // namespace penstock::chain
