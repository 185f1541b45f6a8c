// What each target of the process still has to be told, and what it acts by.
#pragma once

#include "question.h"

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "penstock/membership/member.h"

namespace penstock::membership {

// Owner thread of the member's loop. Destroying it is as a crash.
class Feeds {
 public:
  // `news` is called when there is something that the controller waits for: one more target is
  // reported, or all have taken a fence. All outlives it.
  Feeds(LocalNode& node, const ClusterMap& map, engine::Duration lease, std::function<void()> news);
  ~Feeds() { *alive_ = false; }

  void add(const TargetIdentity& target);
  void remove(TargetId target);
  // Whether it is good for something else than before.
  bool set_condition(TargetId target, Member::Condition condition);

  // The map has changed so.
  void on_changes(const MapChanges& changes);
  // The answer to a heartbeat that was sent at that time. It is kept until the map is there.
  void on_grant(controller::Grant grant, engine::Time sent);
  // The map has a new version. Gives targets what they have to be told, if none is under way.
  void give_all();

  // Those that have their chains.
  std::vector<controller::TargetReport> reports() const;
  // They all act by it.
  controller::MapVersion applied() const { return applied_; }
  // The newest heartbeat whose grant is here, and its map applied.
  uint64_t answered() const { return answered_; }
  engine::Time lease_until() const { return lease_until_; }

 private:
  struct Feed {
    controller::Incarnation incarnation;
    Member::Condition condition;
    bool is_reported = false;
    bool is_under_way = false;  // it is being told something
    bool knows_others = false;  // chains that have nothing of it
    std::set<ChainId> untold;   // chains of which it does not know the newest version
    std::set<NodeId> unfenced;  // nodes of which it does not know the lowest session,
    std::set<NodeId> unjudged;  // or since when they are restricted
    controller::MapVersion applied;
    engine::Time lease{};        // that it shall have,
    engine::Time given_lease{};  // and that it was given
  };
  struct Kept {
    controller::Grant grant;
    engine::Time sent{};
  };

  void give(TargetId target, Feed& feed);
  void on_taken(TargetId target, controller::Incarnation incarnation,
                controller::MapVersion version);
  void settle();
  void hand_on_grants();
  void hand_on(const Kept& kept);

  LocalNode& node_;
  const ClusterMap& map_;
  const engine::Duration lease_;
  const std::function<void()> on_news_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::map<TargetId, Feed> feeds_;
  std::deque<Kept> grants_;  // whose maps are not here, in the order of their heartbeats
  std::deque<Kept> handed_;  // whose maps are here, and not applied by all
  controller::MapVersion applied_;
  controller::MapVersion fenced_;  // of the newest map with a fence that is new
  uint64_t answered_ = 0;
  engine::Time lease_until_{};
};

}  // namespace penstock::membership
