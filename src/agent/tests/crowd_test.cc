// Sessions beside others that take what they can get: none of them is held up.
#include "raw_session.h"

#include <gtest/gtest.h>
#include <thread>

#include "penstock/resources.h"

namespace penstock::agent {
namespace {

class Crowd : public testing::Test {
 protected:
  void SetUp() override {
    log::set_level(log::Level::off);
    AgentConfig config;
    config.directory = directory_.store();
    config.spin = std::chrono::microseconds(0);
    // Longer than any test takes: a mute session stays.
    config.reply_timeout = std::chrono::minutes(10);
    Outcome<std::unique_ptr<Agent>> started = Agent::start(config);
    ASSERT_TRUE(started) << started.error().message;
    agent_ = std::move(*started);
  }
  void TearDown() override {
    agent_.reset();
    log::set_level(log::Level::warning);
  }
  UniqueFd connect() {
    Outcome<UniqueFd> socket = agent_->connect_local();
    EXPECT_TRUE(socket);
    return std::move(*socket);
  }
  // Sends requests until nothing more is taken: the agent has stopped reading, as its replies find
  // no room.
  static void fill(RawSession& session) {
    const Result<std::string> bytes =
        wire::encode(wire::Request{1, wire::PathAttributes{"/", true}});
    const auto send_some = [&] {
      return ::send(session.socket(), bytes->data(), bytes->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    };
    for (int waited = 0; waited < 20;) {
      if (send_some() >= 0) {
        waited = 0;
      } else {
        ++waited;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  ScratchDirectory directory_;
  std::unique_ptr<Agent> agent_;
};

TEST_F(Crowd, that_reads_no_replies_holds_no_other_up) {
  std::vector<std::unique_ptr<RawSession>> mute;
  for (int i = 0; i < 24; ++i) mute.push_back(std::make_unique<RawSession>(connect()));
  for (const auto& session : mute) fill(*session);
  // With a thread stuck in one of their replies these would wait for its end.
  RawSession good(connect());
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(good.ask(wire::PathAttributes{"/", true}).status, Code::ok) << i;
  }
  EXPECT_EQ(agent_->status().sessions.size(), 25u) << "all of them are still there";
  // A session that begins to read gets everything, and goes on.
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(mute[0]->receive().status, Code::ok) << i;
  }
}

TEST_F(Crowd, of_mute_sessions_ends_with_them) {
  agent_.reset();
  AgentConfig config;
  config.directory = directory_.store();
  config.reply_timeout = std::chrono::milliseconds(50);
  auto started = Agent::start(config);
  ASSERT_TRUE(started);
  agent_ = std::move(*started);
  RawSession mute(connect());
  fill(mute);
  EXPECT_TRUE(test::eventually([&] { return agent_->status().sessions.empty(); }));
}

TEST_F(Crowd, whose_descriptors_hang_holds_up_neither_others_nor_the_end) {
  test::HangingFile file(directory_.path() + "/hanging");
  if (!file.is_there()) GTEST_SKIP() << "mounting is not allowed here";
  RawSession bad(connect());
  {
    const UniqueFd fd = file.open();
    ASSERT_TRUE(fd);
    EXPECT_NE(bad.ask(wire::RegisterRegion{0, 0, 4096}, {fd.get()}).status, Code::ok);
    // This process has it open, too, and would hang in its close.
    ASSERT_TRUE(test::eventually([&] { return bad.ask(wire::SyncAll{}).status == Code::ok; }));
    std::thread([fd = ::dup(fd.get())] { ::close(fd); }).detach();
    ASSERT_TRUE(test::eventually([&] { return file.hanging() > 0; }));
    RawSession good(connect());
    SharedMemory memory(4096, 0);
    for (uint32_t i = 0; i < 300; ++i) {
      ASSERT_EQ(good.ask(wire::RegisterRegion{i, 0, 4096}, {memory.fd()}).status, Code::ok) << i;
    }
    agent_.reset();
    EXPECT_NE(resources::descriptors_that_hang(std::chrono::milliseconds(1)), "")
        << "the agent has ended, and its close of the descriptor has not";
    file.let_go();
  }
}

}  // namespace
}  // namespace penstock::agent
