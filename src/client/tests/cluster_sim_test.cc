// Clients on two nodes, the target of each on the other one, and wires between them that lose,
// delay, repeat and are cut, while either side dies: the first path between nodes.
#include "cluster_parts.h"

#include <gtest/gtest.h>

namespace penstock::client {
namespace {

using std::chrono::seconds;
using test::FaultyPair;

// Two programs a node.
class ClusterStory {
 public:
  explicit ClusterStory(uint64_t seed) : pair_(seed) {}

  uint64_t run() {
    FaultyPair::Hooks hooks;
    hooks.step = [this](size_t node, size_t program, engine::Random& random) {
      const uint64_t dice = random.below(3);
      if (dice == 0) return shared_.step(node, program, random);
      return dice == 1 ? cut_.step(node, program, random) : names_.step(node, program, random);
    };
    hooks.dead = [this](size_t node, bool power_cut) {
      shared_.node_died();
      cut_.node_died();
      names_.node_died(node, power_cut);
    };
    pair_.run(kClusterPrograms, hooks);
    check_all();
    sync_some();
    pair_.cut_power(hooks);
    check_all();
    shared_.drop_all();
    cut_.drop_all();
    for (size_t node = 0; node < kClusterNodes; ++node) remove_all(node);
    pair_.stop();
    return pair_.world().trace_hash();
  }

 private:
  void check_all() {
    shared_.check_all();
    cut_.check_all();
    names_.check_all();
  }

  // Each kind of sync makes more durable than it is asked for: one of them must do alone.
  void sync_some() {
    const uint64_t kind = pair_.world().random().below(3);
    if (kind == 0) {
      shared_.sync_all();
      cut_.sync_all();
      return;
    }
    for (size_t node = 0; node < kClusterNodes; ++node) {
      EXPECT_TRUE(names_.sync(node, *pair_.node(node).files(), kind == 1)) << pair_.where();
    }
  }

  // With the last name of a file its chunks go from the other node, those of files that deaths have
  // left without a name had to go before.
  void remove_all(size_t node) {
    const std::shared_ptr<FileSystem> files = pair_.node(node).files();
    std::vector<std::string> names;
    const Status listed =
        files->meta().read_directory(meta::kRootInode, 0, 1000, false,
                                     [&](const meta::DirectoryEntry& entry, const Attributes*) {
                                       names.push_back(entry.name);
                                       return true;
                                     });
    EXPECT_TRUE(listed.ok()) << pair_.where();
    for (const std::string& name : names) {
      EXPECT_TRUE(files->unlink(Credentials(), meta::kRootInode, name, nullptr).ok())
          << name << " " << pair_.where();
    }
    test::SimNode& other = pair_.node(1 - node);
    // What the client itself keeps there is one block; and the root stays.
    const auto is_empty = [&] {
      const Result<meta::FileSystemCounts> counts = files->meta().counts();
      return other.stored().used_bytes <= limits::kBlockBytes && counts && counts->inodes == 1;
    };
    EXPECT_TRUE(pair_.world().run_until(is_empty, seconds(60)))
        << other.stored().used_bytes << " bytes of node " << node << " are left on the other "
        << pair_.where();
  }

  FaultyPair pair_;
  SharedFiles shared_{pair_};
  CutFiles cut_{pair_};
  OwnedNames names_{pair_};
};

TEST(ClusterSimTest, files_on_another_node_keep_their_word_through_loss_cuts_and_deaths) {
  const sim::SeedRange seeds = sim::seed_range(300);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("PENSTOCK_SEED=" + std::to_string(seed));
    ClusterStory(seed).run();
    if (HasFailure()) return;
  }
}

TEST(ClusterSimTest, runs_the_same_way_again_when_the_seed_is_the_same) {
  const sim::SeedRange seeds = sim::seed_range(3);
  for (uint64_t seed = seeds.first; seed < seeds.first + std::min<uint64_t>(seeds.count, 3);
       ++seed) {
    EXPECT_EQ(ClusterStory(seed).run(), ClusterStory(seed).run());
  }
}

}  // namespace
}  // namespace penstock::client
