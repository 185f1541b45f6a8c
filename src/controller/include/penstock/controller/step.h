// step(): how membership and chains change. Why it is so: decision 0043.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "penstock/controller/state.h"

namespace penstock::controller {

// A process asks to play a node. It asks again until it is answered.
struct Join {
  Uuid cluster;
  Uuid node;     // of its directory
  Uuid process;  // random, of this process
  NodeFacts facts{};
  // It proved that no earlier process of this directory runs any more.
  bool predecessor_ended = false;
};

// The same with a token's secret, by a process that has a key and no certificate yet. Who comes
// again with a key that the token let in is let in again. Roles are settled by it: a node that has
// a key keeps them until another token says otherwise.
struct Enroll {
  Join join;
  TokenHash token{};
  KeyPrint key;
  engine::WallTime at{};  // the controller's time
};
struct MakeToken {
  TokenHash hash{};
  uint8_t roles = 0;
  NodeId node{};
  uint32_t uses = 1;
  engine::WallTime made{};
  engine::WallTime ends{};
  rights::Restriction restriction{};
};
struct RevokeToken {
  TokenId token;
};

// What names the sender of a node's message. `sequence` grows with each message of an incarnation.
struct Sender {
  NodeId node;
  NodeIncarnation incarnation;
  uint64_t sequence = 0;
};

// A node has opened a target, and asks for its incarnation. It keeps that durably before it reports
// the target in heartbeats.
struct OpenTarget {
  Sender from;
  Uuid target;
  Incarnation held;      // what the target keeps; 0: it is new and empty
  uint64_t opening = 0;  // random, of this opening
  uint64_t capacity_bytes = 0;
  MediaClass media = MediaClass::flash;
};

struct TargetReport {
  TargetId target;
  Incarnation incarnation;
  bool failing = false;  // it cannot take updates any more
  bool full = false;
  uint64_t used_bytes = 0;
};

// What `reporter`, a target of the sender, says of a version of a chain.
struct ChainReport {
  enum class Kind : uint8_t {
    repaired,  // as the last serving one: the syncing one has all that it has
    failed,    // it cannot do its part in the chain any more, and has stopped serving there
  };
  Kind kind = Kind::repaired;
  ChainId chain;
  ChainVersion version;
  TargetId reporter;
};

// Sent every kHeartbeatInterval, and at once when there is a report; each says everything anew.
struct Heartbeat {
  Sender from;
  MapVersion applied;     // the cluster map that all of the node's targets act by
  uint64_t answered = 0;  // the newest heartbeat whose grant it has, with the map of that
  // All that are open. One that is missing here is closed and serves nothing.
  std::vector<TargetReport> targets;
  std::vector<ChainReport> reports;
  std::vector<NodeId> accused;  // neighbours that it does not reach, or that are far too slow
#if PENSTOCK_NEXT_PROTOCOL
  uint64_t uptime_ms = 0;  // since the process began to speak; 0: it does not say
#endif
};

// The process ends in order; it serves nothing any more.
struct Leave {
  Sender from;
};

// Nothing happened; due every kTickInterval.
struct Tick {};

// Chains that a plan proposes (placement.h): each a list of targets, the head first. All must be
// up. New chains are empty, so that all of them serve at once.
struct CreateTable {
  uint32_t copies = 1;
  MediaClass media = MediaClass::flash;
  bool racks_apart = false;
  std::vector<std::vector<TargetId>> chains;
};

// A chain's copy goes from one target to another (placement.h proposes).
struct Move {
  ChainId chain;
  TargetId from;
  TargetId to;
};

// What persons order.
struct Drain {
  NodeId node;
  bool on = true;  // false: it may stay after all
};
// The same of one target; the node's others stay.
struct DrainTarget {
  TargetId target;
  bool on = true;
};
struct Remove {
  NodeId node;
  bool force = false;  // although chains lose their last full copy
};
// The cluster will have nothing of the target any more.
struct Forget {
  TargetId target;
  bool force = false;  // although it serves, or chains lose their last full copy
};
// A target that came from another node has everything that was acknowledged: a person says so.
struct Trust {
  TargetId target;
};

// Whoever has the names orders it: sessions of the node's agent below that one change nothing any
// more. A lower one than before changes nothing. When it is in force is_fenced() says.
struct Fence {
  NodeId node;
  uint64_t lowest = 0;
};

// What a person limits a node to from now on; one that says nothing frees it.
struct Restrict {
  NodeId node;
  rights::Restriction what{};
};
// Whoever has the names signs capabilities with that key from now on.
struct PublishKey {
  PublicKey key;
};

using Event =
    std::variant<Join, OpenTarget, Heartbeat, Leave, Tick, CreateTable, Move, Drain, Remove, Forget,
                 Trust, DrainTarget, Enroll, MakeToken, RevokeToken, Fence, Restrict, PublishKey>;

// The answer to a join.
struct Admission {
  Uuid process;
  NodeId node;
  NodeIncarnation incarnation;
};
// The answer to an opening.
struct Opened {
  NodeId node;
  NodeIncarnation node_incarnation;
  uint64_t opening = 0;
  TargetId target;
  Incarnation incarnation;
};
// The answer to a heartbeat. If `lease`, the node may act until Timing::lease after it sent that
// heartbeat, and these targets may serve, as soon as the map of that version is applied.
struct Grant {
  NodeId node;
  NodeIncarnation node_incarnation;
  uint64_t sequence = 0;
  MapVersion version;
  bool lease = false;
  struct Of {
    TargetId target;
    Incarnation incarnation;
  };
  std::vector<Of> targets{};
};
// A request or a message was not accepted; nothing came of it.
struct Refused {
  Code code = Code::ok;
  std::string reason;  // for people: what, why, and what to do
};
struct Made {
  TableId table;
};
struct MadeToken {
  TokenId token;
};
struct PublishedKey {
  SigningKeyId key;
};
// For people and the log.
struct Notice {
  std::string text;
};

// What is to be committed, by id, each once, in order.
struct Changes {
  bool root = false;
  std::vector<NodeId> nodes;
  std::vector<TargetId> targets;
  std::vector<TableId> tables;
  std::vector<ChainId> chains;
  std::vector<NodeId> keys;     // of nodes
  std::vector<TokenId> tokens;  // made or changed; what is not in the state any more goes
  std::vector<NodeId> fences;
  std::vector<NodeId> restrictions;
  std::vector<SigningKeyId> signing_keys;  // what is not in the state any more goes

  bool empty() const {
    return !root && nodes.empty() && targets.empty() && tables.empty() && chains.empty() &&
           keys.empty() && tokens.empty() && fences.empty() && restrictions.empty() &&
           signing_keys.empty();
  }
};

// What was published since a map was applied: what a node has to be told to act by the present one.
Changes changed_since(const State& state, MapVersion applied);

struct Actions {
  Changes changes;
  bool published = false;       // State::version grew: nodes are to be told
  bool more = false;            // chains are left to be looked at: a tick is due at once
  std::vector<ChainId> chains;  // those with a new version
  std::vector<Admission> admissions;
  std::vector<Opened> opened;
  std::vector<Grant> grants;
  std::vector<Refused> refusals;
  std::vector<Made> made;
  std::vector<MadeToken> made_tokens;
  std::vector<PublishedKey> published_keys;
  std::vector<Notice> notices;
};

// Changes `state` and says what follows. Deterministic: the answer depends on nothing but its
// arguments. Not thread safe; takes some milliseconds at most with 1,000 nodes and 20,000 chains.
//
// `now` is the controller's own clock and never goes back. Events may hold anything, as they come
// from others; ids and numbers in them are checked here, the lengths of lists and names by who
// decoded them (limits.h).
//
// Nothing of the actions may be sent or shown before `changes`, and those of every earlier step,
// are durably committed under the controller's epoch; and grants only while the controller's own
// lease runs. If a commit fails, the state is worthless: another is loaded, and begin() called.
Actions step(State& state, const Event& event, engine::Time now);

}  // namespace penstock::controller
