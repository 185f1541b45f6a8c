// Nodes of a simulated network that have the service of probes, and measure for one another.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "penstock/probe.h"
#include "penstock/sim.h"

namespace penstock::probe {

// One way to each node: the simulated network.
class SimMeasurer final : public Measurer {
 public:
  SimMeasurer(engine::Loop& loop, engine::Net& net) : loop_(loop), net_(net) {}

  void measure(MeasureOp& op) override {
    if (op_ != nullptr) return loop_.complete(op, Code::busy);
    op_ = &op;
    ++measured;
    probe_.net = &net_;
    probe_.to = {op.to, kService};
    probe_.plan = op.plan;
    probe_.owner = this;
    probe_.completion = [](engine::Op& done) { done.owner_as<SimMeasurer>().on_probed(); };
    probe(loop_, probe_);
  }

  int measured = 0;

 private:
  void on_probed() {
    MeasuredWay way;
    way.facts.transport = "simulated";
    way.figures = probe_.figures;
    if (!probe_.status.ok()) way.facts.trouble = probe_.status.name();
    if (way.figures.size() == probe_.plan.size()) {
      way.facts.latency_median_ns = static_cast<uint64_t>(way.figures[0].median.count());
      way.facts.place_bytes_per_second =
          static_cast<uint64_t>(way.figures[1].calls_per_second() * limits::kBytesMax);
      way.facts.fetch_bytes_per_second =
          static_cast<uint64_t>(way.figures[2].calls_per_second() * limits::kBytesMax);
    }
    MeasureOp& op = *std::exchange(op_, nullptr);
    op.ways.push_back(std::move(way));
    loop_.complete(op, Code::ok);
  }

  engine::Loop& loop_;
  engine::Net& net_;
  ProbeOp probe_;
  MeasureOp* op_ = nullptr;
};

struct SimPeer {
  SimPeer(sim::SimWorld& world, sim::SimNetwork& network, NodeId number)
      : node(number), loop(world, sim::LoopDriver::world_when_called), net(network, loop, number) {
    net.serve({node, kService}, service);
  }
  ~SimPeer() { net.withdraw({node, kService}); }

  NodeId node;
  sim::SimLoop loop;
  sim::SimNet net;
  SimMeasurer measurer{loop, net};
  Service service{{&loop, &measurer, [this] {
                     MachineFacts machine;
                     machine.cards = {{"sim0", std::to_string(node.value), 0, 1500, true, 0}};
                     return machine;
                   }}};
};

class SimPeers {
 public:
  explicit SimPeers(uint32_t count, uint64_t seed = 1) : world(seed), network(world) {
    // Slow, so that little is moved.
    network.faults.delay_min = std::chrono::milliseconds(1);
    network.faults.delay_max = std::chrono::milliseconds(2);
    for (uint32_t i = 1; i <= count; ++i) {
      peers.push_back(std::make_unique<SimPeer>(world, network, NodeId(i)));
    }
  }
  SimPeer& peer(uint32_t number) { return *peers.at(number - 1); }

  sim::SimWorld world;
  sim::SimNetwork network;
  std::vector<std::unique_ptr<SimPeer>> peers;
};

// An operation that knows when it has ended.
template <class Operation>
struct Awaited : Operation {
  Awaited() {
    this->completion = [](engine::Op& op) { static_cast<Awaited&>(op).is_over = true; };
  }
  bool is_over = false;
};

}  // namespace penstock::probe
