// A node that runs in this process, as the command that started it sees it.
#pragma once

#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/json.h"

namespace penstock::apps {

// What `up` and `status` print about a node, made from its status document.
struct AgentFacts {
  std::vector<std::string> lines;
  std::string invitation;  // for others to join; empty: it is of no cluster
  bool insecure = false;   // its cluster has no proofs of identity
  bool has_controller = false;
  bool has_names = true;      // else it only stores, or has the controller
  bool stands_by = false;     // and waits for its node's turn
  bool wants_copies = false;  // it has no storage of its own, and files need a table of copies
};
AgentFacts facts_of(const Json& status);

// What ends a node: an administrator, or the cluster. Thread safe.
class EndSignal {
 public:
  EndSignal();
  void raise() const;
  // Returns when it was raised, or a signal arrives on `signal_fd`.
  void wait(int signal_fd) const;

 private:
  UniqueFd ended_;  // an eventfd
};

class RunningNode {
 public:
  virtual ~RunningNode() = default;
  virtual void wait(int signal_fd) = 0;
  // Idempotent.
  virtual void stop() = 0;
  virtual AgentFacts facts() = 0;
  // It ends as another directory of its node has the names now.
  virtual bool was_taken_over() const { return false; }
};

}  // namespace penstock::apps
