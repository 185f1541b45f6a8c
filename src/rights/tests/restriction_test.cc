#include <gtest/gtest.h>

#include "penstock/rights.h"

namespace penstock::rights {
namespace {

IdRanges ids(std::string_view text) {
  return *parse_ids(text);
}

TEST(Restriction, ids_are_read_in_order_and_joined) {
  EXPECT_EQ(text_of(ids("5000,1000-1999,2000,7")), "7,1000-2000,5000");
  EXPECT_EQ(text_of(ids("0-4294967294")), "0-4294967294");
  for (const char* bad :
       {"", ",", "1,", "a", "2-1", "-1", "1-", "4294967295", "1--2", " 1", "1 "}) {
    EXPECT_FALSE(parse_ids(bad)) << bad;
  }
  std::string many;
  for (int i = 0; i < 17; ++i) many += (i == 0 ? "" : ",") + std::to_string(2 * i);
  EXPECT_FALSE(parse_ids(many));
}

TEST(Restriction, users_to_squash_to_are_read) {
  EXPECT_EQ(*parse_user("65534"), (User{65534, 65534}));
  EXPECT_EQ(*parse_user("1:2"), (User{1, 2}));
  for (const char* bad : {"", ":", "1:", ":1", "1:2:3", "x"}) EXPECT_FALSE(parse_user(bad)) << bad;
}

TEST(Restriction, subtrees_are_plain_paths) {
  EXPECT_EQ(*parse_subtree("/data/"), "/data");
  EXPECT_EQ(*parse_subtree("/"), "");
  for (const char* bad : {"", "data", "/a//b", "/a/../b", "/./a", "/a/..", "/a\n"}) {
    EXPECT_FALSE(parse_subtree(bad)) << bad;
  }
  EXPECT_FALSE(parse_subtree("/" + std::string(limits::kSubtreeBytesMax, 'a')));
}

TEST(Restriction, users_beyond_are_refused) {
  const Restriction limited{.uids = ids("1000-1999")};
  User user{1000, 1000};
  std::vector<uint32_t> groups{1001, 5, 1999};
  EXPECT_TRUE(admit(limited, user, groups).ok());
  EXPECT_EQ(user, (User{1000, 1000}));
  EXPECT_EQ(groups, (std::vector<uint32_t>{1001, 1999}));
  for (User beyond : {User{0, 1000}, User{999, 1000}, User{2000, 1000}, User{1000, 0}}) {
    EXPECT_EQ(admit(limited, beyond, groups), Code::access_denied);
  }
  const Restriction with_groups{.uids = ids("1000-1999"), .gids = ids("100")};
  User of_users{1000, 100};
  EXPECT_TRUE(admit(with_groups, of_users, groups).ok());
  EXPECT_TRUE(groups.empty());
}

TEST(Restriction, users_beyond_are_squashed) {
  const Restriction some{.uids = ids("1000-1999"), .squash = User{65534, 60000}};
  User root{0, 0};
  std::vector<uint32_t> groups{0, 1000};
  EXPECT_TRUE(admit(some, root, groups).ok());
  EXPECT_EQ(root, (User{65534, 60000}));
  EXPECT_TRUE(groups.empty());
  const Restriction all{.squash = User{65534, 65534}};
  User anybody{1000, 1000};
  EXPECT_TRUE(admit(all, anybody, groups).ok());
  EXPECT_EQ(anybody, (User{65534, 65534}));
}

TEST(Restriction, files_are_given_to_those_within) {
  const Restriction some{.uids = ids("1000-1999"), .squash = User{65534, 60000}};
  EXPECT_TRUE(may_own(some, 1000) && may_own(some, 65534) && may_own_group(some, 60000));
  EXPECT_FALSE(may_own(some, 0) || may_own_group(some, 65534));
  EXPECT_TRUE(may_own({.subtree = "/a"}, 0));
  EXPECT_FALSE(may_own({.squash = User{1, 1}}, 2));
}

TEST(Restriction, only_good_ones_are_kept) {
  EXPECT_TRUE(is_good({}));
  EXPECT_FALSE(is_good({.uids = {{2, 1}}}));
  EXPECT_FALSE(is_good({.uids = {{1, 2}, {3, 4}}}));
  EXPECT_FALSE(is_good({.gids = {{5, 6}, {1, 2}}}));
  EXPECT_FALSE(is_good({.squash = User{UINT32_MAX, 0}}));
  EXPECT_FALSE(is_good({.subtree = "a"}));
  EXPECT_FALSE(is_good({.uids = IdRanges(17)}));
}

TEST(Restriction, says_what_it_is) {
  EXPECT_EQ(text_of(Restriction{}), "");
  EXPECT_EQ(text_of(Restriction{
                .uids = ids("1-2"), .squash = User{3, 4}, .subtree = "/d", .read_only = true}),
            "uids 1-2 squash 3:4 subtree /d read-only");
}

}  // namespace
}  // namespace penstock::rights
