// The log of durable writes on simulated disk and database.
#include "log_rig.h"

namespace penstock::store {
namespace {

class SmallLogTest : public LogTest {
 protected:
  SmallLogTest() : LogTest(limits::kLogBytesMin) {}
};

TEST_F(LogTest, makes_small_writes_durable_without_a_commit) {
  const uint64_t before = commits();
  for (uint32_t i = 0; i < 10; ++i) write(kChunk, i, i);
  EXPECT_EQ(logged(), 10u);
  EXPECT_EQ(commits(), before);
  rig.power_cut();
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  EXPECT_EQ(rig.core().counters.replayed.value(), 10u);
  for (uint32_t i = 0; i < 10; ++i) EXPECT_TRUE(holds(kChunk, i, i)) << i;
  EXPECT_TRUE(holds(kOther, 0, 99));
}

TEST_F(LogTest, keeps_the_old_bytes_of_blocks_that_are_written_in_part) {
  write(kChunk, 0, 1, 2);
  auto middle = test::content(5000, 2);
  ASSERT_TRUE(rig.write(kChunk, 1000, middle).ok());
  EXPECT_EQ(logged(), 2u);
  auto expected = test::content(2 * kBlockBytes, 1);
  std::copy(middle.begin(), middle.end(), expected.begin() + 1000);
  rig.power_cut();
  ASSERT_TRUE(rig.begin());
  EXPECT_EQ(rig.read(kChunk, 0, 2 * kBlockBytes), expected);
}

TEST_F(LogTest, leaves_large_writes_to_the_commit) {
  write(kChunk, 0, 1, 16);
  EXPECT_EQ(logged(), 1u);
  const uint64_t before = commits();
  write(kChunk, 0, 2, 18);
  EXPECT_EQ(logged(), 1u);
  EXPECT_GT(commits(), before);
}

TEST_F(LogTest, is_empty_after_an_orderly_end) {
  write(kChunk, 0, 1);
  ASSERT_TRUE(rig.close().ok());
  ASSERT_TRUE(rig.begin());
  EXPECT_EQ(rig.core().counters.replayed.value(), 0u);
  EXPECT_TRUE(holds(kChunk, 0, 1));
}

TEST_F(LogTest, a_write_behind_one_that_is_not_logged_waits_with_it) {
  auto bytes = test::content(kBlockBytes, 1);
  ASSERT_TRUE(rig.write(kChunk, 0, bytes, false).ok());
  const uint64_t before = commits();
  write(kChunk, 1, 2);
  EXPECT_EQ(logged(), 0u);
  EXPECT_GT(commits(), before);
  // Another inode goes its own way.
  ASSERT_TRUE(rig.write(kChunk, 0, bytes, false).ok());
  write(kOther, 1, 3);
  EXPECT_EQ(logged(), 1u);
  rig.power_cut();
  ASSERT_TRUE(rig.begin());
  EXPECT_TRUE(holds(kChunk, 0, 1));
  EXPECT_TRUE(holds(kChunk, 1, 2));
  EXPECT_TRUE(holds(kOther, 1, 3));
}

TEST_F(LogTest, what_is_cleared_after_a_logged_write_stays_cleared) {
  write(kChunk, 0, 1, 4);
  ASSERT_TRUE(rig.clear(kChunk, 0, kWholeChunk).ok());
  rig.power_cut();
  ASSERT_TRUE(rig.begin());
  EXPECT_EQ(rig.read(kChunk, 0, 4 * kBlockBytes), std::vector<std::byte>(4 * kBlockBytes));
}

TEST_F(SmallLogTest, goes_round_its_file_many_times) {
  for (uint32_t i = 0; i < 300; ++i) {
    write(kChunk, i % 7, i);
    if (i % 50 != 49) continue;
    rig.power_cut();
    ASSERT_TRUE(rig.begin()) << rig.refusal.message;
    for (uint32_t k = i - 6; k <= i; ++k) ASSERT_TRUE(holds(kChunk, k % 7, k)) << k;
  }
}

TEST_F(LogTest, a_failed_write_to_it_costs_nothing_but_time) {
  write(kChunk, 0, 1);
  // Of the next write only the record fails: it is the one that is durable by itself.
  rig.platter.faults.write_error_permille = 1000;
  auto bytes = test::content(kBlockBytes, 2);
  EXPECT_EQ(rig.write(kChunk, 1, bytes).code(), Code::io_error);
  rig.platter.faults.write_error_permille = 0;
  write(kChunk, 2, 3);
  EXPECT_TRUE(rig.core().failed.ok());
  rig.power_cut();
  ASSERT_TRUE(rig.begin());
  EXPECT_TRUE(holds(kChunk, 0, 1));
  EXPECT_EQ(rig.read(kChunk, kBlockBytes, kBlockBytes), std::vector<std::byte>(kBlockBytes))
      << "a write that failed has had no effect";
  EXPECT_TRUE(holds(kChunk, 2, 3));
}

TEST_F(LogTest, a_target_that_failed_shows_nothing_older_than_what_it_acknowledged) {
  write(kOther, 1, 7);
  ASSERT_TRUE(rig.sync().ok());
  write(kChunk, 0, 1);
  rig.platter.faults.sync_error_permille = 1000;
  EXPECT_FALSE(rig.sync().ok());
  EXPECT_FALSE(rig.core().failed.ok());
  Status status;
  (void)rig.read(kChunk, 0, kBlockBytes, &status);
  EXPECT_EQ(status.code(), Code::io_error);
  EndQueryOp query;
  query.inode = kChunk.inode;
  EXPECT_EQ(rig.run(query).code(), Code::io_error);
  EXPECT_TRUE(holds(kOther, 1, 7)) << "what was committed is read";
  rig.platter.faults.sync_error_permille = 0;
  rig.power_cut();
  ASSERT_TRUE(rig.begin());
  EXPECT_TRUE(holds(kChunk, 0, 1));
}

TEST_F(LogTest, goes_on_while_commits_find_no_room) {
  write(kChunk, 0, 1);
  rig.kv_full = true;
  write(kChunk, 1, 2);
  rig.kv_full = false;
  rig.power_cut();
  ASSERT_TRUE(rig.begin());
  EXPECT_TRUE(holds(kChunk, 0, 1));
  EXPECT_TRUE(holds(kChunk, 1, 2));
}

TEST_F(LogTest, without_its_file_the_target_is_refused) {
  write(kChunk, 0, 1);
  rig.power_cut();
  {
    sim::SimLoop loop(rig.world);
    sim::SimDisk disk(rig.platter, loop);
    ASSERT_TRUE(disk.remove("/target/write-log").ok());
  }
  EXPECT_FALSE(rig.begin());
  EXPECT_NE(rig.refusal.message.find("write-log"), std::string::npos) << rig.refusal.message;
}

TEST_F(LogTest, a_disk_that_is_full_at_the_opening_loses_nothing) {
  write(kChunk, 0, 1);
  rig.power_cut();
  // The data file had grown for it; a power cut took that back, and others took the room.
  rig.platter.set_capacity(rig.platter.used_bytes());
  if (!rig.begin()) {
    EXPECT_EQ(rig.refusal.status.code(), Code::no_space) << rig.refusal.message;
    rig.platter.set_capacity(kTiB);
    ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  }
  EXPECT_TRUE(holds(kChunk, 0, 1));
}

TEST(LogMaking, leaves_what_is_kept_for_databases) {
  log::set_level(log::Level::off);
  for (const bool reserved : {false, true}) {
    RigOptions options = with_log();
    if (reserved) options.reserve_bytes = kGiB;
    Rig rig(1, options);
    ASSERT_TRUE(rig.begin());
    auto bytes = test::content(kBlockBytes, 1);
    ASSERT_TRUE(rig.write(kChunk, 0, bytes, false).ok());
    ASSERT_TRUE(rig.sync().ok());
    // As much is free as is kept.
    if (reserved) rig.platter.set_capacity(rig.platter.used_bytes() + options.reserve_bytes);
    for (uint32_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(rig.write(kChunk, 0, bytes).ok());
      rig.world.run_for(std::chrono::milliseconds(300));
    }
    EXPECT_EQ(rig.core().write_log.in_use(), !reserved);
  }
  log::set_level(log::Level::warning);
}

TEST(LogMaking, what_was_interrupted_is_removed_at_the_next_opening) {
  log::set_level(log::Level::off);
  Rig rig(1, with_log());
  ASSERT_TRUE(rig.begin());
  auto bytes = test::content(kBlockBytes, 1);
  // The making has begun when the write has ended, and waits for the disk.
  ASSERT_TRUE(rig.write(kChunk, 0, bytes).ok());
  const std::string path = std::string("/target/") + kLogFileName;
  const auto exists = [&] {
    const auto files = rig.platter.files();
    return std::find(files.begin(), files.end(), path) != files.end();
  };
  ASSERT_TRUE(exists());
  ASSERT_FALSE(rig.core().write_log.in_use());
  rig.power_cut();
  ASSERT_TRUE(exists());
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  EXPECT_FALSE(exists());
  EXPECT_EQ(rig.read(kChunk, 0, kBlockBytes), bytes);
  log::set_level(log::Level::warning);
}

TEST(LogMaking, is_left_alone_on_a_full_disk_and_where_it_is_not_wanted) {
  log::set_level(log::Level::off);
  for (const bool wanted : {true, false}) {
    RigOptions options = with_log(wanted ? kMiB : 0);
    Rig rig(1, options);
    if (wanted) rig.platter.set_capacity(64 * kMiB + 128 * kKiB);
    ASSERT_TRUE(rig.begin());
    auto bytes = test::content(kBlockBytes, 1);
    for (uint32_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(rig.write(kChunk, 0, bytes).ok());
      rig.world.run_for(std::chrono::milliseconds(300));
    }
    EXPECT_FALSE(rig.core().write_log.in_use());
  }
  log::set_level(log::Level::warning);
}

}  // namespace
}  // namespace penstock::store
