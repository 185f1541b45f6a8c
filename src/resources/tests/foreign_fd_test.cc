#include "penstock/resources/foreign_fd.h"

#include "../limits.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "penstock/testing.h"

namespace penstock::resources {
namespace {

using test::HangingFile;

BoundsTable many_of_all() {
  BoundsTable table;
  table.fill({1000, 900, 500, 500});
  return table;
}

class ForeignFds : public testing::Test {
 protected:
  static void close_one(const std::shared_ptr<Account>& account, UniqueFd fd) {
    ForeignFd foreign(fd.release(), account);
    ASSERT_TRUE(foreign.charge().ok());
  }
  static UniqueFd harmless() { return UniqueFd(::eventfd(0, EFD_CLOEXEC)); }

  test::ScratchDirectory directory_;
  std::shared_ptr<Accounts> accounts_ = Accounts::make(many_of_all(), 0);
};

TEST_F(ForeignFds, are_closed_and_given_back_to_their_account) {
  const auto account = accounts_->open(1);
  for (int i = 0; i < 300; ++i) close_one(account, harmless());
  EXPECT_TRUE(test::eventually([&] { return account->held(Resource::descriptors) == 0; }));
  EXPECT_EQ(descriptors_that_hang(std::chrono::seconds(30)), "");
}

TEST_F(ForeignFds, that_hang_hold_up_their_own_session_only) {
  HangingFile file(directory_.path() + "/hanging");
  if (!file.is_there()) GTEST_SKIP() << "mounting is not allowed here";
  // More sessions of one user than may hang at once, with something behind each close that hangs.
  constexpr uint32_t kSessions = limits::kCloseThreadsPerUserMax + 4;
  std::vector<std::shared_ptr<Account>> hanging;
  for (uint32_t i = 0; i < kSessions; ++i) {
    hanging.push_back(accounts_->open(1));
    UniqueFd fd = file.open();
    ASSERT_TRUE(fd);
    close_one(hanging.back(), std::move(fd));
    close_one(hanging.back(), harmless());
  }
  ASSERT_TRUE(test::eventually(
      [&] { return file.hanging() == static_cast<int>(limits::kCloseThreadsPerUserMax); }));
  for (const uint32_t uid : {0u, 2u}) {
    const auto other = accounts_->open(uid);
    for (int i = 0; i < 100; ++i) close_one(other, harmless());
    EXPECT_TRUE(test::eventually([&] { return other->held(Resource::descriptors) == 0; })) << uid;
  }
  EXPECT_EQ(hanging[0]->held(Resource::descriptors), 2u);
  EXPECT_EQ(descriptors_that_hang(std::chrono::milliseconds(1)),
            std::to_string(2 * kSessions) + " of user 1");
  file.let_go();
  EXPECT_EQ(descriptors_that_hang(std::chrono::seconds(30)), "");
  for (const auto& session : hanging) EXPECT_EQ(session->held(Resource::descriptors), 0u);
}

// As those of a message that is no request.
TEST_F(ForeignFds, that_no_account_is_charged_for_hang_in_their_senders_name) {
  HangingFile file(directory_.path() + "/hanging");
  if (!file.is_there()) GTEST_SKIP() << "mounting is not allowed here";
  const auto account = accounts_->open(1);
  for (uint32_t i = 0; i < limits::kCloseThreadsPerUserMax + 4; ++i) {
    const ForeignFd foreign(file.open().release(), account);
  }
  ASSERT_TRUE(test::eventually([&] { return file.hanging() > 0; }));
  const auto root = accounts_->open(0);
  for (int i = 0; i < 100; ++i) close_one(root, harmless());
  EXPECT_TRUE(test::eventually([&] { return root->held(Resource::descriptors) == 0; }));
  EXPECT_EQ(descriptors_that_hang(std::chrono::milliseconds(1)),
            std::to_string(limits::kCloseThreadsPerUserMax + 4) + " of user 1");
  file.let_go();
  EXPECT_EQ(descriptors_that_hang(std::chrono::seconds(30)), "");
}

}  // namespace
}  // namespace penstock::resources
