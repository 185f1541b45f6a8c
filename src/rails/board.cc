#include "board.h"

#include <mutex>

#include "penstock/rails/introductions.h"

namespace penstock::rails::internal {

// On its way to the loop that serves what is wanted, and back.
struct Board::Ask : engine::Op {
  Board* board = nullptr;
  engine::IncomingCall* call = nullptr;
  std::shared_ptr<Inbox> inbox;
  Wanted wanted;
  engine::Peer peer;
  Result<verbs::Offer> answer = Code::peer_gone;
  std::string trouble;
  bool is_back = false;
};

Board::Board(engine::Loop& loop) : loop_(loop) {
  timer_.owner = this;
  timer_.completion = [](engine::Op& op) { op.owner_as<Board>().look(); };
}

Board::~Board() {
  ASSERT(watches_.empty() && asks_ == 0 && served_.empty() && !timer_runs_);
}

void Board::serve(uint32_t service, std::shared_ptr<Inbox> inbox) {
  const std::lock_guard lock(mutex_);
  const bool added = served_.emplace(service, std::move(inbox)).second;
  ASSERT(added);
}

void Board::withdraw(uint32_t service) {
  const std::lock_guard lock(mutex_);
  served_.erase(service);
}

bool Board::vouches_for(const engine::Peer& peer, engine::Time now) const {
  const std::lock_guard lock(mutex_);
  const auto found = seen_.find(peer);
  return found != seen_.end() && now - found->second < limits::kUnwatchedMax;
}

void Board::on_call(engine::IncomingCall& call) {
  if (stopped_) return call.reply(Code::closed, {});
  switch (static_cast<Method>(call.method)) {
    case Method::introduce:
      return introduce(call);
    case Method::watch:
      return watch(call);
  }
  call.reply(Code::not_supported, {});
}

void Board::introduce(engine::IncomingCall& call) {
  const Result<Wanted> wanted = decode_wanted(call.request);
  if (!wanted) return call.reply(wanted.error(), {});
  if (asks_ >= limits::kAsksMax) return call.reply(Code::busy, {});
  auto ask = std::make_unique<Ask>();
  {
    const std::lock_guard lock(mutex_);
    const auto found = served_.find(wanted->service);
    if (found != served_.end()) ask->inbox = found->second;
    seen_[call.peer()] = loop_.clock().now();
  }
  look_later();
  if (ask->inbox == nullptr) return call.reply(Code::peer_gone, {});
  ask->board = this;
  ask->call = &call;
  ask->wanted = *wanted;
  ask->peer = call.peer();
  ask->completion = [](engine::Op& op) {
    auto& self = static_cast<Ask&>(op);
    if (std::exchange(self.is_back, true)) return self.board->finish(self);
    Host* const host = self.inbox->host;
    if (host != nullptr) self.answer = host->accept(self.peer, self.wanted, self.trouble);
    self.board->loop_.complete_remote(self, Code::ok);
  };
  ++asks_;
  engine::Loop& its = *ask->inbox->loop;
  its.complete_remote(*ask.release(), Code::ok);
}

void Board::finish(Ask& done) {
  const std::unique_ptr<Ask> ask(&done);
  --asks_;
  if (ask->answer) {
    ask->call->reply(Code::ok, verbs::encode_offer(*ask->answer));
  } else {
    const Bytes words = std::as_bytes(std::span(ask->trouble));
    ask->call->reply(ask->answer.error(),
                     words.first(std::min<size_t>(words.size(), limits::kReasonBytesMax)));
  }
  stop_if_done();
}

void Board::watch(engine::IncomingCall& call) {
  const NodeId node = call.peer().node;
  const engine::Time now = loop_.clock().now();
  {
    const std::lock_guard lock(mutex_);
    seen_[call.peer()] = now;
  }
  look_later();
  uint32_t& its = watches_of_[node];
  if (its >= limits::kWatchesOfNode || watches_.size() >= limits::kWatchesMax) {
    return call.reply(Code::busy, {});
  }
  ++its;
  watches_.push_back({&call, node, now + limits::kWatchTime});
}

void Board::look_later() {
  if (!std::exchange(timer_runs_, true)) loop_.start(timer_, loop_.now() + limits::kLookEvery);
}

void Board::look() {
  const engine::Time now = loop_.clock().now();
  while (!watches_.empty() && watches_.front().until <= now) {
    const Watch& watch = watches_.front();
    if (--watches_of_[watch.node] == 0) watches_of_.erase(watch.node);
    watch.call->reply(Code::ok, {});
    watches_.pop_front();
  }
  timer_runs_ = false;
  const std::lock_guard lock(mutex_);
  std::erase_if(seen_, [&](const auto& one) { return now - one.second >= limits::kUnwatchedMax; });
  // Whoever watches was seen.
  if (!seen_.empty()) look_later();
}

void Board::stop(engine::Op& done) {
  ASSERT(!stopped_);
  stopped_ = true;
  done_ = &done;
  if (std::exchange(timer_runs_, false)) (void)loop_.cancel(timer_);
  for (const Watch& watch : watches_) watch.call->reply(Code::closed, {});
  watches_.clear();
  stop_if_done();
}

void Board::stop_if_done() {
  if (done_ == nullptr || asks_ > 0) return;
  loop_.complete(*std::exchange(done_, nullptr), Code::ok);
}

}  // namespace penstock::rails::internal

namespace penstock::rails {

Introductions::Introductions(engine::Loop& loop)
    : board_(std::make_unique<internal::Board>(loop)) {}
Introductions::~Introductions() = default;

engine::Service& Introductions::service() {
  return *board_;
}
void Introductions::stop(engine::Op& done) {
  board_->stop(done);
}

}  // namespace penstock::rails
