#include "feeds.h"

#include <algorithm>
#include <utility>

namespace penstock::membership {

using controller::MapVersion;

Feeds::Feeds(LocalNode& node, const ClusterMap& map, engine::Duration lease,
             std::function<void()> news)
    : node_(node), map_(map), lease_(lease), on_news_(std::move(news)) {
  ASSERT(lease_ > engine::Duration::zero());
}

void Feeds::add(const TargetIdentity& target) {
  ASSERT(target.id != TargetId() && target.incarnation != controller::Incarnation());
  const auto [found, is_new] = feeds_.try_emplace(target.id);
  ASSERT(is_new);
  Feed& feed = found->second;
  feed.incarnation = target.incarnation;
  for (const ChainId chain : map_.chains_of(target.id)) feed.untold.insert(chain);
  for (const auto& [node, fenced] : map_.fences()) feed.unfenced.insert(node);
  for (const auto& [node, restricted] : map_.restrictions()) feed.unjudged.insert(node);
  give(target.id, feed);
  settle();
}

void Feeds::remove(TargetId target) {
  if (feeds_.erase(target) > 0) settle();
}

bool Feeds::set_condition(TargetId target, Member::Condition condition) {
  const auto found = feeds_.find(target);
  if (found == feeds_.end()) return false;
  const Member::Condition before = std::exchange(found->second.condition, condition);
  return before.failing != condition.failing || before.full != condition.full;
}

void Feeds::on_changes(const MapChanges& changes) {
  for (const MapChanges::OfChain& of : changes.chains) {
    for (const TargetId target : of.concerned) {
      const auto found = feeds_.find(target);
      if (found != feeds_.end()) found->second.untold.insert(of.chain);
    }
  }
  for (const NodeId node : changes.fences) {
    fenced_ = std::max(fenced_, map_.fences().at(node).changed);
    for (auto& [target, feed] : feeds_) feed.unfenced.insert(node);
  }
  for (const NodeId node : changes.restrictions) {
    for (auto& [target, feed] : feeds_) feed.unjudged.insert(node);
  }
}

void Feeds::on_grant(controller::Grant grant, engine::Time sent) {
  // Of leases that are over nothing is lost but the word that they came.
  if (grants_.size() == limits::kGrantsKept) grants_.pop_front();
  grants_.push_back({std::move(grant), sent});
  give_all();
}

void Feeds::give_all() {
  hand_on_grants();
  for (auto& [target, feed] : feeds_) give(target, feed);
  settle();
}

void Feeds::hand_on_grants() {
  for (auto it = grants_.begin(); it != grants_.end();) {
    if (it->grant.version > map_.version()) {
      ++it;
      continue;
    }
    hand_on(*it);
    if (handed_.size() == limits::kGrantsKept) handed_.pop_front();
    handed_.push_back(std::move(*it));
    it = grants_.erase(it);
  }
}

// The map of the grant is here: what a target has not been told of it goes before the lease.
void Feeds::hand_on(const Kept& kept) {
  if (!kept.grant.lease) return;
  ASSERT(kept.grant.version <= map_.version());
  for (const controller::Grant::Of& of : kept.grant.targets) {
    const auto found = feeds_.find(of.target);
    if (found == feeds_.end() || found->second.incarnation != of.incarnation) continue;
    found->second.lease = std::max(found->second.lease, kept.sent + lease_);
  }
}

void Feeds::give(TargetId target, Feed& feed) {
  if (feed.is_under_way) return;
  Orders orders;
  for (const NodeId node : std::exchange(feed.unfenced, {})) {
    orders.lowest.push_back({node, map_.fences().at(node).lowest});
  }
  for (const NodeId node : std::exchange(feed.unjudged, {})) {
    orders.restricted.push_back({node, map_.restrictions().at(node).changed.value});
  }
  for (auto it = feed.untold.begin(); it != feed.untold.end();) {
    // Without a view it has a newer version, of which not all is known: that is told later.
    std::optional<chain::View> view = map_.view_of(*it);
    if (!view) {
      ++it;
      continue;
    }
    orders.views.push_back(std::move(*view));
    it = feed.untold.erase(it);
  }
  const bool is_whole = feed.untold.empty();
  if (is_whole && feed.lease > feed.given_lease) orders.lease_until = feed.given_lease = feed.lease;
  if (orders.lease_until && !feed.knows_others) {
    orders.others = map_.chains_without(target);
    feed.knows_others = true;
  }
  const bool is_empty = orders.lowest.empty() && orders.restricted.empty() &&
                        orders.views.empty() && !orders.lease_until;
  if (is_empty) return;
  feed.is_under_way = true;
  const MapVersion version = is_whole ? map_.version() : feed.applied;
  auto& taken = Task<engine::Op>::make(
      [this, alive = alive_, target, version, incarnation = feed.incarnation](Task<engine::Op>&) {
        if (*alive) on_taken(target, incarnation, version);
      });
  node_.give(target, std::move(orders), taken);
}

void Feeds::on_taken(TargetId target, controller::Incarnation incarnation, MapVersion version) {
  const auto found = feeds_.find(target);
  // It was closed meanwhile, and perhaps opened again.
  if (found == feeds_.end() || found->second.incarnation != incarnation) return;
  Feed& feed = found->second;
  ASSERT(feed.is_under_way && version >= feed.applied);
  feed.is_under_way = false;
  feed.applied = version;
  give(target, feed);
  settle();
}

// What follows from what the targets have.
void Feeds::settle() {
  bool is_one_more = false;
  MapVersion applied = map_.version();
  for (auto& [target, feed] : feeds_) {
    if (!feed.is_under_way && feed.untold.empty() && feed.unfenced.empty() &&
        feed.unjudged.empty()) {
      feed.applied = map_.version();
      // Its chains are those of a map, not of none.
      const bool is_ready = !feed.is_reported && feed.applied > MapVersion();
      if (is_ready) feed.is_reported = is_one_more = true;
    }
    if (feed.is_reported) applied = std::min(applied, feed.applied);
  }
  ASSERT(applied >= applied_ && applied <= map_.version());
  const bool has_fenced = applied_ < fenced_ && applied >= fenced_;
  applied_ = applied;
  std::erase_if(handed_, [&](const Kept& kept) {
    if (kept.grant.version > applied_) return false;
    answered_ = std::max(answered_, kept.grant.sequence);
    if (kept.grant.lease) lease_until_ = std::max(lease_until_, kept.sent + lease_);
    return true;
  });
  if (is_one_more || has_fenced) on_news_();
}

std::vector<controller::TargetReport> Feeds::reports() const {
  std::vector<controller::TargetReport> reports;
  for (const auto& [target, feed] : feeds_) {
    if (!feed.is_reported) continue;
    reports.push_back({target, feed.incarnation, feed.condition.failing, feed.condition.full,
                       feed.condition.used_bytes});
  }
  return reports;
}

}  // namespace penstock::membership
