// What sessions had that are over, some of it on targets that are gone.
#include "../settlements.h"

#include <atomic>
#include <gtest/gtest.h>

#include "penstock/testing.h"

namespace penstock::agent {
namespace {

using holds::AgentId;

constexpr AgentId agent_of(uint32_t node) {
  return {NodeId{node}, 1};
}

class SettlementsTest : public testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::error); }
  void TearDown() override {
    settlements_.stop();
    log::set_level(log::Level::warning);
  }
  void add(uint32_t node, const std::vector<InodeId>& files) {
    settlements_.add(agent_of(node), files, [this] { ++done_; });
  }
  // Files with odd numbers are on targets that are gone.
  void begin() {
    settlements_.begin([this](InodeId file) -> Status {
      const std::lock_guard lock(mutex_);
      if (file.value % 2 == 1 && is_gone_) return Code::not_serving;
      ++settled_[file];
      return Code::ok;
    });
  }
  void bring_back() {
    const std::lock_guard lock(mutex_);
    is_gone_ = false;
  }
  int settled(uint64_t file) {
    const std::lock_guard lock(mutex_);
    return settled_[InodeId{file}];
  }

  engine::Mutex mutex_;
  bool is_gone_ = true;
  std::map<InodeId, int> settled_;
  std::atomic<int> done_{0};
  Settlements settlements_;
};

TEST_F(SettlementsTest, nobody_waits_for_files_that_cannot_be_settled) {
  // More sessions than threads, each with one that cannot be.
  constexpr uint32_t kStuck = 3 * limits::kSettleThreads;
  for (uint32_t node = 1; node <= kStuck; ++node) {
    add(node, {InodeId{2 * node + 1}, InodeId{1000 + 2 * node}});
  }
  EXPECT_EQ(settlements_.waiting(), kStuck);
  begin();
  add(100, {InodeId{2000}, InodeId{2002}});
  ASSERT_TRUE(test::eventually([&] { return done_ == 1; }));
  EXPECT_EQ(settled(2002), 1);
  // Nor do their own others.
  ASSERT_TRUE(test::eventually([&] {
    for (uint32_t node = 1; node <= kStuck; ++node) {
      if (settled(1000 + 2 * node) != 1) return false;
    }
    return true;
  }));
  EXPECT_EQ(done_, 1);
  ASSERT_TRUE(test::eventually([&] { return !settlements_.has(agent_of(100)); }));
  EXPECT_TRUE(settlements_.has(agent_of(1)));
  bring_back();
  ASSERT_TRUE(test::eventually([&] { return settlements_.waiting() == 0; }));
  EXPECT_EQ(done_, static_cast<int>(kStuck) + 1);
  for (uint32_t node = 1; node <= kStuck; ++node) {
    EXPECT_EQ(settled(2 * node + 1), 1);
    EXPECT_EQ(settled(1000 + 2 * node), 1) << "once";
  }
}

TEST_F(SettlementsTest, what_is_not_known_is_looked_for_only_after_the_beginning) {
  add(1, {});
  EXPECT_TRUE(settlements_.has(agent_of(1)));
  EXPECT_EQ(done_, 0);
  begin();
  ASSERT_TRUE(test::eventually([&] { return settlements_.waiting() == 0; }));
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(settled(0), 0);
  add(2, {});
  ASSERT_TRUE(test::eventually([&] { return settlements_.waiting() == 0; }));
  EXPECT_EQ(done_, 2);
  EXPECT_EQ(settled(0), 1);
}

TEST_F(SettlementsTest, ends_while_something_cannot_be_settled) {
  add(1, {InodeId{1}});
  begin();
  add(2, {InodeId{3}});
  settlements_.stop();
  EXPECT_EQ(done_, 0);
  add(3, {InodeId{2}});
  EXPECT_FALSE(settlements_.has(agent_of(3)));
  EXPECT_EQ(settled(2), 0);
}

}  // namespace
}  // namespace penstock::agent
