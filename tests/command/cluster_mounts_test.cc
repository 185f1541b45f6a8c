// One file system on all nodes, as a user mounts it: on the first node, on one that joined with a
// disk, and on a client without disks. Everything happens in a mount namespace of this process.
#include "cluster_mounted.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ClusterMounts : public MountedCluster {
 protected:
  ClusterMounts() : MountedCluster({"a", "b", "c"}) {}
  void SetUp() override {
    MountedCluster::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(::setenv("XDG_STATE_HOME", (scratch_ / "state").c_str(), 1), 0);
  }

  // Node 1 is mounted at a, node 2 at b, and a client without disks at c. The size of node 1 is
  // given: without, it changes with all that others write on the machine's disk.
  void start_three() {
    up("first", {"--listen", free_address(), "--mount", place("a"), "--capacity", "4G"});
    join("second", {"--mount", place("b"), "--cache", "0"});
    start_client();
  }
  void start_client() {
    const Output joined = good({"join", token(), "--mount", place("c"), "-b", "--cache", "0"});
    client_ = "state/penstock/" + ask("cluster", "first").value("cluster", "");
    EXPECT_THAT(joined.out, HasSubstr(place(client_)));
    started_.push_back(client_);
  }
  bool is_mounted(const std::string& name) const {
    struct stat above {};
    struct stat at {};
    return ::stat(scratch_.path().c_str(), &above) == 0 && ::stat(place(name).c_str(), &at) == 0 &&
           at.st_dev != above.st_dev;
  }
  // Whether the file can be made there; others know its length then.
  bool can_write(const std::string& path, const std::string& text) const {
    const UniqueFd file(::open(place(path).c_str(), O_WRONLY | O_CREAT, 0644));
    return file &&
           ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
           ::fsync(file.get()) == 0;
  }
  uint64_t number(const std::string& name, const std::string& key) const {
    return ask("status", name).value(key, uint64_t{0});
  }

  std::string client_;
};

TEST_F(ClusterMounts, show_the_same_files) {
  start_three();
  const std::string large(5 << 20, 'l');
  for (const char* from : {"a", "b", "c"}) {
    const std::string name = std::string("by ") + from;
    ASSERT_TRUE(can_write(std::string(from) + "/" + name, name + large));
    for (const char* to : {"a", "b", "c"}) {
      EXPECT_TRUE(read_file(place(to) + "/" + name) == name + large) << from << " to " << to;
    }
  }
  // Names of other kinds, and attributes.
  fs::create_directories(place("b") + "/d/e");
  fs::create_symlink("e", place("c") + "/d/link");
  ASSERT_EQ(::setxattr((place("c") + "/d/e").c_str(), "user.k", "v", 1, 0), 0);
  ASSERT_TRUE(can_write("a/d/link/f", "f"));
  EXPECT_EQ(read_file(place("b") + "/d/e/f"), "f");
  char value[8] = {};
  EXPECT_EQ(::getxattr((place("a") + "/d/e").c_str(), "user.k", value, sizeof value), 1);
  fs::rename(place("b") + "/d/e/f", place("b") + "/d/g");
  EXPECT_EQ(read_file(place("c") + "/d/g"), "f");
  ASSERT_TRUE(can_write("a/gone", "x"));
  ASSERT_TRUE(fs::remove(place("c") + "/gone"));
  EXPECT_FALSE(fs::exists(place("b") + "/gone"));

  // They have the same size, and as many files.
  struct statvfs first {
  }, client{};
  ASSERT_EQ(::statvfs(place("a").c_str(), &first), 0);
  ASSERT_EQ(::statvfs(place("c").c_str(), &client), 0);
  EXPECT_GT(client.f_blocks, 0u);
  EXPECT_EQ(client.f_blocks, first.f_blocks);
  EXPECT_EQ(client.f_files - client.f_ffree, first.f_files - first.f_ffree);
}

TEST_F(ClusterMounts, on_chains_with_copies_too) {
  start_three();
  good({"set", place("first") + ":/", "--copies", "2"});
  const std::string large(5 << 20, 'l');
  for (const char* from : {"c", "b", "a"}) {
    ASSERT_TRUE(can_write(std::string(from) + "/2" + from, from + large));
    for (const char* to : {"a", "b", "c"}) {
      EXPECT_TRUE(read_file(place(to) + "/2" + from) == from + large) << from << " to " << to;
    }
  }
  // What was made before there were copies can be read as before, and a node's commands are
  // another's.
  make_source();
  import("second", "imported");
  verify("first", "imported");
  good({"verify", source_, place(client_) + ":/imported", "-q"});
  EXPECT_EQ(read_file(place("c") + "/imported/below/small"), "small");
  EXPECT_THAT(good({"layout", place("second") + ":/imported/large"}).out, HasSubstr("2"));
  refused({"metadata", "dump", place("second"), place("names")}, "are on another node");
  refused({"set", place("second") + ":/", "--copies", "3"}, "orders are given on node 1");
}

TEST_F(ClusterMounts, give_back_what_one_of_them_removes) {
  start_three();
  const auto used = [&] { return number("first", "total_bytes") - number("first", "free_bytes"); };
  const uint64_t inodes = number("first", "inodes");
  const uint64_t before = used();
  ASSERT_TRUE(can_write("b/large", std::string(64 << 20, 'x')));
  EXPECT_TRUE(eventually([&] { return used() > before + (32 << 20); }));
  ASSERT_TRUE(can_write("c/new", std::string(64 << 20, 'x')));
  fs::rename(place("c") + "/new", place("c") + "/large");
  ASSERT_TRUE(fs::remove(place("c") + "/large"));
  EXPECT_TRUE(eventually([&] { return number("first", "inodes") == inodes; }));
  EXPECT_EQ(number("first", "removed_waiting"), 0u);
  EXPECT_TRUE(eventually([&] { return used() < before + (32 << 20); }));
}

// The first node removes files without names that nobody has open; one that is just being made is
// not among them.
TEST_F(ClusterMounts, make_files_without_names_while_others_are_removed) {
  start_three();
  const auto make_many = [&](const std::string& name) {
    for (int i = 0; i < 1500; ++i) {
      const UniqueFd file(::open(place(name).c_str(), O_RDWR | O_TMPFILE, 0600));
      ASSERT_TRUE(file) << name << ", " << i << ": " << std::strerror(errno);
      ASSERT_EQ(::pwrite(file.get(), "x", 1, 0), 1);
    }
  };
  std::thread beside([&] { make_many("c"); });
  make_many("b");
  beside.join();
}

TEST_F(ClusterMounts, come_back_after_their_node_was_killed) {
  start_three();
  ASSERT_TRUE(can_write("b/closed", std::string(3 << 20, 'c')));
  kill("second");
  EXPECT_EQ(read_file(place("c") + "/closed"), std::string(3 << 20, 'c'));
  ASSERT_TRUE(can_write("c/meanwhile", "m"));
  unmount("b");
  good({"up", place("second"), "-b", "--mount", place("b"), "--cache", "0"});
  EXPECT_EQ(read_file(place("b") + "/closed"), std::string(3 << 20, 'c'));
  EXPECT_EQ(read_file(place("b") + "/meanwhile"), "m");
  ASSERT_TRUE(can_write("b/after", "a"));
  EXPECT_EQ(read_file(place("c") + "/after"), "a");

  kill(client_);
  EXPECT_TRUE(eventually([&] {
    return ask("nodes", "first").value("nodes", Json::array())[2].value("state", "") == "away";
  }));
  EXPECT_THAT(good({"cluster", place("first")}).out,
              HasSubstr("  nodes     2, and 1 clients without disks\n"));
  unmount("c");
  refused({"up", place(client_), "-b", "--roles", "storage,agent"}, "was made to play agent");
  good({"up", place(client_), "-b", "--mount", place("c")});
  EXPECT_EQ(read_file(place("c") + "/after"), "a");
  down("second");
  EXPECT_EQ(read_file(place("c") + "/closed"), std::string(3 << 20, 'c'));
  start_again("second");
}

TEST_F(ClusterMounts, wait_for_the_node_with_the_names_or_end_with_an_error) {
  start_three();
  ASSERT_TRUE(can_write("b/before", "b"));
  // What another node was told is done is not lost with the first one's process.
  write_file(place("b") + "/unsynced", std::string(3 << 20, 'u'));
  ASSERT_TRUE(eventually([&] { return number("second", "open_files") == 0; }));
  kill("first");
  // Without it: an error in time.
  EXPECT_LT(seconds_of([&] { EXPECT_FALSE(can_write("b/no", "n")); }), 30);
  EXPECT_LT(seconds_of([&] { good({"status", place("second")}); }), 15);
  // What is asked now goes on when it is back.
  std::thread asker([&] { EXPECT_EQ(read_file(place("c") + "/before"), "b"); });
  std::this_thread::sleep_for(std::chrono::seconds(1));
  unmount("a");
  good({"up", place("first"), "-b", "--mount", place("a")});
  asker.join();
  const double seconds = seconds_of([&] {
    EXPECT_TRUE(eventually([&] { return can_write("b/after", "a") && can_write("c/again", "c"); }));
  });
  EXPECT_LT(seconds, 20);
  EXPECT_EQ(read_file(place("a") + "/after"), "a");
  EXPECT_EQ(read_file(place("b") + "/again"), "c");
  EXPECT_TRUE(read_file(place("a") + "/unsynced") == std::string(3 << 20, 'u'));
}

TEST_F(ClusterMounts, of_names_that_are_not_with_the_controller) {
  up("controller", {"--listen", free_address(), "--roles", "controller"});
  join("second", {"--cache", "0"});
  join("names", {"--roles", "meta,agent", "--mount", place("a")});
  good({"mount", place("second"), place("b")});
  good({"set", place("names") + ":/", "--copies", "1"});
  ASSERT_TRUE(can_write("b/f", "f"));
  EXPECT_EQ(read_file(place("a") + "/f"), "f");
  down("names");
  EXPECT_EQ(ask("cluster", "second").value("missing", uint64_t{0}), 1u);
  down("second");
  unmount("b");
  good({"up", place("second"), "-b", "--mount", place("b")});
  start_again("names");
  EXPECT_TRUE(eventually([&] { return is_mounted("b"); }));
  EXPECT_EQ(read_file(place("b") + "/f"), "f");
  ASSERT_TRUE(eventually([&] {
    return penstock({"layout", place("second") + ":/f"}).exit_code == 0;
  }));
}

TEST_F(ClusterMounts, refuses_clients_that_cannot_be) {
  up("first", {"--listen", free_address()});
  EXPECT_EQ(penstock({"join", token(), "-b"}).exit_code, 2);
  refused({"join", token({"--roles", "storage"}), "--mount", place("c"), "-b"}, "not for agent");
  EXPECT_FALSE(is_mounted("c"));
}

}  // namespace
}  // namespace penstock::test
