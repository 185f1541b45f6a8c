// Taking a node down whose application has left it a descriptor that nothing can close.
#include "hanging_file.h"
#include "node_process.h"
#include "process.h"
#include "raw_session.h"
#include "stranger.h"

#include <chrono>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

#include "penstock/json.h"

namespace penstock::test {
namespace {

using agent::HangingFile;
using agent::OtherProcess;
using agent::RawSession;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(60);
// What the issue allows `down`, beyond what it needs anyway on this machine.
constexpr auto kDownMost = std::chrono::seconds(5);

bool becomes(const std::function<bool()>& condition) {
  const auto deadline = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

class Down : public testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::off); }
  ~Down() override { penstock({"down", store_}); }

  pid_t bring_up() const {
    const Output up = penstock({"up", store_, "--background"});
    EXPECT_EQ(up.exit_code, 0) << up.err;
    const Json status = parse_json(penstock({"status", store_, "--json"}).out);
    return status.is_object() ? status.value("pid", 0) : 0;
  }
  Clock::duration take_down(Output* said) const {
    const auto begun = Clock::now();
    *said = penstock({"down", store_});
    return Clock::now() - begun;
  }

  TemporaryDirectory scratch_;
  const std::string store_ = scratch_ / "store";
};

// Another process has the file open, and sends it: whoever has it open hangs in his exec or end.
TEST_F(Down, ends_soon_beside_a_close_that_hangs_and_names_what_it_left) {
  std::unique_ptr<OtherProcess> sender;  // ends when the file has let go of it
  HangingFile file(scratch_ / "hanging");
  if (!file.is_there()) GTEST_SKIP() << "mounting is not allowed here";
  Output said;
  ASSERT_GT(bring_up(), 0);
  const Clock::duration usual = take_down(&said);
  ASSERT_EQ(said.exit_code, 0) << said.err;

  const pid_t node = bring_up();
  ASSERT_GT(node, 0);
  sender = std::make_unique<OtherProcess>(::getuid(), [&] {
    file.forget_in_child();
    static RawSession session(connect_to(store_ + "/agent.sock"));
    static const UniqueFd fd = file.open();
    return fd && !session.ask(wire::RegisterRegion{0, 0, 4096}, {fd.get()}).status.ok();
  });
  ASSERT_TRUE(sender->took());
  ASSERT_TRUE(becomes([&] { return file.hanging() == 1; })) << "the node closes it";
  EXPECT_LT(take_down(&said), usual + kDownMost);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("process " + std::to_string(node) + " stays"));
  EXPECT_THAT(read_file(store_ + "/agent.log"),
              HasSubstr("1 of user " + std::to_string(::getuid())));
  EXPECT_EQ(::kill(node, 0), 0) << "nothing hung, and this test shows nothing";

  // The directory is free although the process is still there.
  EXPECT_GT(bring_up(), 0);
  (void)take_down(&said);
  EXPECT_EQ(said.exit_code, 0) << said.err;
}

}  // namespace
}  // namespace penstock::test
