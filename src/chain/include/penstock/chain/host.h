// The replicas of one target: its part in every chain that has it (decision 0044).
#pragma once

#include <functional>
#include <memory>

#include "penstock/chain/buffers.h"
#include "penstock/chain/capabilities.h"
#include "penstock/chain/view.h"
#include "penstock/chain_store.h"
#include "penstock/store.h"

namespace penstock::chain {

// What a replica tells the controller.
struct Report {
  enum class Kind : uint8_t {
    repaired,     // `other`, which was syncing, has all that the reporter has
    unreachable,  // the neighbour `other` does not answer
    failed,       // the reporter cannot do its part any more, and has stopped serving
  };
  Kind kind = Kind::failed;
  ChainId chain;
  uint64_t version = 0;
  TargetId other;
};

struct HostConfig {
  TargetId target;
  uint64_t incarnation = 0;
  engine::Loop* loop = nullptr;
  engine::Net* net = nullptr;
  store::ChainStore* store = nullptr;
  // Of memory for bytes of clients' requests; more end with busy. 0: a good number.
  uint64_t held_bytes_max = 0;
  // Of memory for what comes from other replicas, at each place that the target has in chains; more
  // waits for its turn. 0: a good number.
  uint64_t passed_bytes_max = 0;
  // Where the bytes of both lie. Null: its own.
  std::shared_ptr<Buffers> buffers = nullptr;
  // Between two looks for records of removed chunks that may go, in each chain that it leads.
  engine::Duration tombstone_pause = std::chrono::seconds(1);
  // Versions of the messages; others than those are told so.
  wire::Protocol speaks = wire::kNodeProtocol;
  // By which clients' capabilities are judged. Null: none are asked for.
  CapabilityJudge* judge = nullptr;
  // Called in the loop; tells the controller sooner or later, or never.
  std::function<void(const Report&)> report = [](const Report&) {};
};

// Owned by one loop: everything is called from its thread. What the config points to outlives it.
// Destroying it is as a crash, unless it was closed: what is under way ends without effect, and
// some callers get no answer.
class Host {
 public:
  static std::unique_ptr<Host> make(HostConfig config);
  virtual ~Host() = default;

  // A version of a chain in which the target has a part, or had one. Older ones are ignored.
  virtual void adopt(const View& view) = 0;
  // By the newest map the target has no part in that chain: what it still has of it goes, in the
  // background. A later version in which it has one ends that. Adopting one in which it has none
  // does the same.
  virtual void leave(ChainId chain) = 0;
  // As head, the target gives no number to updates of that node's sessions below this one any more:
  // those that wait for theirs are refused, before it returns, as are those that come. What has its
  // number goes on. A lower one than before changes nothing. Told before the lease under which it
  // counts.
  virtual void fence(const wire::AgentSession& lowest) = 0;
  // Capabilities of that node that were judged before count no more when it returns. Told before
  // the lease under which it counts.
  virtual void restrict(const Restricted& restricted) = 0;
  // The target may serve until then, on the loop's clock of leases. An earlier end than before
  // changes nothing.
  virtual void lease(engine::Time until) = 0;

  // Answers clients and neighbours (wire::ChainMethod), to be given to Net::serve().
  virtual engine::Service& service() = 0;

  // Updates that are pending, calls that wait, and what they hold, in all chains.
  struct Status {
    size_t pending = 0;
    size_t waiting = 0;
    size_t ungreeted = 0;       // replicas that serve, but have not heard from those before them
    uint64_t passed_bytes = 0;  // of memory for what comes from other replicas
  };
  virtual Status status() const = 0;

  // In order: what it is asked ends with closed, also what waits by now, and what is under way ends
  // without effect. `done` completes with ok when nothing of it is left in the loop, the Net and
  // the store. Once, after its service was withdrawn. Calls to neighbours end sooner where the Net
  // is closed meanwhile.
  virtual void close(engine::Op& done) = 0;
};

}  // namespace penstock::chain
