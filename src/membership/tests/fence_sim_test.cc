// A client whose session is fenced while it goes on writing, in clusters whose controller, nodes
// and networks fail: what others read afterwards stays as it is.
#include "cluster_story.h"

#include <gtest/gtest.h>
#include <map>

namespace penstock::membership {
namespace {

using engine::Thread;
using std::chrono::milliseconds;
using std::chrono::seconds;

class FencedClient : private ClusterStory {
 public:
  explicit FencedClient(uint64_t seed) : ClusterStory(seed, false) {
    clients_[0]->set_session([this] {
      return wire::AgentSession{clients_[0]->id(), session_}.word();
    });
  }

  // How many writes of the old session were refused.
  size_t run() {
    begin();
    if (testing::Test::HasFailure()) return 0;
    std::vector<Thread> programs;
    for (int i = 0; i < 2; ++i) programs.emplace_back("old", [this] { go_on_writing(); });
    programs.emplace_back("faults", [this] { inject_faults(); });
    wait(seconds(4));
    fence();
    take_snapshot();
    programs.emplace_back("other", [this] { write_as_other(); });
    for (int i = 0; i < kReads; ++i) {
      read_one({world_.random().below(kChunks), 0});
      wait(milliseconds(400));
    }
    calm_ = true;
    for (Thread& program : programs) program.join();
    settle();
    for (uint64_t chunk = 0; chunk < kChunks; ++chunk) read_one({chunk, 0});
    EXPECT_EQ(history_.check(), "") << where();
    if (!testing::Test::HasFailure()) check_copies();
    stop();
    return refused_;
  }

 private:
  static constexpr uint64_t kChunks = 4;
  static constexpr uint64_t kLowest = 2;
  static constexpr int kReads = 30;

  void go_on_writing() {
    while (!calm_) {
      const bool is_over = in_force_;
      const Status status = registers_[0]->try_write({world_.random().below(kChunks), 0});
      if (status == Code::stale) ++refused_;
      EXPECT_FALSE(is_over && status.ok()) << "it began after the fence " << where();
      wait(milliseconds(300));
    }
  }

  // The controller may be away; what is ordered twice is ordered once.
  void fence() {
    for (int left = 20; left > 0 && !in_force_; --left) {
      const auto answer =
          clients_[1]->ask(controller::Fence{clients_[0]->id(), kLowest}, seconds(10));
      in_force_ = answer && std::holds_alternative<Done>(*answer);
    }
    EXPECT_TRUE(in_force_) << "a fence never comes " << where();
  }

  void take_snapshot() {
    while (!registers_[1]->is_quiet()) world_.run_for(milliseconds(50));
    for (uint64_t chunk = 0; chunk < kChunks; ++chunk) {
      std::optional<uint64_t> value;
      while (!value) value = registers_[1]->read_value({chunk, 0});
      snapshot_[chunk] = *value;
    }
  }

  void write_as_other() {
    for (int i = 0; i < kReads / 2 && !calm_; ++i) {
      registers_[1]->write({world_.random().below(kChunks), 0});
      wait(milliseconds(800));
    }
  }

  void read_one(test::History::Register which) {
    const auto value = registers_[1]->read_value(which);
    if (!value || *value == snapshot_.at(which.first)) return;
    EXPECT_NE(test::Registers::writer_of(*value), clients_[0]->number())
        << "bytes of an old session came later " << where();
  }

  void inject_faults() {
    network_.faults.drop_permille = world_.chance(500) ? 20 : 0;
    network_.faults.duplicate_permille = world_.chance(500) ? 30 : 0;
    if (world_.chance(300)) network_.faults.delay_max = milliseconds(30);
    records_.faults.conflict_permille = world_.chance(300) ? 50 : 0;
    records_.faults.unknown_commit_permille = world_.chance(300) ? 30 : 0;
    while (!calm_) {
      wait(seconds(3));
      one_fault();
    }
    network_.heal();
    network_.faults = {};
    network_.faults.detection = milliseconds(300);
    records_.faults = {};
    let_late_one_join();
  }

  void one_fault() {
    SimNode& node = any_node();
    SimNode& other = any_node();
    switch (world_.random().below(6)) {
      case 0:
        return network_.set_partitioned(node.id(), other.id(), &node != &other);
      case 1:
        // Without its controller, and without a lease soon.
        return network_.set_partitioned(node.id(), kControllerNode, &node != &controller());
      case 2:
      case 3:
        return network_.heal();
      case 4:
        return restart(controller());
      default:
        return restart(any_storage());
    }
  }

  void restart(SimNode& node) {
    node.die(world_.chance(500));
    wait(seconds(1));
    node.start();
  }

  uint64_t session_ = 1;
  std::map<uint64_t, uint64_t> snapshot_;
  bool in_force_ = false;
  bool calm_ = false;  // no fault comes any more
  size_t refused_ = 0;
};

TEST(FenceSim, nothing_of_a_fenced_session_is_seen_later_whatever_fails) {
  const sim::SeedRange seeds = sim::seed_range(100);
  size_t refused = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    refused += FencedClient(seed).run();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(refused, seeds.count);
}

}  // namespace
}  // namespace penstock::membership
