// Files whose layout lists their chains.
#include "node.h"

namespace penstock::client {
namespace {

constexpr uint64_t kChunk = 65'536;

meta::Layout listing(std::vector<ChainId> chains) {
  meta::Layout layout;
  layout.chunk_bytes_log2 = 16;
  layout.chain_count = 4;
  layout.chains = std::move(chains);
  return layout;
}

Result<FileRef> make(Node& node, const std::string& path, meta::Layout layout) {
  return node.files->open_path(node.root, path, {.write = true, .create = true}, 0644,
                               std::move(layout), nullptr);
}

bool has_chunk(const Node& node, size_t target, InodeId inode, uint32_t index) {
  return node.targets[target]->chunks.count({inode, index}) == 1;
}

TEST(LayoutTest, chunks_lie_on_the_chains_that_the_layout_lists) {
  Node node(1, 4);
  const Result<FileRef> file = make(node, "/a", listing({ChainId(3), ChainId(0), ChainId(2)}));
  ASSERT_TRUE(file.has_value());
  std::string bytes(5 * kChunk + 7, ' ');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(mix64(i));
  EXPECT_EQ(*node.write(*file, 0, bytes, true), bytes.size());
  const InodeId inode = inode_of(**file);
  const size_t where[] = {3, 0, 2, 3, 0, 2};
  for (uint32_t chunk = 0; chunk < 6; ++chunk) {
    for (size_t target = 0; target < 4; ++target) {
      EXPECT_EQ(has_chunk(node, target, inode, chunk), target == where[chunk])
          << "chunk " << chunk << ", target " << target;
    }
  }
  EXPECT_EQ(node.read(*file, 0, bytes.size()), bytes);
  EXPECT_TRUE(node.files->close_file(*file).ok());
}

// The length is looked for on every chain of the list, also after a crash; a cut and a removal
// reach all of them.
TEST(LayoutTest, of_a_list_is_known_to_cuts_recovery_and_removal) {
  Node node(1, 4);
  const std::string bytes(3 * kChunk, 'x');
  Result<FileRef> file = make(node, "/a", listing({ChainId(3), ChainId(1)}));
  ASSERT_TRUE(file.has_value());
  const InodeId inode = inode_of(**file);
  EXPECT_TRUE(node.write(*file, 0, bytes).has_value());
  node.crash();
  *file = nullptr;
  node.start();
  EXPECT_EQ(node.length(inode), bytes.size());
  EXPECT_TRUE(node.truncate(inode, kChunk + 1).ok());
  EXPECT_TRUE(has_chunk(node, 3, inode, 0));
  EXPECT_TRUE(has_chunk(node, 1, inode, 1));
  EXPECT_FALSE(has_chunk(node, 3, inode, 2));
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "a", nullptr).ok());
  EXPECT_TRUE(node.files->collect(100).has_value());
  EXPECT_EQ(node.chunk_count(), 0u);
}

TEST(LayoutTest, that_lists_an_unknown_chain_makes_no_file) {
  Node node(1, 4);
  EXPECT_EQ(make(node, "/a", listing({ChainId(0), ChainId(4)})).error(),
            Status(Code::invalid_argument));
  EXPECT_EQ(make(node, "/a", listing({ChainId(0), ChainId(0)})).error(),
            Status(Code::invalid_argument));
  EXPECT_TRUE(make(node, "/a", listing({ChainId(0), ChainId(3)})).has_value());
}

// A chain that comes later: nothing knew of it when the node started.
TEST(LayoutTest, may_name_a_chain_that_became_known_while_the_node_runs) {
  Node node(1, 4);
  const ChainId late{777};
  EXPECT_EQ(make(node, "/a", listing({late, ChainId(1)})).error(), Status(Code::invalid_argument));
  EXPECT_TRUE(node.chains->learn(late, {NodeId{1}, 2}).ok());
  const Result<FileRef> file = make(node, "/a", listing({late, ChainId(1)}));
  ASSERT_TRUE(file.has_value());
  const std::string bytes(2 * kChunk, 'x');
  EXPECT_TRUE(node.write(*file, 0, bytes).has_value());
  EXPECT_TRUE(has_chunk(node, 2, inode_of(**file), 0));
  EXPECT_TRUE(has_chunk(node, 1, inode_of(**file), 1));
  EXPECT_EQ(node.read(*file, 0, bytes.size()), bytes);
  EXPECT_TRUE(node.files->sync_file(*file).ok());
  EXPECT_TRUE(node.files->close_file(*file).ok());
  const uint64_t before = node.targets[2]->syncs;
  EXPECT_TRUE(node.files->sync_all().ok());
  EXPECT_GT(node.targets[2]->syncs, before);
}

class LateChainTest : public testing::Test {
 protected:
  static constexpr ChainId kLate{777};
  static void learn(inodes::ChainAddresses& chains) {
    EXPECT_TRUE(chains.learn(kLate, {NodeId{1}, 2}).ok());
  }
  // A file of a hundred bytes, all on the late chain.
  FileRef make_late() {
    learn(*node.chains);
    const Result<FileRef> file = make(node, "/a", listing({kLate}));
    EXPECT_TRUE(file.has_value());
    EXPECT_TRUE(node.write(*file, 0, std::string(100, 'x')).has_value());
    return *file;
  }
  Node node{1, 4};
};

TEST_F(LateChainTest, is_asked_for_lengths_after_a_crash_where_it_is_known_from_the_start) {
  FileRef file = make_late();
  const InodeId inode = inode_of(*file);
  node.crash();
  file = nullptr;
  node.learn_more = learn;
  node.start();
  EXPECT_EQ(node.length(inode), 100u);
}

TEST_F(LateChainTest, makes_removed_files_wait_until_it_is_known) {
  FileRef file = make_late();
  const InodeId inode = inode_of(*file);
  const FileRef other = node.open("/b");
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "a", nullptr).ok());
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "b", nullptr).ok());
  // Both are still open at the end of this life.
  node.crash();
  file = nullptr;
  node.start();
  EXPECT_TRUE(node.files->collect(100).has_value());
  EXPECT_TRUE(has_chunk(node, 2, inode, 0));
  EXPECT_EQ(*node.meta->orphans(100), std::vector<InodeId>{inode});
  EXPECT_EQ(node.files->open_inode(node.root, inode, {}, true, nullptr).error(),
            Status(Code::stale));
  learn(*node.chains);
  EXPECT_EQ(*node.files->collect(100), 1u);
  EXPECT_FALSE(has_chunk(node, 2, inode, 0));
  EXPECT_TRUE(node.meta->orphans(100)->empty());
}

TEST_F(LateChainTest, is_missed_when_its_files_are_opened) {
  FileRef file = make_late();
  const InodeId inode = inode_of(*file);
  EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  node.stop();
  node.start();
  const auto open = [&] {
    const auto opened = node.files->open_inode(node.root, inode, {}, true, nullptr);
    return opened ? Status() : opened.error();
  };
  EXPECT_EQ(open(), Status(Code::not_serving));
  learn(*node.chains);
  EXPECT_EQ(open(), Status());
}

TEST(ChainAddresses, are_found_when_they_were_learned) {
  const engine::Address of_chain{NodeId{}, 0};
  inodes::ChainAddresses chains;
  EXPECT_FALSE(chains.knows(ChainId(0)));
  EXPECT_EQ(chains.find(ChainId(UINT32_MAX)), std::nullopt);
  EXPECT_TRUE(chains.learn(ChainId(0), of_chain).ok());
  EXPECT_EQ(chains.find(ChainId(0)), of_chain);
  const ChainId last{inodes::limits::kChainsMax - 1};
  EXPECT_TRUE(chains.learn(last, {NodeId{7}, UINT32_MAX}).ok());
  EXPECT_EQ(chains.at(last), (engine::Address{NodeId{7}, UINT32_MAX}));
  EXPECT_TRUE(chains.learn(last, {NodeId{8}, 1}).ok()) << "it is served elsewhere now";
  EXPECT_EQ(chains.at(last), (engine::Address{NodeId{8}, 1}));
  EXPECT_EQ(chains.all(), (std::vector<ChainId>{ChainId(0), last}));
  EXPECT_EQ(chains.learn(ChainId(last.value + 1), of_chain), Status(Code::too_large));
  EXPECT_EQ(chains.size(), 2u);
}

TEST(ChainAddresses, of_a_range_are_known_when_all_of_it_are) {
  inodes::ChainAddresses chains;
  for (uint32_t i = 1020; i < 1030; ++i) {
    EXPECT_TRUE(chains.learn(ChainId(i), {NodeId{}, i}).ok());
  }
  EXPECT_TRUE(chains.knows_range(1020, 10));
  EXPECT_FALSE(chains.knows_range(1019, 10));
  EXPECT_FALSE(chains.knows_range(1020, 11));
  EXPECT_FALSE(chains.knows_range(UINT32_MAX, 1));
  EXPECT_FALSE(chains.knows_range(1, UINT32_MAX));
}

}  // namespace
}  // namespace penstock::client
