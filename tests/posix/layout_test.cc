// What directories say of their new files' layouts, through the mount: setfattr(1) and getfattr(1)
// on attributes that are not listed.
#include "mounted_node.h"
#include "twin.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <vector>

#include "penstock/client.h"

namespace penstock::posix {
namespace {

constexpr const char* kLayout = "penstock.layout";

class LayoutTest : public PosixTest {
 protected:
  static std::string get(const std::string& path, const char* name = kLayout) {
    std::array<char, 1024> value{};
    const ssize_t size = ::lgetxattr(path.c_str(), name, value.data(), value.size());
    return size < 0 ? std::strerror(errno) : std::string(value.data(), size);
  }
  // 0, or the errno.
  static int set(const std::string& path, const std::string& value, int flags = 0) {
    const int done = ::lsetxattr(path.c_str(), kLayout, value.data(), value.size(), flags);
    return done == 0 ? 0 : errno;
  }
  static int make(const std::string& path) {
    const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_EXCL, 0644);
    if (fd < 0) return errno;
    EXPECT_EQ(::write(fd, "12345", 5), 5);
    ::close(fd);
    return 0;
  }
  // A table that came while the node runs, whose chains lie on the node's own target here.
  Outcome<void> offer_copies() {
    const std::vector<engine::Address> addresses(2, engine::Address{NodeId{1}, 0});
    return node().agent().offer_table(
        {.id = 7, .chain_first = 1000, .chain_count = 2, .copies = 3, .media = meta::Media::flash},
        addresses);
  }
};

TEST_F(LayoutTest, is_inherited_by_what_is_made_in_a_directory) {
  const std::string top = directory("layout");
  EXPECT_EQ(make(top + "/before"), 0);
  EXPECT_EQ(set(top, "chunk=1048576 stripe=1"), 0);
  EXPECT_EQ(get(top), "chunk=1048576 stripe=1 copies=1 media=any table=0 chains=0+1");
  ASSERT_EQ(::mkdir((top + "/below").c_str(), 0755), 0);
  EXPECT_EQ(get(top + "/below"), get(top));
  EXPECT_EQ(make(top + "/below/after"), 0);
  EXPECT_EQ(get(top + "/below/after"), "chunk=1048576 copies=1 media=any table=0 chains=0+1");
  EXPECT_EQ(get(top + "/before"), "chunk=65536 copies=1 media=any table=0 chains=0+1");
  EXPECT_EQ(test::read_file(top + "/below/after"), "12345");
}

TEST_F(LayoutTest, is_neither_listed_nor_taken_away) {
  const std::string top = directory("layout");
  EXPECT_EQ(::listxattr(top.c_str(), nullptr, 0), 0);
  EXPECT_EQ(::removexattr(top.c_str(), kLayout), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ASSERT_EQ(::symlink("before", (top + "/link").c_str()), 0);
  EXPECT_EQ(get(top + "/link"), std::strerror(ENODATA));
}

TEST_F(LayoutTest, that_cannot_be_is_refused) {
  const std::string top = directory("layout");
  const std::string before = get(top);
  EXPECT_EQ(set(top, "chunk=65537"), EINVAL);
  EXPECT_EQ(set(top, "chunk=4096"), EINVAL);
  EXPECT_EQ(set(top, "nonsense"), EINVAL);
  EXPECT_EQ(set(top, "copies=3"), EOPNOTSUPP);
  EXPECT_EQ(get(top, "penstock.tables"), "table=0 copies=1 media=any chains=0+1");
  EXPECT_EQ(make(top + "/file"), 0);
  EXPECT_EQ(set(top + "/file", "chunk=1048576"), ENOTDIR);
  EXPECT_EQ(get(top), before);
}

TEST_F(LayoutTest, is_its_owners_to_set) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string top = directory("layout");
  const auto as_other = [&] {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setuid(4711) == 0 ? set(top, "stripe=1") : 255);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(as_other(), EPERM);
  ASSERT_EQ(::chown(top.c_str(), 4711, 4711), 0);
  EXPECT_EQ(as_other(), 0);
}

TEST_F(LayoutTest, takes_a_table_that_comes_while_the_node_runs) {
  const std::string top = directory("layout");
  const auto refused = node().agent().offer_table({.id = 7, .chain_count = 2}, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("2 chains, and 0 addresses"), std::string::npos);
  ASSERT_TRUE(offer_copies());
  EXPECT_EQ(set(top, "copies=3 stripe=1"), 0);
  EXPECT_EQ(get(top), "chunk=65536 stripe=1 copies=3 media=any table=7 chains=1000+2");
  EXPECT_EQ(make(top + "/file"), 0);
  const std::string layout = get(top + "/file");
  EXPECT_TRUE(layout.ends_with("chains=1000") || layout.ends_with("chains=1001")) << layout;
  EXPECT_EQ(test::read_file(top + "/file"), "12345");

  // In the next life of the node nobody has told it of the table yet.
  node().restart();
  EXPECT_EQ(get(top), "chunk=65536 stripe=1 copies=3 media=any table=7 chains=1000+2");
  EXPECT_EQ(make(top + "/other"), EIO);
  EXPECT_EQ(::access((top + "/other").c_str(), F_OK), -1) << "it left nothing";
  const int fd = ::open((top + "/file").c_str(), O_RDONLY);
  EXPECT_EQ(fd, -1);
  ASSERT_TRUE(offer_copies());
  EXPECT_EQ(make(top + "/other"), 0);
  EXPECT_EQ(test::read_file(top + "/file"), "12345");
}

}  // namespace
}  // namespace penstock::posix
