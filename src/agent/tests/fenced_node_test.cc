// Sessions of a node that are fenced, between two nodes of this process: one has the names, the
// other the disk.
#include <gtest/gtest.h>

#include "penstock/agent.h"
#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::agent {
namespace {

using std::chrono::seconds;

class FencedNode : public testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::error); }
  void TearDown() override {
    if (names_ != nullptr) names_->stop();
    if (disk_ != nullptr) disk_->stop();
    log::set_level(log::Level::warning);
  }

  static ClusterOptions options() {
    ClusterOptions options;
    options.listen = {test::free_address()};
    options.insecure = true;
    return options;
  }
  void start() {
    AgentConfig config;
    config.directory = scratch_ / "names";
    config.listen = false;
    config.cluster = options();
    config.cluster->roles = cluster::kAllRoles & ~cluster::kStorageOnly;
    auto names = Agent::start(config);
    ASSERT_TRUE(names) << names.error().message;
    names_ = std::move(*names);
    AgentConfig other;
    other.directory = scratch_ / "disk";
    other.capacity_bytes = 256 * kMiB;
    other.cluster = options();
    other.cluster->roles = cluster::kStorageOnly;
    other.cluster->invitation = names_->cluster()->status().invitation;
    auto disk = StorageAgent::start(other);
    ASSERT_TRUE(disk) << disk.error().message;
    disk_ = std::move(*disk);
    // Not before the disk is known to serve.
    ASSERT_TRUE(test::eventually([&] {
      return names_->cluster()->ask(controller::TablePlan{.copies = 1, .chains = 4}).has_value();
    }));
    ASSERT_TRUE(test::eventually([&] { return !names_->files().tables().empty(); }));
    client::LayoutChange change;
    change.copies = 1;
    ASSERT_TRUE(names_->files().set_layout(root_, kRootInode, change, nullptr));
  }
  Status write(std::byte value) {
    client::OpenFlags flags;
    flags.write = flags.create = true;
    auto file = names_->files().open_path(root_, "/a", flags, 0644, std::nullopt, nullptr);
    EXPECT_TRUE(file);
    std::vector<std::byte> bytes(8192, value);
    const auto written =
        names_->files().write(*file, 0, {bytes.data(), bytes.size()}, true, nullptr, nullptr);
    (void)names_->files().close_file(std::move(*file));
    return written ? Status() : Status(written.error());
  }
  std::byte read() {
    auto file = names_->files().open_path(root_, "/a", {}, 0644, std::nullopt, nullptr);
    EXPECT_TRUE(file);
    std::byte first{};
    EXPECT_TRUE(names_->files().read(*file, 0, {&first, 1}));
    EXPECT_EQ(names_->files().close_file(std::move(*file)), Code::ok);
    return first;
  }

  static constexpr InodeId kRootInode{1};
  const client::Credentials root_{};
  test::ScratchDirectory scratch_;
  std::unique_ptr<Agent> names_;
  std::unique_ptr<StorageAgent> disk_;
};

TEST_F(FencedNode, changes_nothing_in_an_old_session_and_goes_on_in_the_next) {
  ASSERT_NO_FATAL_FAILURE(start());
  cluster::Participant& cluster = *names_->cluster();
  EXPECT_EQ(write(std::byte{1}), Code::ok) << "in the session that it begins with";
  // In place of the node's own ones, which nobody ends.
  constexpr uint64_t kSession = 1000;
  cluster.set_session(kSession);
  EXPECT_EQ(write(std::byte{3}), Code::ok);
  const engine::Time begun = engine::system_clock().now();
  const auto fenced = cluster.fence(cluster.self(), kSession + 1, seconds(20));
  ASSERT_TRUE(fenced) << fenced.error().message;
  RecordProperty("fence_ms", std::to_string((engine::system_clock().now() - begun) /
                                            std::chrono::milliseconds(1)));
  EXPECT_EQ(write(std::byte{4}), Code::io_error) << "what a program has written is lost";
  EXPECT_EQ(read(), std::byte{3});
  cluster.set_session(kSession + 1);
  EXPECT_EQ(write(std::byte{5}), Code::ok);
  EXPECT_EQ(read(), std::byte{5});
  EXPECT_TRUE(cluster.fence(cluster.self(), kSession + 1, seconds(20))) << "it is, already";
  EXPECT_EQ(write(std::byte{6}), Code::ok);
  const auto of_nobody = cluster.fence(NodeId(9), 1, seconds(5));
  ASSERT_FALSE(of_nobody);
  EXPECT_EQ(of_nobody.error().status, Code::not_found);
}

TEST_F(FencedNode, needs_no_word_of_targets_that_have_ended) {
  ASSERT_NO_FATAL_FAILURE(start());
  cluster::Participant& cluster = *names_->cluster();
  disk_->stop();
  const auto fenced = cluster.fence(cluster.self(), 2, seconds(20));
  EXPECT_TRUE(fenced) << fenced.error().message;
}

}  // namespace
}  // namespace penstock::agent
