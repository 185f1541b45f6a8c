// The cluster map: as a controller hands it out, and as a node knows it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "penstock/chain.h"
#include "penstock/membership/messages.h"

namespace penstock::membership {

// What was published since `known`, from a place on, in at most `bytes_max` bytes as an encoded
// answer. `known` is no later than the state's version. Pure.
MapPiece piece_of(const controller::State& state, controller::MapVersion known, MapPlace from,
                  size_t bytes_max = wire::kMembershipBytesMax);

// Where the replicas of a target are served: by Host::service(), at the node that has it.
constexpr engine::Address replica_address(NodeId node, TargetId target) {
  return {node, wire::kFirstReplicaService + target.value};
}

// What came new with a piece: each once.
struct MapChanges {
  std::vector<NodeId> nodes;
  std::vector<controller::TableId> tables;
  struct OfChain {
    ChainId chain;
    // All that are members of it, and those that were.
    std::vector<TargetId> concerned;
  };
  std::vector<OfChain> chains;
  std::vector<NodeId> fences;
  std::vector<NodeId> restrictions;
  std::vector<controller::SigningKeyId> signing_keys;

  bool empty() const {
    return nodes.empty() && tables.empty() && chains.empty() && fences.empty() &&
           restrictions.empty() && signing_keys.empty();
  }
};

// What a node knows of the cluster. Not thread safe; value semantics.
class ClusterMap {
 public:
  // `speaks`: this node, which is what versions of messages to others follow from.
  explicit ClusterMap(const wire::Protocol& speaks = wire::kNodeProtocol) : speaks_(speaks) {}

  // Takes what is newer than what is known. Foreign input: bad_message, corrupt or wrong_version if
  // a record, or its id, cannot be; then nothing of the piece counts.
  //
  // A chain is told of once all of its members are known, which may be some pieces later.
  Result<MapChanges> apply(const MapPiece& piece);

  // All pieces have come since the one of that version, which was asked for from the beginning.
  void complete(controller::MapVersion version);
  // Everything of this version is here, and all chains are told of. Some records may be newer.
  controller::MapVersion version() const { return version_; }
  // What to ask for is what was published since. Later than version() while a chain is unclear.
  controller::MapVersion known() const { return completed_; }

  // Null: not known.
  const controller::Node* find(NodeId id) const { return find(nodes_, id); }
  const controller::Target* find(TargetId id) const { return find(targets_, id); }
  const controller::Table* find(controller::TableId id) const { return find(tables_, id); }
  const controller::Chain* find(ChainId id) const { return find(chains_, id); }
  const std::map<NodeId, controller::Node>& nodes() const { return nodes_; }
  const std::map<TargetId, controller::Target>& targets() const { return targets_; }
  const std::map<controller::TableId, controller::Table>& tables() const { return tables_; }
  const std::map<ChainId, controller::Chain>& chains() const { return chains_; }
  // Of each node the lowest session that may change anything; of those that are not here all may.
  const std::map<NodeId, controller::Fenced>& fences() const { return fences_; }
  // Of each node that is, or was, limited.
  const std::map<NodeId, controller::Restricted>& restrictions() const { return restrictions_; }
  // By which capabilities may be signed: the newest kSigningKeysMax.
  const std::map<controller::SigningKeyId, controller::SigningKey>& signing_keys() const {
    return signing_keys_;
  }

  // As replicas and clients act by it; none for a chain that is not known, or of which a member is
  // not. The map does not say who is up: a member that is offline stands as waiting here.
  std::optional<chain::View> view_of(ChainId chain) const;
  // Those that have the target as a member. Looks at all chains.
  std::vector<ChainId> chains_of(TargetId target) const;
  // All others.
  std::vector<ChainId> chains_without(TargetId target) const;

 private:
  template <class IdOf, class Record>
  static const Record* find(const std::map<IdOf, Record>& records, IdOf id) {
    const auto found = records.find(id);
    return found == records.end() ? nullptr : &found->second;
  }
  bool knows_members(const controller::Chain& chain) const;
  void take(controller::Chain chain, std::vector<MapChanges::OfChain>& told);
  void tell_untold(std::vector<MapChanges::OfChain>& told);

  wire::Protocol speaks_;
  controller::MapVersion version_;
  controller::MapVersion completed_;
  std::map<NodeId, controller::Node> nodes_;
  std::map<TargetId, controller::Target> targets_;
  std::map<controller::TableId, controller::Table> tables_;
  std::map<ChainId, controller::Chain> chains_;
  std::map<NodeId, controller::Fenced> fences_;
  std::map<NodeId, controller::Restricted> restrictions_;
  std::map<controller::SigningKeyId, controller::SigningKey> signing_keys_;
  // Chains of which nobody was told yet, with those that are concerned.
  std::map<ChainId, std::vector<TargetId>> untold_;
};

}  // namespace penstock::membership
