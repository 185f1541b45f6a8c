// A client on one node, its target on another, and wires between them that lose, delay, repeat and
// are cut, while either side dies: the first path between nodes.
#include <array>
#include <gtest/gtest.h>

#include "penstock/testing_cluster.h"

namespace penstock::client {
namespace {

using test::FaultyPair;
using test::RegisterFile;
using test::SimNode;

engine::MemoryRef memory_of(std::string& bytes) {
  return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
}

// Two programs a node, which share its file: each writes half of the blocks and reads all.
class ClusterStory {
 public:
  explicit ClusterStory(uint64_t seed) : pair_(seed) {}

  uint64_t run() {
    FaultyPair::Hooks hooks;
    hooks.step = [this](size_t node, size_t program, engine::Random& random) {
      const auto mine = static_cast<uint32_t>(program / 2 + 2 * random.below(kBlocks / 2));
      return random.chance(1, 2) ? write(node, mine)
                                 : read(node, static_cast<uint32_t>(random.below(kBlocks)));
    };
    pair_.run(4, hooks);
    for (size_t node = 0; node < models_.size(); ++node) {
      for (uint32_t block = 0; block < kBlocks; ++block) {
        EXPECT_TRUE(read(node, block)) << pair_.where();
      }
    }
    pair_.stop();
    return pair_.world().trace_hash();
  }

 private:
  static FileRef open(FileSystem& files, const SimNode& node) {
    const auto file =
        files.open_path(node.root, "/shared", {.write = true, .create = true}, 0644, {}, nullptr);
    return file ? *file : nullptr;
  }

  bool write(size_t node, uint32_t block) {
    const std::shared_ptr<FileSystem> files = pair_.node(node).files();
    if (files == nullptr) return false;
    const FileRef file = open(*files, pair_.node(node));
    if (file == nullptr) return false;
    std::string bytes = models_[node].begin_write(block);
    const Result<uint64_t> done =
        files->write(file, RegisterFile::offset(block), memory_of(bytes), true, nullptr, nullptr);
    const bool well = done && *done == bytes.size();
    models_[node].end_write(block, well);
    return well;
  }

  bool read(size_t node, uint32_t block) {
    const std::shared_ptr<FileSystem> files = pair_.node(node).files();
    if (files == nullptr) return false;
    const FileRef file = open(*files, pair_.node(node));
    if (file == nullptr) return false;
    const uint64_t known = models_[node].begin_read(block);
    // What lies behind the end of the file was never written.
    std::string bytes(RegisterFile::kBlock, '\0');
    const Result<uint64_t> got = files->read(file, RegisterFile::offset(block), memory_of(bytes));
    if (!got) return false;
    EXPECT_EQ(models_[node].check(block, known, bytes), "") << pair_.where();
    return true;
  }

  static constexpr uint32_t kBlocks = 24;  // in two chunks

  FaultyPair pair_;
  std::array<RegisterFile, 2> models_{RegisterFile(kBlocks), RegisterFile(kBlocks)};
};

TEST(ClusterSimTest, a_file_on_another_node_is_linearisable_through_loss_cuts_and_deaths) {
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
