// A client on one node, its target on another, and wires between them that lose, delay, repeat and
// are cut, while either side dies: the first path between nodes.
#include "register_file.h"
#include "sim_node.h"

#include <array>
#include <gtest/gtest.h>

namespace penstock::client {
namespace {

using engine::Thread;
using std::chrono::milliseconds;
using std::chrono::seconds;

engine::MemoryRef memory_of(std::string& bytes) {
  return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
}

// Two nodes, each of which stores what the other one mounts.
class ClusterStory {
 public:
  explicit ClusterStory(uint64_t seed)
      : world_(seed),
        network_(world_),
        nodes_{std::make_unique<SimNode>(network_, world_, 1, targets_on(2)),
               std::make_unique<SimNode>(network_, world_, 2, targets_on(1))} {
    world_.set_time_limit(std::chrono::hours(24));
  }

  uint64_t run() {
    start_both();
    std::vector<Thread> programs;
    for (size_t i = 0; i < 4; ++i) {
      programs.emplace_back("program", [this, i] { run_program(i); });
    }
    inject_faults();
    heal();
    healed_ = true;
    for (Thread& program : programs) program.join();
    verify();
    for (const auto& node : nodes_) node->stop();
    return world_.trace_hash();
  }

 private:
  static std::vector<engine::Address> targets_on(uint32_t number) { return {{number, 0}}; }
  std::string where() const { return "(seed " + std::to_string(world_.seed()) + ")"; }
  engine::Random& random() { return world_.random(); }

  // Both open their file systems at once, each of which asks the other node's target.
  void start_both() {
    for (const auto& node : nodes_) ASSERT_TRUE(node->start_store().ok()) << where();
    std::vector<Thread> starts;
    for (const auto& node : nodes_) {
      starts.emplace_back("start", [&node, this] {
        const Status mounted = node->start_mount();
        EXPECT_TRUE(mounted.ok()) << mounted.name() << " " << where();
      });
    }
    for (Thread& start : starts) start.join();
  }

  // Two programs a node, which share its file: each writes half of the blocks and reads all.
  void run_program(size_t index) {
    SimNode& node = *nodes_[index % 2];
    RegisterFile& model = models_[index % 2];
    engine::SeededRandom random(world_.seed() * 16 + index);
    uint64_t ended_well = 0;
    for (int step = 0; step < 40 || (healed_ && ended_well < 5); ++step) {
      const bool faults_are_over = healed_;
      const uint32_t mine = static_cast<uint32_t>(index / 2 + 2 * random.below(kBlocks / 2));
      const bool well = random.chance(1, 2)
                            ? write(node, model, mine)
                            : read(node, model, static_cast<uint32_t>(random.below(kBlocks)));
      EXPECT_TRUE(well || !faults_are_over) << "no progress " << where();
      if (well && faults_are_over) ++ended_well;
      world_.run_for(milliseconds(random.below(well ? 50 : 2000)));
    }
  }

  FileRef open(FileSystem& files, const SimNode& node) {
    const auto file =
        files.open_path(node.root, "/shared", {.write = true, .create = true}, 0644, {}, nullptr);
    return file ? *file : nullptr;
  }

  bool write(SimNode& node, RegisterFile& model, uint32_t block) {
    const std::shared_ptr<FileSystem> files = node.files();
    if (files == nullptr) return false;
    const FileRef file = open(*files, node);
    if (file == nullptr) return false;
    std::string bytes = model.begin_write(block);
    const Result<uint64_t> done =
        files->write(file, RegisterFile::offset(block), memory_of(bytes), true, nullptr, nullptr);
    const bool well = done && *done == bytes.size();
    model.end_write(block, well);
    return well;
  }

  bool read(SimNode& node, RegisterFile& model, uint32_t block) {
    const std::shared_ptr<FileSystem> files = node.files();
    if (files == nullptr) return false;
    const FileRef file = open(*files, node);
    if (file == nullptr) return false;
    const uint64_t known = model.begin_read(block);
    std::string bytes(RegisterFile::kBlock, '\0');
    const Result<uint64_t> got = files->read(file, RegisterFile::offset(block), memory_of(bytes));
    if (!got) return false;
    // The rest of a block that lies behind the end was never written.
    EXPECT_EQ(model.check(block, known, bytes), "") << where();
    return true;
  }

  void inject_faults() {
    network_.faults.drop_permille = random().chance(1, 2) ? 10 : 0;
    network_.faults.duplicate_permille = random().chance(1, 2) ? 10 : 0;
    if (random().chance(1, 3)) network_.faults.delay_max = milliseconds(20);
    const uint64_t faults = 1 + random().below(4);
    for (uint64_t i = 0; i < faults; ++i) {
      world_.run_for(milliseconds(random().below(3000)));
      if (random().chance(1, 2)) {
        network_.set_partitioned(1, 2, true);
        world_.run_for(milliseconds(random().below(8000)));
        network_.heal();
      } else {
        restart(*nodes_[random().below(2)]);
      }
    }
  }

  void restart(SimNode& node) {
    node.die(random().chance(1, 2));
    world_.run_for(milliseconds(random().below(2000)));
    ASSERT_TRUE(node.start_store().ok()) << where();
    mount(node);
  }

  // As long as the other node does not answer there is no mount.
  void mount(SimNode& node) {
    while (true) {
      const Status mounted = node.start_mount();
      if (mounted.ok()) return;
      ASSERT_TRUE(network_.faults.drop_permille != 0) << mounted.name() << " " << where();
      world_.run_for(milliseconds(500));
    }
  }

  void heal() {
    network_.heal();
    network_.faults = {};
    // What was lost before is found out by then.
    world_.run_for(seconds(10));
  }

  void verify() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (uint32_t block = 0; block < kBlocks; ++block) {
        EXPECT_TRUE(read(*nodes_[i], models_[i], block)) << where();
      }
    }
  }

  static constexpr uint32_t kBlocks = 24;  // in two chunks

  sim::SimWorld world_;
  sim::SimNetwork network_;
  std::array<std::unique_ptr<SimNode>, 2> nodes_;
  std::array<RegisterFile, 2> models_{RegisterFile(kBlocks), RegisterFile(kBlocks)};
  bool healed_ = false;
};

TEST(ClusterSimTest, a_file_on_another_node_is_linearisable_through_loss_cuts_and_deaths) {
  const sim::SeedRange seeds = sim::seed_range(1000);
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
