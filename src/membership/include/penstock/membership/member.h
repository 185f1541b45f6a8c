// A node of a cluster, after it was let in: it tells the controller how it is, learns the map, and
// gives its targets what they act by.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/membership/ask.h"
#include "penstock/membership/cluster_map.h"

namespace penstock::membership {

// What a target is told, in this order: which sessions are fenced; since when which nodes are
// restricted otherwise than before; versions of chains in which it has a part, or had one; and
// until when it may serve under them.
struct Orders {
  std::vector<wire::AgentSession> lowest;  // of each node: lower ones may change nothing
  std::vector<chain::Restricted> restricted;
  std::vector<chain::View> views;
  // Chains in which it has no part; told once, when it knows those in which it has one.
  std::vector<ChainId> others;
  std::optional<engine::Time> lease_until;  // on the loop's clock of leases
};

// The process that a Member is of. All is called in the member's loop, and returns at once.
class LocalNode {
 public:
  virtual ~LocalNode() = default;

  // Nodes, tables or chains are new or changed. Before targets get their orders: so the process
  // knows the addresses of those that they will call.
  virtual void map_changed(const ClusterMap& map, const MapChanges& changes) = 0;

  // Host::fence() and Host::restrict() of each, Host::adopt() of each view, Host::leave() of
  // others, then Host::lease(), in the loop of the target; then `done` is completed in the member's
  // (Loop::complete_remote()). Completed also for a target that is closed meanwhile. Of one target
  // one is under way at a time.
  virtual void give(TargetId target, Orders orders, engine::Op& done) = 0;

  // The controller will have nothing of this process any more: the node was removed, or another
  // process plays it. The member asks nothing after that; leases end by themselves. `reason` is for
  // people.
  virtual void refused(Code code, const std::string& reason) = 0;
};

struct MemberConfig {
  AskConfig controller;
  Admitted admitted;  // of JoinOp
  LocalNode* node = nullptr;
  chain::KnownChains* chains = nullptr;  // all chains of the map go there
};

// A target that the process has opened and does not serve yet.
struct OpenedTarget {
  controller::Uuid uuid;
  controller::Incarnation held{};  // what it keeps; 0: it is new and empty
  uint64_t capacity_bytes = 0;
  controller::MediaClass media = controller::MediaClass::flash;
};
// What the controller gave it.
struct TargetIdentity {
  TargetId id;
  controller::Incarnation incarnation;
};

// Owner thread of its loop, but for what says otherwise. What the config points to outlives it.
// Destroying it is as a crash: what is under way ends without effect, in the loop, later: calls as
// their net ends them, timers within controller::limits::kHeartbeatInterval.
//
// A lease counts from the sending of the heartbeat that was answered, and is given to a target
// together with the map of the grant's version or after it. A version counts as applied when all
// reported targets have it. While the controller does not answer, the member goes on asking.
class Member {
 public:
  static std::unique_ptr<Member> make(const MemberConfig& config);
  virtual ~Member() = default;

  // Begins to ask for the map and to send heartbeats. Once.
  virtual void start() = 0;

  // Asks for the target's number and incarnation, as long as it takes. The owner keeps the
  // incarnation durably, makes the Host, and then calls serve(). Fails, with a reason for people,
  // if the controller refuses it for good: it is a copy of an earlier time, was given up, or is
  // open on another node.
  using Then = std::function<void(Outcome<TargetIdentity>)>;
  virtual void open(const OpenedTarget& target, Then then) = 0;
  // It is reported from now on, as soon as it has its chains of the present map.
  virtual void serve(const TargetIdentity& target) = 0;
  // It serves nothing any more, and is not reported. Unknown ones are ignored.
  virtual void close(TargetId target) = 0;
  struct Condition {
    bool failing = false;  // it cannot take updates any more
    bool full = false;
    uint64_t used_bytes = 0;
  };
  // The controller hears of it at once where it changes what the target is good for, else with the
  // next heartbeat.
  virtual void set_condition(TargetId target, Condition condition) = 0;

  // What the Host of a target says of its chains. Thread safe, until the member is destroyed.
  virtual void report(TargetId reporter, const chain::Report& report) = 0;
  // Looks for news of the map now, if that was not done just now. Thread safe, until the member is
  // destroyed: what KnownChains calls.
  virtual void refresh() = 0;

  // In order: targets are closed, and nothing of the node serves any more. `done` completes with ok
  // when the controller knows it, or else with why not, in a moment at most. Nothing is asked after
  // that. Once.
  virtual void leave(engine::Op& done) = 0;

  virtual const ClusterMap& map() const = 0;
  // All reported targets act by this version.
  virtual controller::MapVersion applied() const = 0;
  // The node itself may act until then, on the clock of leases, under the map that is applied. The
  // past if it may not.
  virtual engine::Time lease_until() const = 0;
};

}  // namespace penstock::membership
