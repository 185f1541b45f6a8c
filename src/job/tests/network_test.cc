// Two nodes that a network joins, and then does not: network namespaces that the test makes, which
// takes root's rights.

#include "launched.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>
#include <tuple>

namespace penstock::job::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

class TwoNodes : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || !run("ip netns add " + a_) || !run("ip netns add " + b_)) {
      GTEST_SKIP() << "no network namespace can be made here";
    }
    std::string made = testing::TempDir() + "job-XXXXXX";
    directory_ = ::mkdtemp(made.data());
    ASSERT_TRUE(run("ip link add va netns " + a_ + " type veth peer name vb netns " + b_));
    for (const auto& [name, link, address] :
         {std::tuple{a_, "va", "10.77.0.1/24"}, std::tuple{b_, "vb", "10.77.0.2/24"}}) {
      ASSERT_TRUE(run("ip -n " + name + " addr add " + address + " dev " + link));
      ASSERT_TRUE(run("ip -n " + name + " link set " + link + " up"));
      ASSERT_TRUE(run("ip -n " + name + " link set lo up"));
    }
  }
  void TearDown() override {
    run("ip netns del " + a_);
    run("ip netns del " + b_);
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  static bool run(const std::string& command) {
    return std::system((command + " 2>/dev/null").c_str()) == 0;
  }

  LaunchOptions job(const std::string& words) const {
    LaunchOptions options;
    options.size = 4;
    options.command = {"bash", "-c",
                       "nodes=(" + a_ + " " + b_ +
                           "); exec ip netns exec "
                           "${nodes[PENSTOCK_RANK % 2]} \"$0\" " +
                           words,
                       JOB_RANK};
    options.environment = {{"TEST_ID", id()}, {"TEST_NODES", "2"}, {"TEST_INTERFACE", "va"}};
    options.keep_going = true;
    return options;
  }
  std::string id() const { return directory_ + "/id"; }

  const std::string a_ = "penstock-job-a" + std::to_string(::getpid());
  const std::string b_ = "penstock-job-b" + std::to_string(::getpid());
  std::string directory_;
};

TEST_F(TwoNodes, meet_and_go_on_apart_when_the_network_is_gone) {
  std::thread cut([this] {
    for (int rank = 0; rank < 4; ++rank) {
      const std::string mark = id() + "." + std::to_string(rank);
      for (int turn = 0; turn < 6000 && ::access(mark.c_str(), F_OK) != 0; ++turn) ::usleep(10'000);
    }
    run("ip -n " + a_ + " link set va down");
  });
  const Launched done = launched(job("0:gate join-id all sets mark trouble meet-node leave"));
  cut.join();
  EXPECT_EQ(done.exit_code, 0) << done.err;
  const auto lines = done.lines();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "ok"), 4) << done.out;
  EXPECT_THAT(lines,
              Contains(HasSubstr("is cut off: the process that made the unique id has ended, "
                                 "or is not reached"))
                  .Times(2))
      << "on the other node";
  EXPECT_THAT(lines, Contains(HasSubstr("lost its connection to the job"))) << "at the gate";
}

}  // namespace
}  // namespace penstock::job::test
