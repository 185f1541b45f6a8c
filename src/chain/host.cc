#include "replica.h"

namespace penstock::chain {
namespace {

class HostImpl final : public Host, private engine::Service {
 public:
  explicit HostImpl(HostConfig config) : shared_(std::move(config)) {
    ASSERT(shared_.config.loop != nullptr && shared_.config.net != nullptr &&
           shared_.config.store != nullptr && shared_.config.incarnation != 0);
  }

  void adopt(const View& view) override {
    std::unique_ptr<Replica>& replica = replicas_[view.chain];
    if (replica == nullptr) replica = std::make_unique<Replica>(shared_, view.chain);
    replica->adopt(view);
  }

  void lease(engine::Time until) override {
    shared_.lease_until = std::max(shared_.lease_until, until);
  }

  engine::Service& service() override { return *this; }

  Status status() const override {
    Status status;
    for (const auto& [chain, replica] : replicas_) {
      status.pending += replica->pending();
      status.waiting += replica->waiting();
    }
    return status;
  }

 private:
  void on_call(engine::IncomingCall& call) override {
    if (call.request.size() < sizeof(wire::ChainHeader)) return call.reply(Code::bad_message, {});
    wire::ChainHeader header;
    std::memcpy(&header, call.request.data(), sizeof header);
    const auto found = replicas_.find(header.chain_id());
    if (found == replicas_.end()) {
      return call.reply(Code::moved, wire::as_wire(wire::ChainMovedResponse{}));
    }
    found->second->on_call(call);
  }

  Shared shared_;
  std::map<ChainId, std::unique_ptr<Replica>> replicas_;
};

}  // namespace

std::unique_ptr<Host> Host::make(HostConfig config) {
  return std::make_unique<HostImpl>(std::move(config));
}

}  // namespace penstock::chain
