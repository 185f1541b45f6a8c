// PEs in two network namespaces, which a network joins, and then does not: made here, which takes
// root's rights.
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <thread>
#include <tuple>
#include <unistd.h>

#include "penstock/job.h"

namespace penstock::symm {
namespace {

class TwoNetworks : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || !shell("ip netns add " + a_) || !shell("ip netns add " + b_)) {
      GTEST_SKIP() << "no network namespace can be made here";
    }
    std::string made = testing::TempDir() + "symm-XXXXXX";
    directory_ = ::mkdtemp(made.data());
    ASSERT_TRUE(shell("ip link add va netns " + a_ + " type veth peer name vb netns " + b_));
    for (const auto& [name, link, address] :
         {std::tuple{a_, "va", "10.76.0.1/24"}, std::tuple{b_, "vb", "10.76.0.2/24"}}) {
      ASSERT_TRUE(shell("ip -n " + name + " addr add " + address + " dev " + link));
      ASSERT_TRUE(shell("ip -n " + name + " link set " + link + " up"));
      ASSERT_TRUE(shell("ip -n " + name + " link set lo up"));
    }
  }
  void TearDown() override {
    shell("ip netns del " + a_);
    shell("ip netns del " + b_);
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  static bool shell(const std::string& command) {
    return std::system((command + " 2>/dev/null").c_str()) == 0;
  }

  // The exit code of a job of four PEs, two in each network.
  int run(const std::string& scenario) const {
    job::LaunchOptions options;
    options.size = 4;
    options.command = {"bash", "-c",
                       "nodes=(" + a_ + " " + a_ + " " + b_ + " " + b_ +
                           "); exec ip netns exec ${nodes[PENSTOCK_RANK]} \"$0\" " + scenario,
                       PENSTOCK_PES_PATH};
    options.environment = {{"PENSTOCK_JOB_NODES", "2"}, {"TEST_MARK", mark()}};
    options.keep_going = true;
    options.signals = false;
    const auto code = job::launch(options);
    EXPECT_TRUE(code) << code.error().message;
    return code ? *code : -1;
  }
  std::string mark() const { return directory_ + "/mark"; }

  const std::string a_ = "penstock-symm-a" + std::to_string(::getpid());
  const std::string b_ = "penstock-symm-b" + std::to_string(::getpid());
  std::string directory_;
};

TEST_F(TwoNetworks, are_reached_by_their_own_addresses) {
  EXPECT_EQ(run("at_once"), 0);
  EXPECT_EQ(run("words"), 0);
}

// Nobody's process ends: only what was between them.
TEST_F(TwoNetworks, end_each_others_waits_when_they_are_cut_apart) {
  std::thread cut([this] {
    for (int turn = 0; turn < 6000 && ::access(mark().c_str(), F_OK) != 0; ++turn) ::usleep(10'000);
    shell("ip -n " + a_ + " link set va down");
  });
  EXPECT_EQ(run("cut_off"), 0);
  cut.join();
}

}  // namespace
}  // namespace penstock::symm
