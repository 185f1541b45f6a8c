// A short run of random programs on a real mount and on the host's own file system. Long ones:
// `./dev differential`.
#include "mounted_node.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::differential {
namespace {

using Words = std::vector<std::string>;

test::Output differential(const std::string& mount, const std::string& host, Words words) {
  words.insert(words.begin(), {PENSTOCK_DIFFERENTIAL, "--mount", mount, "--host", host});
  return test::run(words);
}

class Differential : public posix::PosixTest {
 protected:
  void SetUp() override {
    PosixTest::SetUp();
    if (IsSkipped()) return;
    mount_ = directory("differential");
    host_ = node().host() + "/differential";
    ASSERT_TRUE(::mkdir(host_.c_str(), 0777) == 0 || errno == EEXIST);
  }
  std::string mount_, host_;
};

// The same programs each time, unless PENSTOCK_SEED says otherwise.
TEST_F(Differential, random_programs_get_the_same_answers) {
  const test::Output output = differential(mount_, host_,
                                           {"--first", std::to_string(posix::seed()), "--seeds",
                                            "4", "--operations", "2500", "--shrink-seconds", "60"});
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
}

// What once differed, as small programs.
TEST_F(Differential, programs_that_once_differed_get_the_same_answers) {
  size_t programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PENSTOCK_PROGRAMS)) {
    programs++;
    const test::Output output =
        differential(mount_, host_, {"--program", entry.path(), "--shrink-seconds", "0"});
    EXPECT_EQ(output.exit_code, 0) << entry.path() << "\n" << output.out << output.err;
  }
  EXPECT_GT(programs, 0u);
}

// Through three mounts of a cluster. The tester's own node is not needed, but its host's directory.
TEST_F(Differential, random_programs_on_several_nodes_get_the_same_answers) {
  const std::string seed = std::to_string(posix::seed() + 3);
  const test::Output output =
      test::run({"/usr/bin/env", std::string("PENSTOCK_BUILD=") + PENSTOCK_BUILD,
                 PENSTOCK_DIFFERENTIAL_SCRIPT, "--mounts", "3", "--first", seed, "--seeds", "1",
                 "--operations", "3000", "--shrink-seconds", "0"});
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
  EXPECT_NE(output.out.find("3 nodes"), std::string::npos) << output.out << output.err;
}

class FaultyTree : public ::testing::TestWithParam<const char*> {};

// Both trees are the host's; on the first one an operation goes wrong on purpose.
TEST_P(FaultyTree, is_found_and_shrunk) {
  const test::ScratchDirectory scratch;
  const std::string one = scratch / "one", two = scratch / "two";
  ASSERT_EQ(::mkdir(one.c_str(), 0777), 0);
  ASSERT_EQ(::mkdir(two.c_str(), 0777), 0);
  const Words same{"--same-kind", "--users",      "one",  "--seeds", "1",        "--first",
                   "5",           "--operations", "2500", "--fault", GetParam(), "--shrink-seconds",
                   "120"};
  const test::Output output = differential(one, two, same);
  EXPECT_EQ(output.exit_code, 1) << output.out << output.err;
  const std::string marker = "These ";
  const size_t at = output.out.find(marker);
  ASSERT_NE(at, std::string::npos) << output.out;
  // Something is made and something is done to it; little more can be needed.
  EXPECT_LE(std::atoi(output.out.c_str() + at + marker.size()), 6) << output.out;
}

INSTANTIATE_TEST_SUITE_P(faults, FaultyTree, ::testing::Values("append", "grow", "rename"));

TEST(SameTrees, do_not_differ) {
  const test::ScratchDirectory scratch;
  const std::string one = scratch / "one", two = scratch / "two";
  ASSERT_EQ(::mkdir(one.c_str(), 0777), 0);
  ASSERT_EQ(::mkdir(two.c_str(), 0777), 0);
  const test::Output output = differential(
      one, two,
      {"--same-kind", "--users", "one", "--seeds", "1", "--first", "5", "--operations", "2500"});
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
}

}  // namespace
}  // namespace penstock::differential
