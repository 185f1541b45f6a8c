// Clients that are restricted, over TLS: by their tokens, and later. Everything happens in a mount
// namespace of this process; programs of other users are children of it.
#include "cluster_mounted.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class ClusterRights : public MountedCluster {
 protected:
  ClusterRights() : MountedCluster({"a", "c"}) {}
  void SetUp() override {
    MountedCluster::SetUp();
    if (IsSkipped()) return;
    fs::permissions(scratch_.path(), fs::perms(0755));
    up("first",
       {"--listen", free_address(), "--mount", place("a"), "--mount-options", "allow_other"});
    fs::create_directories(place("a") + "/data/below");
    fs::create_directory(place("a") + "/other");
    fs::permissions(place("a") + "/data", fs::perms(0777));
    write(place("a") + "/other/secret", "secret", 0644, 0);
    write(place("a") + "/data/mine", "mine", 0600, 1000);
    write(place("a") + "/data/theirs", "theirs", 0600, 1001);
    write(place("a") + "/data/of all", "all", 0644, 0);
  }

  static void write(const std::string& path, const std::string& text, mode_t mode, uid_t user) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    ASSERT_TRUE(file) << path << ": " << errno;
    ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ASSERT_EQ(::fsync(file.get()), 0);
    ASSERT_EQ(::fchmod(file.get(), mode), 0);
    ASSERT_EQ(::fchown(file.get(), user, user), 0);
  }
  // A client at c, the next node, that is let in with these restrictions.
  void start_client(std::vector<std::string> restrictions) {
    std::vector<std::string> words = {"token",   "create", place("first"),
                                      "--roles", "agent",  "--json"};
    words.insert(words.end(), restrictions.begin(), restrictions.end());
    const Json made = Json::parse(good(words).out, nullptr, false);
    ASSERT_TRUE(made.is_object());
    good({"join", made.value("invitation", ""), place("client"), "--roles", "agent", "--mount",
          place("c"), "--mount-options", "allow_other", "-b", "--cache", "0"});
    started_.emplace_back("client");
  }
  void restrict(std::vector<std::string> restrictions, int node = 2) {
    restrictions.insert(restrictions.begin(), {"restrict", place("first"), std::to_string(node)});
    good(restrictions);
  }
  // What a child of that user ends with: 0, or errno.
  static int as(uid_t user, const std::function<int()>& act) {
    const pid_t child = ::fork();
    if (child == 0) {
      const bool is_user = ::setgroups(0, nullptr) == 0 && ::setresgid(user, user, user) == 0 &&
                           ::setresuid(user, user, user) == 0;
      ::_exit(is_user ? act() : 255);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int reads(uid_t user, const std::string& path) const {
    return as(user, [at = place("c") + "/" + path] {
      const UniqueFd file(::open(at.c_str(), O_RDONLY));
      char byte = 0;
      return file && ::read(file.get(), &byte, 1) == 1 ? 0 : errno;
    });
  }
  int writes(uid_t user, const std::string& path) const {
    return as(user, [at = place("c") + "/" + path] {
      const UniqueFd file(::open(at.c_str(), O_WRONLY | O_CREAT, 0644));
      return file && ::write(file.get(), "new", 3) == 3 && ::fsync(file.get()) == 0 ? 0 : errno;
    });
  }
  int lists(uid_t user, const std::string& path) const {
    return as(user, [at = place("c") + "/" + path] {
      std::error_code error;
      const fs::directory_iterator all(at, error);
      return error ? error.value() : 0;
    });
  }
  // What the mount at a node answers to a lock of fcntl of a whole file: 0, or errno.
  static int locks(int file, short type) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    return ::fcntl(file, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
  }
  uid_t owner(const std::string& path) const {
    struct stat found {};
    return ::stat((place("a") + "/" + path).c_str(), &found) == 0 ? found.st_uid : UINT32_MAX;
  }
};

TEST_F(ClusterRights, users_of_a_client_are_those_that_its_token_says) {
  start_client({"--uids", "1000-1999"});
  EXPECT_THAT(good({"nodes", place("first")}).out,
              HasSubstr("node 2 is restricted to uids 1000-1999"));
  EXPECT_THAT(good({"token", "list", place("first")}).out, HasSubstr("uids 1000-1999"));
  EXPECT_EQ(reads(1000, "data/mine"), 0);
  EXPECT_EQ(reads(1000, "data/of all"), 0);
  EXPECT_EQ(reads(1000, "data/theirs"), EACCES);
  EXPECT_EQ(reads(1001, "data/theirs"), 0);
  EXPECT_EQ(lists(1000, "data"), 0);
  EXPECT_EQ(writes(1000, "data/new"), 0);
  EXPECT_EQ(read_file(place("a") + "/data/new"), "new");
  EXPECT_EQ(owner("data/new"), 1000u);
  for (const uid_t beyond : {0, 999, 2000}) {
    EXPECT_EQ(reads(beyond, "data/of all"), EACCES) << beyond;
    EXPECT_EQ(writes(beyond, "data/other"), EACCES) << beyond;
  }
  // Later, while it runs.
  restrict({"--nothing"});
  EXPECT_TRUE(eventually([&] { return reads(0, "data/theirs") == 0; }));
  EXPECT_THAT(good({"nodes", place("first")}).out, Not(HasSubstr("restricted")));
}

TEST_F(ClusterRights, users_of_a_client_are_squashed) {
  start_client({"--uids", "1000-1999", "--squash", "65534"});
  EXPECT_EQ(reads(0, "data/of all"), 0);
  EXPECT_EQ(reads(0, "data/mine"), EACCES) << "root is nobody there";
  EXPECT_EQ(writes(0, "data/by root"), 0);
  EXPECT_EQ(owner("data/by root"), 65534u);
  EXPECT_EQ(writes(1000, "data/by 1000"), 0);
  EXPECT_EQ(owner("data/by 1000"), 1000u);
}

TEST_F(ClusterRights, a_subtree_is_all_that_a_client_has) {
  start_client({"--subtree", "/data"});
  EXPECT_EQ(reads(0, "mine"), 0);
  EXPECT_EQ(reads(0, "other/secret"), ENOENT);
  EXPECT_EQ(lists(0, ""), 0);
  EXPECT_EQ(writes(0, "below/new"), 0);
  EXPECT_EQ(read_file(place("a") + "/data/below/new"), "new");
  EXPECT_EQ(reads(1001, "mine"), EACCES);
  // Its root is changed as a directory of others, and not the root of all.
  EXPECT_EQ(::chmod(place("c").c_str(), 0755), 0) << errno;
  struct stat changed {
  }, root{};
  ASSERT_EQ(::stat((place("a") + "/data").c_str(), &changed), 0);
  ASSERT_EQ(::stat(place("a").c_str(), &root), 0);
  EXPECT_EQ(changed.st_mode & 07777, 0755u);
  ASSERT_EQ(::chmod((place("a") + "/data").c_str(), 0777), 0);
  EXPECT_TRUE(eventually([&] {
    return ::stat(place("c").c_str(), &changed) == 0 && (changed.st_mode & 07777) == 0777;
  }));
  // What it has open it locks, for all to see.
  const UniqueFd here(::open((place("c") + "/mine").c_str(), O_RDWR));
  const UniqueFd there(::open((place("a") + "/data/mine").c_str(), O_RDWR));
  ASSERT_TRUE(here && there);
  EXPECT_EQ(locks(here.get(), F_WRLCK), 0);
  EXPECT_EQ(locks(there.get(), F_RDLCK), EAGAIN);
  EXPECT_EQ(locks(here.get(), F_UNLCK), 0);
  EXPECT_EQ(locks(there.get(), F_WRLCK), 0);
  EXPECT_EQ(locks(here.get(), F_RDLCK), EAGAIN);
  // By paths of programs, too.
  EXPECT_EQ(penstock({"verify", place("c") + "/mine", place("client") + ":/mine", "-q"}).exit_code,
            0);
  EXPECT_NE(penstock({"verify", place("c") + "/mine", place("client") + ":/other/secret", "-q"})
                .exit_code,
            0);
}

TEST_F(ClusterRights, a_client_only_reads_when_it_is_told_so) {
  start_client({});
  EXPECT_EQ(writes(0, "data/before"), 0);
  restrict({"--read-only"});
  EXPECT_TRUE(eventually([&] { return writes(0, "data/after") == EROFS; }));
  EXPECT_EQ(writes(0, "data/of all"), EROFS);
  EXPECT_EQ(reads(0, "data/of all"), 0);
  // As on a file system that is mounted to be read: flock() of either kind.
  const UniqueFd file(::open((place("c") + "/data/of all").c_str(), O_RDONLY));
  ASSERT_TRUE(file);
  EXPECT_EQ(::flock(file.get(), LOCK_EX | LOCK_NB), 0) << errno;
  EXPECT_EQ(locks(file.get(), F_RDLCK), 0);
  EXPECT_EQ(locks(file.get(), F_WRLCK), EBADF);
  EXPECT_EQ(as(0, [&] { return ::unlink((place("c") + "/data/mine").c_str()) == 0 ? 0 : errno; }),
            EROFS);
  EXPECT_EQ(read_file(place("a") + "/data/mine"), "mine");
  restrict({"--nothing"});
  EXPECT_TRUE(eventually([&] { return writes(0, "data/after") == 0; }));
}

TEST_F(ClusterRights, a_client_that_is_removed_can_do_nothing_any_more) {
  start_client({});
  EXPECT_EQ(writes(0, "data/before"), 0);
  const UniqueFd open(::open((place("c") + "/data/before").c_str(), O_RDWR));
  ASSERT_TRUE(open);
  good({"remove", place("first"), "2", "--force"});
  // A lease and its guard are 6.25 s.
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] { return reads(0, "data/of all") != 0; }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_NE(::pwrite(open.get(), "late", 4, 0) == 4 && ::fsync(open.get()) == 0, true);
  EXPECT_EQ(read_file(place("a") + "/data/before"), "new");
}

// Over chains of several nodes, whose targets ask for what the names have signed.
TEST_F(ClusterRights, targets_serve_what_a_client_has_a_right_to) {
  join("second");
  good({"set", place("first") + ":/data", "--copies", "2"});
  for (const uid_t user : {1000, 1001}) {
    write(place("a") + "/data/of " + std::to_string(user), std::string(200'000, 'x'), 0600, user);
  }
  start_client({"--uids", "1000-1999"});
  EXPECT_EQ(reads(1000, "data/of 1000"), 0);
  EXPECT_EQ(reads(1000, "data/of 1001"), EACCES);
  EXPECT_EQ(reads(1001, "data/of 1001"), 0);
  EXPECT_EQ(writes(1000, "data/new"), 0);
  EXPECT_EQ(read_file(place("a") + "/data/new"), "new");
  EXPECT_EQ(writes(1000, "data/of 1000"), 0);
  EXPECT_EQ(read_file(place("a") + "/data/of 1000").substr(0, 4), "newx");
  // From now on what was signed before counts no more.
  restrict({"--uids", "1000-1999", "--read-only"}, 3);
  EXPECT_TRUE(eventually([&] { return writes(1000, "data/new") == EROFS; }));
  EXPECT_EQ(reads(1000, "data/of 1000"), 0);
  restrict({"--nothing"}, 3);
  EXPECT_TRUE(eventually([&] { return reads(0, "data/of 1001") == 0; }));
  EXPECT_TRUE(eventually([&] { return writes(0, "data/of 1001") == 0; }));
}

// The process with the names begins anew: what a client has open it may use on.
TEST_F(ClusterRights, open_files_outlive_the_process_with_the_names) {
  join("second");
  good({"set", place("first") + ":/data", "--copies", "2"});
  write(place("a") + "/data/kept", "", 0600, 0);
  start_client({"--subtree", "/data"});
  const UniqueFd file(::open((place("c") + "/kept").c_str(), O_RDWR));
  const UniqueFd locked(::open((place("c") + "/of all").c_str(), O_RDONLY));
  ASSERT_TRUE(file && locked);
  ASSERT_EQ(::pwrite(file.get(), "one", 3, 0), 3);
  ASSERT_EQ(::fsync(file.get()), 0);
  const auto begin = std::chrono::steady_clock::now();
  down("first");
  while (::umount2(place("a").c_str(), MNT_DETACH) == 0) {
  }
  good({"up", place("first"), "-b", "--cache", "0", "--mount", place("a")});
  // A lease of an agent lasts 5 s: without it the session is another one, which has nothing open.
  if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(3500)) {
    GTEST_SKIP() << "the machine is too busy for a restart within a lease";
  }
  EXPECT_EQ(::pwrite(file.get(), "two", 3, 3), 3) << errno;
  EXPECT_EQ(::fsync(file.get()), 0) << errno;
  EXPECT_EQ(read_file(place("a") + "/data/kept"), "onetwo");
  // Its locks, too: that process has forgotten who has what open, and is shown it.
  EXPECT_EQ(locks(file.get(), F_WRLCK), 0);
  EXPECT_EQ(::flock(locked.get(), LOCK_EX | LOCK_NB), 0) << errno;
}

// How much there may be, and for how long what is removed is kept, says root of a node that is not
// restricted.
TEST_F(ClusterRights, quotas_and_days_of_trash_are_set_on_nodes_that_are_not) {
  start_client({"--subtree", "/data"});
  good({"quota", "set", place("first"), "--path", "/data", "--capacity", "1G"});
  good({"trash", "set", place("first"), "7"});
  const auto all_are_refused = [&](const std::string& path) {
    refused({"quota", "set", place("client"), "--path", path, "--capacity", "9G"},
            "this node is restricted");
    refused({"quota", "list", place("client")}, "this node is restricted");
    refused({"quota", "delete", place("client"), "--path", path}, "this node is restricted");
    refused({"trash", "set", place("client"), "0"}, "this node is restricted");
    EXPECT_THAT(good({"quota", "list", place("first")}).out, HasSubstr("1"));
  };
  all_are_refused("/");
  restrict({"--read-only"});
  EXPECT_TRUE(eventually([&] { return writes(0, "data/after") == EROFS; }));
  all_are_refused("/data");
  restrict({"--nothing"});
  EXPECT_TRUE(eventually([&] {
    return penstock({"quota", "set", place("client"), "--path", "/data", "--capacity", "2G"})
               .exit_code == 0;
  }));
  good({"trash", "set", place("client"), "3"});
}

TEST_F(ClusterRights, restrictions_are_ordered_on_the_first_node_and_not_of_it) {
  start_client({"--read-only"});
  refused({"restrict", place("client"), "2", "--nothing"}, "on the node with the controller");
  refused({"restrict", place("first"), "1", "--read-only"}, "could free itself");
  refused({"restrict", place("first"), "9", "--read-only"}, "no such node");
  EXPECT_EQ(ask("nodes", "client").value("nodes", Json::array()).at(1).value("restriction", ""),
            "read-only");
}

}  // namespace
}  // namespace penstock::test
