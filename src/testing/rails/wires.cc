#include "rail_plug.h"

namespace penstock::test {

using engine::Duration;
using engine::Time;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// From one step of the fabric to the next, at most.
constexpr auto kStepMax = microseconds(2);

// Without RDMA.
class MessagePlug final : public Plug {
 public:
  MessagePlug(sim::SimNetwork& network, sim::SimLoop& loop, NodeId node)
      : net_(network, loop, node) {}
  void call(engine::CallOp& op) override { net_.call(op); }
  void cancel(engine::CallOp& op) override { net_.cancel(op); }
  void serve(engine::Address address, engine::Service& service) override {
    net_.serve(address, service);
  }
  void withdraw(engine::Address address) override { net_.withdraw(address); }
  void kill() override { net_.kill(); }

 private:
  sim::SimNet net_;
};

}  // namespace

// Has the world do the fabric's steps, at times drawn from its seed.
class Wires::Clock final : public FabricClock {
 public:
  explicit Clock(Wires& wires) : wires_(wires), world_(wires.world_) {}
  ~Clock() override { world_.cancel(event_); }

  Time now() const override { return world_.now(); }
  std::optional<Duration> travel(NodeId, NodeId) override {
    const sim::SimNetFaults& faults = wires_.network.faults;
    if (world_.chance(faults.drop_permille)) return std::nullopt;
    return world_.between(faults.delay_min, faults.delay_max);
  }
  bool connects(NodeId from, NodeId to) const override {
    return wires_.network.connected(from, to);
  }
  void wake() override {
    if (at_ > world_.now() + kStepMax) step_at(world_.now() + world_.between({}, kStepMax));
  }

 private:
  void step_at(Time when) {
    world_.cancel(event_);
    at_ = when;
    if (when == engine::kNever) return;
    event_ = world_.at(when, "fabric.step", [this] {
      at_ = engine::kNever;
      if (wires_.fabric_.step()) return wake();
      const Time next = wires_.fabric_.next();
      if (next < at_) step_at(next);
    });
  }

  Wires& wires_;
  sim::SimWorld& world_;
  Time at_ = engine::kNever;  // of the next step
  sim::SimWorld::EventId event_ = 0;
};

Wires::Wires(sim::SimWorld& world, Wire wire)
    : network(world), world_(world), wire_(wire), fabric_(world.seed()) {
  if (wire_ == Wire::messages) return;
  clock_ = std::make_unique<Clock>(*this);
  fabric_.clock = clock_.get();
  const std::array<Duration, 3> patience{milliseconds(300), seconds(3), Duration::max()};
  fabric_.faults.give_up = patience[world_.random().below(patience.size())];
  fabric_.faults.breaks = world_.chance(500) ? 1000 : 0;
  closes_at_once_ = !world_.chance(300);
  fabric_.faults.slow_copies = !closes_at_once_;
}

Wires::~Wires() = default;

std::unique_ptr<Plug> Wires::plug(sim::SimLoop& loop, NodeId node) {
  if (wire_ == Wire::messages) return std::make_unique<MessagePlug>(network, loop, node);
  return std::make_unique<RailPlug>(*this, loop, node);
}

void Wires::set_device(NodeId node, bool there) {
  if (there) {
    away_.erase(node);
    return;
  }
  away_.insert(node);
  for (SimDevice* const device : fabric_.devices()) {
    if (device->node() == node) device->lose();
  }
}

void Wires::heal() {
  network.heal();
  network.faults = {};
  fabric_.faults.breaks = 0;
  away_.clear();
}

}  // namespace penstock::test
