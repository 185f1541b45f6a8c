// Three replicas of one chain, whose disks change what is on them.
#include "three_replicas.h"

namespace penstock::chain {
namespace {

using std::chrono::seconds;

uint64_t counted(std::string_view name) {
  for (const metrics::Sample& sample : metrics::snapshot()) {
    if (sample.name == name) return sample.value;
  }
  return 0;
}

using HealingTest = ThreeReplicas;

TEST_F(HealingTest, a_read_takes_another_copy_at_once_and_heals_the_damaged_one) {
  const std::string content(3 * kBlock, 'a');
  ASSERT_EQ(write(0, 0, content), Code::ok);
  for (const uint32_t number : {1, 2}) damage(number, 0, 1);
  const uint64_t healed = counted("chain.healed");
  // In turn: one of them begins at each replica.
  for (int i = 0; i < 3; ++i) {
    const engine::Time begun = world_.now();
    EXPECT_EQ(read(0, 0, 3 * kBlock), content);
    // Three messages and three reads; there is no pause between.
    EXPECT_LT(world_.now() - begun, std::chrono::microseconds(2500));
  }
  world_.run_for(seconds(1));
  for (const uint32_t number : {1, 2}) {
    EXPECT_TRUE(damaged(number, 0).empty()) << number;
    EXPECT_EQ(bytes(number, 0), content);
  }
  EXPECT_EQ(counted("chain.healed"), healed + 2);
  expect_nobody_left();
}

TEST_F(HealingTest, copies_with_different_damage_heal_one_another) {
  const std::string content(3 * kBlock, 'a');
  ASSERT_EQ(write(0, 0, content), Code::ok);
  for (const uint32_t number : {1, 2, 3}) damage(number, 0, number - 1);
  EXPECT_EQ(read(0, 0, 3 * kBlock), content) << "no copy has all of it at first";
  for (const uint32_t number : {1, 2, 3}) scrub(number);
  for (const uint32_t number : {1, 2, 3}) EXPECT_EQ(bytes(number, 0), content);
}

TEST_F(HealingTest, an_update_of_a_part_of_a_damaged_block_heals_it_first) {
  for (const uint32_t number : {1, 2, 3}) {
    const uint32_t chunk = number;
    ASSERT_EQ(write(chunk, 0, std::string(kBlock, 'a')), Code::ok);
    damage(number, chunk, 0);
    ASSERT_EQ(write(chunk, 10, "bb"), Code::ok);
    const std::string content = std::string(10, 'a') + "bb" + std::string(kBlock - 12, 'a');
    for (const uint32_t each : {1, 2, 3}) EXPECT_EQ(bytes(each, chunk), content) << number;
    EXPECT_TRUE(damaged(number, chunk).empty());
  }
  expect_nobody_left();
}

TEST_F(HealingTest, what_is_damaged_everywhere_ends_so_and_nothing_else_does) {
  ASSERT_EQ(write(0, 0, std::string(2 * kBlock, 'a')), Code::ok);
  ASSERT_EQ(write(1, 0, "other"), Code::ok);
  for (const uint32_t number : {1, 2, 3}) damage(number, 0, 0);
  const uint64_t unhealed = counted("chain.unhealed");
  EXPECT_EQ(read(0, 0, 10), "corrupt");
  EXPECT_GT(counted("chain.unhealed"), unhealed);
  EXPECT_EQ(read(0, kBlock, 10), std::string(10, 'a'));
  EXPECT_EQ(read(1, 0, 5), "other");
  // A part of it can be written, and what was lost stays lost.
  EXPECT_EQ(write(0, 10, "bb"), Code::ok);
  EXPECT_EQ(read(0, 10, 2), "corrupt");
  EXPECT_EQ(write(0, 0, std::string(kBlock, 'c')), Code::ok);
  EXPECT_EQ(read(0, 0, 2 * kBlock), std::string(kBlock, 'c') + std::string(kBlock, 'a'));
  expect_nobody_left();
}

TEST_F(HealingTest, a_scrub_heals_what_nobody_reads) {
  const uint32_t chunk_blocks = 3 * wire::kCopyBlocksMax;
  ASSERT_EQ(write(0, 0, std::string(chunk_blocks * kBlock, 'a')), Code::ok);
  for (uint32_t block = 5; block < chunk_blocks; block += 7) damage(2, 0, block);
  scrub(2);
  EXPECT_TRUE(damaged(2, 0).empty());
  EXPECT_EQ(bytes(2, 0), std::string(chunk_blocks * kBlock, 'a'));
}

TEST_F(HealingTest, updates_of_a_chunk_go_on_while_it_is_healed_again_and_again) {
  ASSERT_EQ(write(0, 0, std::string(kBlock, 'a')), Code::ok);
  for (int i = 0; i < 50; ++i) {
    damage(1 + static_cast<uint32_t>(i) % 3, 0, 0);
    for (uint32_t number = 1; number <= 3; ++number) replica(number).store.scrub([] {});
    const std::string content(8, static_cast<char>('a' + i % 26));
    ASSERT_EQ(write(0, 16, content), Code::ok);
    EXPECT_EQ(read(0, 16, 8), content);
    EXPECT_EQ(read(0, 0, 16), std::string(16, 'a'));
  }
  expect_nobody_left();
}

TEST_F(HealingTest, repair_takes_from_others_what_is_damaged_at_its_source) {
  adopt({Standing::serving, Standing::serving, Standing::offline});
  ASSERT_EQ(write(0, 0, std::string(3 * kBlock, 'a')), Code::ok);
  damage(2, 0, 0);  // the commit point, which repairs
  for (const uint32_t number : {1, 2}) damage(number, 0, 2);
  adopt({Standing::serving, Standing::serving, Standing::syncing});
  const auto is_repaired = [&] {
    for (const Report& report : replica(2).reports) {
      if (report.kind == Report::Kind::repaired) return true;
    }
    return false;
  };
  EXPECT_TRUE(world_.run_until(is_repaired, seconds(10)));
  EXPECT_EQ(damaged(2, 0), std::set<uint32_t>{2});
  EXPECT_EQ(damaged(3, 0), std::set<uint32_t>{2}) << "nobody has it";
  EXPECT_EQ(bytes(3, 0).substr(0, 2 * kBlock), std::string(2 * kBlock, 'a'));
  expect_nobody_left();
}

}  // namespace
}  // namespace penstock::chain
