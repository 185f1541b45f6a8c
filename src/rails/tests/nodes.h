// Two nodes in one loop, whose clock is the test's: with a proven way between them that can be cut,
// and with a device each on a simulated fabric.
#pragma once

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "penstock/rails.h"
#include "penstock/testing_verbs.h"

namespace penstock::rails {

inline constexpr NodeId kNear{1};
inline constexpr NodeId kFar{2};
inline constexpr engine::Address kService{kFar, 9};

class ManualClock final : public engine::Clock {
 public:
  engine::Time now() const override { return now_; }
  engine::WallTime wall() const override { return {}; }
  void advance(engine::Duration by) { now_ += by; }

 private:
  engine::Time now_{std::chrono::seconds(1)};
};

// Keeps what comes, for the test to answer.
class HoldingService final : public engine::Service {
 public:
  void on_call(engine::IncomingCall& call) override {
    callers.insert(call.peer().node);
    held.push_back(&call);
  }
  void reply_all() {
    for (engine::IncomingCall* call : std::exchange(held, {})) call->reply(Code::ok, {});
  }
  std::vector<engine::IncomingCall*> held;
  std::set<NodeId> callers;
};

// The proven way: what both nodes' calls travel on, within the loop.
class Wire {
 public:
  explicit Wire(engine::Loop& owner) : loop(owner) {}

  uint64_t calls_to(engine::Address address) const {
    const auto found = calls_.find(address);
    return found == calls_.end() ? 0 : found->second;
  }

  engine::Loop& loop;
  bool cut = false;          // calls end with peer_gone, those under way as well
  engine::Address forget{};  // calls there are never delivered, and end by their deadline

 private:
  friend class WireNet;
  std::map<engine::Address, uint64_t> calls_;
  std::map<engine::Address, engine::Service*> services_;
};

class WireNet final : public engine::Net, public engine::Poller {
 public:
  WireNet(Wire& wire, NodeId self) : wire_(wire), self_(self) { wire_.loop.add(*this); }
  ~WireNet() override { wire_.loop.remove(*this); }

  void close() {
    closed_ = true;
    end_all(Code::closed);
  }
  void call(engine::CallOp& op) override {
    op.response_length = 0;
    if (closed_ || wire_.cut) {
      return wire_.loop.complete(op, closed_ ? Code::closed : Code::peer_gone);
    }
    ++wire_.calls_[op.to];
    auto call = std::make_unique<Call>();
    call->op = &op;
    call->net = this;
    call->from = {self_};
    call->method = op.method;
    call->request = op.request;
    call->exposure_count = op.exposure_count;
    calls_.push_back(std::move(call));
  }
  // Of what was not delivered.
  void cancel(engine::CallOp& op) override {
    for (const auto& call : calls_) {
      if (call->op == &op && !call->delivered) return call->end(Code::cancelled);
    }
  }
  void serve(engine::Address address, engine::Service& service) override {
    wire_.services_[address] = &service;
  }
  void withdraw(engine::Address address) override { wire_.services_.erase(address); }

  bool poll() override {
    if (wire_.cut) end_all(Code::peer_gone);
    bool worked = false;
    for (size_t i = 0; i < calls_.size(); ++i) worked |= deliver(*calls_[i]);
    std::erase_if(calls_, [](const auto& call) { return call->op == nullptr && !call->held; });
    return worked;
  }

 private:
  struct Call final : engine::IncomingCall {
    engine::CallOp* op = nullptr;  // null once it has ended for its caller
    WireNet* net = nullptr;
    engine::Peer from;
    bool delivered = false;
    bool held = false;  // by its service

    void end(Status status) {
      if (op != nullptr) net->wire_.loop.complete(*std::exchange(op, nullptr), status);
    }
    engine::Peer peer() const override { return from; }
    uint64_t exposure_length(uint32_t index) const override {
      return op->exposures[index].memory.length;
    }
    engine::Access exposure_access(uint32_t index) const override {
      return op->exposures[index].access;
    }
    std::optional<engine::MemoryRef> direct(uint32_t) override { return std::nullopt; }
    void place(engine::TransferOp& transfer) override {
      net->wire_.loop.complete(transfer, Code::not_supported);
    }
    void fetch(engine::TransferOp& transfer) override { place(transfer); }
    void reply(Status status, Bytes response) override {
      held = false;
      if (op == nullptr) return;
      ASSERT(response.size() <= op->response.size() || !status.ok());
      const size_t length = std::min(response.size(), op->response.size());
      std::copy_n(response.begin(), length, op->response.begin());
      op->response_length = static_cast<uint32_t>(length);
      end(status);
    }
  };

  bool deliver(Call& call) {
    if (call.op == nullptr || call.delivered) return false;
    if (call.op->deadline <= wire_.loop.clock().now()) return call.end(Code::timed_out), true;
    if (call.op->to == wire_.forget) return false;
    const auto found = wire_.services_.find(call.op->to);
    if (found == wire_.services_.end()) return call.end(Code::peer_gone), true;
    call.delivered = call.held = true;
    found->second->on_call(call);
    return true;
  }
  void end_all(Status status) {
    for (const auto& call : calls_) call->end(status);
  }

  Wire& wire_;
  const NodeId self_;
  std::vector<std::unique_ptr<Call>> calls_;
  bool closed_ = false;
};

// Of one node: one device.
class OneDevice final : public Devices {
 public:
  OneDevice(test::SimFabric& fabric, test::SimDevice*& now) : fabric_(fabric), now_(now) {}
  std::vector<Device> all() override { return {{.name = "sim"}}; }
  Outcome<std::unique_ptr<verbs::Provider>> open(const Device&) override {
    auto device = std::make_unique<test::SimDevice>(fabric_);
    now_ = device.get();
    return std::unique_ptr<verbs::Provider>(std::move(device));
  }

 private:
  test::SimFabric& fabric_;
  test::SimDevice*& now_;
};

struct OneNode {
  OneNode(Wire& wire, test::SimFabric& fabric, NodeId number)
      : self(number), devices(fabric, device), loop(wire.loop) {
    tcp = std::make_unique<WireNet>(wire, number);
    introductions = std::make_unique<Introductions>(loop);
    tcp->serve({number, kIntroductionService}, introductions->service());
  }
  void start(bool (*may_go)(uint32_t)) {
    rails = RailNet::make({.self = self,
                           .tcp = tcp.get(),
                           .introductions = introductions.get(),
                           .devices = without.empty() ? &devices : nullptr,
                           .without = without,
                           .may_go = may_go},
                          loop, nullptr);
  }

  const NodeId self;
  std::string without;
  test::SimDevice* device = nullptr;  // the one that was opened last
  OneDevice devices;
  engine::Loop& loop;
  std::unique_ptr<WireNet> tcp;
  std::unique_ptr<Introductions> introductions;
  std::unique_ptr<RailNet> rails;
};

struct TwoNodes {
  ~TwoNodes() {
    for (OneNode* node : {&near, &far}) {
      node->tcp->withdraw({node->self, kIntroductionService});
      engine::Op done;
      bool stopped = false;
      done.owner = &stopped;
      done.completion = [](engine::Op& op) { op.owner_as<bool>() = true; };
      node->introductions->stop(done);
      EXPECT_TRUE(until([&] { return stopped; }));
    }
    for (OneNode* node : {&near, &far}) {
      node->tcp->close();
      node->rails->close();
    }
    pass(std::chrono::milliseconds(1));
    near.rails.reset();
    far.rails.reset();
  }
  void start() {
    near.start(may_go);
    far.start(may_go);
  }
  // A turn takes 10 µs.
  void turn() {
    clock.advance(std::chrono::microseconds(10));
    loop.poll();
  }
  bool until(const std::function<bool()>& done, int turns = 1'000'000) {
    for (; turns > 0 && !done(); --turns) turn();
    return done();
  }
  // In steps that no timer of the nodes is shorter than.
  void pass(engine::Duration time) {
    for (engine::Duration step{}; step < time; step += std::chrono::milliseconds(50)) {
      clock.advance(std::chrono::milliseconds(50));
      for (int i = 0; i < 20; ++i) turn();
    }
  }

  ManualClock clock;
  engine::SeededRandom random{1};
  engine::FutexParker parker{clock};
  engine::Loop loop{clock, random, parker};
  test::SimFabric fabric{1};
  Wire wire{loop};
  bool (*may_go)(uint32_t service) = [](uint32_t) { return true; };
  OneNode near{wire, fabric, kNear};
  OneNode far{wire, fabric, kFar};
};

}  // namespace penstock::rails
