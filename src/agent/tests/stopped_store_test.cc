// A store that no node serves, and whose names are to be brought back.
#include "penstock/stopped_store.h"

#include "raw_session.h"

#include <fstream>
#include <gtest/gtest.h>

namespace penstock::agent {
namespace {

namespace fs = std::filesystem;

class StoppedStoreTest : public testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::off); }
  void TearDown() override { log::set_level(log::Level::warning); }

  Outcome<std::unique_ptr<Agent>> start() const {
    AgentConfig config;
    config.directory = scratch_.store();
    config.listen = false;
    config.shards = 3;
    config.chunk_bytes = 64 * kKiB;
    return Agent::start(config);
  }
  // Makes the store, with some files in it; the greatest number of a file.
  InodeId make() const {
    const auto agent = start();
    EXPECT_TRUE(agent) << agent.error().message;
    InodeId newest;
    for (int i = 0; i < 10; ++i) {
      client::OpenFlags flags;
      flags.write = flags.create = true;
      auto file = (*agent)->files().open_path(root_, "/" + std::to_string(i), flags, 0644,
                                              std::nullopt, nullptr);
      EXPECT_TRUE(file);
      std::vector<std::byte> bytes(300'000);
      EXPECT_TRUE(
          (*agent)->files().write(*file, 0, {bytes.data(), bytes.size()}, true, nullptr, nullptr));
      EXPECT_EQ((*agent)->files().close_file(std::move(*file)), Code::ok);
      newest =
          std::max(newest, (*agent)->files().resolve(root_, "/" + std::to_string(i), true)->inode);
    }
    return newest;
  }
  std::unique_ptr<StoppedStore> open() const {
    auto store = StoppedStore::open(scratch_.store());
    EXPECT_TRUE(store) << store.error().message;
    return store ? std::move(*store) : nullptr;
  }
  std::string path(const std::string& name) const { return scratch_.store() + "/" + name; }

  static inline const client::Credentials root_{0, 0, {}, true};
  ScratchDirectory scratch_;
};

TEST_F(StoppedStoreTest, knows_the_newest_file_that_has_chunks) {
  const InodeId newest = make();
  const auto store = open();
  EXPECT_EQ(store->targets(), 3u);
  const auto found = store->newest_inode();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, newest);
  EXPECT_GE(newest.value, meta::kCookieMin);
}

TEST_F(StoppedStoreTest, knows_no_newest_file_where_a_target_cannot_be_opened) {
  make();
  fs::resize_file(path("targets/2/data/target"), 10);
  const auto found = open()->newest_inode();
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("targets/2"), std::string::npos) << found.error().message;
}

TEST_F(StoppedStoreTest, is_one_or_is_served) {
  make();
  {
    const auto store = open();
    const auto agent = start();
    ASSERT_FALSE(agent);
    EXPECT_EQ(agent.error().status, Code::in_use);
  }
  const auto agent = start();
  ASSERT_TRUE(agent);
  const auto store = StoppedStore::open(scratch_.store());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().status, Code::in_use);
}

TEST_F(StoppedStoreTest, is_made_nowhere) {
  const auto store = StoppedStore::open(scratch_.store());
  ASSERT_FALSE(store);
  EXPECT_FALSE(fs::exists(scratch_.store()));
}

TEST_F(StoppedStoreTest, gets_names_only_where_there_are_none) {
  make();
  const auto made = open()->make_meta([](engine::Kv&) -> Outcome<void> { return {}; });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().status, Code::already_exists);
  EXPECT_TRUE(start().has_value());
}

TEST_F(StoppedStoreTest, gets_names_whole_or_not_at_all) {
  make();
  fs::rename(path("meta"), path("kept"));
  const auto refused = start();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("penstock metadata load"), std::string::npos);
  // What killed commands may have left.
  fs::create_directories(path("meta.loading/part"));
  fs::create_directories(path("meta.loading.creating"));
  const auto store = open();
  const auto failed = store->make_meta([&](engine::Kv& kv) -> Outcome<void> {
    EXPECT_FALSE(fs::exists(path("meta.loading/part")));
    EXPECT_FALSE(fs::exists(path("meta")));
    EXPECT_TRUE(meta::Meta::open(kv, engine::system_clock(), {}));
    return Failure{Code::invalid_argument, "no"};
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no");
  EXPECT_FALSE(fs::exists(path("meta")));
  EXPECT_FALSE(fs::exists(path("meta.loading")));
  EXPECT_FALSE(fs::exists(path("meta.loading.creating")));
  const auto made = store->make_meta([](engine::Kv& kv) -> Outcome<void> {
    EXPECT_TRUE(meta::Meta::open(kv, engine::system_clock(), {}));
    return {};
  });
  EXPECT_TRUE(made);
  EXPECT_FALSE(fs::exists(path("meta.loading")));
  EXPECT_TRUE(fs::exists(path("meta/CURRENT")));
}

TEST_F(StoppedStoreTest, is_served_again_once_it_has_names) {
  make();
  fs::rename(path("meta"), path("kept"));
  ASSERT_TRUE(open()->make_meta([](engine::Kv& kv) -> Outcome<void> {
    EXPECT_TRUE(meta::Meta::open(kv, engine::system_clock(), {}));
    return {};
  }));
  const auto agent = start();
  ASSERT_TRUE(agent) << agent.error().message;
  EXPECT_EQ((*agent)->status().file_system.inodes, 1u);
}

}  // namespace
}  // namespace penstock::agent
