// One user takes all that a real node with few descriptors gives, and others still get in.
#include "raw_session.h"
#include "watched_node.h"

#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <thread>

#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

using agent::RawSession;

constexpr uid_t kGreedyUser = 1001, kGreedyToo = 1002, kModest = 1003;
constexpr uint64_t kDescriptors = 1024;

// Lives on in this process until that ends. True when the node has given much, and then refused.
bool take_all_descriptors(const std::string& path) {
  static std::vector<RawSession> sessions;
  // A session that sends more than its share is ended, with all that it had: so some of it is left
  // for sessions that want nothing else.
  constexpr size_t kWithDevices = 2, kSessionsMost = 600;
  constexpr int kDevices = 120;
  const UniqueFd any(::epoll_create1(EPOLL_CLOEXEC));
  const wire::DeviceHandle handle{"x", 4096, {}, true};
  for (size_t i = 0; i < kSessionsMost; ++i) {
    UniqueFd socket = connect_to(path);
    if (!socket) return false;
    RawSession session(std::move(socket), false);
    if (session.ask(wire::Hello{}).status != Code::ok) return i > kWithDevices;
    for (int j = 0; i < kWithDevices && j < kDevices; ++j) {
      wire::DeviceMemoryId id{static_cast<uint8_t>(i), static_cast<uint8_t>(j)};
      if (session.ask(wire::PublishDevice{id, handle}, {any.get()}).status != Code::ok) break;
    }
    sessions.push_back(std::move(session));
  }
  return false;
}

bool is_served(const std::string& path) {
  UniqueFd socket = connect_to(path);
  if (!socket) return false;
  RawSession session(std::move(socket), false);
  return session.ask(wire::Hello{}).status == Code::ok &&
         session.ask(wire::PathAttributes{"/", true}).status == Code::ok;
}

void expect_no_spinning(const WatchedNode& node) {
  constexpr uint64_t kWatchedMs = 2000;
  EXPECT_TRUE(eventually([&] {
    const uint64_t before = node.cpu_ms();
    std::this_thread::sleep_for(std::chrono::milliseconds(kWatchedMs));
    return node.cpu_ms() - before < kWatchedMs / 4;
  }));
}

class Shares : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs to become other users";
    log::set_level(log::Level::off);
  }
  bool root_gets_in(const WatchedNode& node) const {
    return is_served(node.socket()) && penstock({"status", node.store()}).exit_code == 0;
  }
  static bool gets_in(uid_t uid, const WatchedNode& node) {
    return OtherProcess(uid, [&] { return is_served(node.socket()); }).took();
  }
};

TEST_F(Shares, of_descriptors_are_for_all_users_and_their_end_is_waited_for_in_peace) {
  WatchedNode node({.mount = false, .descriptors = kDescriptors});
  ASSERT_TRUE(node.is_up()) << node.ending();
  const Holdings before = node.holdings();
  {
    const OtherProcess greedy(kGreedyUser, [&] { return take_all_descriptors(node.socket()); });
    ASSERT_TRUE(greedy.took()) << "refused nothing, or everything";
    const Holdings held = node.holdings();
    ASSERT_TRUE(held.valid);
    const auto share = held.shares.find("user 1001: descriptors");
    ASSERT_NE(share, held.shares.end());
    EXPECT_GE(share->second, kDescriptors / 5) << "this is not all that a user may have";
    EXPECT_TRUE(gets_in(kModest, node));
    EXPECT_TRUE(root_gets_in(node));
    expect_no_spinning(node);
    // Several users together have no more than what is not kept back.
    const OtherProcess more(kGreedyToo, [&] { return take_all_descriptors(node.socket()); });
    ASSERT_TRUE(more.took());
    EXPECT_TRUE(root_gets_in(node));
    expect_no_spinning(node);
  }
  Holdings now;
  EXPECT_TRUE(eventually([&] {
    now = node.holdings();
    return now.sessions == before.sessions && now.shares == before.shares &&
           now.descriptors == before.descriptors;
  })) << "before: "
      << to_text(before) << "\nnow: " << to_text(now);
  EXPECT_TRUE(gets_in(kModest, node));
  EXPECT_TRUE(node.lives()) << node.ending();
}

TEST_F(Shares, are_kept_while_more_connect_than_may) {
  WatchedNode node({.mount = false, .descriptors = kDescriptors});
  ASSERT_TRUE(node.is_up()) << node.ending();
  const auto connect_for_ever = [&] {
    static std::vector<UniqueFd> sockets;
    for (int i = 0; i < 2000; ++i) sockets.push_back(connect_to(node.socket()));
    return true;
  };
  const OtherProcess crowd(kGreedyUser, connect_for_ever);
  ASSERT_TRUE(crowd.took());
  EXPECT_TRUE(gets_in(kModest, node));
  EXPECT_TRUE(root_gets_in(node));
  expect_no_spinning(node);
  EXPECT_TRUE(node.lives()) << node.ending();
}

}  // namespace
}  // namespace penstock::test
