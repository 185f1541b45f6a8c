// The trash, as a user sets it and programs on two nodes meet it. Everything happens in a mount
// namespace of this process.
#include "cluster_processes.h"

#include <cerrno>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class ClusterTrash : public ClusterProcesses {
 protected:
  static bool enter_namespace() {
    static const bool entered = ::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0 &&
                                ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    return entered;
  }
  void SetUp() override {
    if (!enter_namespace()) GTEST_SKIP() << "needs to be root, with mounts of its own";
    if (::access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/fuse";
    for (const char* name : {"a", "b"}) fs::create_directory(place(name));
    up("first", {"--listen", free_address(), "--mount", place("a")});
    join("second", {"--mount", place("b"), "--cache", "0"});
  }
  void TearDown() override {
    for (const char* name : {"a", "b"}) unmount(name);
  }
  void unmount(const std::string& name) {
    while (::umount2(place(name).c_str(), MNT_DETACH) == 0) {
    }
  }

  void make(const std::string& path, const std::string& bytes) const {
    write_file(place(path), bytes);
  }
  std::vector<std::string> names(const std::string& path) const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(place(path))) {
      all.push_back(entry.path().filename());
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  Json list() const {
    const Output output = penstock({"trash", "list", place("second"), "--json"});
    const Json answer = Json::parse(output.out, nullptr, false);
    return answer.is_object() ? answer["entries"] : Json::array();
  }
  // What lies there by the name that it had, as a path in a mount.
  std::string kept(const std::string& mount, const std::string& path) const {
    for (const Json& one : list()) {
      if (one.value("path", "") != path) continue;
      return place(mount) + "/.trash/" + one.value("hour", "") + "/" + one.value("entry", "");
    }
    return "";
  }
};

TEST_F(ClusterTrash, keeps_what_programs_remove_on_all_nodes) {
  // Asked for before: nobody may go on finding nothing.
  EXPECT_FALSE(fs::exists(place("a") + "/.trash"));
  EXPECT_FALSE(fs::exists(place("b") + "/.trash"));
  EXPECT_EQ(::mkdir((place("b") + "/.trash").c_str(), 0755), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_THAT(good({"trash", "set", place("second"), "7"}).out, HasSubstr("7 days"));
  for (const char* mount : {"a", "b"}) {
    EXPECT_TRUE(fs::exists(place(mount) + "/.trash")) << mount;
    EXPECT_TRUE(names(mount).empty());
  }
  fs::create_directories(place("a") + "/d/e");
  make("a/d/one", "the first");
  make("b/d/e/two", "the second");
  make("a/d/none", "");
  good({"trash", "set", place("first") + ":/d/e", "off"});
  make("b/d/e/gone", "for good");
  fs::remove(place("a") + "/d/e/gone");
  good({"trash", "set", place("first") + ":/d/e", "inherit"});

  // Removed with the whole tree by one node, while another has a file open.
  UniqueFd open(::open((place("a") + "/d/e/two").c_str(), O_RDWR));
  ASSERT_TRUE(open);
  fs::remove_all(place("b") + "/d");
  EXPECT_FALSE(fs::exists(place("a") + "/d"));
  ASSERT_EQ(::pwrite(open.get(), "The", 3, 0), 3);
  struct stat seen {};
  ASSERT_EQ(::fstat(open.get(), &seen), 0);
  EXPECT_EQ(seen.st_nlink, 1u);
  open.reset();
  EXPECT_EQ(list().size(), 5u) << list().dump(1);
  for (const char* mount : {"a", "b"}) {
    EXPECT_EQ(read_file(kept(mount, "/d/one")), "the first");
    EXPECT_EQ(read_file(kept(mount, "/d/e/two")), "The second");
  }
  ASSERT_EQ(names("b/.trash").size(), 1u);
  const std::string hour = place("b") + "/.trash/" + names("b/.trash")[0];
  ASSERT_EQ(::stat(hour.c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 07777, 0700u);

  // Nothing is made there, for root either.
  EXPECT_EQ(::open((hour + "/x").c_str(), O_CREAT | O_WRONLY, 0644), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::mkdir((place("a") + "/.trash/x").c_str(), 0755), -1);
  EXPECT_EQ(errno, EPERM);
  make("b/x", "x");
  EXPECT_EQ(::rename((place("b") + "/x").c_str(), (hour + "/x").c_str()), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::chmod(hour.c_str(), 0755), -1);
  EXPECT_EQ(errno, EPERM);

  // Killed and started again: it is there. Then the tree comes back as it was.
  kill("first");
  unmount("a");
  good({"up", place("first"), "-b", "--mount", place("a")});
  ASSERT_TRUE(eventually([&] { return list().size() == 5; }));
  EXPECT_THAT(good({"trash", "restore", place("second"), names("b/.trash")[0]}).out,
              HasSubstr("5 restored"));
  EXPECT_EQ(names("a/d"), (std::vector<std::string>{"e", "none", "one"}));
  EXPECT_EQ(read_file(place("b") + "/d/one"), "the first");
  EXPECT_EQ(read_file(place("a") + "/d/e/two"), "The second");
  EXPECT_TRUE(list().empty());
  good({"metadata", "check", place("first")});
}

TEST_F(ClusterTrash, gives_back_by_mv_and_by_name_and_removes_for_good) {
  good({"trash", "set", place("first"), "1"});
  fs::create_directory(place("a") + "/d");
  make("a/d/one", "old");
  // An editor saves.
  make("a/d/new", "new");
  fs::rename(place("a") + "/d/new", place("a") + "/d/one");
  EXPECT_EQ(read_file(kept("b", "/d/one")), "old");
  refused({"trash", "restore", place("second"), "/d/one"}, "something else has its name");
  // By hand, on another node.
  fs::rename(kept("b", "/d/one"), place("b") + "/d/old");
  EXPECT_EQ(read_file(place("a") + "/d/old"), "old");
  EXPECT_TRUE(list().empty());

  fs::remove(place("b") + "/d/old");
  EXPECT_THAT(good({"trash", "restore", place("second"), "/d/old"}).out, HasSubstr("1 restored"));
  EXPECT_EQ(read_file(place("b") + "/d/old"), "old");
  refused({"trash", "restore", place("second"), "/d/old"}, "not in the trash");

  // Its directory is gone for good: elsewhere.
  fs::remove_all(place("a") + "/d");
  EXPECT_EQ(list().size(), 3u);
  ASSERT_EQ(::rmdir(kept("a", "/d").c_str()), 0);
  const Json left = list();
  ASSERT_EQ(left.size(), 2u) << left.dump(1);
  const std::string one = left[0].value("hour", "") + "/" + left[0].value("entry", "");
  refused({"trash", "restore", place("second"), one}, "--to");
  good({"trash", "restore", place("second"), one, "--to", "/"});
  EXPECT_EQ(names("a").size(), 1u);

  EXPECT_THAT(good({"trash", "empty", place("second"), "--older-than", "1"}).out,
              HasSubstr("0 removed"));
  EXPECT_THAT(good({"trash", "empty", place("second"), "--all"}).out, HasSubstr("1 removed"));
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(names("a/.trash").empty());
  EXPECT_TRUE(names("b/.trash").empty());
}

// One node, that is started on later days.
class LaterTrash : public ClusterTrash {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "what is preloaded would come before the sanitizer";
#endif
    if (!enter_namespace()) GTEST_SKIP() << "needs to be root, with mounts of its own";
    if (::access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/fuse";
    fs::create_directory(place("a"));
  }
  void up_later(int hours) {
    ASSERT_EQ(::setenv("PENSTOCK_LATER_SECONDS", std::to_string(hours * 3600).c_str(), 1), 0);
    ASSERT_EQ(::setenv("LD_PRELOAD", LATER_CLOCK, 1), 0);
    good({"up", place("first"), "-b", "--cache", "0", "--mount", place("a")});
    ::unsetenv("LD_PRELOAD");
    if (started_.empty()) started_.push_back("first");
  }
  std::vector<std::string> paths() const {
    const Output output = penstock({"trash", "list", place("first"), "--json"});
    const Json answer = Json::parse(output.out, nullptr, false);
    std::vector<std::string> all;
    if (!answer.is_object()) return all;
    for (const Json& one : answer["entries"]) all.push_back(one.value("path", ""));
    return all;
  }
};

TEST_F(LaterTrash, is_removed_when_its_days_are_over_and_not_before) {
  up_later(0);
  good({"trash", "set", place("first"), "1"});
  make("a/one", std::string(1 << 20, 'x'));
  fs::remove(place("a") + "/one");
  kill("first");
  unmount("a");
  up_later(23);
  make("a/two", "x");
  fs::remove(place("a") + "/two");
  // It has looked at it.
  std::this_thread::sleep_for(std::chrono::seconds(6));
  EXPECT_EQ(paths(), (std::vector<std::string>{"/two", "/one"}));
  EXPECT_EQ(names("a/.trash").size(), 2u);
  down("first");
  up_later(46);
  EXPECT_TRUE(eventually([&] { return paths() == std::vector<std::string>{"/two"}; }));
  EXPECT_EQ(names("a/.trash").size(), 1u);
  good({"metadata", "check", place("first")});
}

}  // namespace
}  // namespace penstock::test
