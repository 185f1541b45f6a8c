// SimNet: engine::Net between simulated nodes, with delay, loss, repetition and partitions.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "penstock/sim/world.h"

namespace penstock::sim {

// Faults are off unless set. Permille are per message; a call is a request and a response, and each
// transfer is a message too.
struct SimNetFaults {
  // Each message has its own delay, so later ones overtake earlier ones.
  Duration delay_min = std::chrono::microseconds(10);
  Duration delay_max = std::chrono::microseconds(100);

  uint32_t drop_permille = 0;
  // The service sees the call twice, perhaps after its end; the first time only it places bytes,
  // and its answer comes to the caller.
  uint32_t duplicate_permille = 0;

  // What a node sends to itself comes at once and once: it is one process.
  bool spares_self = false;

  // When a message is lost, the link is found broken after this time, and the call ends with
  // peer_gone unless its deadline comes first.
  Duration detection = std::chrono::seconds(5);
};

class SimNet;

// The wires. Outlives its SimNets.
class SimNetwork {
 public:
  explicit SimNetwork(SimWorld& world);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  SimNetFaults faults;

  // While cut off, everything between the two nodes is lost, also what is on its way.
  void set_partitioned(NodeId a, NodeId b, bool partitioned);
  // The same for one direction: what goes from one to the other is lost.
  void set_cut(NodeId from, NodeId to, bool cut);
  void heal() {
    partitioned_.clear();
    cut_.clear();
  }

  bool connected(NodeId from, NodeId to) const;

  uint64_t messages() const { return messages_; }

 private:
  friend class SimNet;
  struct Request;
  struct Call;
  class Incoming;
  using CallId = uint64_t;

  void send(NodeId from, NodeId to, CallId call, std::string_view label,
            std::function<void()> arrive);
  void lose(CallId id);
  void deliver(const std::shared_ptr<Request>& request);
  void end(CallId id, Status status);
  Call* find(CallId id);

  SimWorld& world_;
  std::set<std::pair<NodeId, NodeId>> partitioned_;
  std::set<std::pair<NodeId, NodeId>> cut_;  // from, to
  std::map<engine::Address, std::pair<SimNet*, engine::Service*>> served_;
  std::map<CallId, std::unique_ptr<Call>> calls_;           // whose caller waits
  std::map<uint64_t, std::unique_ptr<Incoming>> incoming_;  // whose service has not replied
  CallId next_id_ = 1;
  uint64_t messages_ = 0;
};

// The Net of one loop of one node. A call that ended (by deadline, cancel or a broken link) leaves
// the caller's memory alone from then on; a service that still works on it finds its transfers
// failing with peer_gone and its reply ignored. direct() gives nothing, as between machines.
class SimNet final : public engine::Net {
 public:
  SimNet(SimNetwork& network, engine::Loop& loop, NodeId node);
  ~SimNet() override;  // withdraws what it serves; its own calls must have ended

  void call(engine::CallOp& op) override;
  void cancel(engine::CallOp& op) override;
  void serve(engine::Address address, engine::Service& service) override;
  void withdraw(engine::Address address) override;

  // The node's process dies: its calls end with closed, what it was asked to do is never answered.
  void kill();

 private:
  friend class SimNetwork;
  void stop_serving();

  SimNetwork& network_;
  engine::Loop& loop_;
  const NodeId node_;
  bool dead_ = false;
};

}  // namespace penstock::sim
