// Quotas, as a user sets them and programs on two nodes meet them. Everything happens in a mount
// namespace of this process.
#include "cluster_mounted.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ClusterQuota : public MountedCluster {
 protected:
  ClusterQuota() : MountedCluster({"a", "b"}) {}
  void SetUp() override {
    MountedCluster::SetUp();
    if (IsSkipped()) return;
    up("first", {"--listen", free_address(), "--mount", place("a")});
    join("second", {"--mount", place("b"), "--cache", "0"});
  }

  // 0, or what the file could not be made, written or closed with.
  int make(const std::string& path, size_t bytes) const {
    UniqueFd file(::open(place(path).c_str(), O_WRONLY | O_CREAT, 0644));
    if (!file) return errno;
    const std::string piece(64 << 10, 'x');
    for (size_t done = 0; done < bytes; done += piece.size()) {
      const size_t length = std::min(piece.size(), bytes - done);
      if (::write(file.get(), piece.data(), length) != static_cast<ssize_t>(length)) return errno;
    }
    return ::fsync(file.get()) == 0 ? 0 : errno;
  }
  Json quota(const std::string& path) const {
    const Output output = penstock({"quota", "get", place("second"), "--path", path, "--json"});
    const Json answer = Json::parse(output.out, nullptr, false);
    return answer.is_object() && answer["quotas"].size() == 1 ? answer["quotas"][0]
                                                              : Json::object();
  }
};

TEST_F(ClusterQuota, binds_programs_on_all_nodes) {
  fs::create_directories(place("a") + "/q/below");
  ASSERT_EQ(make("a/q/before", 100'000), 0);
  const Output set =
      good({"quota", "set", place("second"), "--path", "/q", "--capacity", "2M", "--inodes", "6"});
  EXPECT_THAT(set.out, HasSubstr("2.00 MiB"));
  EXPECT_EQ(quota("/q").value("used_inodes", 0), 2);
  EXPECT_EQ(quota("/q").value("used_bytes", 0), 102'400 + 4'096);

  // What is there in it is what df shows, on both.
  for (const char* at : {"a/q", "b/q/below", "b/q/before"}) {
    struct statvfs there {};
    ASSERT_EQ(::statvfs(place(at).c_str(), &there), 0);
    EXPECT_EQ(there.f_blocks * there.f_frsize, 2u << 20) << at;
    EXPECT_EQ(there.f_files, 6u);
    EXPECT_EQ(there.f_ffree, 4u);
  }
  struct statvfs all {};
  ASSERT_EQ(::statvfs(place("b").c_str(), &all), 0);
  EXPECT_GT(all.f_blocks * all.f_frsize, 2u << 20);

  EXPECT_EQ(make("b/q/below/one", 1 << 20), 0);
  EXPECT_EQ(make("a/q/two", 1 << 20), EDQUOT);
  EXPECT_EQ(make("a/outside", 3 << 20), 0);
  EXPECT_EQ(make("b/q/three", 3 << 20), EDQUOT);
  fs::remove(place("a") + "/q/two");
  fs::remove(place("b") + "/q/three");
  EXPECT_EQ(make("b/q/two", 512 << 10), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(make("a/q/" + std::to_string(i), 1), 0);
  EXPECT_EQ(make("b/q/2", 1), EDQUOT);
  EXPECT_EQ(::rename((place("b") + "/outside").c_str(), (place("b") + "/q/x").c_str()), -1);
  EXPECT_EQ(errno, EDQUOT);
  EXPECT_EQ(::truncate((place("a") + "/q/0").c_str(), 1 << 20), -1);
  EXPECT_EQ(errno, EDQUOT);

  EXPECT_THAT(good({"quota", "check", place("first"), "--path", "/q"}).out, HasSubstr("right"));

  // The node with the names is killed: what is counted is what there is.
  kill("first");
  while (::umount2(place("a").c_str(), MNT_DETACH) == 0) {
  }
  good({"up", place("first"), "-b", "--mount", place("a")});
  ASSERT_TRUE(eventually([&] { return quota("/q").contains("used_inodes"); }));
  EXPECT_THAT(good({"quota", "check", place("first"), "--path", "/q"}).out, HasSubstr("right"));
  EXPECT_EQ(make("a/q/2", 1), EDQUOT);
  good({"quota", "delete", place("second"), "--path", "/q"});
  EXPECT_EQ(make("a/q/2", 1), 0);
  EXPECT_THAT(good({"quota", "list", place("second")}).out, HasSubstr("no quotas"));
}

TEST_F(ClusterQuota, binds_what_a_user_owns) {
  good({"quota", "set", place("first"), "--user", "4711", "--inodes", "1"});
  ASSERT_EQ(make("a/one", 1), 0);
  ASSERT_EQ(make("b/two", 1), 0);
  EXPECT_EQ(::chown((place("b") + "/one").c_str(), 4711, 4711), 0);
  EXPECT_EQ(::chown((place("a") + "/two").c_str(), 4711, 4711), -1);
  EXPECT_EQ(errno, EDQUOT);
  EXPECT_THAT(good({"quota", "list", place("first")}).out, HasSubstr("user 4711"));
  refused({"quota", "set", place("first"), "--user", "0", "--inodes", "1"}, "root has no quota");
  refused({"quota", "get", place("first"), "--path", "/"}, "there is none");
  refused({"quota", "set", place("first"), "--path", "/one", "--inodes", "1"}, "no directory");
}

}  // namespace
}  // namespace penstock::test
