// A process that has RDMA beside its messages.
#pragma once

#include <map>

#include "penstock/testing_rails.h"

namespace penstock::test {

// The device of one node, as one process opens it.
class Wires::Devices final : public rails::Devices {
 public:
  Devices(Wires& wires, sim::SimLoop& loop, NodeId node)
      : wires_(wires), loop_(loop), node_(node) {}
  std::vector<rails::Device> all() override { return {{.name = "sim"}}; }
  Outcome<std::unique_ptr<verbs::Provider>> open(const rails::Device&) override;

 private:
  Wires& wires_;
  sim::SimLoop& loop_;
  const NodeId node_;
};

// A service as calls reach it. What it has not answered when its process dies is answered when the
// plug goes: real Nets live as long as calls of theirs do.
class LastingService final : public engine::Service {
 public:
  explicit LastingService(engine::Service& service) : service_(service) {}
  ~LastingService();
  void on_call(engine::IncomingCall& call) override;

 private:
  class Held;
  engine::Service& service_;
  IntrusiveList<Held> held_;
};

class Wires::RailPlug final : public Plug {
 public:
  RailPlug(Wires& wires, sim::SimLoop& loop, NodeId node);
  ~RailPlug() override;

  void call(engine::CallOp& op) override { rails_->call(op); }
  void cancel(engine::CallOp& op) override { rails_->cancel(op); }
  void serve(engine::Address address, engine::Service& service) override;
  void withdraw(engine::Address address) override { rails_->withdraw(address); }
  void kill() override;

 private:
  sim::SimLoop& loop_;
  const engine::Address introduction_;
  sim::SimNet messages_;
  rails::Introductions introductions_;
  Devices devices_;
  std::unique_ptr<rails::RailNet> rails_;
  std::map<engine::Address, std::unique_ptr<LastingService>> services_;
};

}  // namespace penstock::test
