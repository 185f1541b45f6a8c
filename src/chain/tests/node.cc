#include "cluster.h"

namespace penstock::chain {

void Node::start(std::function<void(const Report&)> report) {
  ASSERT(host == nullptr);
  ++incarnation_;
  loop_ = std::make_unique<sim::SimLoop>(world_, sim::LoopDriver::world_when_called);
  net_ = std::make_unique<sim::SimNet>(network_, *loop_, NodeId{number_});
  store_ = std::make_unique<store::FakeChainStore>(image_, *loop_);
  store_->fault = [this] {
    return world_.chance(store_fault_permille) ? Status(Code::io_error) : Status(Code::ok);
  };
  host = Host::make({.target = target(),
                     .incarnation = incarnation_,
                     .loop = loop_.get(),
                     .net = net_.get(),
                     .store = store_.get(),
                     .report = std::move(report)});
  net_->serve(address(), host->service());
}

void Node::die(bool power_cut) {
  world_.trace("node.dies", number_, power_cut ? 1 : 0);
  net_->kill();
  store_->die();
  if (power_cut) image_.power_cut(world_.random());
  host = nullptr;
  // Calls and timers that were under way end; nobody hears of it.
  world_.run_for(std::chrono::seconds(2));
  net_ = nullptr;
  store_ = nullptr;
}

}  // namespace penstock::chain
