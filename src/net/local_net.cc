#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "penstock/net.h"

namespace penstock::net {

using engine::Access;
using engine::Address;
using engine::CallOp;
using engine::IncomingCall;
using engine::Loop;
using engine::MemoryKind;
using engine::MemoryRef;
using engine::Op;
using engine::Peer;
using engine::Service;
using engine::TransferOp;

namespace internal {

// One serve() of one address.
struct Endpoint {
  Address address;
  Loop* loop = nullptr;
  // Only the loop's thread looks at it; null once withdrawn.
  Service* service = nullptr;
};

struct Switchboard {
  explicit Switchboard(NodeId node) : self(node) {}

  const NodeId self;
  engine::Mutex mutex;
  // All there ever were, so that a call on its way can hold a plain pointer; there are as many as
  // calls of serve(), which is a matter of start and stop.
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::map<Address, Endpoint*> served;
  // Counts the changes of `served`. Release under the mutex pairs with the acquire of a caller,
  // which takes the mutex when it sees a new value.
  std::atomic<uint64_t> version{0};
};

}  // namespace internal

using internal::Endpoint;

LocalNetwork::LocalNetwork(NodeId self) : board_(std::make_unique<internal::Switchboard>(self)) {
  ASSERT(self != NodeId());
}

LocalNetwork::~LocalNetwork() {
  ASSERT(board_->served.empty());
}

// Lives in CallOp::transport from call() to the end of the call.
class LocalNet::Call final : public IncomingCall {
 public:
  Call(CallOp& op, Endpoint& endpoint, Loop& home, NodeId self)
      : op_(op), endpoint_(endpoint), home_(home), self_(self) {
    method = op.method;
    request = op.request;
    exposure_count = op.exposure_count;
    arrival_.owner = this;
    arrival_.completion = [](Op& arrival) { arrival.owner_as<Call>().arrive(); };
  }

  void send() {
    if (endpoint_.loop == &home_) {
      home_.complete(arrival_, Code::ok);
    } else {
      endpoint_.loop->complete_remote(arrival_, Code::ok);
    }
  }

  bool take_back() {
    // The other loop's queue is not ours to search.
    if (endpoint_.loop != &home_ || !arrival_.linked()) return false;
    arrival_.unlink();
    return true;
  }

  Peer peer() const override { return {self_}; }

  uint64_t exposure_length(uint32_t index) const override {
    return index < exposure_count ? op_.exposures[index].memory.length : 0;
  }

  Access exposure_access(uint32_t index) const override {
    ASSERT(index < exposure_count);
    return op_.exposures[index].access;
  }

  std::optional<MemoryRef> direct(uint32_t index) override {
    if (index >= exposure_count) return std::nullopt;
    const MemoryRef& memory = op_.exposures[index].memory;
    if (memory.kind != MemoryKind::host) return std::nullopt;
    return memory;
  }

  void place(TransferOp& op) override { transfer(op, Access::place); }
  void fetch(TransferOp& op) override { transfer(op, Access::fetch); }

  void reply(Status status, Bytes response) override {
    if (response.size() > op_.response.size()) {
      status = Code::bad_message;
      response = {};
    }
    if (!response.empty()) std::memcpy(op_.response.data(), response.data(), response.size());
    op_.response_length = static_cast<uint32_t>(response.size());
    // From here on the caller may reuse the operation, and with it the memory of this object.
    if (endpoint_.loop == &home_) {
      home_.complete(op_, status);
    } else {
      home_.complete_remote(op_, status);
    }
  }

 private:
  void arrive() {
    if (endpoint_.service == nullptr) return reply(Code::peer_gone, {});
    if (op_.deadline <= endpoint_.loop->now()) return reply(Code::timed_out, {});
    endpoint_.service->on_call(*this);
  }

  Status check(const TransferOp& op, Access access) const {
    if (op.exposure >= exposure_count) return Code::invalid_argument;
    const engine::Exposure& exposure = op_.exposures[op.exposure];
    if (exposure.access != access) return Code::access_denied;
    if (!range_within(op.exposure_offset, op.local.length, exposure.memory.length)) {
      return Code::invalid_argument;
    }
    if (op.local.kind != MemoryKind::host || exposure.memory.kind != MemoryKind::host) {
      return Code::not_supported;
    }
    return Code::ok;
  }

  void transfer(TransferOp& op, Access access) {
    const Status status = check(op, access);
    if (status.ok() && op.local.length != 0) {
      std::byte* exposed = op_.exposures[op.exposure].memory.data + op.exposure_offset;
      if (access == Access::place) {
        std::memcpy(exposed, op.local.data, op.local.length);
      } else {
        std::memcpy(op.local.data, exposed, op.local.length);
      }
    }
    endpoint_.loop->complete(op, status);
  }

  CallOp& op_;
  Endpoint& endpoint_;
  Loop& home_;
  const NodeId self_;
  Op arrival_;
};

LocalNet::LocalNet(LocalNetwork& network, Loop& loop) : board_(*network.board_), loop_(loop) {}

LocalNet::~LocalNet() {
  std::lock_guard lock(board_.mutex);
  std::erase_if(board_.served, [this](auto& entry) {
    if (entry.second->loop != &loop_) return false;
    entry.second->service = nullptr;
    return true;
  });
  board_.version.fetch_add(1, std::memory_order_release);
}

Endpoint* LocalNet::find(Address address) {
  const uint64_t version = board_.version.load(std::memory_order_acquire);
  if (version != seen_version_) {
    std::lock_guard lock(board_.mutex);
    known_ = board_.served;
    seen_version_ = board_.version.load(std::memory_order_relaxed);
  }
  const auto found = known_.find(address);
  return found == known_.end() ? nullptr : found->second;
}

void LocalNet::call(CallOp& op) {
  static_assert(sizeof(Call) <= sizeof(CallOp::transport) && alignof(Call) <= 64);
  op.response_length = 0;
  if (op.request.size() > engine::kNetMessageMax || op.response.size() > engine::kNetMessageMax ||
      op.exposure_count > engine::kNetExposuresMax) {
    return loop_.complete(op, Code::invalid_argument);
  }
  Endpoint* endpoint = find(op.to);
  if (endpoint == nullptr) return loop_.complete(op, Code::peer_gone);
  // Never destroyed: there is nothing in it that would need it, and its memory is the caller's.
  (new (op.transport.data()) Call(op, *endpoint, loop_, board_.self))->send();
}

void LocalNet::cancel(CallOp& op) {
  // Ended already and waiting for its turn, or refused in call(): it stays as it was.
  if (op.linked()) return;
  auto* call = std::launder(reinterpret_cast<Call*>(op.transport.data()));
  if (call->take_back()) loop_.complete(op, Code::cancelled);
}

void LocalNet::serve(Address address, Service& service) {
  std::lock_guard lock(board_.mutex);
  ASSERT(!board_.served.contains(address));
  auto& endpoint = board_.endpoints.emplace_back(std::make_unique<Endpoint>());
  endpoint->address = address;
  endpoint->loop = &loop_;
  endpoint->service = &service;
  board_.served.emplace(address, endpoint.get());
  board_.version.fetch_add(1, std::memory_order_release);
}

void LocalNet::withdraw(Address address) {
  std::lock_guard lock(board_.mutex);
  const auto found = board_.served.find(address);
  if (found == board_.served.end() || found->second->loop != &loop_) return;
  found->second->service = nullptr;
  board_.served.erase(found);
  board_.version.fetch_add(1, std::memory_order_release);
}

}  // namespace penstock::net
