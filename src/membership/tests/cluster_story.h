// A simulated cluster: a controller over a Kv that outlives it, nodes with chunks, clients, and
// chains over all of them.
#pragma once

#include "sim_node.h"

#include <string>
#include <vector>

namespace penstock::membership {

inline constexpr uint32_t kChains = 3;

class ClusterStory {
 protected:
  ClusterStory(uint64_t seed, bool on_targets);

  std::string where() const { return "(seed " + std::to_string(world_.seed()) + ")"; }
  void wait(engine::Duration at_most) {
    world_.run_for(engine::Duration(world_.random().below(static_cast<uint64_t>(at_most.count()))));
  }

  // All nodes but the late one join, the controller's first, and a table of all chains is made.
  void begin();
  // The late one joins, if there is one still.
  void let_late_one_join();
  // Nothing fails any more: chains are whole, their copies lie evenly, and nothing waits, in
  // bounded time.
  void settle();
  // Of each chain all copies are the same.
  void check_copies();
  void stop();

  // The controller's, those with chunks, and clients.
  SimNode& controller() { return *nodes_.front(); }
  SimNode& any_storage() { return but_late(1 + world_.random().below(storage_)); }
  SimNode& any_node() { return but_late(world_.random().below(nodes_.size())); }

  sim::SimWorld world_;
  sim::SimNetwork network_;
  sim::SimKvImage records_;
  test::History history_;
  size_t storage_ = 0;       // nodes with chunks; they stand behind the controller
  SimNode* late_ = nullptr;  // the last of these, until it joins; or there is none
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<SimNode*> clients_;
  std::vector<std::unique_ptr<test::Registers>> registers_;  // of the clients

 private:
  struct Copy {
    UpdateName committed;
    std::string bytes;
    friend bool operator==(const Copy&, const Copy&) = default;
  };
  SimNode& but_late(size_t number) {
    SimNode& node = *nodes_[number];
    return &node == late_ ? controller() : node;
  }
  bool is_whole();
  bool is_even(const ClusterMap& map) const;
  std::map<ChunkId, Copy> copies_of(SimNode& node, ChainId chain);
  template <class Operation>
  void do_in(SimNode& node, Operation& op);

  uint32_t copies_ = 0;
};

}  // namespace penstock::membership
