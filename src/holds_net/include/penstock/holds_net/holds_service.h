// The table of holds as a service of the node that answers for the names: docs/decisions/0061.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "penstock/engine.h"
#include "penstock/holds.h"
#include "penstock/wire.h"

namespace penstock::holds_net {

using holds::AgentId;
using holds::Hold;
using holds::RequestId;
using holds::Stamp;

// Of a hold that a session asks for.
struct Judgement {
  enum class Is : uint8_t {
    allowed,
    unknown,     // it has not shown that it may know of the inode
    only_reads,  // it is to change nothing
  };
  Is is = Is::allowed;
  InodeId inode;  // which the node means by the number that it says
};

// What it points to outlives the service.
struct HoldsServiceConfig {
  engine::Loop* loop = nullptr;
  engine::Net* net = nullptr;  // of that loop
  engine::Address address;
  // Where sessions and lives are recorded: docs/formats/holds.md. Nobody else serves of it.
  engine::Kv* kv = nullptr;
  // Nothing that this session asked for is done at any target after `done`, which any thread calls,
  // once. Both are called in a thread of the service's, and may block, until what they need is
  // there or nothing more is wanted of the service.
  std::function<void(AgentId, std::function<void()> done)> fence;
  // The same: what the session had pending of these files, which it had exclusive, has ended, and
  // their lengths are found. They are not known where it has not claimed them in this life: what
  // the records say of it is for recovery then, and the list is empty. Before `done` nobody is
  // given anything where they are not known, and else nothing that is in the list.
  std::function<void(AgentId, std::vector<InodeId> exclusives, std::function<void()> done)> settle;
  // The last use of the inode may have ended. In the loop.
  std::function<void(InodeId)> unused;
  // A session is over for good: it was fenced, and its lease has ended. In the loop.
  std::function<void(AgentId)> gone;
  // Whatever is in use is known from now on. In the loop.
  std::function<void()> claims_over;
  // Until when it may answer, by the clock of leases, where it has a lease itself: no agent gets
  // one that outlives it, and no session ends for what cannot be heard meanwhile. In the loop.
  // None: as long as it lives.
  std::function<engine::Time()> answers_until;
  // Who is asked for each hold that an agent wants; and whether a node is restricted: what it
  // claims of a life before counts where nobody else claims it. In the loop, without blocking.
  // Empty: nobody is.
  std::function<Judgement(AgentId, InodeId, Hold)> judge = {};
  std::function<bool(NodeId)> is_restricted = {};
  // How much longer than from now on the life before may have answered, by its own lease.
  engine::Duration life_before{};
  // Sessions that are fenced and settled at a time.
  uint32_t threads = 4;
  wire::Protocol speaks = wire::kNodeProtocol;
};

// One life of the table, and the records of sessions. Nodes that have the role of an agent ask it;
// those agents are HoldsAgents. What it is asked by its own process is said below.
//
// Owner thread of the loop, but for making it, its end, and what is called thread safe. These take
// a lock that is never held while anything waits.
class HoldsService {
 public:
  // A new life: its number and the sessions on record. Blocks. wrong_version where there can be no
  // more lives; else as the database says. Names are opened before (docs/formats/holds.md).
  static Outcome<std::unique_ptr<HoldsService>> open(const HoldsServiceConfig& config);
  // stop() has completed, or start() was never called. Waits for the fences that run.
  virtual ~HoldsService() = default;

  virtual void start() = 0;
  // No call is taken any more, what waits ends with peer_gone, and nothing is called back; then
  // `done` completes. Once, after start().
  virtual void stop(engine::Op& done) = 0;

  virtual uint16_t life() const = 0;
  // Those on record when the life began, in whatever state.
  virtual const std::vector<AgentId>& sessions_before() const = 0;
  // The node was removed, or is to begin anew: its session ends, whatever it says.
  virtual void expel(NodeId node) = 0;

  // ---- thread safe ----

  // Sessions of the life before have yet to say what they have.
  virtual bool is_claiming() = 0;
  // Those that have not said all, and have not gone: what is theirs and fenced waits for `settle`.
  virtual std::vector<AgentId> inherited() = 0;
  // Some agent has it in use, or nobody knows; another one than `beside`.
  virtual bool is_in_use(InodeId inode, AgentId beside = {}) = 0;
  // It may change what it has exclusive, as far as is known here.
  virtual bool is_good(AgentId agent) = 0;
  // The same of the session that the node said last.
  virtual bool has_session(NodeId node) = 0;
  // Some agent may change it, or what was its own is not settled, or nobody knows: recovery leaves
  // it alone.
  virtual bool is_exclusive_somewhere(InodeId inode) = 0;
  // The same, without what nobody knows: for recovery once all inherited sessions are fenced.
  virtual bool is_known_exclusive(InodeId inode) = 0;
  virtual Hold hold_of(AgentId agent, InodeId inode) = 0;

  // An operation wants to be alone with some inodes (holds::BarrierWant); of `maker` nothing is
  // recalled. `ready` is called in the loop, with their stamps, or never, if the service stops
  // before. Then over(), whatever became of the operation.
  using Ready = std::function<void(std::vector<Stamp>)>;
  virtual RequestId barrier(AgentId maker, std::vector<holds::Part> parts, Ready ready) = 0;
  virtual void over(RequestId barrier, bool changed) = 0;
  // As holds::Table::is_kept_elsewhere().
  virtual bool is_kept_elsewhere(InodeId inode, AgentId maker) = 0;
  // As holds::Table::reading().
  virtual Stamp reading(InodeId inode) = 0;

  struct Figures {
    uint64_t answered = 0;  // calls
    uint64_t refused = 0;
    uint64_t begun = 0;  // sessions
    uint64_t ended = 0;
    uint64_t recalls = 0;
    uint64_t denied = 0;  // holds, as they were judged
    size_t open = 0;      // calls that have no answer yet
    size_t ending = 0;    // sessions that are recorded, fenced or settled
    size_t holds = 0;
  };
  virtual Figures figures() = 0;
};

}  // namespace penstock::holds_net
