// What lies between the nodes of a simulation: messages (SimNet), and RDMA beside them where it is
// wanted (RailNet over devices on a simulated fabric). Who tells a story of nodes chooses one and
// sees no difference; partitions, losses and delays are those of `network` on both.
//
// Everything of one world belongs to one thread of the operating system.
#pragma once

#include <memory>
#include <set>

#include "penstock/rails.h"
#include "penstock/sim.h"
#include "penstock/testing_verbs.h"

namespace penstock::test {

enum class Wire : uint8_t { messages, verbs };

// The Net of one process, which has one loop.
class Plug : public engine::Net {
 public:
  // The process dies: its calls end with closed, what it was asked to do is never answered, nobody
  // is told. By a thread that may block. What it served may be destroyed then; the plug when the
  // calls have ended, some time later.
  virtual void kill() = 0;
};

// Outlives its plugs.
class Wires {
 public:
  Wires(sim::SimWorld& world, Wire wire);
  ~Wires();
  Wires(const Wires&) = delete;
  Wires& operator=(const Wires&) = delete;

  // For the process of that node which runs in `loop`.
  std::unique_ptr<Plug> plug(sim::SimLoop& loop, NodeId node);

  Wire wire() const { return wire_; }
  // The RDMA device of that node goes, or may come back: processes try that now and then.
  void set_device(NodeId node, bool there);
  // All that was cut, lost or slow is not any more; devices are there again.
  void heal();

  // Of RDMA; zeros without.
  const FabricCounts& counts() const { return fabric_.counts; }

  sim::SimNetwork network;

 private:
  class Clock;
  class Devices;
  class RailPlug;

  sim::SimWorld& world_;
  const Wire wire_;
  SimFabric fabric_;
  std::unique_ptr<Clock> clock_;
  bool closes_at_once_ = true;  // as cards do; else as soft-RoCE
  std::set<NodeId> away_;       // nodes without their device
};

}  // namespace penstock::test
