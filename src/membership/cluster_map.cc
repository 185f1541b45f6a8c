#include "penstock/membership/cluster_map.h"

#include <algorithm>

namespace penstock::membership {

using controller::Chain;
using controller::CopyState;
using controller::RecordKind;

namespace {

chain::Standing standing_of(CopyState state) {
  switch (state) {
    case CopyState::serving:
      return chain::Standing::serving;
    case CopyState::syncing:
      return chain::Standing::syncing;
    case CopyState::waiting:
      return chain::Standing::waiting;
    case CopyState::last_serving:
      break;
  }
  return chain::Standing::last_serving;
}

// Those who act stand first, in the order that replicas rely on; each target has one place.
bool is_in_order(const Chain& chain) {
  size_t serving = 0, syncing = 0;
  for (auto member = chain.members.begin(); member != chain.members.end(); ++member) {
    const bool is_again = std::any_of(chain.members.begin(), member, [&](const auto& before) {
      return before.target == member->target;
    });
    const bool is_late = member != chain.members.begin() &&
                         controller::rank_of(*member) < controller::rank_of(*std::prev(member));
    if (is_again || is_late) return false;
    serving += member->state == CopyState::serving ? 1 : 0;
    syncing += member->state == CopyState::syncing ? 1 : 0;
  }
  return syncing == 0 || (syncing == 1 && serving > 0);
}

void add_members(const Chain& chain, std::vector<TargetId>& to) {
  for (const controller::Member& member : chain.members) to.push_back(member.target);
}

// The records of a piece, once all of them are known to be good.
struct Decoded {
  std::vector<controller::Node> nodes;
  std::vector<controller::Target> targets;
  std::vector<controller::Table> tables;
  std::vector<Chain> chains;
  std::vector<controller::Fenced> fences;
  std::vector<controller::Restricted> restrictions;
  std::vector<controller::SigningKey> signing_keys;
};

Status decode(const MapRecord& record, Decoded& to) {
  namespace bounds = controller::limits;
  const uint32_t id = record.at.id;
  const auto is_within = [id](size_t most) { return id >= 1 && id <= most; };
  switch (record.at.kind) {
    case RecordKind::node: {
      if (!is_within(bounds::kNodesMax)) return Code::bad_message;
      TRY_ASSIGN(auto node, controller::decode_node(NodeId(id), record.bytes));
      to.nodes.push_back(std::move(node));
      return Code::ok;
    }
    case RecordKind::target: {
      if (!is_within(bounds::kTargetsMax)) return Code::bad_message;
      TRY_ASSIGN(auto target, controller::decode_target(TargetId(id), record.bytes));
      to.targets.push_back(std::move(target));
      return Code::ok;
    }
    case RecordKind::table: {
      if (!is_within(bounds::kTablesMax)) return Code::bad_message;
      TRY_ASSIGN(auto table, controller::decode_table(controller::TableId(id), record.bytes));
      to.tables.push_back(table);
      return Code::ok;
    }
    case RecordKind::chain: {
      if (!is_within(bounds::kChainsMax)) return Code::bad_message;
      TRY_ASSIGN(auto chain, controller::decode_chain(ChainId(id), record.bytes));
      if (!is_in_order(chain)) return Code::bad_message;
      to.chains.push_back(std::move(chain));
      return Code::ok;
    }
    case RecordKind::fence: {
      if (!is_within(bounds::kNodesMax)) return Code::bad_message;
      TRY_ASSIGN(auto fenced, controller::decode_fenced(NodeId(id), record.bytes));
      to.fences.push_back(fenced);
      return Code::ok;
    }
    case RecordKind::restriction: {
      if (!is_within(bounds::kNodesMax)) return Code::bad_message;
      TRY_ASSIGN(auto restricted, controller::decode_restricted(NodeId(id), record.bytes));
      to.restrictions.push_back(std::move(restricted));
      return Code::ok;
    }
    case RecordKind::signing_key: {
      const controller::SigningKeyId key(id);
      TRY_ASSIGN(auto decoded, controller::decode_signing_key(key, record.bytes));
      to.signing_keys.push_back(decoded);
      return Code::ok;
    }
    case RecordKind::lease:
    case RecordKind::root:
    case RecordKind::key:
    case RecordKind::token:
      break;
  }
  return Code::bad_message;
}

template <class Id, class Record>
bool is_news(const std::map<Id, Record>& known, const Record& record) {
  const auto found = known.find(record.id);
  return found == known.end() || record.changed > found->second.changed;
}

template <class Id>
void sort_unique(std::vector<Id>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

// Takes what is news, and says which that were.
template <class Id, class Record>
std::vector<Id> merge(std::map<Id, Record>& known, std::vector<Record> records) {
  std::vector<Id> news;
  for (Record& record : records) {
    if (!is_news(known, record)) continue;
    news.push_back(record.id);
    const Id id = record.id;
    known.insert_or_assign(id, std::move(record));
  }
  sort_unique(news);
  return news;
}

}  // namespace

Result<MapChanges> ClusterMap::apply(const MapPiece& piece) {
  Decoded decoded;
  for (const MapRecord& record : piece.records) TRY(decode(record, decoded));
  MapChanges changes;
  changes.nodes = merge(nodes_, std::move(decoded.nodes));
  merge(targets_, std::move(decoded.targets));
  changes.tables = merge(tables_, std::move(decoded.tables));
  for (Chain& chain : decoded.chains) {
    if (is_news(chains_, chain)) take(std::move(chain), changes.chains);
  }
  tell_untold(changes.chains);
  changes.fences = merge(fences_, std::move(decoded.fences));
  changes.restrictions = merge(restrictions_, std::move(decoded.restrictions));
  changes.signing_keys = merge(signing_keys_, std::move(decoded.signing_keys));
  // The controller has dropped the oldest then, too.
  while (signing_keys_.size() > controller::limits::kSigningKeysMax) {
    signing_keys_.erase(signing_keys_.begin());
  }
  if (untold_.empty()) version_ = completed_;
  ASSERT(version_ <= completed_);
  return changes;
}

void ClusterMap::take(Chain chain, std::vector<MapChanges::OfChain>& told) {
  const auto place = chains_.lower_bound(chain.id);
  const bool is_known = place != chains_.end() && place->first == chain.id;
  MapChanges::OfChain of{chain.id, {}};
  if (is_known) add_members(place->second, of.concerned);
  add_members(chain, of.concerned);
  // Of a version that nobody was told of, too.
  if (const auto untold = untold_.find(chain.id); untold != untold_.end()) {
    of.concerned.insert(of.concerned.end(), untold->second.begin(), untold->second.end());
    untold_.erase(untold);
  }
  sort_unique(of.concerned);
  const bool is_clear = knows_members(chain);
  if (is_known) {
    place->second = std::move(chain);
  } else {
    chains_.emplace_hint(place, of.chain, std::move(chain));
  }
  if (is_clear) {
    told.push_back(std::move(of));
  } else {
    untold_[of.chain] = std::move(of.concerned);
  }
}

// Those that were unclear, and are not any more.
void ClusterMap::tell_untold(std::vector<MapChanges::OfChain>& told) {
  for (auto it = untold_.begin(); it != untold_.end();) {
    ASSERT(find(it->first) != nullptr);
    if (!knows_members(*find(it->first))) {
      ++it;
      continue;
    }
    told.push_back({it->first, std::move(it->second)});
    it = untold_.erase(it);
  }
}

bool ClusterMap::knows_members(const Chain& chain) const {
  return std::all_of(chain.members.begin(), chain.members.end(), [this](const auto& member) {
    const controller::Target* target = find(member.target);
    return target != nullptr && find(target->node) != nullptr;
  });
}

// A chain that is unclear then was changed after that version: it comes again, with what it names.
void ClusterMap::complete(controller::MapVersion version) {
  completed_ = std::max(completed_, version);
  if (untold_.empty()) version_ = completed_;
}

std::optional<chain::View> ClusterMap::view_of(ChainId id) const {
  const Chain* chain = find(id);
  if (chain == nullptr) return std::nullopt;
  chain::View view{id, chain->version.value, {}};
  view.members.reserve(chain->members.size());
  for (const controller::Member& member : chain->members) {
    const controller::Target* target = find(member.target);
    const controller::Node* node = target == nullptr ? nullptr : find(target->node);
    if (node == nullptr) return std::nullopt;
    view.members.push_back({.target = member.target,
                            .incarnation = member.incarnation.value,
                            .address = replica_address(target->node, member.target),
                            .standing = standing_of(member.state),
                            .rack = node->facts.rack,
                            .protocol = wire::version_for(speaks_, node->facts.features)});
  }
  ASSERT(view.version > 0);
  return view;
}

namespace {

bool has(const Chain& chain, TargetId target) {
  return std::any_of(chain.members.begin(), chain.members.end(),
                     [target](const controller::Member& m) { return m.target == target; });
}

}  // namespace

std::vector<ChainId> ClusterMap::chains_of(TargetId target) const {
  std::vector<ChainId> chains;
  for (const auto& [id, chain] : chains_) {
    if (has(chain, target)) chains.push_back(id);
  }
  return chains;
}

std::vector<ChainId> ClusterMap::chains_without(TargetId target) const {
  std::vector<ChainId> chains;
  for (const auto& [id, chain] : chains_) {
    if (!has(chain, target)) chains.push_back(id);
  }
  return chains;
}

}  // namespace penstock::membership
