// Which chains are asked for the chunks of removed files.
#include "node.h"

namespace penstock::client {
namespace {

constexpr uint64_t kChunkOfTest = 65'536;
constexpr size_t kTargets = 4;
// Of what is not durable a power cut takes more or less.
constexpr uint64_t kSeeds = 20;

// Everything that targets are asked for.
std::vector<uint64_t> operations(const Node& node) {
  std::vector<uint64_t> all;
  for (const auto& target : node.targets) all.push_back(target->operations);
  return all;
}

size_t targets_asked(const Node& node, const std::vector<uint64_t>& before) {
  size_t asked = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    asked += node.targets[i]->operations != before[i] ? 1 : 0;
  }
  return asked;
}

// Of a file that was closed; how many targets its removal asks.
size_t remove_and_count(Node& node, const std::string& name) {
  const std::vector<uint64_t> before = operations(node);
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, name, nullptr).ok());
  EXPECT_TRUE(node.world.run_until([&node] { return node.files->status().removed_waiting == 0; }));
  return targets_asked(node, before);
}

void make_closed(Node& node, const std::string& name, uint64_t length) {
  FileRef file = node.open("/" + name);
  if (length > 0) {
    EXPECT_TRUE(node.write(file, 0, std::string(length, 'x')).has_value());
  }
  EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
}

// The next life begins on what a power cut leaves: of meta what was durable, of the targets all.
void lose_power(Node& node) {
  node.files = nullptr;
  node.meta = nullptr;
  node.kv_image.power_cut();
  node.kv = nullptr;
  node.sim_kv = nullptr;
  node.start();
}

TEST(RemovalTest, asks_the_chains_that_have_chunks_of_the_file) {
  Node node(1, kTargets);
  const std::pair<uint64_t, size_t> cases[] = {{0, 1},
                                               {1, 1},
                                               {kChunkOfTest, 1},
                                               {kChunkOfTest + 1, 2},
                                               {3 * kChunkOfTest, 3},
                                               {9 * kChunkOfTest, 4}};
  for (const auto& [length, asked] : cases) {
    make_closed(node, "a", length);
    EXPECT_EQ(remove_and_count(node, "a"), asked) << length << " bytes";
    EXPECT_EQ(node.chunk_count(), 0u) << length << " bytes";
  }
}

TEST(RemovalTest, asks_one_chain_once_for_each_small_file) {
  Node node(1, kTargets);
  make_closed(node, "a", 1000);
  uint64_t before = 0;
  for (const uint64_t count : operations(node)) before += count;
  EXPECT_EQ(remove_and_count(node, "a"), 1u);
  uint64_t after = 0;
  for (const uint64_t count : operations(node)) after += count;
  EXPECT_EQ(after - before, 2u) << "a removal and a sync";
}

TEST(RemovalTest, finds_what_lies_beyond_the_end_of_a_file_that_was_open_at_a_crash) {
  Node node(1, kTargets);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(3 * kChunkOfTest, 'x')).has_value());
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "a", nullptr).ok());
  node.crash();
  node.start();
  EXPECT_EQ(*node.files->collect(100), 1u);
  EXPECT_EQ(node.chunk_count(), 0u);
  EXPECT_TRUE(node.meta->unsettled()->empty());
}

TEST(RemovalTest, finds_what_was_written_in_a_session_that_a_power_cut_took_back) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Node node(seed, kTargets);
    make_closed(node, "a", 10);
    EXPECT_TRUE(node.files->sync_all().ok());
    const FileRef file = node.open("/a", {.write = true});
    EXPECT_TRUE(node.write(file, 10, std::string(2 * kChunkOfTest, 'y')).has_value());
    lose_power(node);
    EXPECT_EQ(remove_and_count(node, "a"), kTargets) << "seed " << seed;
    EXPECT_EQ(node.chunk_count(), 0u) << "seed " << seed;
  }
}

TEST(RemovalTest, finds_what_was_written_below_a_length_that_a_power_cut_took_back) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Node node(seed, kTargets);
    make_closed(node, "a", 10);
    EXPECT_TRUE(node.files->sync_all().ok());
    const auto found = node.files->resolve(node.root, "/a", true);
    ASSERT_TRUE(found.has_value());
    EXPECT_TRUE(node.truncate(found->inode, 5 * kChunkOfTest).ok());
    const FileRef file = node.open("/a", {.write = true});
    EXPECT_TRUE(node.write(file, 2 * kChunkOfTest, "y").has_value());
    lose_power(node);
    EXPECT_EQ(remove_and_count(node, "a"), kTargets) << "seed " << seed;
    EXPECT_EQ(node.chunk_count(), 0u) << "seed " << seed;
  }
}

TEST(RemovalTest, finds_what_a_target_had_no_time_to_cut) {
  for (const uint64_t length : {uint64_t{0}, uint64_t{10}}) {
    Node node(1, kTargets);
    make_closed(node, "a", 4 * kChunkOfTest);
    EXPECT_TRUE(node.files->sync_all().ok());
    const auto found = node.files->resolve(node.root, "/a", true);
    ASSERT_TRUE(found.has_value());
    for (const auto& target : node.targets) target->fault = [] { return Code::io_error; };
    EXPECT_EQ(node.truncate(found->inode, length), Status(Code::io_error));
    node.crash();
    for (const auto& target : node.targets) target->fault = [] { return Code::ok; };
    node.start();
    EXPECT_EQ(node.length(found->inode), length);
    EXPECT_EQ(remove_and_count(node, "a"), kTargets) << length;
    EXPECT_EQ(node.chunk_count(), 0u) << length;
  }
}

TEST(RemovalTest, finds_what_a_write_that_failed_in_part_has_left) {
  Node node(1, kTargets);
  FileRef file = node.open("/a");
  bool failed = false;
  for (const auto& target : node.targets) {
    target->fault = [&failed] { return std::exchange(failed, true) ? Code::ok : Code::io_error; };
  }
  EXPECT_FALSE(node.write(file, 0, std::string(4 * kChunkOfTest, 'x')).has_value());
  for (const auto& target : node.targets) target->fault = [] { return Code::ok; };
  EXPECT_GT(node.chunk_count(), 0u);
  EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  EXPECT_EQ(remove_and_count(node, "a"), kTargets);
  EXPECT_EQ(node.chunk_count(), 0u);
}

// Of a write that failed nobody knows whether a part of it still happens.
TEST(RemovalTest, finds_what_a_failed_write_does_after_a_cut_to_nothing) {
  Node node(1, kTargets);
  FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  for (const auto& target : node.targets) target->fault = [] { return Code::io_error; };
  EXPECT_FALSE(node.write(file, 0, std::string(4 * kChunkOfTest, 'x')).has_value());
  for (const auto& target : node.targets) target->fault = [] { return Code::ok; };
  EXPECT_TRUE(node.truncate(id, 0).ok());
  for (const auto& target : node.targets) target->chunks[{id, 3}] = "late";
  EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  EXPECT_EQ(remove_and_count(node, "a"), kTargets);
  EXPECT_EQ(node.chunk_count(), 0u);
}

// A hole below the end is as large as what lies beyond it.
TEST(RemovalTest, takes_no_file_for_whole_whose_cut_was_not_made) {
  Node node(1, kTargets);
  FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, kChunkOfTest, std::string(2 * kChunkOfTest, 'x')).has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  for (const auto& target : node.targets) target->fault = [] { return Code::io_error; };
  EXPECT_EQ(node.truncate(id, 2 * kChunkOfTest), Status(Code::io_error));
  for (const auto& target : node.targets) target->fault = [] { return Code::ok; };
  EXPECT_TRUE(node.write(file, kChunkOfTest, "y").has_value());
  EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  EXPECT_EQ(remove_and_count(node, "a"), kTargets);
  EXPECT_EQ(node.chunk_count(), 0u);
}

TEST(RemovalTest, of_a_file_that_was_cut_asks_the_chains_of_what_is_left) {
  Node node(1, kTargets);
  make_closed(node, "a", 4 * kChunkOfTest);
  EXPECT_TRUE(node.files->sync_all().ok());
  const auto found = node.files->resolve(node.root, "/a", true);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(node.truncate(found->inode, 10).ok());
  EXPECT_EQ(remove_and_count(node, "a"), 1u);
  EXPECT_EQ(node.chunk_count(), 0u);
}

TEST(RemovalTest, a_cut_asks_the_chains_of_what_is_cut) {
  Node node(1, kTargets);
  make_closed(node, "a", kChunkOfTest + 10);
  const auto found = node.files->resolve(node.root, "/a", true);
  ASSERT_TRUE(found.has_value());
  const std::vector<uint64_t> before = operations(node);
  EXPECT_TRUE(node.truncate(found->inode, 0).ok());
  EXPECT_EQ(targets_asked(node, before), 2u);
  EXPECT_EQ(node.chunk_count(), 0u);
}

TEST(RemovalTest, a_write_that_goes_on_where_the_record_tells_waits_for_no_sync) {
  Node node(1, kTargets);
  make_closed(node, "a", kChunkOfTest + 10);
  const FileRef file = node.open("/a", {.write = true});
  bool synced = false;
  node.kv->during_sync = [&synced] { synced = true; };
  EXPECT_TRUE(node.write(file, kChunkOfTest + 10, std::string(1000, 'y')).has_value());
  EXPECT_FALSE(synced);
  EXPECT_TRUE(node.write(file, 2 * kChunkOfTest - 1, "yy").has_value());
  EXPECT_TRUE(synced) << "the session is durable before another chain has a chunk";
  synced = false;
  node.kv->during_sync = [&synced] { synced = true; };
  EXPECT_TRUE(node.write(file, 5 * kChunkOfTest, "y").has_value());
  EXPECT_FALSE(synced) << "once for each session";
}

}  // namespace
}  // namespace penstock::client
