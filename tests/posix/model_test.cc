// Random operations on the mount and on the host's own file system at once: every answer must be
// equal, and at the end every name, attribute and byte.
#include "model.h"

#include "mounted_node.h"

#include <csignal>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::posix {
namespace {

class ModelTest : public PosixTest, public ::testing::WithParamInterface<int> {
 protected:
  void run(bool identities, size_t steps) {
    // Writing to a fifo of the tree that nobody reads.
    std::signal(SIGPIPE, SIG_IGN);
    const uint64_t this_seed = seed() * 1000 + static_cast<uint64_t>(GetParam());
    SCOPED_TRACE(fmt::format("PENSTOCK_SEED={} case {}", seed(), GetParam()));
    const std::string name = fmt::format("model-{}-{}", identities, GetParam());
    const std::string mount = directory(name);
    const std::string host = node().host() + "/" + name;
    remove_all(host);
    ASSERT_EQ(::mkdir(host.c_str(), 0777), 0);
    ASSERT_EQ(::chmod(host.c_str(), 0777), 0);
    {
      Model model(mount, host, this_seed, identities);
      for (size_t i = 0; i < steps; i++) {
        ASSERT_TRUE(model.step()) << "step " << i << ": " << model.difference();
        if (i % 50 == 49) model.open_root();
        if (i % 500 != 499) continue;
        ASSERT_TRUE(model.compare()) << "step " << i << ": " << model.difference();
      }
      ASSERT_TRUE(model.compare()) << model.difference();
      // A model that only ever sees refusals compares nothing.
      EXPECT_GT(model.successes(), steps / 8);
    }
    remove_all(mount);
    remove_all(host);
  }
};

TEST_P(ModelTest, answers_like_the_hosts_file_system_when_one_user_acts) {
  run(false, 3000);
}

TEST_P(ModelTest, answers_like_the_hosts_file_system_when_several_users_act) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may act as others";
  run(true, 3000);
}

INSTANTIATE_TEST_SUITE_P(seeds, ModelTest, ::testing::Range(0, 8));

}  // namespace
}  // namespace penstock::posix
