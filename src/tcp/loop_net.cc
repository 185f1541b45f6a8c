#include "loop_net.h"

#include <algorithm>
#include <thread>

namespace penstock::tcp::internal {

using engine::Address;
using engine::CallOp;
using engine::Service;

LoopNet::LoopNet(Switchboard& switchboard, engine::Loop& loop, engine::Parker& parker,
                 engine::Net* local)
    : board(switchboard),
      sockets(loop, switchboard.config().patience, switchboard.kernel_tls(), switchboard.crew()),
      parker_(parker),
      local_(local) {
  inbox_->loop = &loop;
  inbox_->net = this;
  timer_.owner = this;
  timer_.completion = [](engine::Op& op) { op.owner_as<LoopNet>().look(); };
}

LoopNet::~LoopNet() {
  close();
}

Status LoopNet::create() {
  TRY(sockets.ring.create());
  TRY(parker_.watch(sockets.ring.eventfd()));
  sockets.loop.add(*this);
  sockets.loop.start(timer_, sockets.loop.now() + limits::kLookEvery);
  attached_ = true;
  return Code::ok;
}

void LoopNet::close() {
  if (closed_) return;
  closed_ = true;
  while (!services_.empty()) withdraw({self(), services_.begin()->first});
  inbox_->net = nullptr;
  if (!attached_) return;
  for (auto& [address, contact] : contacts_) {
    if (contact.current != nullptr) contact.current->stop(Code::closed);
  }
  for (const auto& ended : ending_) ended->stop(Code::closed);
  for (const auto& accepted : accepted_) accepted->stop(Code::closed);
  (void)flush();
  sockets.ring.drain();
  await(handshakes);
  (void)flush();
  reap();
  (void)sockets.loop.cancel(timer_);
  sockets.loop.remove(*this);
  parker_.forget(sockets.ring.eventfd());
  contacts_.clear();
  ASSERT(accepted_.empty() && ending_.empty());
  ASSERT(sockets.others.empty() && sockets.to_flush.empty());
}

void LoopNet::await(const uint32_t& handshakes_left) const {
  while (handshakes_left > 0) {
    if (!sockets.loop.poll()) std::this_thread::yield();
  }
}

bool LoopNet::flush() {
  bool worked = false;
  IntrusiveList<Stream> streams;
  streams.take_all(sockets.to_flush);
  while (Stream* const stream = streams.pop_front()) {
    sockets.others.push_back(*stream);
    if (!stream->flush()) {
      // No batch: those that are under way come back.
      stream->unlink();
      sockets.to_flush.push_back(*stream);
      sockets.to_flush.take_all(streams);
      return worked;
    }
    worked = true;
  }
  return worked;
}

bool LoopNet::poll() {
  bool worked = flush();
  worked |= sockets.ring.poll();
  if (any_over_) reap();
  return worked;
}

bool LoopNet::prepare_sleep() {
  // What that led to needs a turn.
  if (flush() || any_over_) return false;
  return sockets.ring.prepare_sleep();
}

void LoopNet::reap() {
  any_over_ = false;
  for (auto& [address, contact] : contacts_) {
    if (contact.current == nullptr || !contact.current->over()) continue;
    note_end(contact);
    contact.current.reset();
  }
  std::erase_if(ending_, [](const auto& ended) { return ended->over(); });
  std::erase_if(accepted_, [this](const auto& accepted) {
    if (!accepted->over()) return false;
    inbox_->connections.fetch_sub(1, std::memory_order_relaxed);
    return true;
  });
}

void LoopNet::note_end(Contact& contact) {
  const Outgoing& ended = *contact.current;
  contact.trouble = ended.trouble();
  contact.last = ended.end();
  if (ended.ready()) {
    contact.pause = {};
    return;
  }
  contact.pause =
      std::clamp<engine::Duration>(2 * contact.pause, limits::kRetryFirst, limits::kRetryMax);
  contact.not_before = sockets.loop.now() + contact.pause;
}

void LoopNet::look() {
  const engine::WallTime now = sockets.loop.clock().wall();
  for (const auto& accepted : accepted_) accepted->look(now);
  for (auto& [address, contact] : contacts_) {
    if (contact.current != nullptr) contact.current->look();
  }
  for (const auto& ended : ending_) ended->look();
  for (IntrusiveList<Stream>* const list : {&sockets.others, &sockets.to_flush}) {
    std::vector<Stream*> streams;
    for (Stream* one = list->first(); one != nullptr; one = list->next(*one)) {
      streams.push_back(one);
    }
    for (Stream* const one : streams) one->look();
  }
  if (look_) look_();
  sockets.loop.start(timer_, sockets.loop.now() + limits::kLookEvery);
}

CallerSide* LoopNet::side_to(Address address, Status& refused) {
  Contact& contact = contacts_[address];
  if (contact.current != nullptr) {
    if (contact.current->takes_calls()) return &contact.current->side();
    // An attempt that fails ends its calls. What has been a connection may be followed by another
    // at once: perhaps nobody had used it for long.
    if (!contact.current->ready()) return nullptr;
    ending_.push_back(std::move(contact.current));
  }
  if (sockets.loop.now() < contact.not_before) {
    refused = contact.last;
    return nullptr;
  }
  contact.current = std::make_unique<Outgoing>(*this, address,
                                               board.config().resolver->addresses_of(address.node));
  contact.current->start();
  return contact.current->takes_calls() ? &contact.current->side() : nullptr;
}

void LoopNet::call(CallOp& op) {
  op.response_length = 0;
  if (op.to.node == self() && local_ != nullptr) return local_->call(op);
  CallerSide::mark_refused(op);
  engine::Loop& loop = sockets.loop;
  if (closed_) return loop.complete(op, Code::closed);
  if (op.request.size() > engine::kNetMessageMax || op.response.size() > engine::kNetMessageMax ||
      op.exposure_count > engine::kNetExposuresMax) {
    return loop.complete(op, Code::invalid_argument);
  }
  for (uint32_t i = 0; i < op.exposure_count; ++i) {
    const engine::MemoryRef& memory = op.exposures[i].memory;
    if (memory.length > limits::kSpanBytesMax) return loop.complete(op, Code::invalid_argument);
    if (memory.kind != engine::MemoryKind::host) return loop.complete(op, Code::not_supported);
  }
  if (op.deadline <= loop.clock().now()) return loop.complete(op, Code::timed_out);
  Status refused = Code::peer_gone;
  CallerSide* const side = side_to(op.to, refused);
  if (side == nullptr) return loop.complete(op, refused);
  side->call(op);
}

void LoopNet::cancel(CallOp& op) {
  if (op.to.node == self() && local_ != nullptr) return local_->cancel(op);
  if (CallerSide* const side = CallerSide::side_of(op)) side->cancel(op);
}

void LoopNet::serve(Address address, Service& service) {
  ASSERT(address.node == self() && !closed_);
  const bool added = services_.emplace(address.service, &service).second;
  ASSERT(added);
  board.serve(address.service, inbox_);
  if (local_ != nullptr) local_->serve(address, service);
}

void LoopNet::withdraw(Address address) {
  if (address.node != self() || services_.erase(address.service) == 0) return;
  board.withdraw(address.service);
  if (local_ != nullptr) local_->withdraw(address);
  for (const auto& accepted : accepted_) {
    if (accepted->service() == address.service && !accepted->over()) accepted->side().withdraw();
  }
}

// Nodes' connections do not depend on how many strangers there are.
void LoopNet::make_room_for_guest() {
  uint32_t guests = 0;
  Accepted* oldest = nullptr;
  for (const auto& accepted : accepted_) {
    if (accepted->caller() != kGuest || accepted->stopped()) continue;
    ++guests;
    if (oldest == nullptr) oldest = accepted.get();
  }
  if (guests >= limits::kGuestsMax) oldest->stop(Code::busy);
}

void LoopNet::adopt(Greeted greeted) {
  // It may have been removed while this was on its way here.
  const bool is_late = is_removed(board.config(), greeted.peer.node, greeted.service);
  const auto found = services_.find(greeted.service);
  if (is_late || found == services_.end()) {
    inbox_->connections.fetch_sub(1, std::memory_order_relaxed);
    return refuse(std::move(greeted.socket), greeted.seal.get(), board.config().identity,
                  is_late ? Refusal::removed : Refusal::no_service);
  }
  if (greeted.peer.node == kGuest) make_room_for_guest();
  auto& accepted = accepted_.emplace_back(std::make_unique<Accepted>(
      *this, greeted.service, *found->second, greeted.peer, greeted.welcome, greeted.ends));
  accepted->start(std::move(greeted.socket), std::move(greeted.seal));
}

void LoopNet::expel(NodeId node) {
  for (const auto& accepted : accepted_) {
    const bool is_its = accepted->caller() == node && !accepted->over();
    if (is_its && is_removed(board.config(), node, accepted->service())) {
      accepted->stop(Code::not_permitted);
    }
  }
  for (auto& [address, contact] : contacts_) {
    if (address.node == node && contact.current != nullptr) contact.current->stop(Code::peer_gone);
  }
  for (const auto& ended : ending_) {
    if (ended->to().node == node) ended->stop(Code::peer_gone);
  }
}

std::vector<PeerFacts> LoopNet::peers() const {
  std::vector<PeerFacts> facts;
  for (const auto& [address, contact] : contacts_) {
    PeerFacts one;
    one.address = address;
    one.trouble = contact.trouble;
    if (contact.current != nullptr) {
      one.connected = contact.current->ready() && contact.current->takes_calls();
      one.incarnation = contact.current->incarnation();
      // Of an attempt that has failed in this turn, too.
      const std::string& trouble = contact.current->trouble();
      if (one.connected || !trouble.empty()) one.trouble = trouble;
    }
    facts.push_back(std::move(one));
  }
  return facts;
}

std::optional<ConnectionFacts> LoopNet::connection(Address address) const {
  const auto found = contacts_.find(address);
  const bool has_one = found != contacts_.end() && found->second.current != nullptr &&
                       found->second.current->ready();
  return has_one ? found->second.current->facts() : std::nullopt;
}

}  // namespace penstock::tcp::internal

namespace penstock::tcp {

TcpNet::TcpNet(std::unique_ptr<internal::LoopNet> net) : net_(std::move(net)) {}

Outcome<std::unique_ptr<TcpNet>> TcpNet::create(TcpNetwork& network, engine::Loop& loop,
                                                engine::Parker& parker, engine::Net* local) {
  auto net = std::make_unique<internal::LoopNet>(network.switchboard(), loop, parker, local);
  if (const Status status = net->create(); !status.ok()) {
    return Failure{status, fmt::format("tcp: io_uring for sockets: {} (detail {}); it needs Linux "
                                       "5.19 and a loop that sleeps in an io_uring, too",
                                       status.name(), status.detail())};
  }
  return std::unique_ptr<TcpNet>(new TcpNet(std::move(net)));
}

TcpNet::~TcpNet() = default;
void TcpNet::close() {
  net_->close();
}
void TcpNet::call(engine::CallOp& op) {
  net_->call(op);
}
void TcpNet::cancel(engine::CallOp& op) {
  net_->cancel(op);
}
void TcpNet::serve(engine::Address address, engine::Service& service) {
  net_->serve(address, service);
}
void TcpNet::withdraw(engine::Address address) {
  net_->withdraw(address);
}
void TcpNet::expel(NodeId node) {
  net_->expel(node);
}
std::vector<PeerFacts> TcpNet::peers() const {
  return net_->peers();
}
std::optional<ConnectionFacts> TcpNet::connection(engine::Address address) const {
  return net_->connection(address);
}
uint64_t TcpNet::system_calls() const {
  return net_->sockets.ring.enters();
}

}  // namespace penstock::tcp
