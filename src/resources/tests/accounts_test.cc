#include "penstock/resources/accounts.h"

#include <gtest/gtest.h>

namespace penstock::resources {
namespace {

constexpr Resource kThing = Resource::guards;

BoundsTable bounds() {
  BoundsTable table;
  table[static_cast<size_t>(kThing)] = {100, 90, 50, 20};
  return table;
}

TEST(Accounts, are_bounded_by_session_by_user_and_in_all) {
  const auto accounts = Accounts::make(bounds(), 500);
  std::vector<std::shared_ptr<Account>> sessions;
  for (int i = 0; i < 3; ++i) sessions.push_back(accounts->open(1));
  EXPECT_EQ(sessions[0]->charge(kThing, 21), Code::busy);
  EXPECT_EQ(sessions[0]->charge(kThing, UINT64_MAX), Code::busy);
  EXPECT_TRUE(sessions[0]->charge(kThing, 20).ok());
  EXPECT_EQ(sessions[0]->charge(kThing, 1), Code::busy) << "the session's";
  EXPECT_TRUE(sessions[1]->charge(kThing, 20).ok());
  EXPECT_TRUE(sessions[2]->charge(kThing, 10).ok());
  EXPECT_EQ(sessions[2]->charge(kThing, 1), Code::busy) << "the user's";
  for (int i = 0; i < 2; ++i) {
    sessions.push_back(accounts->open(2));
    EXPECT_TRUE(sessions.back()->charge(kThing, 20).ok()) << "another user's";
  }
  sessions.push_back(accounts->open(2));
  EXPECT_EQ(sessions.back()->charge(kThing, 1), Code::busy) << "the users' together";
  const auto root = accounts->open(0);
  const auto own = accounts->open(500);
  EXPECT_TRUE(root->charge(kThing, 6).ok()) << "kept back for root";
  EXPECT_TRUE(own->charge(kThing, 4).ok()) << "and for who runs the node";
  EXPECT_EQ(root->charge(kThing, 1), Code::busy) << "all there is";
}

TEST(Accounts, give_back_what_a_session_held) {
  const auto accounts = Accounts::make(bounds(), 0);
  for (int i = 0; i < 100; ++i) {
    auto session = accounts->open(1);
    ASSERT_TRUE(session->charge(kThing, 20).ok());
    Result<Charge> charge = Charge::take(accounts->open(1), kThing, 20);
    ASSERT_TRUE(charge);
    EXPECT_EQ(charge->account()->held(kThing), 20u);
    session->release(kThing, 5);
    EXPECT_EQ(session->held(kThing), 15u);
    const std::vector<UserStatus> users = accounts->status();
    ASSERT_EQ(users.size(), 1u);
    EXPECT_EQ(users[0].shares[static_cast<size_t>(kThing)].held, 35u);
    EXPECT_EQ(users[0].shares[static_cast<size_t>(kThing)].most, 50u);
  }
  EXPECT_TRUE(accounts->status().empty());
}

TEST(Accounts, leave_every_user_something_of_this_process) {
  const BoundsTable table = bounds_of_process();
  for (const Bounds& bounds : table) {
    EXPECT_GT(bounds.session, 0u);
    EXPECT_LE(bounds.session, bounds.user);
    EXPECT_LT(bounds.user, bounds.users);
    EXPECT_LT(bounds.users, bounds.all);
  }
}

}  // namespace
}  // namespace penstock::resources
