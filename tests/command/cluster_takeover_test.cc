// The machine with the names and the controller is lost, and another one goes on (decision 0069).
#include "cluster_processes.h"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base.h"
#include "penstock/testing_postgres.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

// 20 s are allowed where controller and names were lost (docs/decisions/0069 has what was seen);
// the rest is what a busy machine adds.
constexpr seconds kGoesOnWithin{30};
constexpr seconds kPatience{60};

// What a program of the one before saw and did after that was stopped.
struct Seen {
  int old_names = 0;
  int old_bytes = 0;
  int late_changes = 0;
};

class ClusterTakeover : public ClusterProcesses {
 protected:
  static bool enter_namespace() {
    static const bool entered = ::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0 &&
                                ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    return entered;
  }
  static bool can_mount() { return enter_namespace() && ::access("/dev/fuse", R_OK | W_OK) == 0; }
  void SetUp() override {
    server_ = PostgresServer::shared();
    if (server_ == nullptr) GTEST_SKIP() << PostgresServer::kMissing;
    url_ = server_->url(server_->new_database());
    make_source();
  }
  void TearDown() override {
    for (const std::string& path : mounted_) {
      while (::umount2(path.c_str(), MNT_DETACH) == 0) {
      }
    }
  }
  std::vector<std::string> mounted_at(const std::string& name, std::vector<std::string> options) {
    if (!can_mount()) return options;
    const std::string path = place("at_" + name);
    fs::create_directory(path);
    mounted_.push_back(path);
    options.insert(options.end(), {"--mount", path});
    return options;
  }
  // A first node that others may replace, two nodes with storage, and one who waits.
  void begin() {
    up("first", mounted_at("first", {"--listen", free_address(), "--roles", "controller,meta,agent",
                                     "--kv", url_}));
    join("second", mounted_at("second", {}));
    join("third", mounted_at("third", {}));
    good({"set", place("first") + ":/", "--copies", "2"});
    add_standby("spare");
  }
  void add_standby(const std::string& name) {
    const std::string address = free_address();
    good({"standby", place("first"), place(name), "--listen", address});
    good({"up", place(name), "-b", "--cache", "0"});
    started_.push_back(name);
    EXPECT_TRUE(eventually([&] {
      const Json names = ask("status", "first").value("names", Json::object());
      return names.value("standbys", Json::array()).dump().find(address) != std::string::npos;
    }));
    EXPECT_TRUE(eventually([&] { return could_take_over(name); }));
  }
  bool could_take_over(const std::string& name) const {
    return ask("status", name).value("standby", Json::object()).value("could_take_over", false);
  }
  bool leads(const std::string& name) const {
    return ask("status", name).value("cluster", Json::object()).value("controller", false);
  }
  pid_t pid_of(const std::string& name) const { return ask("status", name).value("pid", 0); }
  // Until a change of names by that node has happened again.
  seconds goes_on(const std::string& name, const std::string& as) const {
    const auto begun = steady_clock::now();
    EXPECT_TRUE(eventually(
        [&] {
          return penstock({"import", source_, place(name) + ":/" + as, "-q"}).exit_code == 0;
        },
        kPatience));
    const auto took = steady_clock::now() - begun;
    std::printf("names went on after %.1f s\n", std::chrono::duration<double>(took).count());
    return std::chrono::duration_cast<seconds>(took);
  }

  PostgresServer* server_ = nullptr;
  std::string url_;
  std::vector<std::string> mounted_;
};

TEST_F(ClusterTakeover, another_goes_on_when_the_one_with_the_names_is_killed_and_back_again) {
  begin();
  import("second", "before");
  kill("first");
  EXPECT_LE(goes_on("second", "after"), kGoesOnWithin);
  EXPECT_TRUE(eventually([&] { return leads("spare"); }, kPatience));
  for (const char* what : {"before", "after"}) {
    verify("third", what);
    verify("spare", what);
  }
  good({"metadata", "check", url_});
  // Who is let in, and who is started again, finds the one that has the roles now.
  first_ = "spare";
  join("fourth");
  verify("fourth", "before");
  kill("third");
  start_again("third");
  verify("third", "after");
  // The one before is one that waits, and gets its turn.
  start_again("first");
  EXPECT_TRUE(eventually([&] { return could_take_over("first"); }, kPatience));
  EXPECT_THAT(good({"status", place("first")}).out, HasSubstr("stands by"));
  refused({"import", source_, place("first") + ":/no", "-q"}, "");
  EXPECT_TRUE(eventually([&] {
    return !ask("status", "spare").value("names", Json::object()).value("standbys", Json()).empty();
  }));
  kill("spare");
  EXPECT_LE(goes_on("second", "again"), kGoesOnWithin);
  verify("third", "before");
  verify("first", "again");
  good({"metadata", "check", url_});
}

// Programs of the one that is stopped see nothing that is old when it goes on, and change nothing.
TEST_F(ClusterTakeover, the_one_before_was_only_stopped) {
  if (!can_mount()) GTEST_SKIP() << "needs to be root, and /dev/fuse";
  begin();
  const std::string here = place("at_first"), there = place("at_second");
  write_file(there + "/moved", "old");
  write_file(there + "/changed", "old bytes");
  // In the memory of the one that is stopped, of all kinds.
  ASSERT_EQ(read_file(here + "/moved"), "old");
  ASSERT_EQ(read_file(here + "/changed"), "old bytes");
  // A program there: in a process of its own, as commands that the test starts would wait for a
  // descriptor that is closed while its node is stopped.
  int ready[2], go[2], result[2];
  ASSERT_TRUE(::pipe2(ready, O_CLOEXEC) == 0 && ::pipe2(go, O_CLOEXEC) == 0 &&
              ::pipe2(result, O_CLOEXEC) == 0);
  const pid_t program = ::fork();
  if (program == 0) {
    char byte = 'y';
    const int open_here = ::open((here + "/changed").c_str(), O_RDONLY | O_CLOEXEC);
    (void)!::write(ready[1], &byte, 1);
    (void)!::read(go[0], &byte, 1);
    Seen seen;
    for (int turn = 0; turn < 40; ++turn) {
      struct stat facts {};
      seen.old_names += ::stat((here + "/moved").c_str(), &facts) == 0;
      char bytes[4] = {};
      seen.old_bytes += ::pread(open_here, bytes, 3, 0) > 0 && std::string(bytes) == "old";
      const std::string late = here + "/late" + std::to_string(turn);
      seen.late_changes += ::mkdir(late.c_str(), 0755) == 0;
      std::this_thread::sleep_for(milliseconds(10));
    }
    (void)!::write(result[1], &seen, sizeof seen);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const pid_t pid = pid_of("first");
  ASSERT_GT(pid, 0);
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  EXPECT_LE(goes_on("second", "after"), kGoesOnWithin);
  ASSERT_EQ(::rename((there + "/moved").c_str(), (there + "/elsewhere").c_str()), 0);
  write_file(there + "/changed", "new bytes");

  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  ASSERT_EQ(::write(go[1], &byte, 1), 1);
  Seen seen;
  ASSERT_EQ(::read(result[0], &seen, sizeof seen), static_cast<ssize_t>(sizeof seen));
  ASSERT_EQ(::waitpid(program, nullptr, 0), program);
  for (const int end : {ready[0], ready[1], go[0], go[1], result[0], result[1]}) ::close(end);
  EXPECT_EQ(seen.old_names, 0);
  EXPECT_EQ(seen.old_bytes, 0);
  EXPECT_EQ(seen.late_changes, 0);
  EXPECT_TRUE(eventually([&] { return ::kill(pid, 0) != 0; }, kPatience)) << "it goes on";
  EXPECT_THAT(read_file(place("first") + "/agent.log"), HasSubstr("has taken the names over"));
  for (int i = 0; i < 4; ++i) {
    struct stat facts {};
    EXPECT_NE(::stat((there + "/late" + std::to_string(i)).c_str(), &facts), 0);
  }
  verify("third", "after");
  good({"metadata", "check", url_});
}

UniqueFd open_file(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
}
bool write_at(const UniqueFd& file, const std::string& text, off_t at) {
  return ::pwrite(file.get(), text.data(), text.size(), at) == static_cast<ssize_t>(text.size());
}
int lock_range(const UniqueFd& file, short type) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_len = 4;
  return ::fcntl(file.get(), F_OFD_SETLK, &range);
}

// A takeover takes longer than the leases of sessions, and nobody is given anything meanwhile
// (decision 0070).
TEST_F(ClusterTakeover, locks_and_what_was_not_synced_outlive_it) {
  if (!can_mount()) GTEST_SKIP() << "needs to be root, and /dev/fuse";
  begin();
  const std::string a = place("at_second"), b = place("at_third");
  const UniqueFd held = open_file(a + "/held");
  ASSERT_TRUE(held);
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  ASSERT_EQ(lock_range(held, F_WRLCK), 0);
  ASSERT_TRUE(write_at(held, "before", 0));
  ASSERT_EQ(::fsync(held.get()), 0);
  const UniqueFd wants = open_file(b + "/held");
  ASSERT_NE(::flock(wants.get(), LOCK_EX | LOCK_NB), 0);
  const UniqueFd behind = open_file(a + "/behind");
  ASSERT_TRUE(write_at(behind, "written", 0));
  ASSERT_TRUE(write_at(held, "behind", 6));
  kill("first");
  EXPECT_LE(goes_on("second", "after"), kGoesOnWithin);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NE(::flock(wants.get(), LOCK_EX | LOCK_NB), 0);
    EXPECT_EQ(errno, EWOULDBLOCK);
    EXPECT_NE(lock_range(wants, F_RDLCK), 0);
    EXPECT_EQ(errno, EAGAIN);
  }
  EXPECT_EQ(read_file(b + "/behind"), "written");
  EXPECT_EQ(read_file(b + "/held"), "beforebehind");
  // It is its own still.
  EXPECT_TRUE(write_at(held, "after", 12));
  EXPECT_EQ(::fsync(held.get()), 0);
  EXPECT_EQ(::fsync(behind.get()), 0);
  EXPECT_EQ(read_file(b + "/held"), "beforebehindafter");
  EXPECT_EQ(::flock(held.get(), LOCK_UN), 0);
  EXPECT_EQ(::flock(wants.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(lock_range(held, F_UNLCK), 0);
  EXPECT_EQ(lock_range(wants, F_WRLCK), 0);
  good({"metadata", "check", url_});
}

// Who was stopped until others were given what it had hears that it is lost; files that are open
// are written on.
TEST_F(ClusterTakeover, who_was_stopped_over_it_hears_that_its_lock_is_lost) {
  if (!can_mount()) GTEST_SKIP() << "needs to be root, and /dev/fuse";
  begin();
  const std::string a = place("at_second"), b = place("at_third");
  UniqueFd held = open_file(a + "/held");
  const UniqueFd plain = open_file(a + "/plain");
  ASSERT_TRUE(held && plain);
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  for (const int file : {held.get(), plain.get()}) {
    ASSERT_EQ(::pwrite(file, "before", 6, 0), 6);
    ASSERT_EQ(::fsync(file), 0);
  }
  const UniqueFd wants = open_file(b + "/held");
  ASSERT_NE(::flock(wants.get(), LOCK_EX | LOCK_NB), 0);
  const pid_t pid = pid_of("second"), first = pid_of("first");
  ASSERT_TRUE(pid > 0 && first > 0);
  // No command until it goes on: each would wait for descriptors there that it closes.
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return ::flock(wants.get(), LOCK_EX | LOCK_NB) == 0; }, kPatience));
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  // What it believes to have locked it changes no more.
  EXPECT_FALSE(write_at(held, "behind", 6));
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(read_file(b + "/held"), "before");
  EXPECT_TRUE(eventually([&] { return write_at(plain, "behind", 6); }, kPatience));
  EXPECT_EQ(::fsync(plain.get()), 0);
  EXPECT_EQ(read_file(b + "/plain"), "beforebehind");
  held = open_file(a + "/held");
  EXPECT_NE(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(::flock(wants.get(), LOCK_UN), 0);
  EXPECT_TRUE(eventually([&] { return ::flock(held.get(), LOCK_EX | LOCK_NB) == 0; }));
  good({"metadata", "check", url_});
}

}  // namespace
}  // namespace penstock::test
