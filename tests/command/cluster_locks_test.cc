// Locks of files that two nodes have mounted: between nodes as between processes of one machine.
// Descriptors of two mounts are of two nodes, also in one process.
#include "cluster_mounted.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct flock lock_of(short type, off_t begin, off_t length) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = begin;
  lock.l_len = length;
  return lock;
}
// 0, or the error.
int lock(int fd, short type, off_t begin = 0, off_t length = 0, int command = F_SETLK) {
  struct flock wanted = lock_of(type, begin, length);
  return ::fcntl(fd, command, &wanted) == 0 ? 0 : errno;
}
int flock_of(int fd, int operation) {
  return ::flock(fd, operation) == 0 ? 0 : errno;
}

class ClusterLocks : public MountedCluster {
 protected:
  ClusterLocks() : MountedCluster({"a", "b"}) {}
  void SetUp() override {
    MountedCluster::SetUp();
    if (IsSkipped()) return;
    up("first", {"--listen", free_address(), "--mount", place("a")});
    join("second", {"--mount", place("b"), "--cache", "0"});
  }

  UniqueFd open(const std::string& path) const {
    UniqueFd file(::open(place(path).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    EXPECT_TRUE(file) << path << ": " << std::strerror(errno);
    return file;
  }
  // A process that has what `take` takes, until it is killed.
  template <class Take>
  pid_t holder(Take take) const {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const char good = take() ? 'y' : 'n';
      (void)!::write(ready[1], &good, 1);
      while (true) ::pause();
    }
    char good = 0;
    EXPECT_EQ(::read(ready[0], &good, 1), 1);
    EXPECT_EQ(good, 'y');
    ::close(ready[0]);
    ::close(ready[1]);
    return child;
  }
  static void kill_and_reap(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
};

TEST_F(ClusterLocks, exclude_one_another) {
  const UniqueFd a = open("a/f"), b = open("b/f");
  // Ranges, and whose they are.
  EXPECT_EQ(lock(a.get(), F_WRLCK, 0, 10), 0);
  EXPECT_EQ(lock(b.get(), F_WRLCK, 5, 1), EAGAIN);
  EXPECT_EQ(lock(b.get(), F_RDLCK, 5, 1), EAGAIN);
  EXPECT_EQ(lock(b.get(), F_WRLCK, 10, 10), 0);
  struct flock asked = lock_of(F_RDLCK, 0, 0);
  ASSERT_EQ(::fcntl(b.get(), F_GETLK, &asked), 0);
  EXPECT_EQ(asked.l_type, F_WRLCK);
  EXPECT_EQ(asked.l_start, 0);
  EXPECT_EQ(asked.l_len, 10);
  EXPECT_EQ(lock(a.get(), F_UNLCK, 4, 4), 0);
  EXPECT_EQ(lock(b.get(), F_WRLCK, 4, 4), 0);
  EXPECT_EQ(lock(a.get(), F_RDLCK, 4, 4), EAGAIN);
  EXPECT_EQ(lock(a.get(), F_UNLCK), 0);
  EXPECT_EQ(lock(b.get(), F_UNLCK), 0);
  ASSERT_EQ(::fcntl(a.get(), F_GETLK, &(asked = lock_of(F_WRLCK, 0, 0))), 0);
  EXPECT_EQ(asked.l_type, F_UNLCK);
  // Whole files.
  EXPECT_EQ(flock_of(a.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(flock_of(b.get(), LOCK_SH | LOCK_NB), EWOULDBLOCK);
  EXPECT_EQ(flock_of(a.get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_EQ(flock_of(b.get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_EQ(flock_of(b.get(), LOCK_EX | LOCK_NB), EWOULDBLOCK);
  EXPECT_EQ(flock_of(a.get(), LOCK_UN), 0);
  // One node's processes and opens, too.
  const UniqueFd again = open("b/f");
  EXPECT_EQ(flock_of(b.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(flock_of(again.get(), LOCK_SH | LOCK_NB), EWOULDBLOCK);
}

TEST_F(ClusterLocks, of_opens_go_with_them) {
  const UniqueFd a = open("a/f");
  UniqueFd b = open("b/f");
  const UniqueFd again(::dup(b.get()));
  EXPECT_EQ(lock(b.get(), F_WRLCK, 0, 10, F_OFD_SETLK), 0);
  EXPECT_EQ(lock(a.get(), F_WRLCK, 0, 1, F_OFD_SETLK), EAGAIN);
  EXPECT_EQ(flock_of(b.get(), LOCK_EX), 0);
  EXPECT_EQ(flock_of(a.get(), LOCK_EX | LOCK_NB), EWOULDBLOCK);
  b.reset();
  // The open is still there.
  EXPECT_EQ(lock(a.get(), F_WRLCK, 0, 1, F_OFD_SETLK), EAGAIN);
  EXPECT_EQ(flock_of(a.get(), LOCK_EX | LOCK_NB), EWOULDBLOCK);
  ::close(const_cast<UniqueFd&>(again).release());
  // The kernel says so behind close().
  EXPECT_TRUE(eventually([&] { return lock(a.get(), F_WRLCK, 0, 1, F_OFD_SETLK) == 0; }));
  EXPECT_TRUE(eventually([&] { return flock_of(a.get(), LOCK_EX | LOCK_NB) == 0; }));
}

TEST_F(ClusterLocks, of_a_process_go_when_it_closes_any_descriptor_of_the_file) {
  const UniqueFd a = open("a/f"), b = open("b/f");
  EXPECT_EQ(lock(b.get(), F_WRLCK), 0);
  EXPECT_EQ(lock(a.get(), F_WRLCK), EAGAIN);
  UniqueFd(::open(place("b/f").c_str(), O_RDONLY | O_CLOEXEC)).reset();
  EXPECT_EQ(lock(a.get(), F_WRLCK), 0);
}

TEST_F(ClusterLocks, wake_who_waits_on_another_node) {
  const UniqueFd a = open("a/f"), b = open("b/f");
  EXPECT_EQ(lock(a.get(), F_WRLCK), 0);
  EXPECT_EQ(flock_of(a.get(), LOCK_EX), 0);
  for (int round = 0; round < 2; ++round) {
    std::atomic<bool> is_over = false;
    std::chrono::steady_clock::time_point when;
    std::thread waiter([&] {
      const int error =
          round == 0 ? lock(b.get(), F_WRLCK, 0, 0, F_SETLKW) : flock_of(b.get(), LOCK_EX);
      when = std::chrono::steady_clock::now();
      EXPECT_EQ(error, 0);
      is_over = true;
    });
    // Longer than a call may wait; other requests of the mount go on.
    std::this_thread::sleep_for(milliseconds(2500));
    EXPECT_FALSE(is_over);
    write_file(place("b/other"), "o");
    const auto since = std::chrono::steady_clock::now();
    EXPECT_EQ(round == 0 ? lock(a.get(), F_UNLCK) : flock_of(a.get(), LOCK_UN), 0);
    waiter.join();
    EXPECT_LT(when - since, milliseconds(300));
  }
  EXPECT_EQ(lock(a.get(), F_RDLCK), EAGAIN);
}

TEST_F(ClusterLocks, twenty_that_wait_do_not_stop_a_mount) {
  const UniqueFd a = open("a/f");
  EXPECT_EQ(flock_of(a.get(), LOCK_EX), 0);
  std::vector<std::thread> waiters;
  std::atomic<int> served = 0;
  for (int i = 0; i < 20; ++i) {
    waiters.emplace_back([&] {
      const UniqueFd b = open("b/f");
      EXPECT_EQ(flock_of(b.get(), LOCK_EX), 0);
      ++served;
    });
  }
  std::this_thread::sleep_for(seconds(1));
  EXPECT_LT(seconds_of([&] { EXPECT_EQ(read_file(place("b/f")), ""); }), 2);
  EXPECT_EQ(served, 0);
  EXPECT_EQ(flock_of(a.get(), LOCK_UN), 0);
  for (std::thread& waiter : waiters) waiter.join();
}

TEST_F(ClusterLocks, waits_end_by_a_signal) {
  const UniqueFd a = open("a/f"), b = open("b/f");
  struct sigaction action {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, nullptr), 0);
  EXPECT_EQ(lock(a.get(), F_WRLCK), 0);
  EXPECT_EQ(flock_of(a.get(), LOCK_EX), 0);
  for (const bool is_flock : {false, true}) {
    std::thread waiter([&] {
      const int error =
          is_flock ? flock_of(b.get(), LOCK_EX) : lock(b.get(), F_WRLCK, 0, 0, F_SETLKW);
      EXPECT_EQ(error, EINTR);
    });
    std::this_thread::sleep_for(milliseconds(500));
    EXPECT_LT(seconds_of([&] {
                ::pthread_kill(waiter.native_handle(), SIGUSR1);
                waiter.join();
              }),
              2);
  }
  // Nothing waits any more.
  EXPECT_EQ(lock(a.get(), F_UNLCK), 0);
  EXPECT_EQ(lock(a.get(), F_WRLCK), 0);
}

TEST_F(ClusterLocks, that_wait_for_one_another_are_a_deadlock) {
  const UniqueFd a = open("a/f"), b = open("b/f");
  const UniqueFd a_other = open("a/g"), b_other = open("b/g");
  EXPECT_EQ(lock(a.get(), F_WRLCK), 0);
  EXPECT_EQ(lock(b_other.get(), F_WRLCK), 0);
  std::thread waiter([&] { EXPECT_EQ(lock(a_other.get(), F_WRLCK, 0, 0, F_SETLKW), 0); });
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_EQ(lock(b.get(), F_WRLCK, 0, 0, F_SETLKW), EDEADLK);
  EXPECT_EQ(lock(b_other.get(), F_UNLCK), 0);
  waiter.join();
}

TEST_F(ClusterLocks, are_free_when_their_process_is_killed) {
  const UniqueFd a = open("a/f");
  const pid_t child = holder([&] {
    const int fd = ::open(place("b/f").c_str(), O_RDWR);
    return lock(fd, F_WRLCK, 0, 5) == 0 && lock(fd, F_WRLCK, 5, 5, F_OFD_SETLK) == 0 &&
           flock_of(fd, LOCK_EX) == 0;
  });
  EXPECT_EQ(lock(a.get(), F_WRLCK, 0, 5), EAGAIN);
  EXPECT_EQ(lock(a.get(), F_WRLCK, 5, 5), EAGAIN);
  EXPECT_EQ(flock_of(a.get(), LOCK_EX | LOCK_NB), EWOULDBLOCK);
  EXPECT_LT(seconds_of([&] {
              kill_and_reap(child);
              EXPECT_EQ(lock(a.get(), F_WRLCK, 0, 0, F_SETLKW), 0);
              EXPECT_EQ(flock_of(a.get(), LOCK_EX), 0);
            }),
            2);
  // One that waits is killed as well, and leaves nothing.
  const pid_t waiting = ::fork();
  if (waiting == 0) {
    const int fd = ::open(place("b/f").c_str(), O_RDWR);
    ::_exit(lock(fd, F_WRLCK, 0, 0, F_SETLKW));
  }
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_LT(seconds_of([&] { kill_and_reap(waiting); }), 2);
  EXPECT_EQ(lock(a.get(), F_UNLCK), 0);
  EXPECT_EQ(lock(a.get(), F_WRLCK), 0);
}

TEST_F(ClusterLocks, are_free_in_time_when_their_node_is_killed) {
  const UniqueFd a = open("a/f");
  const pid_t child = holder([&] {
    const int fd = ::open(place("b/f").c_str(), O_RDWR);
    return lock(fd, F_WRLCK) == 0 && flock_of(fd, LOCK_EX) == 0;
  });
  kill("second");
  EXPECT_EQ(lock(a.get(), F_WRLCK), EAGAIN);
  const double took = seconds_of([&] {
    EXPECT_EQ(lock(a.get(), F_WRLCK, 0, 0, F_SETLKW), 0);
    EXPECT_EQ(flock_of(a.get(), LOCK_EX), 0);
  });
  std::printf("free after %.1f s\n", took);
  EXPECT_LT(took, 10);
  kill_and_reap(child);
}

TEST_F(ClusterLocks, outlive_the_process_with_the_names) {
  const UniqueFd b = open("b/f");
  EXPECT_EQ(lock(b.get(), F_WRLCK, 0, 10), 0);
  EXPECT_EQ(flock_of(b.get(), LOCK_SH), 0);
  kill("first");
  unmount("a");
  good({"up", place("first"), "-b", "--mount", place("a"), "--cache", "0"});
  const UniqueFd a = open("a/f");
  EXPECT_EQ(lock(a.get(), F_WRLCK, 0, 10), EAGAIN);
  EXPECT_EQ(flock_of(a.get(), LOCK_EX | LOCK_NB), EWOULDBLOCK);
  EXPECT_EQ(lock(a.get(), F_WRLCK, 10, 10), 0);
  EXPECT_EQ(lock(b.get(), F_UNLCK), 0);
  EXPECT_EQ(lock(a.get(), F_WRLCK, 0, 10), 0);
}

// Nobody is given what another had, however long there is nobody who could.
TEST_F(ClusterLocks, outlive_one_that_is_away_or_stopped_for_longer_than_a_lease) {
  const UniqueFd b = open("b/f");
  EXPECT_EQ(lock(b.get(), F_WRLCK, 0, 10), 0);
  EXPECT_EQ(flock_of(b.get(), LOCK_SH), 0);
  constexpr auto kLonger = std::chrono::seconds(7);
  kill("first");
  unmount("a");
  std::this_thread::sleep_for(kLonger);
  good({"up", place("first"), "-b", "--mount", place("a"), "--cache", "0"});
  const UniqueFd a = open("a/f");
  EXPECT_EQ(lock(a.get(), F_WRLCK, 0, 10), EAGAIN);
  EXPECT_EQ(flock_of(a.get(), LOCK_EX | LOCK_NB), EWOULDBLOCK);
  const pid_t first = ask("status", "first").value("pid", 0);
  ASSERT_GT(first, 0);
  ASSERT_EQ(::kill(first, SIGSTOP), 0);
  std::this_thread::sleep_for(kLonger);
  ASSERT_EQ(::kill(first, SIGCONT), 0);
  EXPECT_EQ(lock(a.get(), F_WRLCK, 0, 10), EAGAIN);
  EXPECT_EQ(lock(a.get(), F_WRLCK, 10, 10), 0);
  EXPECT_EQ(lock(b.get(), F_RDLCK, 0, 10), 0);
  EXPECT_EQ(lock(b.get(), F_UNLCK), 0);
  EXPECT_EQ(lock(a.get(), F_WRLCK, 0, 10), 0);
}

// Stopped for longer than its lease lasts: another has the lock by then.
TEST_F(ClusterLocks, that_are_lost_end_the_open) {
  const UniqueFd a = open("a/f"), b = open("b/f"), without = open("b/f");
  EXPECT_EQ(::write(b.get(), "one", 3), 3);
  EXPECT_EQ(flock_of(b.get(), LOCK_EX), 0);
  const pid_t second = ask("status", "second").value("pid", 0);
  ASSERT_GT(second, 0);
  ASSERT_EQ(::kill(second, SIGSTOP), 0);
  EXPECT_LT(seconds_of([&] { EXPECT_EQ(flock_of(a.get(), LOCK_EX), 0); }), 10);
  EXPECT_EQ(::pwrite(a.get(), "two", 3, 0), 3);
  ASSERT_EQ(::kill(second, SIGCONT), 0);
  char bytes[3] = {};
  EXPECT_EQ(::pwrite(b.get(), "old", 3, 0), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(::pread(b.get(), bytes, 3, 0), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(flock_of(b.get(), LOCK_EX), EIO);
  EXPECT_EQ(::pread(without.get(), bytes, 3, 0), 3);
  EXPECT_EQ(std::string(bytes, 3), "two");
  EXPECT_EQ(flock_of(without.get(), LOCK_EX | LOCK_NB), EWOULDBLOCK);
}

TEST_F(ClusterLocks, keep_a_database_of_two_nodes_whole) {
  if (std::system("python3 -c 'import sqlite3' 2>/dev/null") != 0) GTEST_SKIP() << "no sqlite3";
  const std::string script = place("insert.py");
  write_file(script,
             "import sqlite3, sys\n"
             "path, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])\n"
             "db = sqlite3.connect(path, timeout=120, isolation_level=None)\n"
             "db.execute('pragma journal_mode=DELETE')\n"
             "db.execute('create table if not exists t (who text, n integer, sum integer)')\n"
             "for n in range(count):\n"
             "  db.execute('begin immediate')\n"
             "  rows = db.execute('select count(*) from t').fetchone()[0]\n"
             "  db.execute('insert into t values (?, ?, ?)', (who, n, rows))\n"
             "  db.execute('commit')\n");
  const auto insert = [&](const std::string& node) {
    const std::string command =
        "python3 " + script + " " + place(node + "/db") + " " + node + " 40";
    EXPECT_EQ(std::system(command.c_str()), 0) << node;
  };
  std::thread other([&] { insert("a"); });
  insert("b");
  other.join();
  const std::string check = place("check.py");
  write_file(check,
             "import sqlite3, sys\n"
             "db = sqlite3.connect(sys.argv[1])\n"
             "assert db.execute('pragma integrity_check').fetchone()[0] == 'ok'\n"
             "rows = db.execute('select who, n, sum from t order by rowid').fetchall()\n"
             "assert [r[2] for r in rows] == list(range(80)), rows\n"
             "for who in 'ab':\n"
             "  assert [r[1] for r in rows if r[0] == who] == list(range(40)), rows\n");
  for (const char* node : {"a", "b"}) {
    const std::string command = "python3 " + check + " " + place(node) + "/db";
    EXPECT_EQ(std::system(command.c_str()), 0) << node;
  }
}

}  // namespace
}  // namespace penstock::test
