// What a controller knows. Plain data that step() changes, and nothing else does.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "penstock/controller/limits.h"
#include "penstock/controller/types.h"
#include "penstock/engine.h"
#include "penstock/rights.h"

namespace penstock::controller {

inline constexpr engine::Time kLongAgo = engine::Time::min();

// Each of the next five is a record in the Kv, but for `seen` and what is said to be derived, which
// begin anew with every controller.
struct Node {
  NodeId id;
  Uuid uuid;
  Uuid process;  // random, of the process that was let in last
  NodeIncarnation incarnation;
  Standing standing = Standing::joined;
  NodeFacts facts;
  MapVersion changed;  // when what is published of it changed last
  // Of the key by which it proves who it is; in a record of its own, and never published.
  KeyPrint key{};

  struct Seen {
    engine::Time let_in = kLongAgo;       // when its process was, if this controller did it
    engine::Time heard = kLongAgo;        // when its last heartbeat arrived that counted
    engine::Time lease_end = kLongAgo;    // of its last lease, with the guard
    bool silent = true;                   // its lease is over, and nothing was heard
    uint64_t sequence = 0;                // of its last message in this incarnation
    uint64_t answered = 0;                // its newest heartbeat whose answer reached it,
    engine::Time answered_at = kLongAgo;  // and since when that is known
    MapVersion applied;
    std::vector<NodeId> accuses;
    engine::Time suspected_until = kLongAgo;  // while it is suspected
    engine::Duration suspicion{};             // how long the last suspicion lasts, or lasted,
    engine::Time trusted_since = kLongAgo;    // and when it ended
    engine::Time drained_since = kLongAgo;    // while it has to hand over, and how many chains
    uint32_t drained = 0;                     // it has handed over since then
  } seen;
  std::vector<TargetId> targets;  // derived

  bool is_suspected() const { return seen.suspected_until != kLongAgo; }
};

struct Target {
  TargetId id;
  Uuid uuid;
  NodeId node;
  Incarnation incarnation;  // the newest that was given out
  Incarnation held;         // the last that the target is known to keep durably
  uint64_t opening = 0;     // random, of the opening that `incarnation` was given to
  uint64_t capacity_bytes = 0;
  MediaClass media = MediaClass::flash;
  bool draining = false;   // it serves until others have what it has
  bool forgotten = false;  // never let in again
  MapVersion changed;

  struct Seen {
    bool up = false;                     // its node says so, under the newest incarnation
    bool down = false;                   // surely not serving; neither, while a lease may still run
    engine::Time lease_end = kLongAgo;   // of its last lease, with the guard
    engine::Time down_since = kLongAgo;  // while it is down
    bool aged = false;                   // it has been down for long enough to be replaced
    bool failing = false;
    bool full = false;
    uint64_t used_bytes = 0;               // as its node said last
    engine::Time failed_until = kLongAgo;  // it is not repaired before
    bool fresh = true;                     // chains may still count on an older incarnation of it
    size_t syncing = 0;                    // derived: chains in which it is syncing
  } seen;
  std::vector<ChainId> chains;  // derived: those that have it as a member, in no order
};

// Sessions of a node's agent that may change nothing any more (decision 0061): all below the lowest
// that may. It is only ever raised, and stays when the node is removed.
struct Fenced {
  NodeId id;
  uint64_t lowest = 0;
  MapVersion changed;

  friend bool operator==(const Fenced&, const Fenced&) = default;
};

// What a person has limited a node to (decision 0066). Of a node that was restricted once it stays,
// also when it says nothing any more: capabilities that were given before `changed` count no more.
struct Restricted {
  NodeId id;
  rights::Restriction what;
  MapVersion changed;

  friend bool operator==(const Restricted&, const Restricted&) = default;
};

// A key by which whoever has the names signs capabilities. The newest kSigningKeysMax count.
struct SigningKey {
  SigningKeyId id;
  PublicKey key;
  MapVersion changed;

  friend bool operator==(const SigningKey&, const SigningKey&) = default;
};

// An ordered list of chains of one kind, numbered one after the other. Layouts of files name them.
struct Table {
  TableId id;
  uint32_t copies = 1;
  MediaClass media = MediaClass::flash;
  bool racks_apart = false;
  ChainId first;
  uint32_t chains = 0;
  MapVersion changed;
};

// Lets nodes in that know its secret, each key once, as long as it lasts.
struct Token {
  TokenId id;
  TokenHash hash;
  uint8_t roles = 0;  // that they may have
  NodeId node;        // only this one, which may have another key then; 0: any
  uint32_t uses = 1;  // how many it lets in
  engine::WallTime made;
  engine::WallTime ends;
  std::vector<KeyPrint> used_by{};
  rights::Restriction restriction{};  // of nodes that it lets in

  friend bool operator==(const Token&, const Token&) = default;
};

// Members stand in this order: serving ones, the head first; then the syncing one, if there is one;
// then the rest, of whom the ones that left later stand first.
struct Chain {
  ChainId id;
  TableId table;
  ChainVersion version;
  std::vector<Member> members;
  // When its version, or who its members are, changed last.
  MapVersion changed;

  struct Seen {
    bool repaired = false;  // the last serving one said so of the syncing one, in this version
    std::vector<TargetId> failed;  // those that said so of themselves, in this version
    bool open = false;             // something waits for a heartbeat or for time: in State::open
    bool queued = false;           // in State::queue
  } seen;
};

// Intervals that a cluster lives by, and how much it repairs at once.
struct Timing {
  engine::Duration lease = limits::kLease;
  engine::Duration replace_after = limits::kReplaceAfter;
  engine::Duration suspicion = limits::kSuspicion;  // the longest one
  engine::Duration suspicion_first = limits::kSuspicionFirst;
  engine::Duration retry_failed = limits::kRetryFailed;
  engine::Duration balance = limits::kBalanceInterval;
  size_t repairs_per_target = limits::kRepairsPerTarget;

  // How long a lease counts for the controller, from when it handled the heartbeat.
  engine::Duration lease_counted() const { return lease + lease / limits::kLeaseGuardPart; }
};

// Moves that even out where copies lie (placement.h), since they began.
struct Balancing {
  engine::Time next_look = kLongAgo;
  bool goes_on = false;
  bool waits = false;
  uint32_t left = 0;
  uint32_t done = 0;
  engine::Time since = kLongAgo;
};

// Ids are places in the vectors, counted from 1, and of chains from kFirstSharedChain; nothing is
// ever taken out.
struct State {
  Uuid cluster;
  MapVersion version;
  std::vector<Node> nodes;
  std::vector<Target> targets;
  std::vector<Table> tables;
  std::vector<Chain> chains;
  std::map<TokenId, Token> tokens;  // some time after their end they go
  std::map<NodeId, Fenced> fences;  // of nodes of which a session was fenced
  std::map<NodeId, Restricted> restrictions;
  std::map<SigningKeyId, SigningKey> signing_keys;
  Timing timing;

  // What follows is not kept. begin() makes it.
  engine::Time now = kLongAgo;
  bool behind = false;  // a node knows a later map: this is of an earlier time, and grants nothing
  size_t joined = 0;    // nodes that were not removed, without clients,
  size_t missing = 0;   // and those of them that are silent
  std::deque<ChainId> queue;  // chains that are to be looked at
  std::set<ChainId> open;     // chains that wait for something
  ChainId next_open;          // where the next tick goes on with them
  Balancing balancing;

  Node& at(NodeId id) { return nodes[place(id.value, nodes.size())]; }
  const Node& at(NodeId id) const { return nodes[place(id.value, nodes.size())]; }
  Target& at(TargetId id) { return targets[place(id.value, targets.size())]; }
  const Target& at(TargetId id) const { return targets[place(id.value, targets.size())]; }
  Table& at(TableId id) { return tables[place(id.value, tables.size())]; }
  const Table& at(TableId id) const { return tables[place(id.value, tables.size())]; }
  Chain& at(ChainId id) { return chains[place(id)]; }
  const Chain& at(ChainId id) const { return chains[place(id)]; }

  bool has(NodeId id) const { return id.value >= 1 && id.value <= nodes.size(); }
  bool has(TargetId id) const { return id.value >= 1 && id.value <= targets.size(); }
  bool has(TableId id) const { return id.value >= 1 && id.value <= tables.size(); }
  bool has(ChainId id) const {
    return id >= kFirstSharedChain && id.value - kFirstSharedChain.value < chains.size();
  }
  // Of the next one that is made.
  ChainId next_chain() const {
    return ChainId(kFirstSharedChain.value + static_cast<uint32_t>(chains.size()));
  }

 private:
  static size_t place(uint32_t id, size_t size) {
    ASSERT(id >= 1 && id <= size);
    return id - 1;
  }
  size_t place(ChainId id) const {
    ASSERT(has(id));
    return id.value - kFirstSharedChain.value;
  }
};

// Makes what is not kept, of records that were loaded. All leases count as granted just now: the
// caller has waited until its predecessor could grant none any more. Asserts find_fault(): who
// decodes records looks for faults first.
void begin(State& state, engine::Time now);

const Node* find_node(const State& state, const Uuid& uuid);
const Target* find_target(const State& state, const Uuid& uuid);

// A node without disks and names. Clients come and go: when they are away nothing is wrong.
inline bool is_client(const Node& node) {
  return node.facts.roles == kRoleAgent;
}

// How many members of a chain are in that state.
size_t count_of(const Chain& chain, CopyState state);
inline bool acts(const Member& member) {
  return member.state == CopyState::serving || member.state == CopyState::syncing;
}
// Members stand in the order of their ranks.
inline int rank_of(const Member& member) {
  if (member.state == CopyState::serving) return 0;
  return member.state == CopyState::syncing ? 1 : 2;
}
// Whether a member that waits, or served last, is not up: people are told that it is offline.
bool is_offline(const State& state, const Member& member);

// What people ask first.
struct Health {
  size_t nodes = 0;      // not removed, without clients
  size_t missing = 0;    // silent ones among them
  size_t suspected = 0;  // accused by their neighbours
  size_t chains = 0;
  size_t whole = 0;         // chains with all copies serving
  size_t partial = 0;       // with some
  size_t unavailable = 0;   // with none
  size_t syncing = 0;       // chains in which a copy is being brought up to date
  size_t moving = 0;        // chains that get a copy elsewhere for one that leaves
  size_t moves_left = 0;    // about how many copies have still to move, with these
  bool moves_wait = false;  // until no chain lacks a copy
  // About how long they still take; less than 0: that is not known.
  engine::Duration moves_time{-1};
};
Health health(const State& state);
// As far as persons have said, copies may stay on the target, and come to it.
bool is_to_stay(const State& state, const Target& target);
// Whether it drains, or one of its targets does.
bool has_to_hand_over(const State& state, const Node& node);
// What the node is limited to; null: nothing.
const rights::Restriction* restriction_of(const State& state, NodeId node);
// Whether no session of the node below that one can get a number for an update any more: all
// targets that may serve act by a map that fences it. It stays so.
bool is_fenced(const State& state, NodeId node, uint64_t lowest);
// Chains that a node still has to hand over before it may be removed.
size_t chains_on(const State& state, NodeId node);
// About how long it takes until what drains of the node is empty; less than 0: that is not known.
engine::Duration time_to_drain(const State& state, NodeId node);

// What must hold of a chain after every step, and of all records; empty if it does, else what is
// wrong, for people.
std::string find_fault(const State& state, const Chain& chain);
std::string find_fault(const State& state);

}  // namespace penstock::controller
