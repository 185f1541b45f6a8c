// Several keepers over one Kv that fails, in threads that stall: one at most may grant at any time,
// and what they say was committed one after the other.
#include <gtest/gtest.h>
#include <set>

#include "penstock/controller.h"
#include "penstock/sim.h"

namespace penstock::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kKeepers = 3;

class KeeperStory {
 public:
  explicit KeeperStory(uint64_t seed) : world_(seed), image_(world_) {
    for (size_t i = 0; i < kKeepers; ++i) {
      kvs_.push_back(std::make_unique<sim::SimKv>(image_));
      keepers_.push_back(make_keeper(i));
    }
  }

  void run() {
    image_.faults.conflict_permille = world_.chance(500) ? 100 : 0;
    image_.faults.unknown_commit_permille = world_.chance(500) ? 50 : 0;
    image_.faults.unresolved_commit_permille = world_.chance(500) ? 50 : 0;
    image_.faults.read_error_permille = world_.chance(500) ? 20 : 0;
    if (world_.chance(300)) image_.faults.delay_max = milliseconds(400);
    {
      std::vector<engine::Thread> threads;
      for (size_t i = 0; i < kKeepers; ++i) {
        threads.emplace_back("keeper", [this, i] { lead(i); });
      }
      world_.run_for(seconds(30));
      image_.faults = {};
      stalls_ = false;
      world_.run_for(seconds(10));
      const uint64_t before = steps_;
      world_.run_for(seconds(3));
      EXPECT_GT(steps_, before) << "nobody leads " << where();
      ended_ = true;
      for (engine::Thread& thread : threads) thread.join();
    }
    EXPECT_GT(published_.size(), 1U) << where();
    check_records();
  }

 private:
  std::string where() const { return "(seed " + std::to_string(world_.seed()) + ")"; }

  Uuid any_uuid() {
    Uuid uuid;
    for (uint8_t& byte : uuid.bytes) byte = static_cast<uint8_t>(1 + world_.random().below(255));
    return uuid;
  }

  std::unique_ptr<Keeper> make_keeper(size_t i) {
    return std::make_unique<Keeper>(KeeperConfig{.kv = kvs_[i].get(),
                                                 .clock = &world_.clock(),
                                                 .process = any_uuid(),
                                                 .cluster = {{7}},
                                                 .lease = milliseconds(1000),
                                                 .timing = {}});
  }

  void lead(size_t i) {
    while (!ended_) {
      // Fails where the Kv does; it goes on in the next turn.
      if (!keepers_[i]->renew()) ++failed_renewals_;
      check_leads();
      for (int n = 0; n < 4 && keepers_[i]->leads(); ++n) one_step(i);
      const bool stalls = stalls_ && world_.chance(150);
      world_.run_for(milliseconds(world_.random().below(stalls ? 3000 : 150)));
      if (!stalls_ || !world_.chance(20)) continue;
      // Its process ends, perhaps in order, and another begins.
      if (world_.chance(500)) (void)keepers_[i]->close();
      keepers_[i] = make_keeper(i);
    }
  }

  void one_step(size_t i) {
    Keeper& keeper = *keepers_[i];
    Event event = Tick{};
    const uint64_t node = world_.random().below(6);
    Uuid uuid;
    uuid.bytes[0] = static_cast<uint8_t>(1 + node);
    if (world_.chance(700)) event = Join{{{7}}, uuid, any_uuid(), {}, true};
    const Result<Actions> actions = keeper.handle(event);
    if (!actions) return;
    ++steps_;
    check_leads();
    // Each version of the map is made once, whoever makes it, and each life of a node is one
    // process.
    if (actions->published) {
      const uint64_t version = keeper.state().version.value;
      EXPECT_TRUE(published_.insert(version).second) << "version " << version << " " << where();
    }
    for (const Admission& admission : actions->admissions) {
      const auto life = std::pair(admission.node, admission.incarnation);
      EXPECT_TRUE(lives_.insert(life).second) << where();
    }
  }

  void check_leads() {
    size_t leading = 0;
    for (const auto& keeper : keepers_) leading += keeper->may_grant() ? 1 : 0;
    EXPECT_LE(leading, 1U) << where();
  }

  // What is committed is a state, and has all that anybody was told.
  void check_records() {
    StateLoader loader;
    for (const auto& [key, bytes] : image_.content()) {
      ASSERT_EQ(key[0], kKeyPrefix) << where();
      EXPECT_TRUE(loader.add(key, bytes).ok()) << where();
    }
    const Result<State> state = loader.finish();
    ASSERT_TRUE(state.has_value()) << where();
    EXPECT_GE(state->version.value, *published_.rbegin()) << where();
    for (const auto& [node, incarnation] : lives_) {
      ASSERT_TRUE(state->has(node)) << where();
      EXPECT_GE(state->at(node).incarnation, incarnation) << where();
    }
  }

  sim::SimWorld world_;
  sim::SimKvImage image_;
  std::vector<std::unique_ptr<sim::SimKv>> kvs_;
  std::vector<std::unique_ptr<Keeper>> keepers_;
  std::set<uint64_t> published_;
  std::set<std::pair<NodeId, NodeIncarnation>> lives_;
  uint64_t steps_ = 0;
  uint64_t failed_renewals_ = 0;
  bool stalls_ = true;
  bool ended_ = false;
};

TEST(KeeperSim, one_at_most_grants_and_nothing_that_was_said_is_lost) {
  const sim::SeedRange seeds = sim::seed_range(200);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    KeeperStory(seed).run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::controller
