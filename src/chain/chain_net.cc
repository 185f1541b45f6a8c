// Calls of clients: taken, given a slot, ended.
#include "exchange.h"

#include <new>

namespace penstock::chain {

std::unique_ptr<ChainNet> ChainNet::make(const ChainNetConfig& config) {
  return std::make_unique<ChainNetImpl>(config);
}

ChainNetImpl::ChainNetImpl(const ChainNetConfig& config) : config_(config) {
  ASSERT(config.loop != nullptr && config.net != nullptr && config.chains != nullptr);
  ASSERT(config.node != NodeId{} && config.incarnation != 0 && config.slots > 0);
}

ChainNetImpl::~ChainNetImpl() {
  ASSERT(under_way_ == 0);
}

void ChainNetImpl::serve(engine::Address address, engine::Service& service) {
  config_.net->serve(address, service);
}
void ChainNetImpl::withdraw(engine::Address address) {
  config_.net->withdraw(address);
}

void ChainNetImpl::call(engine::CallOp& op) {
  if (op.to.node != NodeId{}) return config_.net->call(op);
  op.response_length = 0;
  const Result<wire::ChunkRequest> request = wire::decode_chunk_request(op.method, op.request);
  if (!request) return config_.loop->complete(op, request.error());
  if (under_way_ >= limits::kExchangesMax) return config_.loop->complete(op, Code::busy);
  std::unique_ptr<Exchange> exchange;
  if (idle_.empty()) {
    exchange = std::make_unique<Exchange>();
  } else {
    exchange = std::move(idle_.back());
    idle_.pop_back();
  }
  ++under_way_;
  exchange->net = this;
  exchange->caller = &op;
  exchange->method = static_cast<wire::ChunkMethod>(op.method);
  exchange->wanted = *request;
  exchange->chain = ChainId{op.to.service};
  exchange->session = config_.session ? config_.session() : 0;
  // Replicas refuse what is for another node's.
  ASSERT(exchange->session == 0 ||
         wire::AgentSession::of_word(exchange->session).node == config_.node);
  const engine::Time latest = config_.loop->now() + limits::kCallTime;
  exchange->deadline = op.deadline == engine::kNever ? latest : op.deadline;
  // The exchange is the caller's operation's until that ends.
  Exchange* const begun = exchange.release();
  new (op.transport.data()) Exchange*(begun);
  begin(*begun);
}

void ChainNetImpl::begin(Exchange& exchange) {
  switch (exchange.method) {
    case wire::ChunkMethod::read:
      exchange.step = Exchange::Step::read;
      return attempt(exchange);
    case wire::ChunkMethod::probe:
      exchange.step = Exchange::Step::probe;
      return attempt(exchange);
    case wire::ChunkMethod::write:
    case wire::ChunkMethod::clear:
      return begin_update(exchange);
    case wire::ChunkMethod::remove:
    case wire::ChunkMethod::end_query:
      exchange.step = Exchange::Step::list;
      exchange.next_chunk = exchange.wanted.chunk;
      return attempt(exchange);
    case wire::ChunkMethod::inodes:
      exchange.step = Exchange::Step::inodes;
      return attempt(exchange);
    case wire::ChunkMethod::sync:
      return finish(exchange, Code::ok);
  }
}

ChainNetImpl::Chain& ChainNetImpl::chain_of(const Exchange& exchange) {
  const auto [at, is_new] = chains_.try_emplace(exchange.chain);
  Chain& chain = at->second;
  if (is_new) {
    for (uint32_t i = config_.slots; i-- > 0;) chain.free.push_back({config_.first_slot + i, 0});
  }
  return chain;
}

const View* ChainNetImpl::view_of(const Exchange& exchange) {
  Chain& chain = chain_of(exchange);
  const uint64_t changes = config_.chains->changes();
  if (chain.view == nullptr || changes != chain.seen) {
    chain.view = config_.chains->find(exchange.chain);
    chain.seen = changes;
  }
  return chain.view.get();
}

void ChainNetImpl::begin_update(Exchange& exchange) {
  Chain& chain = chain_of(exchange);
  ASSERT(!exchange.slot.has_value());
  exchange.step = Exchange::Step::update;
  if (chain.free.empty()) {
    chain.waiting.push_back(exchange);
    return wait_until(exchange, exchange.deadline);
  }
  exchange.slot = chain.free.back();
  chain.free.pop_back();
  ++exchange.slot->sequence;
  attempt(exchange);
}

void ChainNetImpl::give_slot_back(Exchange& exchange) {
  if (!exchange.slot.has_value()) return;
  Chain& chain = chain_of(exchange);
  chain.free.push_back(*exchange.slot);
  exchange.slot.reset();
  // Those that are too late are about to hear so by their timers.
  Exchange* next = chain.waiting.first();
  while (next != nullptr && next->deadline <= config_.loop->now()) next = chain.waiting.next(*next);
  if (next == nullptr) return;
  next->unlink();
  ASSERT(next->has_timer);
  config_.loop->cancel(next->timer);
  next->has_timer = false;
  begin_update(*next);
}

void ChainNetImpl::wait_until(Exchange& exchange, engine::Time when) {
  ASSERT(!exchange.has_timer && !exchange.is_out);
  exchange.has_timer = true;
  exchange.timer.owner = &exchange;
  exchange.timer.completion = [](engine::Op& due) {
    auto& self = due.owner_as<Exchange>();
    self.has_timer = false;
    self.net->waited(self);
  };
  config_.loop->start(exchange.timer, when);
}

void ChainNetImpl::waited(Exchange& exchange) {
  if (exchange.linked()) {  // no slot came
    exchange.unlink();
    exchange.last = Code::timed_out;
    return give_up(exchange);
  }
  attempt(exchange);
}

void ChainNetImpl::cancel(engine::CallOp& op) {
  if (op.to.node != NodeId{}) return config_.net->cancel(op);
  if (op.linked()) return;  // ended, or refused in call()
  Exchange& exchange = **std::launder(reinterpret_cast<Exchange**>(op.transport.data()));
  // What was sent may be done at any moment: its end is waited for.
  if (exchange.may_have_happened || exchange.has_acted || exchange.cancelled) return;
  if (exchange.is_out) {
    if (exchange.is_update()) return;
    exchange.cancelled = true;
    return config_.net->cancel(exchange.inner);
  }
  if (!exchange.has_timer) return;
  config_.loop->cancel(exchange.timer);
  exchange.has_timer = false;
  if (exchange.linked()) exchange.unlink();
  finish(exchange, Code::cancelled);
}

void ChainNetImpl::give_up(Exchange& exchange) {
  const bool perhaps = exchange.may_have_happened || exchange.has_acted;
  finish(exchange, perhaps ? Status(Code::may_have_happened) : exchange.last);
}

void ChainNetImpl::finish(Exchange& exchange, Status status, Bytes response) {
  ASSERT(!exchange.is_out && !exchange.has_timer && !exchange.linked() && under_way_ > 0);
  engine::CallOp& caller = *exchange.caller;
  if (response.size() > caller.response.size()) {
    status = Code::bad_message;
    response = {};
  }
  if (!response.empty()) std::memcpy(caller.response.data(), response.data(), response.size());
  caller.response_length = static_cast<uint32_t>(response.size());
  give_slot_back(exchange);
  exchange.tries = exchange.damaged = 0;
  exchange.is_unshown = exchange.is_showing = false;
  exchange.shows = 0;
  exchange.cancelled = exchange.has_acted = false;
  exchange.may_have_happened = exchange.may_have_before = false;
  exchange.last = {};
  exchange.entries.clear();
  exchange.next_entry = 0;
  exchange.bytes = 0;
  exchange.last_entry = {};
  --under_way_;
  idle_.push_back(std::unique_ptr<Exchange>(&exchange));
  config_.loop->complete(caller, status);
}

}  // namespace penstock::chain
