#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include "penstock/front.h"
#include "penstock/testing.h"

namespace penstock::front {
namespace {

TEST(Sessions, refuse_what_is_in_no_mount_of_ours) {
  Sessions sessions("test");
  const auto by_path = sessions.of_mount("/");
  ASSERT_FALSE(by_path);
  EXPECT_EQ(by_path.error(), ENOENT);
  const auto numbers = mount_numbers("/");
  ASSERT_TRUE(numbers);
  EXPECT_FALSE(sessions.of_mount(*numbers));
  EXPECT_FALSE(sessions.knows(*numbers));
  EXPECT_FALSE(mount_point_of(numbers->device));
  const auto missing = sessions.of_mount("/no-such-directory-here");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error(), ENOENT);
}

// A store in this process.
class Lanes : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(penstock_open_store(directory_.store().c_str(), 1, &session_), 0)
        << penstock_last_error();
  }
  ~Lanes() override { penstock_close(session_); }
  const test::ScratchDirectory directory_;
  penstock_session* session_ = nullptr;
};

TEST_F(Lanes, of_a_pool_tell_an_event_loop_of_their_completions) {
  LanePool pool(session_);
  const auto lane = pool.claim(64);
  const auto other = pool.claim(64);
  ASSERT_TRUE(lane && other);
  EXPECT_NE(*lane, *other);
  const auto descriptor = descriptor_of(*lane);
  ASSERT_TRUE(descriptor) << penstock_last_error();
  EXPECT_EQ(*descriptor_of(*lane), *descriptor);
  pollfd readable{*descriptor, POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 20), 0);
  penstock_io nothing{};
  nothing.operation = PENSTOCK_NOP;
  nothing.user_data = 7;
  ASSERT_EQ(penstock_lane_prepare(*lane, &nothing), 0);
  ASSERT_EQ(penstock_lane_submit(*lane, 1), 1);
  ASSERT_EQ(::poll(&readable, 1, 30'000), 1);
  penstock_completion completion{};
  ASSERT_EQ(penstock_lane_wait(*lane, &completion, 1, 0, 0), 1);
  EXPECT_EQ(completion.user_data, 7u);
  pool.give_back(*lane);
  EXPECT_LT(::fcntl(*descriptor, F_GETFD), 0);
  pool.give_back(*other);
}

}  // namespace
}  // namespace penstock::front
