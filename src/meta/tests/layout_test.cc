// What new files get of the layout of their directory.
#include "penstock/meta/layout.h"

#include <gtest/gtest.h>
#include <map>
#include <set>

namespace penstock::meta {
namespace {

Layout striped(uint32_t stripe) {
  Layout layout;
  layout.chain_first = 100;
  layout.chain_count = 12;
  layout.stripe = stripe;
  return layout;
}

TEST(Layout, is_settled_as_a_list_when_the_stripe_is_narrower_than_the_range) {
  Layout layout = striped(5);
  settle_layout(layout, InodeId(7));
  EXPECT_EQ(layout.seed, mix64(7));
  EXPECT_EQ(layout.stripe, 0u);
  ASSERT_EQ(layout.chains.size(), 5u);
  EXPECT_EQ(std::set<ChainId>(layout.chains.begin(), layout.chains.end()).size(), 5u);
  for (const ChainId chain : layout.chains) {
    EXPECT_GE(chain.value, 100u);
    EXPECT_LT(chain.value, 112u);
  }
  const Layout first = layout;
  settle_layout(layout, InodeId(8));
  EXPECT_EQ(layout, first) << "what a file has stays";
  Layout other = striped(5);
  settle_layout(other, InodeId(8));
  EXPECT_NE(other.chains, first.chains);
}

TEST(Layout, stays_a_range_when_the_stripe_takes_all_of_it) {
  for (const uint32_t stripe : {0u, 12u, 13u, UINT32_MAX}) {
    Layout layout = striped(stripe);
    settle_layout(layout, InodeId(7));
    EXPECT_TRUE(layout.chains.empty()) << stripe;
    EXPECT_EQ(layout.chain_first, 100u);
    EXPECT_EQ(layout.chain_count, 12u);
    EXPECT_EQ(layout.stripe, 0u);
  }
}

// Every chain comes as often as any other, in the first place and in all: small files have only the
// first. Of 12,000 files each has 1,000 firsts to expect; five standard deviations are 152.
TEST(Layout, draws_every_chain_equally_often) {
  std::map<uint32_t, int> firsts;
  std::map<uint32_t, int> all;
  for (uint64_t file = 1; file <= 12'000; ++file) {
    Layout layout = striped(11);
    settle_layout(layout, InodeId(file));
    ASSERT_EQ(layout.chains.size(), 11u);
    ++firsts[layout.chains.front().value];
    for (const ChainId chain : layout.chains) ++all[chain.value];
  }
  ASSERT_EQ(firsts.size(), 12u);
  for (const auto& [chain, count] : firsts) EXPECT_NEAR(count, 1000, 152) << chain;
  // One of twelve is missing in each file.
  for (const auto& [chain, count] : all) EXPECT_NEAR(count, 11'000, 152) << chain;
}

TEST(Layout, with_a_field_out_of_its_bounds_is_not_good) {
  EXPECT_TRUE(layout_is_good(striped(5)));
  const auto refused = [](const auto& spoil) {
    Layout layout = striped(5);
    spoil(layout);
    return !layout_is_good(layout);
  };
  EXPECT_TRUE(refused([](Layout& l) { l.chunk_bytes_log2 = 15; }));
  EXPECT_TRUE(refused([](Layout& l) { l.chunk_bytes_log2 = 27; }));
  EXPECT_TRUE(refused([](Layout& l) { l.chunk_bytes_log2 = 64 + 20; }));
  EXPECT_TRUE(refused([](Layout& l) { l.chain_count = 0; }));
  EXPECT_TRUE(refused([](Layout& l) { l.copies = 0; }));
  EXPECT_TRUE(refused([](Layout& l) { l.copies = kCopiesMax + 1; }));
  EXPECT_TRUE(refused([](Layout& l) { l.scheme = Scheme(kSchemes); }));
  EXPECT_TRUE(refused([](Layout& l) { l.media = Media(kMediaNumbers); }));
  EXPECT_TRUE(refused([](Layout& l) { l.chains = {ChainId(3), ChainId(4), ChainId(3)}; }));
  EXPECT_TRUE(refused([](Layout& l) {
    for (uint32_t i = 0; i <= kListedChainsMax; ++i) l.chains.emplace_back(i);
  }));
  EXPECT_TRUE(refused([](Layout& l) {
    l.chain_count = 1000;
    l.stripe = kListedChainsMax + 1;
  }));
  EXPECT_FALSE(refused([](Layout& l) {
    l.chain_count = 1000;
    l.stripe = 1000;
  }));
}

}  // namespace
}  // namespace penstock::meta
