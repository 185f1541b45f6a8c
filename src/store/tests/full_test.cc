// A database without room for commits: nothing is lost, everybody is told, and it goes on by
// itself.
#include "rig.h"

#include <gtest/gtest.h>

namespace penstock::store {
namespace {

class FullDatabase : public testing::Test {
 protected:
  void SetUp() override {
    log::set_level(log::Level::off);
    ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  }
  void TearDown() override { log::set_level(log::Level::warning); }
  bool goes_on() {
    rig.kv_full = false;
    return rig.world.run_until([&] { return !rig.core().committer.full(); },
                               std::chrono::seconds(10));
  }

  Rig rig;
};

TEST_F(FullDatabase, ends_updates_with_no_space_until_there_is_some) {
  auto first = test::content(10000, 1);
  ASSERT_TRUE(rig.write(kChunk, 0, first).ok());
  rig.kv_full = true;
  auto second = test::content(10000, 2);
  EXPECT_EQ(rig.write(kChunk, 0, second).code(), Code::no_space);
  EXPECT_TRUE(rig.core().committer.full());
  EXPECT_TRUE(rig.core().failed.ok());
  // From now on at once.
  const auto before = rig.world.now();
  auto third = test::content(10000, 3);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(rig.write(kChunk, 0, third, i % 2 == 0).code(), Code::no_space);
  }
  EXPECT_EQ(rig.sync().code(), Code::no_space);
  EXPECT_LT(rig.world.now() - before, std::chrono::milliseconds(50));
  EXPECT_EQ(rig.read(kChunk, 0, 10000), second) << "what became visible stays so";
  EXPECT_TRUE(rig.clear(kChunk, 8192, kWholeChunk, false).ok());
  // An hour later all is as it was.
  rig.world.run_for(std::chrono::hours(1));
  EXPECT_EQ(rig.write(kChunk, 0, third).code(), Code::no_space);
  ASSERT_TRUE(goes_on());
  EXPECT_TRUE(rig.sync().ok());
  EXPECT_TRUE(rig.write(kChunk, 8192, third).ok());
  rig.power_cut();
  ASSERT_TRUE(rig.begin());
  second.resize(8192);
  EXPECT_EQ(rig.read(kChunk, 0, 8192), second);
  EXPECT_EQ(rig.read(kChunk, 8192, 10000), third);
}

TEST_F(FullDatabase, loses_nothing_that_was_durable_when_the_power_fails) {
  auto first = test::content(kMiB, 1);
  ASSERT_TRUE(rig.write(kChunk, 0, first).ok());
  rig.kv_full = true;
  auto second = test::content(kMiB, 2);
  EXPECT_EQ(rig.write(kChunk, 0, second).code(), Code::no_space);
  rig.power_cut();
  rig.kv_full = false;
  ASSERT_TRUE(rig.begin());
  const auto now = rig.read(kChunk, 0, kMiB);
  EXPECT_TRUE(now == first || now == second);
}

TEST_F(FullDatabase, takes_a_short_lack_of_space_for_none) {
  rig.kv_full = true;
  rig.world.after(limits::kCommitPatience / 2, "space", [&] { rig.kv_full = false; });
  auto bytes = test::content(10000, 1);
  EXPECT_TRUE(rig.write(kChunk, 0, bytes).ok());
}

TEST_F(FullDatabase, bounds_what_waits_for_a_commit) {
  rig.kv_full = true;
  auto bytes = test::content(4096, 1);
  Status status;
  uint32_t visible = 0;
  while (status.ok() && visible < 1'000'000) {
    status = rig.write({InodeId(6), visible}, 0, bytes, false);
    visible += status.ok() ? 1 : 0;
  }
  EXPECT_EQ(status.code(), Code::no_space);
  // Clears go on until there are too many; then they end as well, and nothing hangs.
  EXPECT_TRUE(rig.clear({InodeId(6), 0}, 0, kWholeChunk, false).ok());
  EXPECT_EQ(rig.clear({InodeId(6), 1}, 0, kWholeChunk, true).code(), Code::no_space);
  ASSERT_TRUE(goes_on());
  ASSERT_TRUE(rig.sync().ok());
  EXPECT_EQ(rig.target().status().used_bytes, (visible - 2) * limits::kBlockBytes);
}

TEST_F(FullDatabase, can_be_closed) {
  auto first = test::content(10000, 1);
  ASSERT_TRUE(rig.write(kChunk, 0, first).ok());
  rig.kv_full = true;
  auto second = test::content(10000, 2);
  EXPECT_TRUE(rig.write(kChunk, 0, second, false).ok());
  EXPECT_EQ(rig.close().code(), Code::no_space);
  rig.kv_full = false;
  ASSERT_TRUE(rig.begin());
  const auto now = rig.read(kChunk, 0, 10000);
  EXPECT_TRUE(now == first || now == second);
}

}  // namespace
}  // namespace penstock::store
