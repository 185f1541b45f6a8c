// A cluster in miniature: a controller that is nothing but step(), nodes whose clocks differ, and
// chains of which only the number of acknowledged updates is modelled. Whatever a copy could answer
// at any moment is compared with what was acknowledged.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "penstock/controller.h"
#include "penstock/sim.h"

namespace penstock::controller {

using engine::Duration;
using engine::Time;

// The map as it was published once.
struct Published {
  MapVersion version;
  std::vector<Chain> chains;
};

// A target on its disk, and in the process that has it open.
struct ModelTarget {
  // On disk.
  Uuid uuid;
  Incarnation held;
  std::map<ChainId, uint64_t> updates;  // by chain, how many of the acknowledged ones it has

  // In the process.
  TargetId id;
  uint64_t opening = 0;
  bool open = false;  // its incarnation is kept: it is reported
  double lease_until = -1;
  std::set<ChainId> active;  // has heard, down the chain, that all before it know this version
  std::map<ChainId, ChainVersion> failed;
};

struct ModelNode {
  Uuid uuid;
  size_t number = 0;
  double rate = 1;  // of its clock
  std::vector<ModelTarget> targets;

  bool running = false;
  Uuid process;
  bool proves_end = false;
  NodeId id;
  NodeIncarnation incarnation;
  uint64_t sequence = 0;
  uint64_t answered = 0;
  std::map<uint64_t, double> sent;  // by sequence, when, on its own clock
  MapVersion applied;
  std::map<ChainId, Chain> views;
  std::vector<ChainReport> reports;  // repeated until the version changes
};

struct ModelOptions {
  size_t nodes = 4;
  size_t targets = 1;  // of each node
  size_t chains = 6;
  uint32_t copies = 3;
  size_t late = 0;  // of the nodes, the last ones: they join after the table was made
};

class ClusterModel {
 public:
  ClusterModel(sim::SimWorld& world, const ModelOptions& options);

  // Starts all nodes, waits until all are up, and makes a table.
  void start();
  void stop() { stopped_ = true; }

  // Faults.
  void kill(size_t node);
  void run(size_t node);  // starts its process
  void power_cut();       // of all nodes; they come back one after the other
  void fail_replica(size_t node);
  void restart_controller();
  std::set<size_t> deaf;                    // hear nothing of the controller
  std::set<size_t> mute;                    // the controller hears nothing of them
  std::set<std::pair<size_t, size_t>> cut;  // do not hear one another, smaller number first
  uint32_t lost_permille = 0;               // of messages to and from the controller
  uint32_t failed_commits_permille = 0;
  void heal();

  // What a person orders is committed.
  void order(const Event& event);

  // Empty as long as all promises were kept; else what was broken first.
  const std::string& fault() const { return fault_; }
  const State& state() const { return state_; }
  const ModelNode& node(size_t number) const { return *nodes_[number]; }
  size_t nodes() const { return nodes_.size(); }
  bool is_whole() const;
  // Copies are where they are to lie, and nothing moves.
  bool is_even() const;
  uint64_t acknowledged(ChainId chain) const;
  // For people: nodes, targets and chains.
  std::string describe() const;

 private:
  // The controller.
  void tick();
  void handle(const Event& event);
  void send(const Actions& actions);
  void deliver(const Grant& grant);
  void check_step(const std::vector<Chain>& before);
  void check_chain(const Chain& before, const Chain& after);
  void check_copies(const Chain& before, const Chain& after);

  // Nodes.
  void beat(size_t node);
  void heartbeat(ModelNode& node);
  void say(const ModelNode& node, Event event);
  void on_admission(const Admission& admission);
  void on_opened(const Opened& opened);
  void on_grant(ModelNode& node, const Grant& grant, const Published& map);
  void adopt(ModelNode& node, const Chain& chain);
  std::vector<NodeId> accused(const ModelNode& node) const;
  double clock(const ModelNode& node) const;
  Sender sender(ModelNode& node) { return {node.id, node.incarnation, ++node.sequence}; }

  // Chains.
  struct Replica {
    ModelNode* node = nullptr;
    ModelTarget* target = nullptr;
    explicit operator bool() const { return node != nullptr; }
  };
  void live();
  Replica replica(const Member& member);  // null: no such incarnation runs
  bool has(const Replica& replica, const Chain& view) const;
  bool reach(const Replica& a, const Replica& b) const;
  void greet(const Chain& view);
  void repair(const Chain& view);
  void commit(const Chain& view);
  void check_reads();
  void check_reads(const ModelNode& node, const ModelTarget& target);
  void broken(const std::string& what);
  Uuid any_uuid();

  sim::SimWorld& world_;
  const ModelOptions options_;
  State state_;
  std::vector<std::unique_ptr<ModelNode>> nodes_;
  std::map<ChainId, uint64_t> acknowledged_;
  std::set<std::pair<ChainId, ChainVersion>> repaired_;  // said so by the commit point
  std::string fault_;
  bool stopped_ = false;
};

}  // namespace penstock::controller
