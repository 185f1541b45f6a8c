// Jobs over several hosts, each of which is a process of this machine.

#include "hosts_launched.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::job::test {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

LaunchOptions script(const std::string& text) {
  LaunchOptions options;
  options.command = {"bash", "-c", text};
  return options;
}

TEST(Spread, ranks_of_several_hosts_meet) {
  const FakeShell shell;
  const Launched job = launched(on_hosts(ranks(0, {"join", "all", "sets", "leave"}), shell,
                                         {{"a", 2}, {"localhost", 1}, {"b", 2}}));
  EXPECT_EQ(job.exit_code, 0) << job.err << job.failure.message;
  EXPECT_EQ(job.err, "");
}

TEST(Spread, ranks_know_their_place) {
  const FakeShell shell;
  const Launched job = launched(on_hosts(
      script("echo $PENSTOCK_RANK/$PENSTOCK_SIZE $PENSTOCK_LOCAL_RANK/$PENSTOCK_LOCAL_SIZE"), shell,
      {{"a", 1}, {"b", 2}}));
  EXPECT_EQ(job.exit_code, 0) << job.err << job.failure.message;
  EXPECT_THAT(job.lines(), UnorderedElementsAre("0/3 0/1", "1/3 0/2", "2/3 1/2"));
}

}  // namespace
}  // namespace penstock::job::test
