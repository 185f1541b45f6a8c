// The controller as a service of its node.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/membership/messages.h"

namespace penstock::membership {

// A node that was not removed, as a signer is told of it.
struct MemberSeen {
  NodeId node;
  bool silent = false;  // its lease is over, and nothing was heard
};

// Signs for the cluster: whoever has its authority's key. Called in the keeper's thread.
class Signer {
 public:
  virtual ~Signer() = default;
  // Of the key that the request for a certificate proves to have; foreign bytes.
  virtual Outcome<controller::KeyPrint> key_of(const std::string& request) const = 0;
  virtual controller::TokenHash hash_of(const std::string& secret) const = 0;
  // Of a request that key_of() has taken.
  virtual Outcome<Papers> sign(const std::string& request, NodeId node, uint8_t roles) = 0;

  // While an authority follows another: a member has said whom it believes. These are all members.
  virtual void hear(NodeId from, const AskAuthorities& said,
                    const std::vector<MemberSeen>& members) = 0;
  // All members have gone over: tokens that were made before that time name the authority before,
  // and are to be revoked before finish(). None: not so far, or nothing is under way.
  virtual std::optional<engine::WallTime> tokens_end() const = 0;
  // The authority before is believed no more.
  virtual void finish() = 0;
  virtual Authorities authorities() const = 0;
};

struct ControllerServiceConfig {
  engine::Loop* loop = nullptr;
  engine::Net* net = nullptr;  // of that loop
  NodeId node;                 // the controller's: it is served at {node, kControllerService}
  controller::KeeperConfig keeper;
  uint64_t seed = 0;  // of choices among equals in plans of tables
  // How long a question for the map waits for news: half of a lease.
  engine::Duration map_wait = controller::limits::kLease / 2;
  size_t calls_max = limits::kCallsMax;  // at a time; more end with busy
  // Null: nobody has to prove who they are, and whoever joins is let in.
  Signer* signer = nullptr;
  wire::Protocol speaks = wire::kNodeProtocol;
};

// Answers what nodes and persons ask (messages.h), by a Keeper in a thread of its own, which renews
// the controller's lease and gives the step its ticks; plans of tables are made in another. Nothing
// is answered before what it says is committed, and no lease is granted that the controller has not
// itself. What cannot wait any more in its queue ends with busy; while this controller does not
// lead, everything is refused as not_serving.
//
// Who may ask what (rights.cc): a caller that is no node of the cluster may only ask to be let in;
// a node's own messages must come from that node, by the transport's word; orders from the
// controller's node, or from one with the role for it. Guests have a service of their own, of which
// nothing waits for what they do.
//
// Owner thread of the loop. What the config points to outlives it. The Kv may block its threads and
// never blocks the loop.
class ControllerService {
 public:
  static std::unique_ptr<ControllerService> make(const ControllerServiceConfig& config);
  // stop() has ended, or start() was never called.
  virtual ~ControllerService() = default;

  // Once.
  virtual void start() = 0;
  // Serves nothing from now on: what was asked ends with peer_gone. `done` completes with ok when
  // nothing is under way any more and the controller's lease is given back, so that another may
  // lead at once; it waits for the Kv. Once, after start().
  virtual void stop(engine::Op& done) = 0;

  // As an AskOp over the net, for the controller's own process: it may say that its predecessor
  // has ended, as it holds the lock of their directory. `then` is called in the loop, once, unless
  // the service stops before: Admitted, or Refused.
  virtual void admit(const controller::Join& join, std::function<void(const Answer&)> then) = 0;

  // For status and metrics; of some moments ago.
  struct Status {
    bool leads = false;
    controller::MapVersion version;
    size_t waiting = 0;     // calls that the keeper's thread has not come to yet
    size_t held = 0;        // questions for the map that wait for news
    uint64_t answered = 0;  // ever
    uint64_t busy = 0;      // ever: calls that were refused for want of room
  };
  virtual Status status() const = 0;
};

}  // namespace penstock::membership
