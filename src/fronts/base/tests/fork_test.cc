#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/front.h"

namespace penstock::front {
namespace {

int before = 0;
int in_parent = 0;
int in_child = 0;
uint32_t seen_by_child = 0;

TEST(Fork, changes_the_number_in_the_child_alone_and_calls_the_front) {
  const uint32_t here = fork_generation();
  on_fork({[] { ++before; }, [] { ++in_parent; },
           [] {
             ++in_child;
             seen_by_child = fork_generation();
           }});
  const pid_t child = ::fork();
  if (child == 0) {
    const bool good =
        before == 1 && in_parent == 0 && in_child == 1 && fork_generation() == seen_by_child;
    // Its own child is another process still.
    const uint32_t mine = fork_generation();
    const pid_t grandchild = ::fork();
    if (grandchild == 0) ::_exit(fork_generation() == mine + 1 ? 0 : 1);
    int status = -1;
    ::waitpid(grandchild, &status, 0);
    ::_exit(good && mine != 0 && status == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(before, 1);
  EXPECT_EQ(in_parent, 1);
  EXPECT_EQ(in_child, 0);
  EXPECT_EQ(fork_generation(), here);
}

}  // namespace
}  // namespace penstock::front
