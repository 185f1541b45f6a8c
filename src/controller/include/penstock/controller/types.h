// The words of membership: ids, versions and states.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/engine.h"

namespace penstock::controller {

// Random, and made once: of a cluster, a node's directory, a target, a process.
struct Uuid {
  std::array<uint8_t, 16> bytes{};

  friend auto operator<=>(const Uuid&, const Uuid&) = default;
};

// Of a target: grows each time it is opened. The target keeps it durably before it serves. 0: it
// never was opened.
using Incarnation = Id<struct TargetIncarnationTag, uint64_t>;
// Of a node: grows with every process that is let in for it. Messages of older ones are refused.
using NodeIncarnation = Id<struct NodeIncarnationTag, uint64_t>;
// Grows with each change of who serves or is syncing in a chain. A new chain has 1.
using ChainVersion = Id<struct ChainVersionTag, uint64_t>;
// Of the cluster map, which is all that is published: nodes, targets, tables, chains, fences. Grows
// with each step that changes any of it.
using MapVersion = Id<struct MapVersionTag, uint64_t>;
using TableId = Id<struct TableIdTag, uint32_t>;
// Of tokens, by which nodes are let in.
using TokenId = Id<struct TokenIdTag, uint32_t>;
// Of keys by which capabilities are signed (decision 0066).
using SigningKeyId = Id<struct SigningKeyIdTag, uint32_t>;

// Half of SHA-256 of a node's public key; zeros: it has none.
struct KeyPrint {
  std::array<uint8_t, 16> bytes{};

  friend auto operator<=>(const KeyPrint&, const KeyPrint&) = default;
};
// SHA-256 of a token's secret.
struct TokenHash {
  std::array<uint8_t, 32> bytes{};

  friend auto operator<=>(const TokenHash&, const TokenHash&) = default;
};

// An Ed25519 key, the half that all may know.
struct PublicKey {
  std::array<uint8_t, 32> bytes{};

  friend auto operator<=>(const PublicKey&, const PublicKey&) = default;
};

// What a member of a chain may do (decision 0043). The numbers are part of formats.
enum class CopyState : uint8_t {
  serving = 0,       // has every acknowledged update; reads and writes
  syncing = 1,       // follows new writes; is brought up to date, or on its way out
  waiting = 2,       // perhaps old; becomes syncing when it is up and its turn comes
  last_serving = 3,  // has every acknowledged update; the first of these that is up serves
};
inline constexpr uint8_t kCopyStates = 4;

enum class MediaClass : uint8_t { flash = 0, disk = 1, memory = 2 };
inline constexpr uint8_t kMediaClasses = 3;

// Bits of what a process plays. The numbers are part of formats.
using engine::kRoleAdmin;
using engine::kRoleAgent;
using engine::kRoleController;
using engine::kRoleMeta;
using engine::kRoleStorage;
inline constexpr uint8_t kRoles = engine::kEveryRole;

// One network card of a node.
struct CardAddress {
  std::string host;  // as a person would write it
  uint16_t port = 0;
  uint16_t rail = 0;  // cards of one rail reach each other best
  uint16_t numa = 0;  // the NUMA node that the card hangs on

  friend bool operator==(const CardAddress&, const CardAddress&) = default;
};

// What a node tells of itself when it joins.
struct NodeFacts {
  std::string name;  // for people
  std::string rack;  // nodes of one rack fail together; empty: of none
  std::vector<CardAddress> cards;
  uint64_t features = 0;  // bits of what this release can do
  uint8_t roles = 0;      // engine::Role

  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

enum class Standing : uint8_t { joined = 0, draining = 1, removed = 2 };
inline constexpr uint8_t kStandings = 3;

// One target's place in one chain. It is a member by the incarnation that is said here, and by no
// other.
struct Member {
  TargetId target;
  Incarnation incarnation;
  CopyState state = CopyState::waiting;
  bool leaving = false;  // it is being moved elsewhere
  // Its disk came from another node: a person must trust it before it may come back first.
  bool doubtful = false;

  friend bool operator==(const Member&, const Member&) = default;
};

}  // namespace penstock::controller
