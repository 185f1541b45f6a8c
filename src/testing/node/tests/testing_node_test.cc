// The nodes of the test library themselves.
#include "penstock/testing_node.h"

#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "penstock/testing.h"

namespace penstock::test {
namespace {

using ::testing::HasSubstr;

bool is_served(const std::string& store) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  (store + "/agent.sock").copy(name.sun_path, sizeof name.sun_path - 1);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
}

TEST(Command, tells_how_it_ended_and_what_it_said) {
  const Output shell = run({"/bin/sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(shell.exit_code, 7);
  EXPECT_EQ(shell.out, "out\n");
  EXPECT_EQ(shell.err, "err\n");
  EXPECT_EQ(run({"/bin/sh", "-c", "kill -9 $$"}).exit_code, 128 + SIGKILL);
  EXPECT_EQ(run({"/no/such/program"}).exit_code, -1);
  EXPECT_EQ(penstock({"--help"}).exit_code, 0);
}

TEST(AgentProcess, serves_until_it_is_killed_and_again_afterwards) {
  const ScratchDirectory scratch;
  AgentProcess agent(scratch.store());
  ASSERT_TRUE(agent.start());
  EXPECT_TRUE(is_served(scratch.store()));
  agent.kill();
  EXPECT_FALSE(is_served(scratch.store()));
  ASSERT_TRUE(agent.start());
  EXPECT_TRUE(is_served(scratch.store()));
}

TEST(NodeProcess, serves_its_store_and_its_mount) {
  std::string scratch;
  {
    NodeProcess node;
    ASSERT_TRUE(node.start()) << node.ending();
    scratch = node.scratch();
    EXPECT_TRUE(node.lives());
    EXPECT_TRUE(is_served(node.store()));
    if (!node.mount().empty()) {
      write_file(node.path("file"), "bytes");
      EXPECT_EQ(read_file(node.path("file")), "bytes");
    }
    node.stop();
    EXPECT_FALSE(node.lives());
    EXPECT_THAT(node.ending(), HasSubstr("exit status 0"));
    if (!node.mount().empty()) {
      EXPECT_FALSE(std::filesystem::exists(node.path("file")));
    }
    ASSERT_TRUE(node.start()) << node.ending();
    node.kill();
    EXPECT_THAT(node.ending(), HasSubstr("killed by signal 9"));
    ASSERT_TRUE(node.start()) << node.ending();
    if (!node.mount().empty()) {
      EXPECT_TRUE(std::filesystem::exists(node.path("file")));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(scratch));
}

TEST(NodeProcess, that_does_not_come_up_says_why) {
  NodeProcess node({.mount = false, .arguments = {"--no-such-option"}});
  EXPECT_FALSE(node.start());
  EXPECT_FALSE(node.lives());
  EXPECT_THAT(node.ending(), HasSubstr("no-such-option"));
}

}  // namespace
}  // namespace penstock::test
