// A file system whose chunks lie on a chain of three nodes, any of which dies while programs write
// and read.
#include "cluster_parts.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "penstock/testing_chains.h"

namespace penstock::client {
namespace {

using engine::Thread;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kStorageNodes = 3;
constexpr NodeId kMount{101};
constexpr size_t kPrograms = 3;

// The node with the mount; it lives as long as the story.
class MountedNode {
 public:
  MountedNode(sim::SimWorld& world, test::Wires& wires, test::ChainTable& table)
      : world_(world),
        loop_(world, sim::LoopDriver::world_when_called),
        net_(wires.plug(loop_, kMount)),
        chains_([this, &table](ChainId) {
          world_.after(world_.between(milliseconds(0), milliseconds(50)), "mount.refresh",
                       [this, view = table.view()] { chains_.learn(view); });
        }),
        chain_net_(chain::ChainNet::make({.loop = &loop_,
                                          .net = net_.get(),
                                          .chains = &chains_,
                                          .node = kMount,
                                          .incarnation = 1,
                                          .first_slot = 0,
                                          .slots = 16})),
        meta_image_(world),
        meta_kv_(meta_image_) {}

  Status start() {
    meta::MetaOptions options;
    options.default_layout.chunk_bytes_log2 = 16;
    options.default_layout.chain_first = test::kChain.value;
    auto opened = meta::Meta::open(meta_kv_, world_.clock(), options);
    if (!opened) return opened.error().status;
    meta_ = std::move(*opened);
    FileSystemConfig config;
    config.shards.push_back({&loop_, chain_net_.get()});
    const auto chains = std::make_shared<inodes::ChainAddresses>();
    TRY(chains->learn(test::kChain, chain::address_of(test::kChain)));
    config.chains = chains;
    config.records_chain = test::kChain;
    config.written_ids_step = 40;
    auto made = FileSystem::open(*meta_, std::move(config));
    if (!made) return made.error().status;
    files_ = std::move(*made);
    return Code::ok;
  }
  void stop() {
    files_->close();
    files_ = nullptr;
    EXPECT_TRUE(meta_->close().ok());
    net_->kill();
  }
  const std::shared_ptr<FileSystem>& files() const { return files_; }

 private:
  sim::SimWorld& world_;
  sim::SimLoop loop_;
  std::unique_ptr<test::Plug> net_;
  chain::KnownChains chains_;
  std::unique_ptr<chain::ChainNet> chain_net_;
  sim::SimKvImage meta_image_;
  sim::SimKv meta_kv_;
  std::unique_ptr<meta::Meta> meta_;
  std::shared_ptr<FileSystem> files_;
};

class ChainFilesStory {
 public:
  explicit ChainFilesStory(uint64_t seed, test::Wire wire = test::Wire::messages)
      : world_(seed), wires_(world_, wire) {
    world_.set_time_limit(std::chrono::hours(2));
    for (uint32_t i = 1; i <= kStorageNodes; ++i) {
      nodes_.push_back(std::make_unique<test::StorageNode>(
          world_, wires_, i, std::make_unique<test::MemoryStorage>(world_)));
    }
    table_ = std::make_unique<test::ChainTable>(world_, nodes_);
    mount_ = std::make_unique<MountedNode>(world_, wires_, *table_);
    for (size_t i = 0; i < kPrograms; ++i) {
      files_.emplace_back(world_, "/file" + std::to_string(i));
    }
  }

  uint64_t run() {
    for (const auto& node : nodes_) node->start();
    table_->start();
    const Status started = mount_->start();
    EXPECT_TRUE(started.ok()) << started.name() << where();
    std::vector<Thread> programs;
    for (size_t i = 0; i < kPrograms; ++i) {
      programs.emplace_back("program", [this, i] { work(i); });
    }
    lose_nodes();
    for (Thread& program : programs) program.join();
    EXPECT_TRUE(world_.run_until([this] { return table_->all_serve(); }, seconds(60))) << where();
    check_all();
    remove_all();
    stop();
    return world_.trace_hash();
  }

  // What RDMA did, where there is some.
  const test::FabricCounts& rdma() const { return wires_.counts(); }

 private:
  std::string where() const { return " (seed " + std::to_string(world_.seed()) + ")"; }

  // Its own file it writes, cuts and syncs; those of all it reads. With one node lost at a time no
  // operation fails: it waits.
  void work(size_t program) {
    constexpr int kSteps = 40;
    engine::SeededRandom random(world_.seed() * 16 + program);
    for (int step = 0; step < kSteps; ++step) {
      const auto block = static_cast<uint32_t>(random.below(WatchedFile::kBlocks));
      const uint64_t dice = random.below(10);
      const size_t whose = dice < 6 ? program : random.below(kPrograms);
      KeptOpen& open = opens_[program][whose];
      const FileRef file = open.get(mount_->files(), files_[whose].path(), random.chance(1, 4));
      ASSERT_TRUE(file != nullptr) << where();
      bool well = false;
      if (dice < 4) {
        well = files_[whose].write(*mount_->files(), file, block, random.chance(1, 2));
      } else if (dice < 5) {
        well = files_[whose].cut(*mount_->files(), file, block);
      } else if (dice < 6) {
        well = files_[whose].sync(*mount_->files(), file, random.chance(1, 2));
      } else {
        well = files_[whose].read(*mount_->files(), file, block);
      }
      EXPECT_TRUE(well) << "an operation failed, of kind " << dice << where();
      world_.run_for(milliseconds(random.below(200)));
    }
  }

  // One after the other, each back in the chain before the next is lost. A node that is stopped
  // forgets what was not durable, or not.
  void lose_nodes() {
    network_.faults.detection = milliseconds(300);
    for (int left = 3; left > 0; --left) {
      world_.run_for(milliseconds(world_.random().below(1000)));
      test::StorageNode& node = *nodes_[world_.random().below(nodes_.size())];
      if (world_.chance(300)) {
        cut_off(node);
      } else {
        node.die(world_.chance(500));
        world_.run_for(milliseconds(world_.random().below(3000)));
        node.start();
      }
      EXPECT_TRUE(world_.run_until([this] { return table_->all_serve(); }, seconds(60))) << where();
    }
  }

  // From all others and from the controller, for as long as it takes to be given up, or less.
  void cut_off(const test::StorageNode& node) {
    const auto set = [&](bool cut) {
      for (const auto& other : nodes_) {
        if (other.get() == &node) continue;
        network_.set_partitioned(NodeId{node.number()}, NodeId{other->number()}, cut);
      }
      network_.set_partitioned(NodeId{node.number()}, kMount, cut);
      cut ? static_cast<void>(table_->cut_off.insert(node.number())) : table_->cut_off.clear();
    };
    set(true);
    world_.run_for(milliseconds(world_.random().below(3000)));
    set(false);
  }

  void check_all() {
    for (size_t i = 0; i < kPrograms; ++i) {
      const FileRef file = opens_[i][i].get(mount_->files(), files_[i].path(), false);
      for (uint32_t block = 0; block < WatchedFile::kBlocks; ++block) {
        EXPECT_TRUE(files_[i].read(*mount_->files(), file, block)) << where();
      }
    }
  }

  // Of chunks there is what the client itself keeps, at most.
  bool is_bare(test::StorageNode& node) {
    bool done = false;
    store::ListOp list;
    list.from = {test::kChain, {}};
    list.limit = 1000;
    list.owner = &done;
    list.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
    node.store().submit(list);
    EXPECT_TRUE(world_.run_until([&] { return done; }, seconds(10))) << where();
    return std::all_of(list.entries.begin(), list.entries.end(), [](const store::ListEntry& one) {
      return one.chunk.inode == inodes::kRecordsInode || one.state.length == 0;
    });
  }

  // With the last name of a file its chunks go from all copies.
  void remove_all() {
    for (size_t i = 0; i < kPrograms; ++i) {
      for (KeptOpen& open : opens_[i]) open.drop();
      EXPECT_TRUE(mount_->files()
                      ->unlink(Credentials(), meta::kRootInode, files_[i].path().substr(1), nullptr)
                      .ok())
          << where();
    }
    const auto is_empty = [this] {
      return std::all_of(nodes_.begin(), nodes_.end(),
                         [this](const auto& node) { return is_bare(*node); });
    };
    for (int left = 120; left > 0 && !is_empty(); --left) world_.run_for(seconds(1));
    EXPECT_TRUE(is_empty()) << "chunks are left over" << where();
  }

  void stop() {
    mount_->stop();
    table_->stop();
    std::vector<Thread> deaths;
    for (const auto& node : nodes_) {
      deaths.emplace_back("death", [&node] { node->die(false); });
    }
    for (Thread& death : deaths) death.join();
  }

  sim::SimWorld world_;
  test::Wires wires_;
  sim::SimNetwork& network_ = wires_.network;
  std::vector<std::unique_ptr<test::StorageNode>> nodes_;
  std::unique_ptr<test::ChainTable> table_;
  std::unique_ptr<MountedNode> mount_;
  std::vector<WatchedFile> files_;
  std::array<std::array<KeptOpen, kPrograms>, kPrograms> opens_;
};

TEST(ChainFilesSim, programs_do_not_notice_the_loss_of_a_node) {
  const sim::SeedRange seeds = sim::seed_range(100);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    ChainFilesStory(seed).run();
    if (HasFailure()) return;
  }
}

TEST(ChainFilesSim, programs_do_not_notice_the_loss_of_a_node_over_rdma) {
  log::set_level(log::Level::error);
  const sim::SeedRange seeds = sim::seed_range(30);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    ChainFilesStory story(seed, test::Wire::verbs);
    story.run();
    EXPECT_GT(story.rdma().bound, 0U) << seed;
    if (HasFailure()) return;
  }
}

TEST(ChainFilesSim, the_same_seed_leaves_the_same_trace) {
  EXPECT_EQ(ChainFilesStory(3).run(), ChainFilesStory(3).run());
}

}  // namespace
}  // namespace penstock::client
