// engine::Net between the loops of one process. Nothing is copied: the service sees the caller's
// request and may reach the exposed memory itself.
#pragma once

#include <map>
#include <memory>

#include "penstock/engine.h"

namespace penstock::net {

namespace internal {
struct Endpoint;
struct Switchboard;
}  // namespace internal

// Which loop serves which address in this process. Thread safe. Outlives its LocalNets.
class LocalNetwork {
 public:
  // `self` is the node that all loops of the process are part of: services see it as their caller.
  explicit LocalNetwork(NodeId self = NodeId{1});
  ~LocalNetwork();
  LocalNetwork(const LocalNetwork&) = delete;
  LocalNetwork& operator=(const LocalNetwork&) = delete;

 private:
  friend class LocalNet;
  std::unique_ptr<internal::Switchboard> board_;
};

// The Net of one loop; owner thread only. Calls within a loop are delivered in its next turn, calls
// to another loop through that loop's remote queue, and so are the ends of both. A call allocates
// nothing, and takes no lock while no service is added or withdrawn.
//
// As the service may touch the caller's memory for as long as the call lives, a call that was
// delivered ends only when the service replies: a deadline that passes before delivery ends the
// call with timed_out, a later one is the service's to keep. For the same reason cancel() has an
// effect only before delivery.
//
// After withdraw() new calls to the address, and those not delivered yet, end with peer_gone; the
// service must live until it has replied to what was delivered. A loop must not be destroyed before
// the threads that call into it have stopped.
class LocalNet final : public engine::Net {
 public:
  LocalNet(LocalNetwork& network, engine::Loop& loop);
  ~LocalNet() override;  // withdraws what it serves

  void call(engine::CallOp& op) override;
  void cancel(engine::CallOp& op) override;
  // The address must not be served yet.
  void serve(engine::Address address, engine::Service& service) override;
  void withdraw(engine::Address address) override;

 private:
  class Call;
  internal::Endpoint* find(engine::Address address);

  internal::Switchboard& board_;
  engine::Loop& loop_;
  // A copy of the switchboard's map as of `seen_version_`, so that a call needs no lock.
  std::map<engine::Address, internal::Endpoint*> known_;
  uint64_t seen_version_ = UINT64_MAX;
};

}  // namespace penstock::net
