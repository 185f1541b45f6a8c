#include "remains.h"
#include "replica.h"
#include "shown.h"

#include <fmt/format.h>

namespace penstock::chain {
namespace {

// What a client waits for, also where it comes by way of a predecessor: so many bytes, and a block
// for all that it takes besides. 0: it is not of a client.
uint64_t bytes_of_client(const engine::IncomingCall& call) {
  const auto method = static_cast<wire::ChainMethod>(call.method);
  const bool is_of_client = method == wire::ChainMethod::read ||
                            method == wire::ChainMethod::update ||
                            method == wire::ChainMethod::forward;
  if (!is_of_client || wire::traffic_of_request(call.request) == wire::Traffic::repair) return 0;
  uint64_t bytes = limits::kBlockBytes;
  for (uint32_t i = 0; i < call.exposure_count; ++i) bytes += call.exposure_length(i);
  return bytes;
}

// A call that the host has, so that it is answered when the host is closed, whatever became of the
// operations that were to answer it.
class HeldCall final : public engine::IncomingCall, public ListNode {
 public:
  HeldCall(std::vector<HeldCall*>& free, RepairPace& pace) : free_(free), pace_(pace) {}

  void hold(engine::IncomingCall& call) {
    call_ = &call;
    of_client_ = bytes_of_client(call);
    if (of_client_ > 0) pace_.begin_request(of_client_);
    method = call.method;
    request = call.request;
    exposure_count = call.exposure_count;
    context = nullptr;
  }
  engine::Peer peer() const override { return call_->peer(); }
  uint64_t exposure_length(uint32_t index) const override { return call_->exposure_length(index); }
  engine::Access exposure_access(uint32_t index) const override {
    return call_->exposure_access(index);
  }
  std::optional<engine::MemoryRef> direct(uint32_t index) override { return call_->direct(index); }
  void place(engine::TransferOp& op) override {
    op.call = call_;
    call_->place(op);
  }
  void fetch(engine::TransferOp& op) override {
    op.call = call_;
    call_->fetch(op);
  }
  void reply(Status status, Bytes response) override {
    engine::IncomingCall& call = *std::exchange(call_, nullptr);
    if (of_client_ > 0) pace_.end_request(of_client_);
    unlink();
    free_.push_back(this);
    call.reply(status, response);
  }

 private:
  std::vector<HeldCall*>& free_;
  RepairPace& pace_;
  engine::IncomingCall* call_ = nullptr;
  uint64_t of_client_ = 0;  // bytes that a client waits for
};

class HostImpl final : public Host, private engine::Service {
 public:
  explicit HostImpl(HostConfig config) : shared_(std::move(config)) {
    ASSERT(shared_.config.loop != nullptr && shared_.config.net != nullptr &&
           shared_.config.store != nullptr && shared_.config.incarnation != 0);
    shared_.store().set_healer(
        [this](const store::ChainChunk& at, uint32_t block, Healing::Ended ended) {
          const auto found = replicas_.find(at.chain);
          if (found == replicas_.end()) return ended(false);
          found->second->heal(at, block, std::move(ended));
        });
  }
  ~HostImpl() override {
    if (!closing_) shared_.store().set_healer({});
    shared_.under_way->none_left = {};
    shared_.pools.close();
    replicas_.clear();
    while (!held_.empty()) held_.pop_front();
  }

  void adopt(const View& view) override {
    if (closing_) return;
    if (const auto late = late_.find(view.chain); late != late_.end()) {
      if (view.version > late->second.version) late->second = view;
      return;
    }
    // What is on its way out must not meet repair.
    late_[view.chain] = view;
    remains_.stop(view.chain, [this, chain = view.chain] {
      if (!closing_) take(late_.extract(chain).mapped());
    });
  }

  void leave(ChainId chain) override {
    if (!closing_ && !replicas_.contains(chain) && !late_.contains(chain)) remains_.clear(chain);
  }

  void fence(const wire::AgentSession& lowest) override {
    if (closing_ || !shared_.fence.raise(lowest)) return;
    shown_.fence(lowest);
    for (const auto& [chain, replica] : replicas_) replica->refuse_fenced();
  }

  void restrict(const Restricted& restricted) override {
    if (!closing_) shown_.restrict(restricted);
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
      if (replica->is_ungreeted()) ++status.ungreeted;
    }
    status.passed_bytes = shared_.pools.held();
    return status;
  }

  void close(engine::Op& done) override {
    ASSERT(!closing_);
    closing_ = true;
    shared_.store().set_healer({});
    shared_.pools.close();
    remains_.close();
    for (const auto& [chain, replica] : replicas_) replica->close();
    for (engine::Timer* const timer : std::exchange(shared_.under_way->timers, {})) {
      if (shared_.loop().cancel(*timer)) shared_.loop().complete(*timer, Code::cancelled);
    }
    // Transfers of a call end before the call does.
    const auto finish = [this, &done] {
      while (!held_.empty()) held_.first()->reply(Code::closed, {});
      shared_.loop().complete(done, Code::ok);
    };
    if (shared_.under_way->count == 0) return finish();
    shared_.under_way->none_left = finish;
  }

 private:
  void take(const View& view) {
    const auto is_this = [this](const Member& one) { return one.target == shared_.config.target; };
    const bool has_part = std::any_of(view.members.begin(), view.members.end(), is_this);
    if (has_part || replicas_.contains(view.chain)) {
      std::unique_ptr<Replica>& replica = replicas_[view.chain];
      if (replica == nullptr) replica = std::make_unique<Replica>(shared_, view.chain);
      replica->adopt(view);
      if (view.version < replica->version()) return;
    }
    if (!has_part) remains_.clear(view.chain);
  }

  void on_call(engine::IncomingCall& call) override {
    if (closing_) return call.reply(Code::closed, {});
    const ChainId chain = wire::chain_of_request(call.request);
    if (chain == ChainId{}) return call.reply(Code::bad_message, {});
    if (call.method == static_cast<uint16_t>(wire::ChainMethod::show)) return on_show(call);
    if (const penstock::Status may = may_use(call, chain); !may.ok()) return call.reply(may, {});
    const auto found = replicas_.find(chain);
    if (found == replicas_.end()) {
      return call.reply(Code::moved, wire::as_wire(wire::ChainMovedResponse{}));
    }
    found->second->on_call(hold(call));
  }

  // What a client asks for, it has shown that it may; others go by their place in the chain, and
  // whoever has the names by its role.
  penstock::Status may_use(const engine::IncomingCall& call, ChainId chain) {
    CapabilityJudge* const judge = shared_.config.judge;
    if (judge == nullptr) return Code::ok;
    uint8_t rights = wire::kMayRead;
    switch (static_cast<wire::ChainMethod>(call.method)) {
      case wire::ChainMethod::read:
      case wire::ChainMethod::probe:
      case wire::ChainMethod::chunks:
      case wire::ChainMethod::inodes:
        break;
      case wire::ChainMethod::update:
        rights = wire::kMayWrite;
        break;
      default:
        return Code::ok;
    }
    const engine::Peer peer = call.peer();
    if ((peer.roles & engine::kRoleMeta) != 0 || !judge->are_asked_for()) return Code::ok;
    const auto asker = wire::asker_of_request(call.request);
    if (!asker) return Code::bad_message;
    const penstock::Status may =
        shown_.may({peer.node, asker->session, asker->inode, chain, rights}, shared_.fence);
    if (!may.ok()) unshown_.add();
    return may;
  }

  void on_show(engine::IncomingCall& call) {
    const auto request =
        wire::decode_chain_request<wire::ChainShowRequest>(call.request, shared_.config.speaks);
    if (!request) return call.reply(request.error(), {});
    CapabilityJudge* const judge = shared_.config.judge;
    if (judge == nullptr || call.peer().roles == 0) return call.reply(Code::access_denied, {});
    const NodeId peer = call.peer().node;
    const penstock::Status taken =
        shown_.show(peer, request->capability, shared_.fence, *judge, shared_.loop().now());
    if (taken == Code::access_denied || taken == Code::stale) {
      refused_.add();
      const auto session = wire::AgentSession::of_word(request->capability.session);
      const char* const why = session.node != peer   ? "it is of another node"
                              : taken == Code::stale ? "its session is over"
                                                     : "its signature is wrong";
      log_.warning(fmt::format("{} {}", why, peer.value),
                   fmt::format("target {}: a capability that node {} shows is refused: {}",
                               shared_.config.target.value, peer.value, why));
    }
    call.reply(taken, {});
  }

  HeldCall& hold(engine::IncomingCall& call) {
    if (free_.empty()) {
      free_.push_back(calls_.emplace_back(std::make_unique<HeldCall>(free_, shared_.pace)).get());
    }
    HeldCall& held = *free_.back();
    free_.pop_back();
    held.hold(call);
    held_.push_back(held);
    return held;
  }

  Shared shared_;
  Shown shown_;
  engine::RepeatedLog log_{shared_.loop().clock()};
  metrics::Counter refused_{"chain.capabilities_refused"};
  metrics::Counter unshown_{"chain.capabilities_missing"};  // calls that had to show one first
  Remains remains_{shared_};
  std::map<ChainId, std::unique_ptr<Replica>> replicas_;
  std::map<ChainId, View> late_;  // versions that wait until nothing is on its way out
  bool closing_ = false;
  std::vector<std::unique_ptr<HeldCall>> calls_;  // all of them
  std::vector<HeldCall*> free_;
  IntrusiveList<HeldCall> held_;
};

}  // namespace

std::unique_ptr<Host> Host::make(HostConfig config) {
  return std::make_unique<HostImpl>(std::move(config));
}

}  // namespace penstock::chain
