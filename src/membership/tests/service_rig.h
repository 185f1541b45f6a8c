// A controller at its node, over simulated nets and records, and who asks it.
#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>

#include "penstock/membership.h"
#include "penstock/sim.h"

namespace penstock::membership {

inline constexpr controller::Uuid kCluster{{7}};
inline constexpr engine::Address kController{NodeId{1}, wire::kControllerService};
inline constexpr NodeId kGuest{9999};
inline constexpr size_t kCallsMax = 100;

// A call with bytes of a test's own.
struct RawCall : engine::CallOp {
  wire::MembershipRequest words;
  wire::MembershipResponse answered;
  std::string asked;
  std::string memory;
  bool ended = false;

  RawCall(std::string bytes, size_t room) : asked(std::move(bytes)), memory(room, '\0') {
    words.length = static_cast<uint32_t>(asked.size());
    to = kController;
    method = static_cast<uint16_t>(wire::MembershipMethod::ask);
    request = std::as_bytes(std::span(&words, 1));
    response = std::as_writable_bytes(std::span(&answered, 1));
    exposures[0] = {{reinterpret_cast<std::byte*>(asked.data()), asked.size()},
                    engine::Access::fetch};
    exposures[1] = {{reinterpret_cast<std::byte*>(memory.data()), memory.size()},
                    engine::Access::place};
    exposure_count = 2;
    completion = [](engine::Op& op) { static_cast<RawCall&>(op).ended = true; };
  }
};

// A controller at its node, and who asks it.
class ServiceTest : public testing::Test {
 protected:
  ServiceTest() { service_ = make(loop_, net_, *kv_, 1); }
  ~ServiceTest() override {
    if (service_ != nullptr) stop(*service_, loop_);
    service_ = nullptr;
    world_.run_for(std::chrono::seconds(4));
  }

  std::unique_ptr<ControllerService> make(sim::SimLoop& loop, sim::SimNet& net, sim::SimKv& kv,
                                          uint8_t process, NodeId node = NodeId{1}) {
    auto service = ControllerService::make({.loop = &loop,
                                            .net = &net,
                                            .node = node,
                                            .keeper = {.kv = &kv,
                                                       .clock = &world_.clock(),
                                                       .process = {{process}},
                                                       .cluster = kCluster,
                                                       .timing = {}},
                                            .calls_max = kCallsMax,
                                            .signer = signer_,
                                            .speaks = speaks_});
    service->start();
    return service;
  }
  void stop(ControllerService& service, sim::SimLoop& loop) {
    const Status status =
        engine::thread_caller().call(loop, [&](engine::Op& done) { service.stop(done); });
    EXPECT_TRUE(status.ok());
  }
  bool leads() {
    return world_.run_until([this] { return service_->status().leads; }, std::chrono::seconds(20));
  }

  struct Asked : AskOp {
    bool ended = false;
  };
  void begin(Asked& op, const Request& request, engine::Net& net, engine::Duration patience,
             const wire::Protocol& speaks = wire::kNodeProtocol) {
    op.config = {&asker_loop_, &net, kController, speaks};
    op.request = request;
    op.deadline = world_.now() + patience;
    op.completion = [](engine::Op& done) { static_cast<Asked&>(done).ended = true; };
    ask(op);
  }
  bool end(const Asked& op) {
    return world_.run_until([&] { return op.ended; }, std::chrono::seconds(60));
  }
  Result<Answer> ask_as(engine::Net& net, const Request& request,
                        engine::Duration patience = std::chrono::seconds(10)) {
    Asked op;
    begin(op, request, net, patience);
    EXPECT_TRUE(end(op));
    if (!op.status.ok()) return op.status;
    return op.answer;
  }
  Status call(engine::Net& net, RawCall& op) {
    net.call(op);
    EXPECT_TRUE(world_.run_until([&] { return op.ended; }, std::chrono::seconds(60)));
    return op.status;
  }

  controller::Join join_of(uint8_t node) {
    controller::Join join{.cluster = kCluster, .node = {{node}}, .process = {{node, 1}}};
    join.facts.name = "n" + std::to_string(node);
    return join;
  }
  // Nodes 1 and 2 join, in that order; `peer_` speaks for 2.
  void let_in() {
    for (const uint8_t node : {1, 2}) {
      const auto answer = ask_as(guest_, join_of(node));
      ASSERT_TRUE(answer.has_value());
      ASSERT_TRUE(std::holds_alternative<Admitted>(*answer));
      EXPECT_EQ(std::get<Admitted>(*answer).admission.node, NodeId{node});
    }
  }
  controller::MapVersion version() { return service_->status().version; }
  static Code code_of(const Result<Answer>& answer) {
    const auto* refused = answer ? std::get_if<controller::Refused>(&*answer) : nullptr;
    return refused == nullptr ? Code::ok : refused->code;
  }

  sim::SimWorld world_{1};
  sim::SimNetwork network_{world_};
  sim::SimKvImage records_{world_};
  std::optional<sim::SimKv> kv_{records_};
  sim::SimLoop loop_{world_, sim::LoopDriver::world_when_called};
  sim::SimLoop asker_loop_{world_, sim::LoopDriver::world_when_called};
  sim::SimNet net_{network_, loop_, NodeId{1}};
  sim::SimNet guest_{network_, asker_loop_, kGuest};
  sim::SimNet peer_{network_, asker_loop_, NodeId{2}};
  wire::Protocol speaks_ = wire::kNodeProtocol;
  Signer* signer_ = nullptr;  // of services that are made from then on
  std::unique_ptr<ControllerService> service_;
};

}  // namespace penstock::membership
