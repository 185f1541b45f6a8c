// Spreads in virtual time, over simulated GPUs.
#include "spread_rig.h"

namespace penstock::load {
namespace {

TEST_F(SpreadTest, every_gpu_gets_every_byte_which_is_read_once) {
  make_gpus(4);
  make_runs(9, 700 * kKiB, 2);
  make_links({0, 1, 2, 3});
  run();
  EXPECT_FALSE(spread_->stopped()) << spread_->failure().message;
  EXPECT_TRUE(all_is_there());
  EXPECT_EQ(carried(), order_.pieces.bytes);
  EXPECT_EQ(forwarded(), 3 * order_.pieces.bytes);
  EXPECT_EQ(spread_->bytes_done(), order_.pieces.bytes);
  EXPECT_EQ(devices_->detours(), 0U);
  for (const LinkCounts& link : spread_->counts().links) EXPECT_GT(link.bytes, 0U);
}

TEST_F(SpreadTest, many_tiny_tensors_go_in_a_few_pieces) {
  make_gpus(2);
  make_runs(3000, 60);
  make_links({1}, {0});
  run();
  EXPECT_TRUE(all_is_there());
  EXPECT_LT(carrier_->fetches, 10U);
}

TEST_F(SpreadTest, nothing_to_bring_ends_at_once) {
  make_gpus(2);
  make_runs(0, 1);
  bytes_ = 256;
  make_links({0, 1});
  spread_->start();
  EXPECT_TRUE(spread_->ended());
  EXPECT_FALSE(spread_->stopped());
}

TEST_F(SpreadTest, slower_link_carries_less) {
  make_gpus(2);
  make_runs(30, 900 * kKiB);
  make_links({0, 1});
  files_[1]->delay_max = std::chrono::milliseconds(4);
  run();
  EXPECT_TRUE(all_is_there());
  const auto& links = spread_->counts().links;
  EXPECT_GT(links[0].bytes, 3 * links[1].bytes);
  EXPECT_GT(links[1].bytes, 0U);
}

TEST_F(SpreadTest, lenders_bring_what_others_want) {
  make_gpus(4);
  make_runs(20, 900 * kKiB);
  make_links({2}, {0, 1, 3});
  run();
  EXPECT_TRUE(all_is_there());
  EXPECT_EQ(carried(), order_.pieces.bytes);
  const auto& links = spread_->counts().links;
  EXPECT_EQ(links[0].forwarded, 0U);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_GT(links[i].bytes, 0U);
    EXPECT_EQ(links[i].forwarded, links[i].bytes);
  }
}

TEST_F(SpreadTest, gpus_that_do_not_reach_each_other_get_it_over_their_own_links) {
  make_gpus(3, {0, 0, 0});
  make_runs(6, 900 * kKiB);
  make_links({0, 1}, {2});
  run();
  EXPECT_TRUE(all_is_there());
  EXPECT_EQ(devices_->detours(), 0U);
  EXPECT_EQ(forwarded(), 0U);
  EXPECT_EQ(spread_->bytes_done(), order_.pieces.bytes);
  const auto& links = spread_->counts().links;
  EXPECT_EQ(links[0].bytes, order_.pieces.bytes);
  EXPECT_EQ(links[1].bytes, order_.pieces.bytes);
  EXPECT_EQ(links[2].bytes, 0U);
}

TEST_F(SpreadTest, two_pairs_are_two_groups_and_lenders_serve_whom_they_reach) {
  // 0 and 1 reach each other, 2 and 3 too; 4 reaches 2 and 3 only.
  make_gpus(5, {0b00010, 0b00001, 0b11000, 0b10100, 0b01100});
  make_runs(20, 900 * kKiB);
  make_links({0, 1, 2, 3}, {4});
  run();
  EXPECT_TRUE(all_is_there());
  EXPECT_EQ(devices_->detours(), 0U);
  EXPECT_EQ(carried(), 2 * order_.pieces.bytes);
  EXPECT_EQ(spread_->counts().links[0].bytes + spread_->counts().links[1].bytes,
            order_.pieces.bytes);
  EXPECT_GT(spread_->counts().links[4].bytes, 0U);
}

TEST_F(SpreadTest, file_that_became_shorter_is_named_with_the_place) {
  make_gpus(2);
  make_runs(4, 900 * kKiB);
  make_links({0, 1});
  const uint64_t end = runs_[2].offset + 1000;
  for (SimFiles* const files : files_) files->file(0).resize(end);
  run();
  EXPECT_EQ(spread_->failure().status, Code::corrupt);
  EXPECT_NE(spread_->failure().message.find("file0"), std::string::npos);
  EXPECT_NE(spread_->failure().message.find("became shorter"), std::string::npos)
      << spread_->failure().message;
}

TEST_F(SpreadTest, file_that_became_shorter_within_a_list_is_named_with_the_place) {
  make_gpus(1);
  make_runs(50, 100);
  make_links({0});
  runs_[30].length = 50;
  order_.pieces = cut(runs_, kPiece);
  files_[0]->file(0).resize(runs_[30].offset + 1);
  run();
  EXPECT_EQ(spread_->failure().status, Code::corrupt);
  EXPECT_NE(spread_->failure().message.find(fmt::format("byte {}", runs_[30].offset + 1)),
            std::string::npos)
      << spread_->failure().message;
}

TEST_F(SpreadTest, bytes_that_do_not_verify_are_not_passed_on) {
  make_gpus(2);
  make_runs(1, kPiece);
  make_links({0, 1});
  devices_->faults.flip_permille = 1000;
  run();
  EXPECT_EQ(spread_->failure().status, Code::corrupt);
  EXPECT_EQ(forwarded(), 0U);
}

}  // namespace
}  // namespace penstock::load
