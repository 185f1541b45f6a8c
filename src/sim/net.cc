#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "penstock/sim.h"

namespace penstock::sim {

using engine::Access;
using engine::Address;
using engine::CallOp;
using engine::MemoryRef;
using engine::TransferOp;

// What travels: it may arrive late, when its caller has long given up, or twice.
struct SimNetwork::Request {
  CallId call = 0;
  NodeId from;
  Address to;
  uint16_t method = 0;
  std::vector<std::byte> bytes;
  std::vector<engine::Exposure> exposures;
  bool taken_back = false;  // cancelled on its way: it never arrives
  uint32_t deliveries = 0;
};

// A call as its caller's side knows it.
struct SimNetwork::Call {
  CallOp* op = nullptr;
  SimNet* caller = nullptr;
  std::shared_ptr<Request> request;
  bool delivered = false;
  SimWorld::EventId timeout = 0;
  SimWorld::EventId detection = 0;
};

// One delivery of a call to its service. Only the first may place bytes, and answer: transports
// take what comes again for a new connection's, on which nobody waits, and to which the caller's
// memory is closed.
class SimNetwork::Incoming final : public engine::IncomingCall {
 public:
  Incoming(SimNetwork& network, uint64_t id, SimNet& server, std::shared_ptr<const Request> from)
      : network_(network),
        id_(id),
        server_(&server),
        loop_(server.loop_),
        from_(std::move(from)),
        exposures_(from_->exposures),
        is_first_(from_->deliveries == 1) {
    method = from_->method;
    request = from_->bytes;
    exposure_count = static_cast<uint32_t>(exposures_.size());
  }

  engine::Peer peer() const override { return {from_->from}; }
  uint64_t exposure_length(uint32_t index) const override {
    return index < exposures_.size() ? exposures_[index].memory.length : 0;
  }
  Access exposure_access(uint32_t index) const override {
    ASSERT(index < exposures_.size());
    return exposures_[index].access;
  }
  std::optional<MemoryRef> direct(uint32_t) override { return std::nullopt; }
  void place(TransferOp& op) override { transfer(op, Access::place); }
  void fetch(TransferOp& op) override { transfer(op, Access::fetch); }

  void reply(Status status, Bytes response) override {
    std::vector<std::byte> copy(response.begin(), response.end());
    SimNetwork& network = network_;
    if (server_ != nullptr && is_first_) {
      network.send(server_->node_, from_->from, from_->call, "net.response",
                   [&network, call = from_->call, status, copy = std::move(copy)] {
                     respond(network, call, status, copy);
                   });
    }
    ASSERT(transfers_.empty());
    network.incoming_.erase(id_);  // this
  }

  void server_died() {
    server_ = nullptr;
    for (const auto& [op, event] : std::exchange(transfers_, {})) {
      network_.world_.cancel(event);
      loop_.complete(*op, Code::closed);
    }
  }
  const SimNet* server() const { return server_; }
  CallId call() const { return from_->call; }

 private:
  static void respond(SimNetwork& network, CallId id, Status status,
                      const std::vector<std::byte>& response) {
    Call* call = network.find(id);
    if (call == nullptr) return;
    CallOp& op = *call->op;
    if (response.size() > op.response.size()) return network.end(id, Code::bad_message);
    std::copy(response.begin(), response.end(), op.response.begin());
    op.response_length = static_cast<uint32_t>(response.size());
    network.end(id, status);
  }

  Status check(const TransferOp& op, Access access) const {
    if (op.exposure >= exposures_.size()) return Code::invalid_argument;
    const engine::Exposure& exposure = exposures_[op.exposure];
    if (exposure.access != access) return Code::access_denied;
    if (!range_within(op.exposure_offset, op.local.length, exposure.memory.length)) {
      return Code::invalid_argument;
    }
    return Code::ok;
  }

  void transfer(TransferOp& op, Access access) {
    if (const Status status = check(op, access); !status.ok()) return loop_.complete(op, status);
    SimWorld& world = network_.world_;
    static constexpr SimNetFaults kNone;
    const bool is_own = server_ != nullptr && server_->node_ == from_->from;
    const SimNetFaults& likely = is_own && network_.faults.spares_self ? kNone : network_.faults;
    const bool lost = world.chance(likely.drop_permille);
    const Duration delay =
        lost ? likely.detection : world.between(likely.delay_min, likely.delay_max);
    const SimWorld::EventId event = world.after(delay, "net.transfer", [=, this, &op] {
      std::erase_if(transfers_, [&](const auto& one) { return one.first == &op; });
      loop_.complete(op, move_bytes(op, access, lost));
    });
    transfers_.emplace_back(&op, event);
  }

  Status move_bytes(const TransferOp& op, Access access, bool lost) {
    // What is asked for goes one way, the bytes or the word that they came the other.
    const bool reachable = server_ != nullptr && network_.connected(server_->node_, from_->from) &&
                           network_.connected(from_->from, server_->node_);
    // The memory is the caller's own again once its call has ended.
    if (!reachable || network_.find(from_->call) == nullptr) return Code::peer_gone;
    if (access == Access::place && !is_first_) return Code::peer_gone;
    std::byte* exposed = exposures_[op.exposure].memory.data + op.exposure_offset;
    // Of what is lost a part may have come through.
    const uint64_t length =
        lost ? network_.world_.random().below(op.local.length + 1) : op.local.length;
    if (length != 0) {
      if (access == Access::place) {
        std::memcpy(exposed, op.local.data, length);
      } else {
        std::memcpy(op.local.data, exposed, length);
      }
    }
    return lost ? Code::peer_gone : Code::ok;
  }

  SimNetwork& network_;
  const uint64_t id_;
  SimNet* server_;  // null once its process died
  engine::Loop& loop_;
  const std::shared_ptr<const Request> from_;
  const std::vector<engine::Exposure>& exposures_;
  const bool is_first_;
  std::vector<std::pair<TransferOp*, SimWorld::EventId>> transfers_;  // under way
};

SimNetwork::SimNetwork(SimWorld& world) : world_(world) {}

SimNetwork::~SimNetwork() {
  ASSERT(served_.empty() && calls_.empty());
}

void SimNetwork::set_partitioned(NodeId a, NodeId b, bool partitioned) {
  const auto pair = std::minmax(a, b);
  if (partitioned) {
    partitioned_.insert(pair);
  } else {
    partitioned_.erase(pair);
  }
}

void SimNetwork::set_cut(NodeId from, NodeId to, bool cut) {
  if (cut) {
    cut_.emplace(from, to);
  } else {
    cut_.erase({from, to});
  }
}

bool SimNetwork::connected(NodeId from, NodeId to) const {
  return !partitioned_.contains(std::minmax(from, to)) && !cut_.contains({from, to});
}

SimNetwork::Call* SimNetwork::find(CallId id) {
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : found->second.get();
}

void SimNetwork::lose(CallId id) {
  Call* call = find(id);
  if (call == nullptr || call->detection != 0) return;
  call->detection =
      world_.after(faults.detection, "net.broken", [this, id] { end(id, Code::peer_gone); });
}

void SimNetwork::send(NodeId from, NodeId to, CallId id, std::string_view label,
                      std::function<void()> arrive) {
  ++messages_;
  static constexpr SimNetFaults kNone;
  const SimNetFaults& likely = from == to && faults.spares_self ? kNone : faults;
  if (world_.chance(likely.drop_permille)) return lose(id);
  const int copies = world_.chance(likely.duplicate_permille) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    world_.after(world_.between(likely.delay_min, likely.delay_max), label,
                 [this, from, to, id, arrive] {
                   if (connected(from, to)) {
                     arrive();
                   } else {
                     lose(id);
                   }
                 });
  }
}

void SimNetwork::deliver(const std::shared_ptr<Request>& request) {
  if (request->taken_back) return;
  ++request->deliveries;
  if (Call* const call = find(request->call)) call->delivered = true;
  const auto found = served_.find(request->to);
  if (found == served_.end()) return end(request->call, Code::peer_gone);
  const auto [server, service] = found->second;
  const uint64_t incoming_id = next_id_++;
  auto incoming = std::make_unique<Incoming>(*this, incoming_id, *server, request);
  Incoming& arrived = *incoming;
  incoming_.emplace(incoming_id, std::move(incoming));
  // The service runs in its own loop, in a turn of it.
  struct Arrival : engine::Op {
    engine::Service* service = nullptr;
    Incoming* call = nullptr;
    SimNetwork* network = nullptr;
    Address to;
  };
  auto* arrival = new Arrival;
  arrival->service = service;
  arrival->call = &arrived;
  arrival->network = this;
  arrival->to = request->to;
  arrival->completion = [](engine::Op& op) {
    const std::unique_ptr<Arrival> self(static_cast<Arrival*>(&op));
    const auto serving = self->network->served_.find(self->to);
    const bool there = serving != self->network->served_.end() &&
                       serving->second.second == self->service && self->call->server() != nullptr;
    if (there) {
      self->service->on_call(*self->call);
    } else {
      self->call->reply(Code::peer_gone, {});
    }
  };
  server->loop_.complete(*arrival, Code::ok);
}

void SimNetwork::end(CallId id, Status status) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  const std::unique_ptr<Call> call = std::move(found->second);
  calls_.erase(found);
  world_.cancel(call->timeout);
  world_.cancel(call->detection);
  world_.trace("net.end", id, static_cast<uint64_t>(status.code()));
  call->caller->loop_.complete(*call->op, status);
}

SimNet::SimNet(SimNetwork& network, engine::Loop& loop, NodeId node)
    : network_(network), loop_(loop), node_(node) {}

SimNet::~SimNet() {
  for (const auto& [id, call] : network_.calls_) ASSERT(call->caller != this);
  stop_serving();
}

void SimNet::call(CallOp& op) {
  op.response_length = 0;
  if (dead_) return loop_.complete(op, Code::closed);
  if (op.request.size() > engine::kNetMessageMax || op.response.size() > engine::kNetMessageMax ||
      op.exposure_count > engine::kNetExposuresMax) {
    return loop_.complete(op, Code::invalid_argument);
  }
  if (op.deadline <= network_.world_.now()) return loop_.complete(op, Code::timed_out);
  const SimNetwork::CallId id = network_.next_id_++;
  auto call = std::make_unique<SimNetwork::Call>();
  call->op = &op;
  call->caller = this;
  auto request = std::make_shared<SimNetwork::Request>();
  request->call = id;
  request->from = node_;
  request->to = op.to;
  request->method = op.method;
  request->bytes.assign(op.request.begin(), op.request.end());
  request->exposures.assign(op.exposures.begin(), op.exposures.begin() + op.exposure_count);
  call->request = request;
  SimNetwork& network = network_;
  if (op.deadline != engine::kNever) {
    call->timeout = network.world_.at(op.deadline, "net.timeout",
                                      [&network, id] { network.end(id, Code::timed_out); });
  }
  network.calls_.emplace(id, std::move(call));
  network.send(node_, op.to.node, id, "net.request",
               [&network, request] { network.deliver(request); });
}

void SimNet::cancel(CallOp& op) {
  const auto found = std::find_if(network_.calls_.begin(), network_.calls_.end(),
                                  [&](const auto& entry) { return entry.second->op == &op; });
  // The service that has it may act on it: then the call ends as it does without this.
  if (found == network_.calls_.end() || found->second->delivered) return;
  found->second->request->taken_back = true;
  network_.end(found->first, Code::cancelled);
}

void SimNet::serve(Address address, engine::Service& service) {
  ASSERT(address.node == node_);
  const bool added = network_.served_.emplace(address, std::pair(this, &service)).second;
  ASSERT(added);
}

void SimNet::withdraw(Address address) {
  const auto found = network_.served_.find(address);
  if (found != network_.served_.end() && found->second.first == this) network_.served_.erase(found);
}

void SimNet::stop_serving() {
  std::erase_if(network_.served_, [this](const auto& entry) { return entry.second.first == this; });
  for (auto& [id, incoming] : network_.incoming_) {
    if (incoming->server() != this) continue;
    incoming->server_died();
    network_.lose(incoming->call());
  }
}

void SimNet::kill() {
  dead_ = true;
  stop_serving();
  std::vector<SimNetwork::CallId> mine;
  for (const auto& [id, call] : network_.calls_) {
    if (call->caller == this) mine.push_back(id);
  }
  for (const SimNetwork::CallId id : mine) network_.end(id, Code::closed);
}

}  // namespace penstock::sim
