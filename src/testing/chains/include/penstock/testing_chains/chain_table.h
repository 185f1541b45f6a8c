// The controller of a simulated chain.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "penstock/testing_chains/storage_node.h"

namespace penstock::test {

// The controller of one chain: its step, and messages that take their time and may be lost.
class ChainTable {
 public:
  ChainTable(sim::SimWorld& world, std::vector<std::unique_ptr<StorageNode>>& nodes);

  // Lets all nodes in, makes the chain, and begins the loop of all that it does.
  void start();
  void stop() { stopped_ = true; }

  // Lets a node in that has no target, and returns its number: the next. It says nothing of itself.
  NodeId admit_agent();
  // Sessions of the node below that one change nothing any more, once that is in force.
  void fence(const wire::AgentSession& lowest);
  bool is_fenced(const wire::AgentSession& lowest) const {
    return controller::is_fenced(state_, lowest.node, lowest.number);
  }
  // What a client would hear, some time ago at most.
  chain::View view() const;
  bool all_serve() const;

  // Nodes that do not reach the controller.
  std::set<uint32_t> cut_off;
  uint32_t lost_permille = 0;
  // Nodes count versions as applied without telling their hosts which sessions are fenced: for
  // tests of tests.
  bool forgets_fences = false;
  // Nodes that hear late of everything, so much later than others.
  std::map<uint32_t, engine::Duration> hears_late;

 private:
  void tick();
  void beat(StorageNode& node);
  controller::Event next_word(StorageNode& node);
  controller::Event heartbeat(StorageNode& node);
  controller::Actions handle(const controller::Event& event);
  void send(const controller::Actions& actions);
  void send(uint32_t number, const std::function<void(StorageNode&)>& message);
  // All that a version of the map says to a host.
  struct Told {
    chain::View view;
    std::vector<wire::AgentSession> lowest;
  };
  Told told() const;
  void give(StorageNode& node, const controller::Grant& grant, const Told& told);
  bool hears(uint32_t number);

  sim::SimWorld& world_;
  std::vector<std::unique_ptr<StorageNode>>& nodes_;
  controller::State state_;
  bool stopped_ = false;
};

}  // namespace penstock::test
