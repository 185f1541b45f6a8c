#include "rail_plug.h"

namespace penstock::test {

using engine::Access;
using engine::IncomingCall;
using engine::TransferOp;

Outcome<std::unique_ptr<verbs::Provider>> Wires::Devices::open(const rails::Device&) {
  if (wires_.away_.contains(node_)) return Failure{Code::io_error, "the device is away"};
  auto device = std::make_unique<SimDevice>(wires_.fabric_, node_);
  device->set_closes_at_once(wires_.closes_at_once_);
  device->wake = [this] { loop_.parker().unpark(); };
  return std::unique_ptr<verbs::Provider>(std::move(device));
}

// Frees itself.
class LastingService::Held final : public IncomingCall, public ListNode {
 public:
  explicit Held(IncomingCall& call) : call_(call) {
    method = call.method;
    request = call.request;
    exposure_count = call.exposure_count;
  }
  engine::Peer peer() const override { return call_.peer(); }
  uint64_t exposure_length(uint32_t index) const override { return call_.exposure_length(index); }
  Access exposure_access(uint32_t index) const override { return call_.exposure_access(index); }
  std::optional<engine::MemoryRef> direct(uint32_t index) override { return call_.direct(index); }
  void place(TransferOp& op) override { call_.place(op); }
  void fetch(TransferOp& op) override { call_.fetch(op); }
  void reply(Status status, Bytes response) override {
    call_.reply(status, response);
    unlink();
    delete this;
  }

 private:
  IncomingCall& call_;
};

LastingService::~LastingService() {
  while (!held_.empty()) held_.front().reply(Code::closed, {});
}

void LastingService::on_call(IncomingCall& call) {
  auto* const held = new Held(call);
  held_.push_back(*held);
  service_.on_call(*held);
}

Wires::RailPlug::RailPlug(Wires& wires, sim::SimLoop& loop, NodeId node)
    : loop_(loop),
      introduction_{node, rails::kIntroductionService},
      messages_(wires.network, loop, node),
      introductions_(loop),
      devices_(wires, loop, node),
      rails_(rails::RailNet::make(
          {.self = node, .tcp = &messages_, .introductions = &introductions_, .devices = &devices_},
          loop, nullptr)) {
  messages_.serve(introduction_, introductions_.service());
}

Wires::RailPlug::~RailPlug() {
  services_.clear();
}

void Wires::RailPlug::serve(engine::Address address, engine::Service& service) {
  const auto [entry, added] = services_.emplace(address, std::make_unique<LastingService>(service));
  ASSERT(added);
  rails_->serve(address, *entry->second);
}

// As participants do, but for what they tell others.
void Wires::RailPlug::kill() {
  (void)engine::thread_caller().call(loop_, [this](engine::Op& done) {
    messages_.kill();
    rails_->close();
    introductions_.stop(done);
  });
}

}  // namespace penstock::test
