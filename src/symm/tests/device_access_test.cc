// Which GPUs of a node reach one another, as PEs tell it.
#include "../device_access.h"

#include <gtest/gtest.h>

namespace penstock::symm {
namespace {

uint64_t bits(std::initializer_list<uint32_t> pes) {
  uint64_t all = 0;
  for (const uint32_t pe : pes) all |= uint64_t{1} << pe;
  return all;
}

AccessTold told(uint64_t tried, uint64_t mapped, std::string why = "") {
  return {{tried, mapped, 1}, std::move(why)};
}

// Three PEs of a node, of which 0 and 2 do not reach each other.
std::vector<AccessTold> in_a_row() {
  const uint64_t node = bits({0, 1, 2});
  return {told(node, bits({0, 1}), "the memory of PE 2: no way"), told(node, node),
          told(node, bits({1, 2}))};
}

TEST(DeviceAccess, nothing_is_apart_where_all_have_mapped_all) {
  const uint64_t node = bits({0, 1});
  const std::vector<AccessTold> all = {told(node, node), told(node, node)};
  const DeviceAccess access = access_of(all);
  EXPECT_FALSE(access.has_any());
  EXPECT_TRUE(check_access(access, all).has_value());
  EXPECT_EQ(describe(access, all), "");
  EXPECT_EQ(access.sharing(node, 1), (PeSet{0, 1, 2}));
}

TEST(DeviceAccess, one_direction_is_none) {
  const uint64_t node = bits({0, 1});
  const DeviceAccess access =
      access_of(std::vector<AccessTold>{told(node, node), told(node, bits({1}))});
  EXPECT_TRUE(access.are_apart(0, 1));
  EXPECT_TRUE(access.are_apart(1, 0));
  EXPECT_EQ(access.sharing(node, 0), (PeSet{0, 1, 1}));
}

TEST(DeviceAccess, pes_of_other_nodes_are_not_apart) {
  const DeviceAccess access = access_of(std::vector<AccessTold>{
      told(bits({0, 2}), bits({0, 2})), told(bits({1}), bits({1})), told(bits({0, 2}), bits({2}))});
  ASSERT_EQ(access.pairs().size(), 1U);
  EXPECT_EQ(access.pairs()[0].first, 0U);
  EXPECT_EQ(access.pairs()[0].second, 2U);
  EXPECT_FALSE(access.has_any_in({0, 1, 2}));
  EXPECT_TRUE(access.has_any_in({0, 2, 2}));
  EXPECT_TRUE(access.has_any_in({2, -2, 2}));
}

// Who is near to both may not think that all of the team are near to each other.
TEST(DeviceAccess, all_of_a_team_find_the_same_where_one_is_near_to_all) {
  const DeviceAccess access = access_of(in_a_row());
  EXPECT_TRUE(access.has_any_in({0, 1, 3}));
  EXPECT_FALSE(access.has_any_in({0, 1, 2}));
  const uint64_t node = bits({0, 1, 2});
  for (uint32_t pe = 0; pe < 3; ++pe) EXPECT_EQ(access.sharing(node, pe), (PeSet{pe, 1, 1}));
}

TEST(DeviceAccess, those_that_share_memory_are_rows_of_equal_steps) {
  // 0, 2 and 4 reach one another, 1 and 3 do.
  DeviceAccess access;
  for (const uint32_t even : {0, 2, 4}) {
    for (const uint32_t odd : {1, 3}) access.part(even, odd);
  }
  const uint64_t node = bits({0, 1, 2, 3, 4});
  for (const uint32_t even : {0, 2, 4}) EXPECT_EQ(access.sharing(node, even), (PeSet{0, 2, 3}));
  for (const uint32_t odd : {1, 3}) EXPECT_EQ(access.sharing(node, odd), (PeSet{1, 2, 2}));
  // 0, 1 and 3 do, which is no row; 2 is alone.
  DeviceAccess other;
  for (const uint32_t pe : {0, 1, 3}) other.part(pe, 2);
  for (uint32_t pe = 0; pe < 4; ++pe)
    EXPECT_EQ(other.sharing(bits({0, 1, 2, 3}), pe), (PeSet{pe, 1, 1}));
}

TEST(DeviceAccess, the_last_of_64_is_told_apart) {
  std::vector<AccessTold> all;
  for (uint32_t pe = 0; pe < 64; ++pe) all.push_back(told(~uint64_t{0}, ~uint64_t{0}));
  all[63].facts.mapped = bits({63});
  const DeviceAccess access = access_of(all);
  EXPECT_EQ(access.pairs().size(), 63U);
  EXPECT_NE(describe(access, all).find("PE 7 and PE 63 and 55 more"), std::string::npos);
  EXPECT_EQ(access.sharing(~uint64_t{0}, 5), (PeSet{0, 1, 63}));
}

TEST(DeviceAccess, who_forbids_that_hosts_carry_has_all_refuse) {
  std::vector<AccessTold> all = in_a_row();
  EXPECT_TRUE(check_access(access_of(all), all).has_value());
  EXPECT_EQ(describe(access_of(all), all), "PE 0 and PE 2 (PE 0: the memory of PE 2: no way)");
  all[1].facts.asks_hosts = 0;
  const auto refused = check_access(access_of(all), all);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status.code(), Code::not_supported);
  EXPECT_TRUE(refused.error().message.starts_with("PE 0: the memory of PE 2: no way; "));
  EXPECT_NE(refused.error().message.find("PENSTOCK_GPUS_OF_NODES=0"), std::string::npos);
}

TEST(DeviceAccess, what_is_told_comes_back) {
  const AccessTold one = told(5, 4, "no way");
  const auto back = decode_access(encode(one));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->facts.tried, 5U);
  EXPECT_EQ(back->facts.mapped, 4U);
  EXPECT_EQ(back->facts.asks_hosts, 1U);
  EXPECT_EQ(back->why, "no way");
  EXPECT_FALSE(decode_access(std::vector<std::byte>(sizeof(AccessFacts) - 1)).has_value());
}

}  // namespace
}  // namespace penstock::symm
