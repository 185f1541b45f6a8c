// A service beside the file system of its own process: what it makes durable, refuses and tells.
#include "gated_kv.h"
#include "over_net.h"

#include <atomic>
#include <gtest/gtest.h>
#include <set>

namespace penstock::meta_net {
namespace {

class AttachedTest : public testing::Test {
 protected:
  void serve(MetaServiceConfig config = {}) {
    config.durable_answers = true;
    config.own_chains = 3;
    config.orphaned = [this](InodeId inode) {
      const std::lock_guard lock(mutex_);
      orphans_.insert(inode);
    };
    config.named = [this](InodeId inode) {
      const std::lock_guard lock(mutex_);
      orphans_.erase(inode);
    };
    host_ = std::make_unique<LocalHost>(*meta_, config);
    remote_ = RemoteMeta::make(host_->asking());
  }
  std::set<InodeId> orphans() {
    const std::lock_guard lock(mutex_);
    return orphans_;
  }
  Result<meta::MadeFile> make(InodeId inode, const std::string& name, bool replace) {
    std::vector<Result<meta::MadeFile>> made;
    const auto parent = meta_->attributes(meta::kRootInode);
    const meta::CompleteFile file{
        {inode, meta::kRootInode, name, parent->layout, replace}, 0644, 0, {}, false};
    const Status status = remote_->create_files({}, {file}, &made);
    if (!status.ok()) return status;
    return made.front();
  }

  meta::TickingClock clock_;
  std::unique_ptr<meta::Storage> storage_ = meta::make_storage("memory");
  GatedKv gate_{storage_->kv()};
  std::unique_ptr<meta::Meta> meta_ = meta::open_meta(gate_, clock_);
  engine::Mutex mutex_;
  std::set<InodeId> orphans_;
  std::unique_ptr<LocalHost> host_;
  std::unique_ptr<RemoteMeta> remote_;
};

TEST_F(AttachedTest, answers_come_when_what_they_say_is_durable) {
  serve();
  ASSERT_TRUE(remote_->unused_id().has_value());
  const size_t before = gate_.syncs();
  gate_.hold_syncs();
  std::atomic<bool> is_made = false;
  std::thread maker([&] {
    EXPECT_TRUE(remote_->create({}, meta::kRootInode, "f", 0644, true).has_value());
    is_made = true;
  });
  gate_.await_syncs(before + 1);
  EXPECT_TRUE(meta_->lookup({}, meta::kRootInode, "f").has_value());
  EXPECT_TRUE(remote_->attributes(meta::kRootInode).has_value()) << "looking waits for nothing";
  EXPECT_TRUE(remote_->unused_id().has_value());
  EXPECT_FALSE(is_made);
  gate_.let_syncs_go();
  maker.join();
  EXPECT_EQ(gate_.syncs(), before + 1);
}

TEST_F(AttachedTest, answers_that_wait_share_a_sync) {
  serve();
  ASSERT_TRUE(remote_->unused_id().has_value());
  const size_t before = gate_.syncs();
  gate_.hold_syncs();
  constexpr int kMakers = 7;
  std::vector<std::thread> makers;
  const auto make = [&](int i) {
    const std::string name = std::to_string(i);
    EXPECT_TRUE(remote_->create({}, meta::kRootInode, name, 0644, true).has_value());
  };
  makers.emplace_back(make, 0);
  gate_.await_syncs(before + 1);
  for (int i = 1; i < kMakers; ++i) makers.emplace_back(make, i);
  // All are made, and wait for the second.
  const auto are_made = [&] { return meta_->counts()->inodes == kMakers + 1; };
  while (!are_made()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  gate_.let_syncs_go();
  for (std::thread& maker : makers) maker.join();
  EXPECT_EQ(gate_.syncs(), before + 2);
}

TEST_F(AttachedTest, what_could_not_be_made_durable_has_failed_also_when_it_is_asked_again) {
  serve();
  gate_.let_syncs_go(Code::io_error);
  EXPECT_EQ(remote_->create({}, meta::kRootInode, "f", 0644, true).error(), Code::io_error);
  EXPECT_EQ(remote_->unlink({}, meta::kRootInode, "f", nullptr), Code::io_error);
  gate_.let_syncs_go();
  EXPECT_EQ(meta_->lookup({}, meta::kRootInode, "f").error(), Code::not_found);
}

TEST_F(AttachedTest, names_nothing_that_was_written_in_an_earlier_life) {
  const InodeId before = *meta_->unused_id();
  MetaServiceConfig config;
  config.least_new = *meta_->unused_id();
  serve(config);
  const InodeId after = *remote_->unused_id();
  EXPECT_EQ(make(before, "f", false).error(), Code::stale);
  EXPECT_EQ(meta_->lookup({}, meta::kRootInode, "f").error(), Code::not_found);
  EXPECT_TRUE(make(after, "f", false).has_value());
}

TEST_F(AttachedTest, tells_which_inodes_have_lost_their_last_name) {
  serve();
  const auto file = [&](const std::string& name) {
    return remote_->create({}, meta::kRootInode, name, 0644, true)->inode;
  };
  const InodeId one = file("one");
  EXPECT_TRUE(remote_->link({}, one, meta::kRootInode, "again").has_value());
  EXPECT_TRUE(remote_->unlink({}, meta::kRootInode, "one", nullptr).ok());
  EXPECT_TRUE(orphans().empty()) << "it has another name";
  EXPECT_TRUE(remote_->unlink({}, meta::kRootInode, "again", nullptr).ok());
  EXPECT_EQ(orphans(), std::set<InodeId>{one});

  const InodeId two = file("two");
  file("three");
  EXPECT_TRUE(
      remote_->rename({}, meta::kRootInode, "three", meta::kRootInode, "two", {}, nullptr).ok());
  EXPECT_EQ(orphans(), (std::set<InodeId>{one, two}));

  const InodeId directory = remote_->make_directory({}, meta::kRootInode, "d", 0755)->inode;
  EXPECT_TRUE(remote_->remove_directory({}, meta::kRootInode, "d", nullptr).ok());
  EXPECT_EQ(orphans(), (std::set<InodeId>{one, two, directory}));

  const InodeId four = file("four");
  EXPECT_TRUE(make(*remote_->unused_id(), "four", true).has_value());
  EXPECT_EQ(orphans(), (std::set<InodeId>{one, two, directory, four}));

  const InodeId unnamed = *remote_->unused_id();
  EXPECT_TRUE(remote_->create_unnamed({}, meta::kRootInode, 0644, unnamed).has_value());
  EXPECT_TRUE(orphans().contains(unnamed));
  EXPECT_TRUE(remote_->link({}, unnamed, meta::kRootInode, "five").has_value());
  EXPECT_FALSE(orphans().contains(unnamed));
}

TEST_F(AttachedTest, tells_how_many_chains_are_its_own) {
  serve();
  EXPECT_EQ(*remote_->own_chains(), 3u);
}

TEST_F(AttachedTest, is_asked_where_it_is_at_the_moment) {
  serve();
  RemoteMetaConfig config = host_->asking();
  const engine::Address there = config.service;
  std::atomic<int> asked = 0;
  config.service = {};
  config.find = [&] { return ++asked < 3 ? engine::Address{} : there; };
  const auto remote = RemoteMeta::make(config);
  EXPECT_TRUE(remote->attributes(meta::kRootInode).has_value());
  EXPECT_EQ(asked, 3);
  config.find = [] { return engine::Address{}; };
  config.counts_time = std::chrono::milliseconds(100);
  EXPECT_EQ(RemoteMeta::make(config)->counts().error(), Code::peer_gone);
}

}  // namespace
}  // namespace penstock::meta_net
