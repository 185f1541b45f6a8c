// What a launcher tells its parts, as bytes.

#include "task.h"

#include "remote_shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::job {
namespace {

Task a_task() {
  Task task;
  task.version = "1.2";
  task.addresses = {*parse_address("10.0.0.1"), *parse_address("fd00::1")};
  task.port = 1234;
  task.secret[3] = std::byte{7};
  task.host = "b";
  task.node = 2;
  task.size = 9;
  task.first = 4;
  task.count = 5;
  task.label = true;
  task.command = {"program", "", std::string(70'000, 'x')};
  task.environment = {{"A", "b=c\n"}, {"EMPTY", ""}};
  task.directory = "/here";
  return task;
}

TEST(Task, comes_back) {
  const Task task = a_task();
  const auto bytes = encode(task);
  const auto read = decode_task(bytes);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(encode(*read), bytes);
  EXPECT_EQ(read->command, task.command);
  EXPECT_EQ(read->environment, task.environment);
  EXPECT_EQ(read->directory, "/here");
  EXPECT_EQ(read->first + read->count, 9U);
  EXPECT_TRUE(read->label);
  const auto version = decode_task_version(bytes);
  ASSERT_TRUE(version.has_value());
  EXPECT_EQ(version->program, "1.2");
}

TEST(Task, of_another_version_still_says_which) {
  auto bytes = encode(a_task());
  bytes[4] = std::byte{9};
  bytes.resize(40);
  EXPECT_FALSE(decode_task(bytes).has_value());
  const auto version = decode_task_version(bytes);
  ASSERT_TRUE(version.has_value());
  EXPECT_EQ(version->number, 9);
  EXPECT_EQ(version->program, "1.2");
}

TEST(Task, that_makes_no_sense_is_refused) {
  Task task = a_task();
  task.command[2] = "short";
  const auto good = encode(task);
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(decode_task(Bytes(good).first(length)).has_value()) << length;
  }
  const auto refused = [&](const std::function<void(Task&)>& change) {
    Task changed = task;
    change(changed);
    return !decode_task(encode(changed)).has_value();
  };
  EXPECT_FALSE(refused([](Task&) {}));
  EXPECT_TRUE(refused([](Task& each) { each.count = 6; }));
  EXPECT_TRUE(refused([](Task& each) { each.count = 0; }));
  EXPECT_TRUE(refused([](Task& each) { each.first = 9; }));
  EXPECT_TRUE(refused([](Task& each) { each.size = 70'000; }));
  EXPECT_TRUE(refused([](Task& each) { each.node = 9; }));
  EXPECT_TRUE(refused([](Task& each) { each.addresses.clear(); }));
  EXPECT_TRUE(refused([](Task& each) { each.addresses[0].family = 5; }));
  EXPECT_TRUE(refused([](Task& each) { each.command.clear(); }));
  EXPECT_TRUE(refused([](Task& each) { each.command[0] = std::string("a\0b", 3); }));
  EXPECT_TRUE(refused([](Task& each) { each.environment[0].first = "A=B"; }));
  EXPECT_TRUE(refused([](Task& each) { each.environment[0].first.clear(); }));
}

TEST(RemoteShell, is_ssh_that_asks_nobody_or_what_the_user_says) {
  RemoteOptions remote;
  remote.program = "/here/penstock";
  remote.remote_program = "/it's there/penstock";
  remote.shell = {"/usr/bin/ssh", "-p", "2222"};
  const std::string command = "exec '/it'\\''s there/penstock' 'run-node'";
  EXPECT_EQ(command_for({"me@b", 1, false}, remote),
            (std::vector<std::string>{"/usr/bin/ssh", "-p", "2222", "-o", "BatchMode=yes", "-o",
                                      "ConnectTimeout=20", "-T", "-x", "me@b", command}));
  remote.shell = {"other", "-q"};
  EXPECT_EQ(command_for({"b", 1, false}, remote),
            (std::vector<std::string>{"other", "-q", "b", command}));
  EXPECT_EQ(command_for({"localhost", 1, true}, remote),
            (std::vector<std::string>{"/here/penstock", "run-node"}));
}

}  // namespace
}  // namespace penstock::job
