#include "penstock/rails/rail_net.h"

#include "board.h"
#include "rail.h"

#include <algorithm>
#include <map>
#include <thread>
#include <unistd.h>

namespace penstock::rails {

using engine::Address;
using engine::CallOp;
using internal::Method;
using internal::Rail;
using internal::Wanted;

namespace {

// Of the processor that this thread runs on.
int own_numa_node() {
  unsigned processor = 0;
  unsigned node = 0;
  return ::getcpu(&processor, &node) == 0 ? static_cast<int>(node) : -1;
}

}  // namespace

class RailNet::Impl final : public verbs::Introducer, public internal::Host {
 public:
  Impl(const RailConfig& config, engine::Loop& loop, engine::Parker* parker);
  ~Impl() { ASSERT(closed_ && asks_ == 0 && watches_.empty()); }

  void close();
  engine::Net& net_for(const Address& address);
  bool prepare(const Address& address);
  void serve(Address address, engine::Service& service);
  void withdraw(Address address);
  void lose(NodeId node);
  void announce(const verbs::Region& region);
  void take_back(MutableBytes region);
  std::vector<RailFacts> facts() const;
  std::string trouble() const { return rails_.empty() ? "" : rails_.front()->trouble(); }
  void look();

  const RailConfig config;
  engine::Loop& loop;

 private:
  // A queue pair is asked for; frees itself.
  struct Ask : CallOp {
    verbs::Introduction* introduction = nullptr;
    internal::WantedBytes wanted{};
    std::array<std::byte, engine::kNetMessageMax> answer{};
  };
  // That the other side is there, and still who it was.
  struct Watch : CallOp {
    NodeId node;
  };

  void introduce(verbs::Introduction& introduction) override;
  void came_to_nothing(Address address) override;
  Result<verbs::Offer> accept(engine::Peer peer, const Wanted& wanted,
                              std::string& trouble) override;
  void on_answer(const Ask& ask);
  static Status read_answer(const Ask& ask);
  void watch(NodeId node);
  void on_watch_end(Watch& watch);
  bool reaches(NodeId node) const;
  std::vector<NodeId> unwatched() const;
  void find_devices();
  verbs::VerbsNet* open(Rail& rail);
  verbs::VerbsNet* verbs_for(const Address& address);
  Rail* rail_towards(const std::array<std::byte, 16>& gid);

  const internal::RailParts parts_;
  const std::shared_ptr<internal::Inbox> inbox_ = std::make_shared<internal::Inbox>();
  bool found_ = false;                        // which devices there are
  std::vector<std::unique_ptr<Rail>> rails_;  // the best for this loop first
  std::map<NodeId, size_t> chosen_;           // which one calls to a node go by; none: the first
  std::map<NodeId, engine::Time> refused_until_;
  std::map<uint32_t, engine::Service*> services_;
  std::map<std::byte*, verbs::Region> regions_;  // announced
  uint32_t asks_ = 0;
  std::map<NodeId, std::unique_ptr<Watch>> watches_;
  engine::Timer timer_;
  bool closed_ = false;
};

RailNet::Impl::Impl(const RailConfig& wanted, engine::Loop& owner, engine::Parker* parker)
    : config(wanted),
      loop(owner),
      parts_{owner,
             parker,
             wanted.devices,
             {.self = wanted.self, .otherwise = wanted.tcp, .patience = wanted.patience}} {
  ASSERT(config.tcp != nullptr && config.introductions != nullptr);
  inbox_->loop = &loop;
  inbox_->host = this;
  timer_.owner = this;
  timer_.completion = [](engine::Op& op) { op.owner_as<Impl>().look(); };
  if (config.devices != nullptr) loop.start(timer_, loop.now() + limits::kLookEvery);
}

void RailNet::Impl::close() {
  if (closed_) return;
  while (!services_.empty()) withdraw({config.self, services_.begin()->first});
  closed_ = true;
  inbox_->host = nullptr;
  if (config.devices != nullptr) (void)loop.cancel(timer_);
  for (const auto& rail : rails_) rail->close();
  while (asks_ > 0 || !watches_.empty()) {
    if (!loop.poll()) std::this_thread::yield();
  }
}

// In the loop's thread, which may be bound to a NUMA node.
void RailNet::Impl::find_devices() {
  if (std::exchange(found_, true)) return;
  std::vector<Device> devices = config.devices->all();
  const auto others = std::ranges::stable_partition(
      devices, [own = own_numa_node()](const Device& one) { return one.numa_node == own; });
  const auto near = static_cast<size_t>(others.begin() - devices.begin());
  const auto turn = [&](auto begin, size_t count) {
    if (count > 1)
      std::rotate(begin, begin + static_cast<ptrdiff_t>(config.loop_index % count),
                  begin + static_cast<ptrdiff_t>(count));
  };
  turn(devices.begin(), near);
  turn(others.begin(), devices.size() - near);
  for (Device& device : devices) {
    rails_.push_back(std::make_unique<Rail>(parts_, std::move(device), *this));
  }
}

verbs::VerbsNet* RailNet::Impl::open(Rail& rail) {
  bool is_new = false;
  verbs::VerbsNet* const net = rail.open(&is_new);
  if (!is_new) return net;
  for (const auto& [number, service] : services_) net->serve({config.self, number}, *service);
  for (const auto& [address, region] : regions_) net->announce(region);
  return net;
}

engine::Net& RailNet::Impl::net_for(const Address& address) {
  if (verbs::VerbsNet* const net = verbs_for(address)) return *net;
  return *config.tcp;
}

bool RailNet::Impl::prepare(const Address& address) {
  verbs::VerbsNet* const net = verbs_for(address);
  return net != nullptr && net->prepare(address);
}

// Null: by TCP.
verbs::VerbsNet* RailNet::Impl::verbs_for(const Address& address) {
  const bool may_go = config.devices != nullptr && !closed_ && address.node != config.self &&
                      config.may_go(address.service);
  if (!may_go) return nullptr;
  find_devices();
  const auto chosen = chosen_.find(address.node);
  const size_t first = chosen == chosen_.end() ? 0 : chosen->second;
  for (size_t i = 0; i < rails_.size(); ++i) {
    verbs::VerbsNet* const net = open(*rails_[(first + i) % rails_.size()]);
    if (net != nullptr) return net;
  }
  return nullptr;
}

void RailNet::Impl::serve(Address address, engine::Service& service) {
  const bool added = services_.emplace(address.service, &service).second;
  ASSERT(added && !closed_);
  config.tcp->serve(address, service);
  for (const auto& rail : rails_) {
    if (rail->net() != nullptr) rail->net()->serve(address, service);
  }
  // Also without devices, so that who asks hears the reason.
  config.introductions->board().serve(address.service, inbox_);
}

void RailNet::Impl::withdraw(Address address) {
  if (services_.erase(address.service) == 0) return;
  config.introductions->board().withdraw(address.service);
  config.tcp->withdraw(address);
  for (const auto& rail : rails_) {
    if (rail->net() != nullptr) rail->net()->withdraw(address);
  }
}

void RailNet::Impl::lose(NodeId node) {
  for (const auto& rail : rails_) {
    if (rail->net() != nullptr) rail->net()->lose(node);
  }
}

void RailNet::Impl::announce(const verbs::Region& region) {
  const bool added = regions_.emplace(region.bytes.data(), region).second;
  ASSERT(added);
  for (const auto& rail : rails_) {
    if (rail->net() != nullptr) rail->net()->announce(region);
  }
}

void RailNet::Impl::take_back(MutableBytes region) {
  const bool was_there = regions_.erase(region.data()) > 0;
  ASSERT(was_there);
  for (const auto& rail : rails_) {
    if (rail->net() == nullptr) continue;
    // In use: its owner would unmap what a card still writes to.
    const Status status = rail->net()->take_back(region);
    ASSERT(status.ok());
  }
}

void RailNet::Impl::introduce(verbs::Introduction& introduction) {
  auto* const ask = new Ask;
  ask->introduction = &introduction;
  ask->wanted = internal::encode({introduction.to.service, introduction.ours});
  ask->to = {introduction.to.node, kIntroductionService};
  ask->method = static_cast<uint16_t>(Method::introduce);
  ask->request = ask->wanted;
  ask->response = ask->answer;
  ask->deadline = loop.clock().now() + limits::kIntroduceTime;
  ask->owner = this;
  ask->completion = [](engine::Op& op) {
    const std::unique_ptr<Ask> self(&static_cast<Ask&>(op));
    self->owner_as<Impl>().on_answer(*self);
  };
  ++asks_;
  config.tcp->call(*ask);
}

Status RailNet::Impl::read_answer(const Ask& ask) {
  verbs::Introduction& introduction = *ask.introduction;
  const Bytes answer = Bytes(ask.answer).first(ask.response_length);
  if (!ask.status.ok()) {
    introduction.trouble = internal::printable(answer);
    return ask.status;
  }
  TRY_ASSIGN(introduction.theirs, verbs::decode_offer(answer));
  return Code::ok;
}

void RailNet::Impl::on_answer(const Ask& ask) {
  --asks_;
  const NodeId node = ask.to.node;
  const Status status = read_answer(ask);
  if (status.ok()) watch(node);
  loop.complete(*ask.introduction, status);
}

// Perhaps another card is better connected.
void RailNet::Impl::came_to_nothing(Address address) {
  size_t& chosen = chosen_[address.node];
  chosen = (chosen + 1) % rails_.size();
}

// Of several the one in the caller's subnet; where there is none, routers may know a way.
Rail* RailNet::Impl::rail_towards(const std::array<std::byte, 16>& gid) {
  find_devices();
  for (const auto& rail : rails_) {
    if (rails::reaches(rail->device(), gid) && open(*rail) != nullptr) return rail.get();
  }
  for (const auto& rail : rails_) {
    if (open(*rail) != nullptr) return rail.get();
  }
  return nullptr;
}

Result<verbs::Offer> RailNet::Impl::accept(engine::Peer peer, const Wanted& wanted,
                                           std::string& trouble) {
  if (config.devices == nullptr) {
    trouble = config.without;
    return Code::not_supported;
  }
  Rail* const rail = rail_towards(wanted.offer.endpoint.gid);
  if (rail == nullptr) {
    trouble = rails_.empty() ? "it has no RDMA device" : rails_.front()->trouble();
    return Code::not_supported;
  }
  const engine::Time now = loop.now();
  std::erase_if(refused_until_, [&](const auto& one) { return one.second <= now; });
  if (refused_until_.contains(peer.node)) {
    trouble = "no queue pair could be joined to one of it a moment ago";
    return Code::busy;
  }
  const engine::Time begun = loop.clock().now();
  auto offer = rail->net()->accept(peer, wanted.service, wanted.offer);
  if (!offer) {
    trouble = "no queue pair could be made there: " + std::string(offer.error().name());
    const bool kept_us = loop.clock().now() - begun > limits::kJoinTime;
    if (kept_us) refused_until_[peer.node] = now + limits::kRefuseTime;
  }
  return offer;
}

void RailNet::Impl::watch(NodeId node) {
  if (closed_ || watches_.contains(node)) return;
  auto& watch = *watches_.emplace(node, std::make_unique<Watch>()).first->second;
  watch.node = node;
  watch.to = {node, kIntroductionService};
  watch.method = static_cast<uint16_t>(Method::watch);
  watch.deadline = loop.clock().now() + limits::kWatchMax;
  watch.owner = this;
  watch.completion = [](engine::Op& op) {
    op.owner_as<Impl>().on_watch_end(static_cast<Watch&>(op));
  };
  config.tcp->call(watch);
}

void RailNet::Impl::on_watch_end(Watch& watch) {
  const NodeId node = watch.node;
  const Status status = watch.status;
  watches_.erase(node);
  // Too many watch there: this one is tried again at the next look, and others vouch meanwhile.
  if (status == Code::busy) return;
  if (!status.ok()) return lose(node);
  if (reaches(node)) this->watch(node);
}

bool RailNet::Impl::reaches(NodeId node) const {
  return std::ranges::any_of(rails_, [&](const auto& rail) {
    return rail->net() != nullptr && rail->net()->reaches(node);
  });
}

// Nodes that are called by RDMA, of which no watch is under way.
std::vector<NodeId> RailNet::Impl::unwatched() const {
  std::vector<NodeId> nodes;
  for (const auto& rail : rails_) {
    if (rail->net() == nullptr) continue;
    for (const verbs::LinkFacts& link : rail->net()->links()) {
      if (link.joined && !watches_.contains(link.address.node)) nodes.push_back(link.address.node);
    }
  }
  return nodes;
}

void RailNet::Impl::look() {
  const engine::Time now = loop.clock().now();
  for (const auto& rail : rails_) {
    rail->look();
    if (rail->net() == nullptr) continue;
    rail->net()->keep_callers([&](const engine::Peer& peer) {
      return config.introductions->board().vouches_for(peer, now);
    });
  }
  for (const NodeId node : unwatched()) watch(node);
  loop.start(timer_, loop.now() + limits::kLookEvery);
}

std::vector<RailFacts> RailNet::Impl::facts() const {
  std::map<Address, RailFacts> facts;
  for (const auto& rail : rails_) {
    if (rail->net() == nullptr) continue;
    for (const verbs::LinkFacts& link : rail->net()->links()) {
      RailFacts& one = facts[link.address];
      one.address = link.address;
      if (link.joined) one.device = rail->device().name;
      if (!link.joined && one.reason.empty()) one.reason = link.trouble;
    }
  }
  std::vector<RailFacts> list;
  for (auto& [address, one] : facts) {
    if (!one.device.empty()) one.reason.clear();
    list.push_back(std::move(one));
  }
  return list;
}

RailNet::RailNet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RailNet::~RailNet() {
  close();
}

std::unique_ptr<RailNet> RailNet::make(const RailConfig& config, engine::Loop& loop,
                                       engine::Parker* parker) {
  return std::unique_ptr<RailNet>(new RailNet(std::make_unique<Impl>(config, loop, parker)));
}

void RailNet::close() {
  impl_->close();
}
void RailNet::call(CallOp& op) {
  engine::Net& net = impl_->net_for(op.to);
  op.carrier = &net;
  net.call(op);
}
void RailNet::cancel(CallOp& op) {
  ASSERT(op.carrier != nullptr);
  op.carrier->cancel(op);
}
void RailNet::serve(Address address, engine::Service& service) {
  impl_->serve(address, service);
}
void RailNet::withdraw(Address address) {
  impl_->withdraw(address);
}
void RailNet::lose(NodeId node) {
  impl_->lose(node);
}
void RailNet::announce(const verbs::Region& region) {
  impl_->announce(region);
}
void RailNet::take_back(MutableBytes region) {
  impl_->take_back(region);
}
bool RailNet::prepare(Address address) {
  return impl_->prepare(address);
}
std::string RailNet::trouble() const {
  return impl_->trouble();
}
std::vector<RailFacts> RailNet::facts() const {
  return impl_->facts();
}

}  // namespace penstock::rails
