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

  // What a client would hear, some time ago at most.
  chain::View view() const;
  bool all_serve() const;

  // Nodes that do not reach the controller.
  std::set<uint32_t> cut_off;
  uint32_t lost_permille = 0;
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
  void give(StorageNode& node, const controller::Grant& grant, const chain::View& view);
  bool hears(uint32_t number);

  sim::SimWorld& world_;
  std::vector<std::unique_ptr<StorageNode>>& nodes_;
  controller::State state_;
  bool stopped_ = false;
};

}  // namespace penstock::test
