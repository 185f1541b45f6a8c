// A copy of a running node's names.
#include "penstock/meta_copy.h"

#include "raw_session.h"

#include <gtest/gtest.h>

#include "penstock/kv.h"

namespace penstock::agent {
namespace {

namespace fs = std::filesystem;

class MetaCopyTest : public testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::off); }
  void TearDown() override { log::set_level(log::Level::warning); }

  std::unique_ptr<Agent> start() const {
    AgentConfig config;
    config.directory = scratch_.store();
    config.listen = false;
    auto agent = Agent::start(config);
    EXPECT_TRUE(agent) << agent.error().message;
    return agent ? std::move(*agent) : nullptr;
  }
  Outcome<std::unique_ptr<MetaCopy>> copy(Agent& agent) const {
    return MetaCopy::make(scratch_.store(), [&] { return agent.checkpoint_meta(); });
  }
  std::string path() const { return scratch_.store() + "/meta.checkpoint"; }

  static inline const client::Credentials root_{0, 0, {}, true};
  ScratchDirectory scratch_;
};

TEST_F(MetaCopyTest, has_the_names_of_its_moment_and_goes_when_it_was_read) {
  const auto agent = start();
  ASSERT_TRUE(agent->files().make_directory(root_, meta::kRootInode, "before", 0755, nullptr));
  {
    const auto made = copy(*agent);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ((*made)->path(), path());
    ASSERT_TRUE(agent->files().make_directory(root_, meta::kRootInode, "after", 0755, nullptr));
    const auto kv = kv::open_rocksdb({.path = (*made)->path(), .read_only = true});
    ASSERT_TRUE(kv) << kv.error().message;
    int names = 0;
    EXPECT_TRUE((*kv)
                    ->run(engine::KvMode::read,
                          [&](engine::KvTransaction& transaction) {
                            return transaction.scan("D", "E",
                                                    [&](std::string_view key, std::string_view) {
                                                      EXPECT_TRUE(key.ends_with("before"));
                                                      ++names;
                                                      return true;
                                                    });
                          })
                    .ok());
    EXPECT_EQ(names, 1);
  }
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_TRUE(agent->files().resolve(root_, "/after", true));
}

TEST_F(MetaCopyTest, is_the_only_one) {
  const auto agent = start();
  const auto made = copy(*agent);
  ASSERT_TRUE(made);
  const auto second = copy(*agent);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().status, Code::busy);
  EXPECT_TRUE(fs::exists(path()));
}

TEST_F(MetaCopyTest, of_a_killed_command_is_removed) {
  auto agent = start();
  // Without a lock, as if its reader were dead.
  ASSERT_TRUE(agent->checkpoint_meta());
  ASSERT_TRUE(agent->files().make_directory(root_, meta::kRootInode, "new", 0755, nullptr));
  ASSERT_TRUE(copy(*agent)) << "the next one takes its place";
  EXPECT_FALSE(fs::exists(path()));
  ASSERT_TRUE(agent->checkpoint_meta());
  agent.reset();
  EXPECT_TRUE(fs::exists(path()));
  agent = start();
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(MetaCopyTest, that_is_read_stays_when_the_node_starts_again) {
  auto agent = start();
  const auto made = copy(*agent);
  ASSERT_TRUE(made);
  agent.reset();
  agent = start();
  EXPECT_TRUE(fs::exists(path() + "/CURRENT"));
}

TEST_F(MetaCopyTest, is_not_there_when_the_node_made_none) {
  const auto agent = start();
  const auto made = MetaCopy::make(scratch_.store(), []() -> Outcome<void> {
    return Failure{Code::no_space, "no room"};
  });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "no room");
  EXPECT_TRUE(copy(*agent));
}

}  // namespace
}  // namespace penstock::agent
