#include "penstock/sessions/handle_table.h"

#include <gtest/gtest.h>

#include "penstock/sessions/limits.h"

namespace penstock::sessions {
namespace {

wire::DeviceMemoryId numbered(uint32_t number) {
  return {static_cast<uint8_t>(number), static_cast<uint8_t>(number >> 8), 1};
}

PublishedHandle handle(uint64_t size = 4096) {
  return {{"handle", size, {}, false}, resources::ForeignFd()};
}

class Handles : public testing::Test {
 protected:
  uint64_t size_of(uint32_t uid, const wire::DeviceMemoryId& id) {
    const auto found = table.find(uid, id);
    return found ? (*found)->handle.size : 0;
  }
  // How many a new session of this user gets in.
  uint32_t fill(uint64_t session, uint32_t uid) {
    uint32_t count = 0;
    while (table.add({session, uid}, numbered(next), handle()) == Code::ok) ++count, ++next;
    EXPECT_EQ(table.add({session, uid}, numbered(next), handle()), Code::busy);
    return count;
  }

  HandleTable table;
  uint32_t next = 0;
};

TEST_F(Handles, belong_to_a_user_and_to_the_session_that_published_them) {
  const auto id = numbered(1);
  EXPECT_EQ(table.add({1, 7}, id, handle(100)), Code::ok);
  EXPECT_EQ(table.add({1, 7}, id, handle(200)), Code::already_exists);
  EXPECT_EQ(table.add({2, 7}, id, handle(200)), Code::already_exists);
  EXPECT_EQ(table.find(8, id).error(), Code::access_denied);
  EXPECT_EQ(table.find(0, id).error(), Code::access_denied);
  EXPECT_EQ(table.find(9, id).error(), Code::access_denied);
  EXPECT_EQ(table.find(7, numbered(2)).error(), Code::not_found);
  EXPECT_EQ(table.add({3, 8}, id, handle(300)), Code::ok) << "another user's name";
  EXPECT_EQ(size_of(7, id), 100u);
  EXPECT_EQ(size_of(8, id), 300u);

  EXPECT_EQ(table.remove({2, 7}, id), Code::not_found) << "another session's";
  EXPECT_EQ(table.remove({1, 7}, id), Code::ok);
  EXPECT_EQ(table.remove({1, 7}, id), Code::not_found);
  EXPECT_EQ(table.find(7, id).error(), Code::access_denied);
  EXPECT_EQ(size_of(8, id), 300u);
}

TEST_F(Handles, go_with_their_session_and_stay_with_whoever_holds_one) {
  EXPECT_EQ(table.add({1, 7}, numbered(1), handle(100)), Code::ok);
  EXPECT_EQ(table.add({1, 7}, numbered(2), handle(200)), Code::ok);
  EXPECT_EQ(table.add({2, 7}, numbered(3), handle(300)), Code::ok);
  const auto held = table.find(7, numbered(1));
  table.remove_all(1);
  EXPECT_EQ(table.find(7, numbered(1)).error(), Code::not_found);
  EXPECT_EQ(table.find(7, numbered(2)).error(), Code::not_found);
  EXPECT_EQ(size_of(7, numbered(3)), 300u);
  EXPECT_EQ((*held)->handle.size, 100u);
}

TEST_F(Handles, are_bounded_by_session_by_user_and_in_all) {
  using namespace limits;
  EXPECT_EQ(fill(1, 7), kPublishedPerSessionMax);
  EXPECT_EQ(fill(2, 7), kPublishedPerSessionMax);
  EXPECT_EQ(fill(3, 7), kPublishedPerUserMax - 2 * kPublishedPerSessionMax);
  uint32_t left = kPublishedMax - kPublishedPerUserMax;
  for (uint64_t session = 4; left > 0; ++session) {
    const uint32_t got = fill(session, 0);
    ASSERT_GT(got, 0u) << "root has no bound but that of all";
    left -= got;
  }
  EXPECT_EQ(fill(99, 8), 0u);
  table.remove_all(1);
  EXPECT_EQ(fill(99, 8), kPublishedPerSessionMax);
}

}  // namespace
}  // namespace penstock::sessions
