// Reads that the node cache answers in this process, with an agent in a process of its own.
#include "client.h"

#include <array>
#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include "penstock/testing_node.h"

namespace penstock::api {
namespace {

constexpr penstock_route kRouteCache = 6;
constexpr uint64_t kFileBytes = 10 * 65536 + 1234;

class CachedReads : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(agent.start());
    connect(client);
    file = client.open("/a", O_RDWR | O_CREAT);
    test::fill({client.memory(), kFileBytes}, 1);
    ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, kFileBytes)),
              static_cast<int64_t>(kFileBytes));
    ASSERT_EQ(penstock_fsync(client.session, file), 0);
    warm(client, file);
  }
  void connect(Client& to) {
    ASSERT_EQ(to.connect(scratch.store()), 0) << penstock_last_error();
    to.prepare(2 * kMiB);
  }
  // Until reads are hits: the session maps the cache in the background.
  static void warm(Client& through, penstock_file of) {
    ASSERT_TRUE(test::eventually([&] {
      penstock_route route = 0;
      EXPECT_EQ(through.run(through.io(PENSTOCK_WARM, of, 0, kFileBytes)),
                static_cast<int64_t>(kFileBytes));
      EXPECT_EQ(through.run(through.io(PENSTOCK_READ, of, kFileBytes - 1, 1), &route), 1);
      return route == kRouteCache || HasFailure();
    }));
  }

  test::ScratchDirectory scratch;
  test::AgentProcess agent{scratch.store(), 8 * kMiB};
  Client client;
  penstock_file file = -1;
};

TEST_F(CachedReads, give_the_bytes_of_any_range) {
  std::vector<std::byte> expected(kFileBytes);
  test::fill({expected.data(), kFileBytes}, 1);
  const std::array<std::pair<uint64_t, uint64_t>, 9> ranges{{{0, 4096},
                                                             {1, 1},
                                                             {4095, 2},
                                                             {65536, 65536},
                                                             {65000, 1000},
                                                             {100, 200'000},
                                                             {0, kFileBytes},
                                                             {kFileBytes - 5, 100},
                                                             {kFileBytes - 1234, 5000}}};
  for (const auto& [offset, length] : ranges) {
    std::fill_n(client.memory(), 2 * kMiB, std::byte{0xee});
    penstock_route route = 0;
    const int64_t read = client.run(client.io(PENSTOCK_READ, file, offset, length, 64), &route);
    const uint64_t there = std::min(length, kFileBytes - offset);
    ASSERT_EQ(read, static_cast<int64_t>(there)) << offset << " " << length;
    EXPECT_EQ(route, kRouteCache);
    EXPECT_EQ(std::memcmp(client.memory() + 64, expected.data() + offset, there), 0);
    EXPECT_EQ(client.memory()[63], std::byte{0xee});
    EXPECT_EQ(client.memory()[64 + there], std::byte{0xee}) << "written to behind the end";
  }
  penstock_route route = 0;
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, kFileBytes, 10), &route), 0);
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, 100 * kMiB, 10), &route), 0);
}

TEST_F(CachedReads, are_for_those_who_may_read) {
  const penstock_file writing = client.open("/a", O_WRONLY);
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, writing, 0, 4096)), -EACCES);
  penstock_route route = kRouteCache;
  penstock_io holes = client.io(PENSTOCK_READ, file, 0, 4096);
  holes.flags = PENSTOCK_REFUSE_HOLES;
  EXPECT_EQ(client.run(holes, &route), 4096);
  EXPECT_NE(route, kRouteCache) << "only the store knows its holes";
  ASSERT_EQ(penstock_file_close(client.session, file), 0);
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 4096)), -EBADF);
}

TEST_F(CachedReads, see_what_others_wrote_at_once) {
  Client other;
  connect(other);
  const penstock_file writing = other.open("/a", O_RDWR);
  uint64_t hits = 0;
  for (uint32_t version = 2; version < 300; ++version) {
    const uint64_t offset = mix64(version) % 10 * 65536;
    test::fill({other.memory(), 65536}, version);
    ASSERT_EQ(other.run(other.io(PENSTOCK_WRITE, writing, offset, 65536)), 65536);
    penstock_route route = 0;
    ASSERT_EQ(client.run(client.io(PENSTOCK_READ, file, offset, 65536), &route), 65536);
    EXPECT_NE(route, kRouteCache);
    ASSERT_TRUE(test::is_content({client.memory(), 65536}, version));
    ASSERT_EQ(client.run(client.io(PENSTOCK_WARM, file, offset, 65536)), 65536);
    ASSERT_EQ(client.run(client.io(PENSTOCK_READ, file, offset, 65536), &route), 65536);
    hits += route == kRouteCache ? 1 : 0;
    ASSERT_TRUE(test::is_content({client.memory(), 65536}, version));
  }
  EXPECT_GT(hits, 290u);
  ASSERT_EQ(penstock_ftruncate(other.session, writing, 100), 0);
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 4096)), 100);
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, 65536, 4096)), 0);
  ASSERT_EQ(penstock_ftruncate(other.session, writing, 4096), 0);
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 8192)), 4096);
}

TEST_F(CachedReads, never_show_an_older_version_than_is_complete) {
  std::atomic<uint64_t> complete{1};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> hits{0};
  std::thread writer([&] {
    Client other;
    connect(other);
    const penstock_file writing = other.open("/a", O_RDWR);
    // On a busy machine until the cache has answered some, too.
    for (uint64_t version = 2; version < 2000 || (hits == 0 && version < 200'000); ++version) {
      std::fill_n(reinterpret_cast<uint64_t*>(other.memory()), 512, version);
      ASSERT_EQ(other.run(other.io(PENSTOCK_WRITE, writing, 0, 4096)), 4096);
      complete = version;
      if (version % 4 == 0) other.run(other.io(PENSTOCK_WARM, writing, 0, 4096));
    }
    stop = true;
  });
  while (!stop) {
    const uint64_t known = complete;
    penstock_route route = 0;
    ASSERT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 4096), &route), 4096);
    if (known == 1) continue;
    uint64_t version = 0;
    std::memcpy(&version, client.memory(), 8);
    ASSERT_GE(version, known);
    hits += route == kRouteCache ? 1 : 0;
  }
  writer.join();
  EXPECT_GT(hits, 0u);
}

TEST_F(CachedReads, wake_a_thread_that_waits_on_the_other_side_of_the_lane) {
  penstock_lane* lane = nullptr;
  ASSERT_EQ(penstock_lane_claim(client.ring, &lane), 0);
  constexpr int kReads = 2000;
  std::atomic<int> taken{0};
  std::thread waiter([&] {
    penstock_completion completions[4];
    while (taken < kReads) {
      const int count = penstock_lane_wait(lane, completions, 4, 1, Client::in_seconds(60));
      ASSERT_GT(count, 0);
      taken += count;
    }
  });
  for (int i = 0; i < kReads; ++i) {
    const penstock_io io = client.io(PENSTOCK_READ, file, 4096, 4096);
    ASSERT_EQ(penstock_lane_prepare(lane, &io), 0);
    ASSERT_EQ(penstock_lane_submit(lane, 1), 1);
    while (taken <= i) std::this_thread::yield();
    // Now and then the waiter is asleep.
    if (i % 100 == 0) ::usleep(3000);
  }
  waiter.join();
  EXPECT_EQ(penstock_lane_release(lane), 0);
}

TEST_F(CachedReads, do_not_outlive_their_agent) {
  agent.kill();
  // Nobody serves: what is mapped still is not believed, once the death is known.
  ASSERT_TRUE(test::eventually([&] {
    const penstock_io io = client.io(PENSTOCK_READ, file, 0, 4096);
    EXPECT_EQ(penstock_prepare(client.ring, &io), 0);
    EXPECT_EQ(penstock_submit(client.ring), 1);
    penstock_completion done{};
    if (penstock_wait(client.ring, &done, 1, 1, penstock_now() + 100'000'000) == 0) return true;
    EXPECT_EQ(done.route, kRouteCache) << "nobody else could answer";
    return HasFailure();
  }));
  ASSERT_TRUE(agent.start());
  Client other;
  connect(other);
  const penstock_file writing = other.open("/a", O_RDWR);
  test::fill({other.memory(), 4096}, 77);
  ASSERT_EQ(other.run(other.io(PENSTOCK_WRITE, writing, 0, 4096)), 4096);
  penstock_completion left{};
  EXPECT_EQ(penstock_wait(client.ring, &left, 1, 1, Client::in_seconds(60)), 1);
  penstock_route route = 0;
  ASSERT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 4096), &route), 4096);
  EXPECT_TRUE(test::is_content({client.memory(), 4096}, 77));
  warm(client, file);
  ASSERT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 4096), &route), 4096);
  EXPECT_EQ(route, kRouteCache) << "the successor's memory is mapped";
  EXPECT_TRUE(test::is_content({client.memory(), 4096}, 77));
}

// As if the process had stood still while its agent died and another one took over.
TEST_F(CachedReads, are_not_believed_longer_than_the_agent_vouched_for_them) {
  const auto began = penstock_now();
  agent.kill();
  ASSERT_TRUE(agent.start());
  EXPECT_GE(penstock_now() - began, 500'000'000u) << "the successor did not wait";
  Client other;
  connect(other);
  const penstock_file writing = other.open("/a", O_RDWR);
  test::fill({other.memory(), 4096}, 78);
  ASSERT_EQ(other.run(other.io(PENSTOCK_WRITE, writing, 0, 4096)), 4096);
  ASSERT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 4096)), 4096);
  EXPECT_TRUE(test::is_content({client.memory(), 4096}, 78));
}

TEST_F(CachedReads, are_no_loss_to_others_when_an_application_is_killed) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer knows no threads behind a fork";
#endif
  for (int i = 0; i < 5; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      Client mine;
      if (mine.connect(scratch.store()) != 0) ::_exit(1);
      mine.prepare();
      const penstock_file reading = mine.open("/a", O_RDONLY);
      while (true) mine.run(mine.io(PENSTOCK_READ, reading, 0, 65536));
    }
    ::usleep(30'000);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  penstock_route route = 0;
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, 4096)), 4096);
  warm(client, file);
  ASSERT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 4096), &route), 4096);
  EXPECT_EQ(route, kRouteCache);
}

}  // namespace
}  // namespace penstock::api
