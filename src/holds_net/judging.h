// What nodes that are restricted may ask of the table, and by which numbers they say it.
#pragma once

#include "limits.h"
#include "listener.h"
#include "messages.h"

#include <string>
#include <vector>

#include "penstock/holds_net/holds_service.h"

namespace penstock::holds_net {

// Owner thread of the loop.
class Judging {
 public:
  explicit Judging(const HoldsServiceConfig& config)
      : config_(config), log_(config.loop->clock()) {}

  // What is left of the words is for the table, in its numbers; what a node may not ask for it is
  // told by `listener`. How many these were.
  size_t judge(AgentId agent, Listener& listener, std::vector<Word>& words);
  // Whether what it claims counts as much as what any other claims.
  bool is_trusted(NodeId node) const {
    return !config_.is_restricted || !config_.is_restricted(node);
  }

 private:
  bool admit(AgentId agent, Listener& listener, Want& want);

  const HoldsServiceConfig& config_;
  engine::RepeatedLog log_;
  metrics::Counter denied_{"holds.denied"};  // of nodes that are restricted
};

}  // namespace penstock::holds_net
