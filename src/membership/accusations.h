// Whom a node accuses of not answering its neighbours.
#pragma once

#include <map>
#include <vector>

#include "penstock/membership/limits.h"

namespace penstock::membership {

class Accusations {
 public:
  // A replica of this process did not reach one of the node.
  void add(NodeId node, engine::Time now);
  // Those that were not reached again and again for a while, also just now. Forgets who was.
  std::vector<NodeId> accused(engine::Time now);

 private:
  struct Unreached {
    engine::Time first{};
    engine::Time last{};
  };
  std::map<NodeId, Unreached> unreached_;
};

}  // namespace penstock::membership
