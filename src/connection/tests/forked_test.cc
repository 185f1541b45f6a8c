// Descriptors that stay with the parent of a fork.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/connection.h"
#include "penstock/testing.h"

namespace penstock::connection {
namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

UniqueFd made_fd() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

using test::in_child;

TEST(ParentsFd, is_closed_in_a_child_and_open_in_the_parent) {
  ParentsFd mine(made_fd());
  const ParentsFd moved(std::move(mine));
  EXPECT_EQ(in_child([&] { return is_open(moved.get()) ? 1 : 0; }), 0);
  EXPECT_TRUE(is_open(moved.get()));
}

TEST(ParentsFd, is_closed_by_its_owner) {
  ParentsFd mine(made_fd());
  const int fd = mine.get();
  mine.reset();
  EXPECT_FALSE(mine);
  EXPECT_FALSE(is_open(fd));
  const UniqueFd same = made_fd();
  ASSERT_EQ(same.get(), fd) << "the lowest number that is free";
  EXPECT_EQ(in_child([&] { return is_open(fd) ? 0 : 1; }), 0) << "it is another descriptor now";
}

TEST(ParentsFd, that_ends_in_a_child_closes_no_other_descriptor) {
  ParentsFd mine(made_fd());
  const auto body = [&] {
    const UniqueFd other = made_fd();
    if (other.get() != mine.get()) return 2;
    mine.reset();
    return is_open(other.get()) ? 0 : 1;
  };
  EXPECT_EQ(in_child(body), 0);
}

TEST(ParentsFd, is_not_shut_down_for_the_parent) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  const ParentsFd mine{UniqueFd(pair[0])};
  const ParentsFd other{UniqueFd(pair[1])};
  EXPECT_EQ(in_child([] { return 0; }), 0);
  EXPECT_EQ(::send(mine.get(), "x", 1, MSG_NOSIGNAL), 1);
}

}  // namespace
}  // namespace penstock::connection
