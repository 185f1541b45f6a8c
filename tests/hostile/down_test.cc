// Taking a node down whose application has left it a descriptor that nothing can close.
#include "raw_session.h"
#include "watched_node.h"

#include <chrono>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

#include "penstock/json.h"
#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

using agent::RawSession;
using testing::HasSubstr;

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
  const ScratchDirectory scratch_;
  const std::string store_ = scratch_ / "store";
};

// Another process has the file open, and sends it: whoever has it open hangs in his exec or end.
TEST_F(Down, ends_soon_beside_a_close_that_hangs_and_names_what_it_left) {
  std::unique_ptr<OtherProcess> sender;  // ends when the file has let go of it
  HangingFile file(scratch_ / "hanging");
  if (!file.is_there()) GTEST_SKIP() << "mounting is not allowed here";
  const pid_t node = bring_up();
  ASSERT_GT(node, 0);
  sender = std::make_unique<OtherProcess>(::getuid(), [&] {
    file.forget_in_child();
    static RawSession session(connect_to(store_ + "/agent.sock"));
    static const UniqueFd fd = file.open();
    return fd && !session.ask(wire::RegisterRegion{0, 0, 4096}, {fd.get()}).status.ok();
  });
  ASSERT_TRUE(sender->took());
  ASSERT_TRUE(eventually([&] { return file.hanging() == 1; })) << "the node closes it";
  // It returns at all, while the close still hangs.
  const Output said = penstock({"down", store_});
  EXPECT_EQ(file.hanging(), 1);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("process " + std::to_string(node) + " stays"));
  EXPECT_THAT(read_file(store_ + "/agent.log"),
              HasSubstr("1 of user " + std::to_string(::getuid())));
  EXPECT_EQ(::kill(node, 0), 0) << "nothing hung, and this test shows nothing";

  // The directory is free although the process is still there.
  EXPECT_GT(bring_up(), 0);
  const Output again = penstock({"down", store_});
  EXPECT_EQ(again.exit_code, 0) << again.err;
}

}  // namespace
}  // namespace penstock::test
