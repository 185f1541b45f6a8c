#include "penstock/verbs/net.h"

#include "loop_net.h"

#include "penstock/base.h"

namespace penstock::verbs {

VerbsNet::VerbsNet(std::unique_ptr<internal::LoopNet> net) : net_(std::move(net)) {}
VerbsNet::~VerbsNet() = default;

Outcome<std::unique_ptr<VerbsNet>> VerbsNet::create(const NetConfig& config, Provider& provider,
                                                    engine::Loop& loop, engine::Parker* parker) {
  auto net = std::make_unique<internal::LoopNet>(config, provider, loop, parker);
  if (const Status status = net->create(); !status.ok()) {
    return Failure{status, fmt::format("verbs: {}: the loop cannot sleep while it waits for the "
                                       "device: {}",
                                       provider.facts().name, status.name())};
  }
  return std::unique_ptr<VerbsNet>(new VerbsNet(std::move(net)));
}

void VerbsNet::close() {
  net_->close();
}
void VerbsNet::call(engine::CallOp& op) {
  op.carrier = this;
  net_->call(op);
}
void VerbsNet::cancel(engine::CallOp& op) {
  net_->cancel(op);
}
void VerbsNet::serve(engine::Address address, engine::Service& service) {
  net_->serve(address, service);
}
void VerbsNet::withdraw(engine::Address address) {
  net_->withdraw(address);
}
Result<Offer> VerbsNet::accept(engine::Peer peer, uint32_t service, const Offer& theirs) {
  return net_->accept(peer, service, theirs);
}
void VerbsNet::lose(NodeId node) {
  net_->lose(node);
}
bool VerbsNet::prepare(engine::Address address) {
  return net_->prepare(address);
}
void VerbsNet::keep_callers(const std::function<bool(const engine::Peer&)>& is_vouched_for) {
  net_->keep_callers(is_vouched_for);
}
bool VerbsNet::reaches(NodeId node) const {
  return net_->reaches(node);
}
std::vector<LinkFacts> VerbsNet::links() const {
  return net_->links();
}
bool VerbsNet::is_quiet() const {
  return net_->is_quiet();
}
void VerbsNet::announce(const Region& region) {
  net_->registrations.announce(region);
}
Status VerbsNet::take_back(MutableBytes region) {
  return net_->registrations.take_back(region);
}
NetCounts VerbsNet::counts() const {
  return net_->counts();
}
std::string VerbsNet::trouble() const {
  return net_->trouble();
}

}  // namespace penstock::verbs
