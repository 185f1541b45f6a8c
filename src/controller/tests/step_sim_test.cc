// Clusters under faults from a seed: what a copy could answer is always what was acknowledged,
// every version keeps the promises of decision 0044, and once faults stop all chains become whole.
#include "cluster_model.h"

#include <gtest/gtest.h>

namespace penstock::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Story {
 public:
  explicit Story(uint64_t seed) : world_(seed), model_(world_, options()) {
    world_.set_time_limit(std::chrono::hours(2));
  }

  uint64_t run() {
    model_.start();
    model_.lost_permille = world_.chance(500) ? 60 : 0;
    model_.failed_commits_permille = world_.chance(300) ? 10 : 0;
    const uint64_t faults = 4 + world_.random().below(15);
    for (uint64_t i = 0; i < faults && model_.fault().empty(); ++i) {
      world_.run_for(milliseconds(world_.random().below(world_.chance(400) ? 80 : 1600)));
      one_fault();
    }
    EXPECT_EQ(model_.fault(), "") << where();
    become_whole();
    lose_one();
    become_whole();
    model_.stop();
    world_.run_for(seconds(1));
    return world_.trace_hash();
  }

 private:
  std::string where() const { return "(seed " + std::to_string(world_.seed()) + ")"; }

  ModelOptions options() {
    ModelOptions options;
    options.nodes = 3 + world_.random().below(4);
    options.targets = 1 + world_.random().below(2);
    options.copies = static_cast<uint32_t>(1 + world_.random().below(3));
    options.chains = 2 + world_.random().below(5);
    if (world_.chance(400)) {
      options.late = 1 + world_.random().below(2);
      options.nodes += options.late;
      options.chains *= 2;
    }
    return options;
  }

  // Once nothing fails any more all chains are whole in bounded time, and take updates.
  void become_whole() {
    healed_ = true;
    model_.heal();
    // What was said before arrives.
    world_.run_for(milliseconds(300));
    const auto is_done = [this] {
      const bool is_good = model_.is_whole() && drained() && model_.is_even();
      return !model_.fault().empty() || is_good;
    };
    const bool done = world_.run_until(is_done, seconds(60));
    EXPECT_TRUE(done) << "no progress " << where() << model_.describe();
    expect_updates();
  }

  // All chains with several copies go on when one node is gone, or does not hear the controller, or
  // is not heard by it.
  void lose_one() {
    const size_t node = any_node();
    const uint64_t how = world_.random().below(3);
    if (how == 0) model_.kill(node);
    if (how == 1) model_.deaf.insert(node);
    if (how == 2) model_.mute.insert(node);
    world_.run_for(seconds(4));
    if (model_.state().tables.front().copies > 1) expect_updates();
  }

  void expect_updates() {
    std::vector<uint64_t> before;
    for (const Chain& chain : model_.state().chains) {
      before.push_back(model_.acknowledged(chain.id));
    }
    world_.run_for(seconds(2));
    for (const Chain& chain : model_.state().chains) {
      EXPECT_GT(model_.acknowledged(chain.id), before[chain.id.value - kFirstSharedChain.value])
          << "no updates " << where() << model_.describe();
    }
    EXPECT_EQ(model_.fault(), "") << where();
  }

  size_t any_node() { return world_.random().below(model_.nodes()); }

  void one_fault() {
    const size_t node = any_node();
    switch (world_.random().below(17)) {
      case 0:
      case 1:
      case 2:
        return restart(node);
      case 3:
        return model_.power_cut();
      case 4:
        model_.deaf.insert(node);
        return;
      case 5:
        model_.mute.insert(node);
        return;
      case 6:
        model_.deaf.clear();
        model_.mute.clear();
        model_.cut.clear();
        return;
      case 7:
        return cut(node, any_node());
      case 8:
        return model_.fail_replica(node);
      case 9:
        return model_.restart_controller();
      case 10:
      case 11:
        return drain(node);
      case 12:
        return forget();
      case 13:
      case 14:
        return join();
      default:
        return move();
    }
  }

  // Of the nodes that are to come later, if there are any.
  void join() {
    for (size_t node = 0; node < model_.nodes(); ++node) {
      if (!model_.node(node).running) return model_.run(node);
    }
  }

  void restart(size_t node) {
    model_.kill(node);
    const uint64_t later = world_.random().below(world_.chance(500) ? 60 : 1500);
    world_.after(milliseconds(later), "restart", [this, node] { model_.run(node); });
  }

  void cut(size_t a, size_t b) {
    if (a != b) model_.cut.insert(std::minmax(a, b));
  }

  // A node that is to leave its chains does not hear of it, while others may be gone for a moment.
  void leave_unheard(size_t node) {
    const auto later = [this](uint64_t most) { return milliseconds(world_.random().below(most)); };
    world_.after(later(400), "deaf", [this, node] {
      if (!healed_) model_.deaf.insert(node);
    });
    if (world_.chance(500)) return;
    for (size_t other = 0; other < model_.nodes(); ++other) {
      if (other == node || world_.chance(200)) continue;
      world_.after(milliseconds(400) + later(400), "blink", [this, other] {
        if (healed_) return;
        model_.kill(other);
        model_.run(other);
      });
    }
  }

  // At most one, so that enough nodes are left for all copies.
  void drain(size_t node) {
    const NodeId id = model_.node(node).id;
    if (id == NodeId()) return;
    if (draining_ != NodeId()) {
      model_.order(Drain{draining_, false});
      draining_ = NodeId();
    } else if (draining_target_ != TargetId()) {
      model_.order(DrainTarget{draining_target_, false});
      draining_target_ = TargetId();
    } else if (model_.nodes() > model_.state().tables.front().copies) {
      drain_all_or_one(id);
      if (world_.chance(400)) leave_unheard(node);
    }
  }

  void drain_all_or_one(NodeId id) {
    const std::vector<TargetId>& targets = model_.state().at(id).targets;
    if (targets.empty() || world_.chance(500)) {
      model_.order(Drain{id});
      draining_ = id;
    } else {
      draining_target_ = targets[world_.random().below(targets.size())];
      model_.order(DrainTarget{draining_target_});
    }
  }

  void move() {
    const State& state = model_.state();
    const Chain& chain = state.chains[world_.random().below(state.chains.size())];
    if (chain.members.empty()) return;
    const TargetId from = chain.members[world_.random().below(chain.members.size())].target;
    const TargetId to = state.targets[world_.random().below(state.targets.size())].id;
    model_.order(Move{chain.id, from, to});
    for (size_t node = 0; node < model_.nodes(); ++node) {
      const bool leaves = model_.node(node).id == state.at(from).node;
      if (leaves && world_.chance(400)) leave_unheard(node);
    }
  }

  // One at most, and none that has the last full copy of something. Enough are left for all copies.
  void forget() {
    const State& state = model_.state();
    const bool some_are_left = model_.nodes() > state.tables.front().copies + 1;
    if (forgotten_ || !some_are_left) return;
    const Target& target = state.targets[world_.random().below(state.targets.size())];
    model_.order(Forget{target.id, has_no_last_copy(target)});
    forgotten_ = state.at(target.id).forgotten;
  }

  bool has_no_last_copy(const Target& target) const {
    const State& state = model_.state();
    return std::all_of(target.chains.begin(), target.chains.end(), [&](ChainId id) {
      const std::vector<Member>& members = state.at(id).members;
      return std::any_of(members.begin(), members.end(), [&](const Member& member) {
        return member.target != target.id && member.state == CopyState::serving &&
               !state.at(member.target).forgotten;
      });
    });
  }

  bool drained() const {
    const State& state = model_.state();
    const bool node = draining_ == NodeId() || chains_on(state, draining_) == 0;
    return node && (draining_target_ == TargetId() || state.at(draining_target_).chains.empty());
  }

  sim::SimWorld world_;
  ClusterModel model_;
  NodeId draining_;
  TargetId draining_target_;
  bool forgotten_ = false;
  bool healed_ = false;
};

TEST(StepSim, acknowledged_updates_are_answered_whatever_fails) {
  const sim::SeedRange seeds = sim::seed_range(300);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Story(seed).run();
    if (HasFailure()) return;
  }
}

TEST(StepSim, the_same_seed_leaves_the_same_trace) {
  EXPECT_EQ(Story(3).run(), Story(3).run());
}

}  // namespace
}  // namespace penstock::controller
