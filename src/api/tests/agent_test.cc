// Applications and an agent in processes of their own: deaths on either side, and rights.
#include "client.h"

#include <atomic>
#include <filesystem>
#include <gtest/gtest.h>
#include <set>
#include <sys/resource.h>
#include <thread>

#include "penstock/testing_node.h"

namespace penstock::api {
namespace {

class WithAgent : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(agent.start()); }

  // Runs `body` in a child process with another user's rights; its result is the exit code.
  int as_user(uid_t uid, const std::function<int()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(99);
      ::_exit(body());
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
  }

  test::ScratchDirectory scratch;
  test::AgentProcess agent{scratch.store()};
};

TEST_F(WithAgent, serves_two_sessions_that_see_each_others_bytes) {
  Client first, second;
  ASSERT_EQ(first.connect(scratch.store()), 0) << penstock_last_error();
  ASSERT_EQ(second.connect(scratch.store() + "/agent.sock"), 0) << penstock_last_error();
  first.prepare();
  second.prepare();
  const penstock_file writing = first.open("/a", O_RDWR | O_CREAT);
  const penstock_file reading = second.open("/a", O_RDONLY);
  for (uint64_t i = 0; i < 20; ++i) {
    test::fill({first.memory(), 5000}, i);
    ASSERT_EQ(first.run(first.io(PENSTOCK_WRITE, writing, i * 5000, 5000)), 5000);
    ASSERT_EQ(second.run(second.io(PENSTOCK_READ, reading, i * 5000, 5000)), 5000);
    ASSERT_TRUE(test::is_content({second.memory(), 5000}, i));
  }
}

// Those that nobody uses for long are looked at now and then only.
TEST_F(WithAgent, serves_each_of_many_rings_also_after_it_was_idle) {
  constexpr int kRings = 300, kBusy = 4000;
  Client client;
  ASSERT_EQ(client.connect(scratch.store()), 0) << penstock_last_error();
  client.prepare();
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  test::fill({client.memory(), 4096}, 1);
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, 4096)), 4096);
  std::vector<penstock_ring*> rings(kRings);
  for (penstock_ring*& ring : rings) {
    ASSERT_EQ(penstock_ring_create(client.session, 8, 1, &ring), 0) << penstock_last_error();
  }
  const auto run_on = [&](penstock_ring* ring) {
    penstock_io read = client.io(PENSTOCK_READ, file, 0, 4096);
    penstock_completion completion{};
    if (penstock_prepare(ring, &read) != 0 || penstock_submit(ring) != 1) return int64_t{-1};
    if (penstock_wait(ring, &completion, 1, 1, Client::in_seconds(60)) != 1) return int64_t{-2};
    return completion.result;
  };
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kBusy; ++i) {
      ASSERT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 4096)), 4096);
    }
    // One after the other, in another order each time: alone, and beside one that is busy.
    std::atomic<bool> done{round % 2 == 0};
    std::thread busy([&] {
      while (!done.load()) EXPECT_EQ(run_on(rings[0]), 4096);
    });
    for (int i = 1; i < kRings && !HasFailure(); ++i) {
      EXPECT_EQ(run_on(rings[1 + i * 7 % (kRings - 1)]), 4096) << i;
    }
    done.store(true);
    busy.join();
  }
  for (penstock_ring* const ring : rings) EXPECT_EQ(penstock_ring_destroy(ring), 0);
}

TEST_F(WithAgent, goes_on_with_a_successor_when_the_agent_is_killed) {
  Client client;
  ASSERT_EQ(client.connect(scratch.store()), 0) << penstock_last_error();
  client.prepare();
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  test::fill({client.memory(), 65536}, 1);
  penstock_io write = client.io(PENSTOCK_WRITE, file, 0, 65536);
  write.flags = PENSTOCK_DURABLE;
  ASSERT_EQ(client.run(write), 65536);
  ASSERT_EQ(penstock_fsync(client.session, file), 0);
  for (int round = 0; round < 3; ++round) {
    agent.kill();
    // In flight while nobody serves.
    std::fill_n(client.memory(), 65536, std::byte{0});
    for (uint64_t i = 0; i < 16; ++i) {
      const penstock_io read = client.io(PENSTOCK_READ, file, i * 4096, 4096, i * 4096, i);
      ASSERT_EQ(penstock_prepare(client.ring, &read), 0);
    }
    ASSERT_EQ(penstock_submit(client.ring), 16);
    penstock_completion completions[16];
    EXPECT_EQ(penstock_wait(client.ring, completions, 16, 16, penstock_now() + 20'000'000), 0);
    ASSERT_TRUE(agent.start());
    ASSERT_EQ(penstock_wait(client.ring, completions, 16, 16, Client::in_seconds(60)), 16);
    std::set<uint64_t> seen;
    for (const penstock_completion& completion : completions) {
      EXPECT_EQ(completion.result, 4096);
      seen.insert(completion.user_data);
    }
    EXPECT_EQ(seen.size(), 16u);
    EXPECT_TRUE(test::is_content({client.memory(), 65536}, 1));
    struct stat st {};
    EXPECT_EQ(penstock_fstat(client.session, file, &st), 0) << penstock_last_error();
    EXPECT_EQ(st.st_size, 65536);
  }
}

TEST_F(WithAgent, loses_no_operation_when_the_agent_is_killed_under_load) {
  Client client;
  ASSERT_EQ(client.connect(scratch.store()), 0) << penstock_last_error();
  client.prepare(4 * kMiB, 32, 4);
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> done{0};
  // Each thread writes blocks of its own and reads them back, one round trip after the other.
  const auto work = [&](uint64_t thread) {
    const uint64_t at = thread * kMiB;
    for (uint64_t round = 0; !stop || round == 0; ++round) {
      test::fill({client.memory() + at, 16384}, thread * 1000 + round);
      ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, at, 16384, at)), 16384);
      // A write that is not durable may be lost with the agent: then it is written again.
      std::fill_n(client.memory() + at, 16384, std::byte{0});
      const int64_t read = client.run(client.io(PENSTOCK_READ, file, at, 16384, at));
      ASSERT_GE(read, 0);
      ++done;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 3; ++i) threads.emplace_back(work, i);
  for (int kills = 0; kills < 3; ++kills) {
    const uint64_t before = done;
    while (done < before + 5) std::this_thread::yield();
    agent.kill();
    EXPECT_TRUE(agent.start());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(done, 15u);
}

TEST_F(WithAgent, ends_everything_with_econnreset_when_no_successor_comes) {
  Client client;
  ::setenv("PENSTOCK_RECONNECT_SECONDS", "1", 1);
  ASSERT_EQ(client.connect(scratch.store()), 0) << penstock_last_error();
  ::unsetenv("PENSTOCK_RECONNECT_SECONDS");
  client.prepare();
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, 4096)), 4096);
  agent.kill();
  const penstock_io read = client.io(PENSTOCK_READ, file, 0, 4096, 0, 5);
  ASSERT_EQ(penstock_prepare(client.ring, &read), 0);
  ASSERT_EQ(penstock_submit(client.ring), 1);
  penstock_completion completion{};
  ASSERT_EQ(penstock_wait(client.ring, &completion, 1, 1, PENSTOCK_FOREVER), 1);
  EXPECT_EQ(completion.result, -ECONNRESET);
  EXPECT_EQ(completion.user_data, 5u);
  EXPECT_EQ(penstock_prepare(client.ring, &read), -ECONNRESET);
  EXPECT_EQ(penstock_wait(client.ring, &completion, 1, 1, PENSTOCK_FOREVER), -ECONNRESET);
  struct stat st {};
  EXPECT_EQ(penstock_stat(client.session, "/a", &st), -ECONNRESET);
  EXPECT_EQ(penstock_ring_destroy(client.ring), 0);
  EXPECT_EQ(penstock_region_release(client.region), 0);
}

TEST_F(WithAgent, outlives_applications_that_are_killed_with_io_in_flight) {
  Client client;
  ASSERT_EQ(client.connect(scratch.store()), 0) << penstock_last_error();
  client.prepare();
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, 4096)), 4096);
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      Client other;
      if (other.connect(scratch.store()) != 0) ::_exit(1);
      other.prepare();
      const penstock_file mine = other.open("/b", O_RDWR | O_CREAT);
      const penstock_io io = other.io(PENSTOCK_WRITE, mine, 0, kMiB);
      for (int n = 0; n < 32; ++n) penstock_prepare(other.ring, &io);
      penstock_submit(other.ring);
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 4096)), 4096);
  }
}

TEST_F(WithAgent, gives_every_user_their_own_rights) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become others";
  Client root;
  ASSERT_EQ(root.connect(scratch.store()), 0) << penstock_last_error();
  root.prepare();
  ASSERT_EQ(penstock_mkdir(root.session, "/private", 0700), 0);
  ASSERT_EQ(penstock_mkdir(root.session, "/open", 0700), 0);
  ASSERT_EQ(penstock_chmod(root.session, "/open", 0777), 0);
  ASSERT_GE(root.open("/private/a", O_RDWR | O_CREAT, 0644), 0);
  ASSERT_GE(root.open("/mine", O_RDWR | O_CREAT, 0600), 0);
  ASSERT_GE(root.open("/readable", O_RDWR | O_CREAT, 0644), 0);
  const std::string store = scratch.store();
  const auto attempts = [&store]() -> int {
    Client other;
    if (other.connect(store) != 0) return 1;
    if (other.open("/private/a", O_RDONLY) != -EACCES) return 2;
    if (other.open("/mine", O_RDONLY) != -EACCES) return 3;
    if (other.open("/readable", O_RDWR) != -EACCES) return 4;
    if (other.open("/readable", O_RDONLY) < 0) return 5;
    if (other.open("/new", O_RDWR | O_CREAT) != -EACCES) return 6;
    if (penstock_unlink(other.session, "/mine") != -EACCES) return 7;
    if (penstock_chmod(other.session, "/readable", 0777) != -EPERM) return 8;
    if (other.open("/open/new", O_RDWR | O_CREAT, 0600) < 0) return 9;
    struct stat st {};
    if (penstock_stat(other.session, "/open/new", &st) != 0 || st.st_uid != 65534) return 10;
    if (penstock_lchown(other.session, "/open/new", 0, 0) != -EPERM) return 11;
    return 0;
  };
  EXPECT_EQ(as_user(65534, attempts), 0);
}

TEST_F(WithAgent, is_reached_by_long_paths) {
  const std::string deep = scratch.path() + "/" + std::string(120, 'd');
  std::filesystem::create_directory(deep);
  test::AgentProcess other(deep + "/store");
  ASSERT_TRUE(other.start());
  Client client;
  EXPECT_EQ(client.connect(deep + "/store"), 0) << penstock_last_error();
  struct stat st {};
  EXPECT_EQ(penstock_stat(client.session, "/", &st), 0);
}

TEST(EmbeddedUser, opens_a_store_without_any_rights) {
  if (::geteuid() != 0) GTEST_SKIP() << "every other test is this one then";
  test::ScratchDirectory scratch;
  ASSERT_EQ(::chown(scratch.path().c_str(), 65534, 65534), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // As in a container: no capabilities, and the usual limit on locked memory.
    const rlimit locked{8 * kMiB, 8 * kMiB};
    ::setrlimit(RLIMIT_MEMLOCK, &locked);
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(99);
    Client client;
    if (client.open_store(scratch.store()) != 0) ::_exit(1);
    if (penstock_region_create(client.session, 16 * kMiB, &client.region) != 0) ::_exit(2);
    if (penstock_ring_create(client.session, 16, 1, &client.ring) != 0) ::_exit(3);
    const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
    if (file < 0) ::_exit(4);
    test::fill({client.memory(), kMiB}, 1);
    if (client.run(client.io(PENSTOCK_WRITE, file, 0, kMiB)) != kMiB) ::_exit(5);
    if (client.run(client.io(PENSTOCK_READ, file, 0, kMiB, 8 * kMiB)) != kMiB) ::_exit(6);
    if (!test::is_content({client.memory() + 8 * kMiB, kMiB}, 1)) ::_exit(7);
    penstock_close(client.session);
    client.session = nullptr;
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace penstock::api
