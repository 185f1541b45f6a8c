// Which GPU and card bytes take to another node, on machines that are made up.
#include "penstock/rails/gpu_rails.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::rails {
namespace {

using testing::HasSubstr;

constexpr uint64_t kAllGpus = 0xff;

// Behind a bridge of their own, of one processor for the first half.
DevicePlace place(uint32_t bridge, uint32_t device) {
  return {fmt::format("/sys/devices/pci0000:{:02x}/0000:{:02x}:01.0/0000:aa:00.0/0000:bb:{:02x}.0",
                      bridge, bridge, device),
          bridge < 4 ? 0 : 1};
}

// Eight GPUs; a card for every `gpus_of_card` of them, of 400 Gbit/s, each on a rail of its own.
RailNode machine(uint32_t gpus_of_card, bool has_nvlink = true) {
  RailNode node;
  for (uint32_t gpu = 0; gpu < 8; ++gpu) {
    const uint32_t bridge = gpu / gpus_of_card * gpus_of_card;
    node.gpus.push_back({place(bridge, gpu), has_nvlink ? kAllGpus & ~(1U << gpu) : 0});
    if (bridge != gpu) continue;
    const size_t card = node.cards.size();
    node.cards.push_back(
        {fmt::format("eth{}", card), place(bridge, 20), 50e9, fmt::format("r{}", card)});
  }
  return node;
}

RailCosts usual() {
  return rail_costs({});
}

TEST(GpuRails, take_nvlink_to_the_gpu_whose_card_is_on_the_others_rail) {
  const RailNode node = machine(1);
  for (uint32_t from = 0; from < 8; ++from) {
    for (uint32_t to = 0; to < 8; ++to) {
      const GpuRail way = choose_rail(node, from, node, to, usual());
      EXPECT_EQ(way.gpu, to);
      EXPECT_EQ(way.card, to);
      EXPECT_DOUBLE_EQ(way.bytes_per_second, 50e9);
      EXPECT_THAT(way.why, HasSubstr(from == to ? fmt::format("by eth{}, which is on rail", to)
                                                : fmt::format("over NVLink to GPU {}", to)));
    }
  }
}

TEST(GpuRails, spread_over_gpus_that_share_a_card) {
  const RailNode node = machine(2);
  for (uint32_t from = 0; from < 8; ++from) {
    for (uint32_t to = 0; to < 8; ++to) {
      const GpuRail way = choose_rail(node, from, node, to, usual());
      EXPECT_EQ(way.card, to / 2);
      // Who has the card itself stays.
      EXPECT_EQ(way.gpu, from / 2 == to / 2 ? from : to);
    }
  }
}

TEST(GpuRails, stay_without_nvlink) {
  const RailNode node = machine(1, false);
  EXPECT_EQ(choose_rail(node, 3, node, 3, usual()).card, 3U);
  // A card on the rail, by the processor: more than between rails.
  const GpuRail near = choose_rail(node, 0, node, 2, usual());
  EXPECT_EQ(near.gpu, 0U);
  EXPECT_EQ(near.card, 2U);
  // Behind the other one it is worth no more than the own card between rails: that stays.
  const GpuRail apart = choose_rail(node, 0, node, 6, usual());
  EXPECT_EQ(apart.gpu, 0U);
  EXPECT_EQ(apart.card, 0U);
  EXPECT_DOUBLE_EQ(apart.bytes_per_second, 25e9);
  EXPECT_THAT(apart.why, HasSubstr("no better way to a card on rail r6"));
}

TEST(GpuRails, go_between_rails_where_a_card_is_missing) {
  RailNode node = machine(1);
  const RailNode whole = node;
  node.cards.erase(node.cards.begin() + 5);
  // Nothing here is on GPU 5's rail.
  const GpuRail to_five = choose_rail(node, 1, whole, 5, usual());
  EXPECT_EQ(to_five.gpu, 1U);
  EXPECT_EQ(to_five.card, 1U);
  EXPECT_THAT(to_five.why, HasSubstr("no card of this node is on rail r5"));
  // GPU 5 itself has the others'.
  const GpuRail from_five = choose_rail(node, 5, whole, 2, usual());
  EXPECT_EQ(from_five.gpu, 2U);
  EXPECT_EQ(from_five.card, 2U);
  // There GPU 5 is reached by the first card of its processor, which is on rail 4.
  EXPECT_EQ(choose_rail(whole, 0, node, 5, usual()).card, 4U);
}

TEST(GpuRails, stay_where_ways_cost_the_same) {
  const RailNode node = machine(1);
  RailCosts costs = usual();
  costs.share_between_rails = 1;
  costs.seconds_per_copy = 0;
  for (uint32_t to = 0; to < 8; ++to) {
    const GpuRail way = choose_rail(node, 6, node, to, costs);
    EXPECT_EQ(way.gpu, 6U);
    EXPECT_EQ(way.card, 6U);
  }
  // One rail for all.
  RailNode flat = node;
  for (RailCard& card : flat.cards) card.rail = "10.0.0.0/8";
  EXPECT_EQ(choose_rail(flat, 6, flat, 1, usual()).gpu, 6U);
  EXPECT_EQ(choose_rail(flat, 6, flat, 1, usual()).card, 6U);
}

TEST(GpuRails, stay_where_the_copy_costs_more_than_the_rail_saves) {
  const RailNode node = machine(1);
  RailCosts costs = usual();
  // 4 MiB by 50 GB/s instead of 25 saves 84 us.
  costs.seconds_per_copy = 80e-6;
  EXPECT_EQ(choose_rail(node, 0, node, 6, costs).gpu, 6U);
  costs.seconds_per_copy = 90e-6;
  EXPECT_EQ(choose_rail(node, 0, node, 6, costs).gpu, 0U);
}

TEST(GpuRails, are_as_good_as_what_is_known) {
  RailNode node = machine(1);
  const GpuRail none = choose_rail({node.gpus, {}}, 0, node, 1, usual());
  EXPECT_FALSE(none.card.has_value());
  EXPECT_EQ(none.gpu, 0U);
  EXPECT_THAT(none.why, HasSubstr("no network card"));
  EXPECT_FALSE(choose_rail(node, 9, node, 1, usual()).card.has_value());
  // Of the other node nothing.
  const GpuRail alone = choose_rail(node, 2, {}, 0, usual());
  EXPECT_EQ(alone.card, 2U);
  EXPECT_THAT(alone.why, HasSubstr("on no rail"));
  // Virtual machines show no bridges.
  for (RailGpu& gpu : node.gpus) gpu.place = {};
  for (RailCard& card : node.cards) card.place = {};
  EXPECT_EQ(choose_rail(node, 2, node, 0, usual()).card, 0U);
}

TEST(GpuRails, know_how_near_devices_are) {
  EXPECT_EQ(nearness(place(0, 1), place(0, 20)), Nearness::same_bridge);
  EXPECT_EQ(nearness(place(0, 1), place(1, 20)), Nearness::same_processor);
  EXPECT_EQ(nearness(place(0, 1), place(4, 20)), Nearness::apart);
  EXPECT_EQ(nearness({}, {}), Nearness::apart);
  // Directly at a processor's port, each is behind one of its own.
  const DevicePlace one = {"/sys/devices/pci0000:00/0000:00:03.0", -1};
  const DevicePlace other = {"/sys/devices/pci0000:00/0000:00:04.0", -1};
  EXPECT_EQ(nearness(one, other), Nearness::apart);
  EXPECT_EQ(nearness(one, {"/sys/devices/pci0000:00/0000:00:03.0/virtio1", -1}),
            Nearness::same_bridge);
}

}  // namespace
}  // namespace penstock::rails
