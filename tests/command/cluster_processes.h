// Processes of a cluster on loopback, each with a directory by its name.
#pragma once

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include "penstock/json.h"
#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {

class ClusterProcesses : public testing::Test {
 protected:
  ~ClusterProcesses() override {
    for (auto name = started_.rbegin(); name != started_.rend(); ++name) {
      penstock({"down", place(*name)});
    }
  }

  std::string place(const std::string& name) const { return scratch_ / name; }

  static Output good(const std::vector<std::string>& words) {
    Output output = penstock(words);
    EXPECT_EQ(output.exit_code, 0) << words[0] << ": " << output.err;
    return output;
  }
  static void refused(const std::vector<std::string>& words, const std::string& why) {
    const Output output = penstock(words);
    EXPECT_EQ(output.exit_code, 1) << words[0];
    EXPECT_THAT(output.err, testing::HasSubstr(why));
  }
  Json ask(const std::string& command, const std::string& name) const {
    const Output output = penstock({command, place(name), "--json"});
    const Json answer = Json::parse(output.out, nullptr, false);
    return answer.is_object() ? answer : Json::object();
  }

  // A first node, and what its invitation is.
  void up(const std::string& name, std::vector<std::string> options) {
    options.insert(options.begin(), {"up", place(name), "-b", "--cache", "0"});
    good(options);
    started_.push_back(name);
    if (!invitation_.empty()) return;
    invitation_ = ask("cluster", name).value("invitation", "");
    first_ = name;
  }
  // A line that lets one node in, with the roles that these options say.
  std::string token(const std::vector<std::string>& options = {}) const {
    std::vector<std::string> words = {"token", "create", place(first_), "--json"};
    const auto roles = std::find(options.begin(), options.end(), "--roles");
    if (roles != options.end()) words.insert(words.end(), roles, roles + 2);
    const Json made = Json::parse(good(words).out, nullptr, false);
    return made.is_object() ? made.value("invitation", "") : "";
  }
  void join(const std::string& name, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"join", token(options), place(name), "-b"});
    good(options);
    started_.push_back(name);
  }
  void start_again(const std::string& name) { good({"up", place(name), "-b"}); }
  void down(const std::string& name) { good({"down", place(name)}); }
  void kill(const std::string& name) {
    const pid_t pid = ask("status", name).value("pid", 0);
    ASSERT_GT(pid, 0);
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    ASSERT_TRUE(eventually([&] { return ::kill(pid, 0) != 0; }));
  }
  void await_whole(const std::string& name) const {
    EXPECT_TRUE(eventually([&] {
      const Json cluster = ask("cluster", name);
      const auto all = cluster.value("chains", uint64_t{0});
      return all > 0 && cluster.value("whole", uint64_t{0}) == all;
    })) << good({"chains", place(name)}).out;
  }
  // Of the controller's list, the states of a node's targets.
  std::vector<std::string> target_states(const std::string& asked, uint64_t node) const {
    std::vector<std::string> states;
    const Json nodes = ask("nodes", asked).value("nodes", Json::array());
    for (const Json& one : nodes) {
      if (one.value("node", uint64_t{0}) != node) continue;
      for (const Json& target : one["targets"]) states.push_back(target.value("state", ""));
    }
    return states;
  }

  void make_source() const {
    std::filesystem::create_directories(source_ + "/below");
    write_file(source_ + "/below/small", "small");
    write_file(source_ + "/empty", "");
    write_file(source_ + "/large", std::string(9 << 20, 'x'));
  }
  void import(const std::string& name, const std::string& as) const {
    good({"import", source_, place(name) + ":/" + as, "-q"});
  }
  void verify(const std::string& name, const std::string& as) const {
    good({"verify", source_, place(name) + ":/" + as, "-q"});
  }
  // Writes and reads all the while; every operation has to end well.
  void work_while(const std::string& name, const std::string& as,
                  const std::function<void()>& meanwhile) const {
    std::atomic<bool> is_over = false;
    std::atomic<int> rounds = 0;
    std::thread worker([&] {
      do {
        const std::string round = as + std::to_string(rounds);
        import(name, round);
        verify(name, round);
        ++rounds;
      } while (!is_over);
    });
    EXPECT_TRUE(eventually([&] { return rounds > 0; }));
    meanwhile();
    const int seen = rounds;
    EXPECT_TRUE(eventually([&] { return rounds > seen + 1; }));
    is_over = true;
    worker.join();
  }

  const ScratchDirectory scratch_;
  const std::string source_ = scratch_ / "source";
  std::string invitation_;  // for nodes that were let in before
  std::string first_;       // the node with the controller
  std::vector<std::string> started_;
};

}  // namespace penstock::test
