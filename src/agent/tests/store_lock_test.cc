#include "store_lock.h"

#include "raw_session.h"
#include "store_directory.h"

#include <atomic>
#include <fstream>
#include <sys/stat.h>
#include <thread>

namespace penstock::agent {
namespace {

using test::OtherProcess;
using test::take_flock;

constexpr uid_t kStranger = 1001;

class StoreLock : public testing::Test {
 protected:
  // The lock as an earlier release made it.
  void make_old() const {
    std::ofstream(path) << "4711\n";
    ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  }
  mode_t mode() const {
    struct stat facts {};
    EXPECT_EQ(::stat(path.c_str(), &facts), 0);
    return facts.st_mode & 0777;
  }

  ScratchDirectory scratch;
  const std::string path = scratch.path() + "/LOCK";
};

TEST_F(StoreLock, is_for_its_owner_alone_whatever_the_umask) {
  const mode_t before = ::umask(0);
  const LockOutcome lock = lock_store(path);
  ::umask(before);
  ASSERT_TRUE(lock.fd);
  EXPECT_EQ(mode(), 0600u);
}

TEST_F(StoreLock, of_an_earlier_release_is_kept_and_closed_to_others) {
  make_old();
  struct stat old {
  }, now{};
  ASSERT_EQ(::stat(path.c_str(), &old), 0);
  const LockOutcome lock = lock_store(path);
  ASSERT_TRUE(lock.fd);
  ASSERT_EQ(::stat(path.c_str(), &now), 0);
  EXPECT_EQ(now.st_ino, old.st_ino);
  EXPECT_EQ(mode(), 0600u);
}

TEST_F(StoreLock, held_by_another_agent_is_respected) {
  make_old();
  const OtherProcess agent(::getuid(), [&] { return take_flock(path); });
  ASSERT_TRUE(agent.took());
  const LockOutcome lock = lock_store(path);
  EXPECT_FALSE(lock.fd);
  EXPECT_EQ(lock.status, Code::in_use);
  EXPECT_NE(lock.holder.find("process "), std::string::npos) << lock.holder;
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

TEST_F(StoreLock, held_by_a_stranger_is_replaced) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can be another user";
  make_old();
  const OtherProcess stranger(kStranger, [&] { return take_flock(path); });
  ASSERT_TRUE(stranger.took());
  const LockOutcome lock = lock_store(path);
  ASSERT_TRUE(lock.fd) << lock.status.name() << " " << lock.holder;
  EXPECT_EQ(mode(), 0600u);
  // Any other agent finds it locked, an older one too.
  EXPECT_FALSE(take_flock(path));
  EXPECT_EQ(lock_store(path).status, Code::in_use);
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

TEST_F(StoreLock, left_to_a_child_by_a_stranger_who_ended_is_replaced) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can be another user";
  make_old();
  struct stat processes {};
  ASSERT_EQ(::stat("/proc/self/ns/pid", &processes), 0);
  const OtherProcess stranger(
      kStranger, [&] { return take_flock(path); }, true);
  ASSERT_TRUE(stranger.took());
  const LockOutcome lock = lock_store(path);
  if (!lock.fd) {
    // Only where the kernel shows all locks of all processes it is certain that no process has it.
    EXPECT_EQ(lock.status, Code::in_use);
    GTEST_SKIP() << "this machine does not show all locks";
  }
  EXPECT_FALSE(take_flock(path));
}

TEST_F(StoreLock, that_a_stranger_has_is_won_by_one_of_many) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can be another user";
  for (int round = 0; round < 10; ++round) {
    std::filesystem::remove(path);
    make_old();
    const OtherProcess stranger(kStranger, [&] { return take_flock(path); });
    ASSERT_TRUE(stranger.took());
    constexpr size_t kCount = 4;
    std::array<LockOutcome, kCount> outcomes;
    std::vector<std::thread> threads;
    for (LockOutcome& outcome : outcomes) {
      threads.emplace_back([&] { outcome = lock_store(path); });
    }
    for (std::thread& thread : threads) thread.join();
    size_t won = 0;
    for (const LockOutcome& outcome : outcomes) {
      if (outcome.fd) ++won;
    }
    EXPECT_LE(won, 1u);
    // Those that met may all have stepped back; one that is alone wins.
    EXPECT_EQ(won == 0 && !lock_store(path).fd, false);
  }
}

TEST_F(StoreLock, whole_store_opens_while_a_stranger_holds_all_its_old_locks) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can be another user";
  AgentConfig config;
  config.directory = scratch.store();
  const std::string meta = scratch.store() + "/meta";
  {
    auto store = StoreDirectory::open(config);
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_TRUE((*store)->finish_making());
  }
  for (const std::string& name : {std::string("/meta/PENSTOCK"), std::string("/meta/LOCK")}) {
    std::ofstream(scratch.store() + name) << "content";
    ASSERT_EQ(::chmod((scratch.store() + name).c_str(), 0644), 0);
  }
  ASSERT_EQ(::chmod(meta.c_str(), 0755), 0);
  ASSERT_EQ(::chmod((scratch.store() + "/LOCK").c_str(), 0644), 0);
  const OtherProcess stranger(kStranger, [&] {
    struct flock all {};
    all.l_type = F_RDLCK;
    const int database = ::open((meta + "/LOCK").c_str(), O_RDONLY);
    return take_flock(scratch.store() + "/LOCK") && take_flock(meta + "/PENSTOCK") &&
           ::fcntl(database, F_SETLK, &all) == 0;
  });
  ASSERT_TRUE(stranger.took());
  const auto store = StoreDirectory::open(config);
  ASSERT_TRUE(store) << store.error().message;
  // The databases can be locked again, and the mark says what it said.
  EXPECT_TRUE(take_flock(meta + "/PENSTOCK"));
  std::string content;
  std::ifstream(meta + "/PENSTOCK") >> content;
  EXPECT_EQ(content, "content");
  struct flock all {};
  all.l_type = F_WRLCK;
  const UniqueFd database(::open((meta + "/LOCK").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(::fcntl(database.get(), F_SETLK, &all), 0);
}

}  // namespace
}  // namespace penstock::agent
