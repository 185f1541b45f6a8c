// What targets remember of what clients have shown.
#include "../shown.h"

#include <gtest/gtest.h>

namespace penstock::chain {
namespace {

constexpr NodeId kShowing{5};
constexpr ChainId kChainShown{1024};

struct PlayedJudge final : CapabilityJudge {
  Verdict verdict = Verdict::good;
  int asked = 0;
  bool are_asked_for() const override { return true; }
  Verdict judge(const wire::Capability&) override {
    ++asked;
    return verdict;
  }
};

uint64_t word(uint64_t number, NodeId node = kShowing) {
  return wire::AgentSession{node, number}.word();
}

wire::Capability capability(uint64_t number, uint64_t inode, uint8_t rights) {
  wire::Capability one;
  one.key = 1;
  one.rights = rights;
  one.chain_last = UINT32_MAX;
  one.inode_first = inode == 0 ? 1 : inode;
  one.inode_last = inode == 0 ? UINT64_MAX : inode;
  one.session = word(number);
  one.judged = 10;
  return one;
}

class ShownTest : public testing::Test {
 protected:
  Status show(const wire::Capability& one, NodeId peer = kShowing) {
    return shown_.show(peer, one, fence_, judge_, now_);
  }
  Status may(uint64_t number, uint64_t inode, uint8_t rights, NodeId peer = kShowing) {
    return shown_.may({peer, number == 0 ? 0 : word(number), InodeId(inode), kChainShown, rights},
                      fence_);
  }

  Shown shown_;
  Fence fence_;
  PlayedJudge judge_;
  engine::Time now_{};
};

TEST_F(ShownTest, allows_what_was_shown_in_its_session_alone) {
  EXPECT_EQ(may(1, 7, wire::kMayRead), Code::bad_handle);
  EXPECT_EQ(show(capability(1, 7, wire::kMayRead)), Code::ok);
  EXPECT_EQ(may(1, 7, wire::kMayRead), Code::ok);
  EXPECT_EQ(may(1, 7, wire::kMayWrite), Code::bad_handle);
  EXPECT_EQ(may(1, 8, wire::kMayRead), Code::bad_handle);
  EXPECT_EQ(may(2, 7, wire::kMayRead), Code::bad_handle);
  EXPECT_EQ(may(0, 7, wire::kMayRead), Code::bad_handle);
  EXPECT_EQ(may(1, 7, wire::kMayRead, NodeId(6)), Code::bad_handle) << "another node says it";
  EXPECT_EQ(show(capability(1, 8, wire::kMayWrite)), Code::ok);
  EXPECT_EQ(may(1, 8, wire::kMayRead), Code::ok) << "what is around";
  EXPECT_EQ(judge_.asked, 2);
}

TEST_F(ShownTest, allows_all_files_of_who_may_use_all) {
  EXPECT_EQ(show(capability(1, 0, wire::kCapabilityRights)), Code::ok);
  for (const uint64_t inode : {uint64_t{1}, uint64_t{99}, UINT64_MAX}) {
    EXPECT_EQ(may(1, inode, wire::kMayWrite), Code::ok);
  }
  wire::Capability some = capability(2, 0, wire::kCapabilityRights);
  some.chain_last = kChainShown.value - 1;
  EXPECT_EQ(show(some), Code::ok);
  EXPECT_EQ(may(2, 1, wire::kMayRead), Code::bad_handle) << "another chain";
}

TEST_F(ShownTest, refuses_what_is_forged_or_of_another) {
  EXPECT_EQ(show(capability(1, 7, wire::kMayRead), NodeId(6)), Code::access_denied);
  EXPECT_EQ(judge_.asked, 0);
  judge_.verdict = CapabilityJudge::Verdict::forged;
  EXPECT_EQ(show(capability(1, 7, wire::kMayRead)), Code::access_denied);
  judge_.verdict = CapabilityJudge::Verdict::unknown_key;
  EXPECT_EQ(show(capability(1, 7, wire::kMayRead)), Code::bad_handle);
  EXPECT_EQ(may(1, 7, wire::kMayRead), Code::bad_handle);
}

TEST_F(ShownTest, forgets_sessions_that_are_over) {
  for (const uint64_t inode : {0, 7}) {
    EXPECT_EQ(show(capability(1, inode, wire::kMayRead)), Code::ok);
    EXPECT_EQ(show(capability(2, inode, wire::kMayRead)), Code::ok);
  }
  ASSERT_TRUE(fence_.raise({kShowing, 2}));
  EXPECT_EQ(may(1, 7, wire::kMayRead), Code::stale);
  shown_.fence({kShowing, 2});
  EXPECT_EQ(shown_.size(), 2u);
  EXPECT_EQ(show(capability(1, 7, wire::kMayRead)), Code::stale);
  EXPECT_EQ(may(2, 7, wire::kMayRead), Code::ok);
}

TEST_F(ShownTest, forgets_what_was_judged_before_a_restriction) {
  EXPECT_EQ(show(capability(1, 0, wire::kMayRead)), Code::ok);
  shown_.restrict({kShowing, 10});
  EXPECT_EQ(may(1, 7, wire::kMayRead), Code::ok) << "with it";
  shown_.restrict({NodeId(6), 11});
  EXPECT_EQ(may(1, 7, wire::kMayRead), Code::ok);
  shown_.restrict({kShowing, 11});
  EXPECT_EQ(may(1, 7, wire::kMayRead), Code::bad_handle);
  EXPECT_EQ(show(capability(1, 0, wire::kMayRead)), Code::bad_handle);
  wire::Capability later = capability(1, 7, wire::kMayRead);
  later.judged = 11;
  EXPECT_EQ(show(later), Code::ok);
  EXPECT_EQ(may(1, 7, wire::kMayRead), Code::ok);
}

TEST_F(ShownTest, keeps_those_that_are_used_and_is_bounded) {
  EXPECT_EQ(show(capability(1, 7, wire::kMayRead)), Code::ok);
  for (uint64_t i = 0; i < 2 * limits::kShownMax; ++i) {
    if (i % limits::kShownPerSecond == 0) now_ += std::chrono::seconds(2);
    ASSERT_EQ(show(capability(1, 100 + i, wire::kMayRead)), Code::ok);
    if (i % 1000 == 0) {
      ASSERT_EQ(may(1, 7, wire::kMayRead), Code::ok);
    }
  }
  EXPECT_LE(shown_.size(), limits::kShownMax);
  EXPECT_EQ(may(1, 100, wire::kMayRead), Code::bad_handle) << "it shows it again";
}

TEST_F(ShownTest, verifies_so_many_a_second_for_a_node) {
  for (uint32_t i = 0; i < limits::kShownPerSecond; ++i) {
    EXPECT_EQ(show(capability(1, 1 + i, wire::kMayRead)), Code::ok);
  }
  EXPECT_EQ(show(capability(1, 9999, wire::kMayRead)), Code::busy);
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(show(capability(1, 9999, wire::kMayRead)), Code::ok);
}

}  // namespace
}  // namespace penstock::chain
