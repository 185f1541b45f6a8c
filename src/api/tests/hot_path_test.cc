// What the steady state costs: allocations by anybody in this process, application and node
// together, and processor time.
#include "client.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <time.h>

#include "penstock/agent.h"

namespace penstock::api {
namespace {

constexpr uint64_t kFileBytes = 16 * kMiB;
constexpr uint32_t kDepth = 64;

class HotPath : public testing::Test {
 protected:
  void SetUp() override {
    // In this process, so that its allocations are seen, too.
    agent::AgentConfig config;
    config.directory = scratch.store();
    config.cache_bytes = cache_bytes();
    auto started = agent::Agent::start(config);
    ASSERT_TRUE(started) << started.error().message;
    node = std::move(*started);
    ASSERT_EQ(client.connect(scratch.store()), 0) << penstock_last_error();
    client.prepare(kFileBytes, kDepth, 1);
    file = client.open("/a", O_RDWR | O_CREAT);
    test::fill({client.memory(), kFileBytes}, 1);
    ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, kFileBytes)),
              static_cast<int64_t>(kFileBytes));
    ASSERT_EQ(penstock_fsync(client.session, file), 0);
  }

  virtual uint64_t cache_bytes() const { return 0; }

  // `count` operations, kDepth in flight, sixteen at a time.
  void run(uint8_t operation, uint64_t count) {
    penstock_completion completions[kDepth];
    uint64_t submitted = 0, done = 0, state = 1;
    while (done < count) {
      while (submitted < count && submitted - done < kDepth) {
        state = mix64(state);
        const uint64_t block = state % (kFileBytes / 4096);
        const penstock_io io =
            client.io(operation, file, block * 4096, 4096, submitted % kDepth * 4096, submitted);
        ASSERT_EQ(penstock_prepare(client.ring, &io), 0);
        ++submitted;
      }
      ASSERT_GE(penstock_submit(client.ring), 0);
      const uint32_t wanted = static_cast<uint32_t>(std::min<uint64_t>(16, count - done));
      const int taken =
          penstock_wait(client.ring, completions, kDepth, wanted, Client::in_seconds(60));
      ASSERT_GE(taken, static_cast<int>(wanted));
      for (int i = 0; i < taken; ++i) {
        ASSERT_EQ(completions[i].result, operation == PENSTOCK_NOP ? 0 : 4096);
        hits += completions[i].route == kRouteCache ? 1 : 0;
      }
      done += static_cast<uint64_t>(taken);
    }
  }
  static double cpu_seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }
  void measure(const char* name, uint8_t operation, uint64_t count) {
    run(operation, 2000);
    const uint64_t allocations_before = test::allocations();
    const double before = cpu_seconds();
    run(operation, count);
    const double seconds = cpu_seconds() - before;
    const uint64_t allocated = test::allocations() - allocations_before;
    std::printf("%s: %.2f us of processor time, %.4f allocations\n", name,
                seconds * 1e6 / static_cast<double>(count),
                static_cast<double>(allocated) / static_cast<double>(count));
    // The databases' own threads may allocate now and then; an operation must not.
    EXPECT_LE(allocated, count / 100);
  }

  static constexpr penstock_route kRouteCache = 6;
  test::ScratchDirectory scratch;
  std::unique_ptr<agent::Agent> node;
  Client client;
  penstock_file file = -1;
  uint64_t hits = 0;
};

TEST_F(HotPath, allocates_nothing_for_operations_that_move_no_bytes) {
  measure("nop", PENSTOCK_NOP, 100'000);
}

TEST_F(HotPath, allocates_nothing_for_reads) {
  measure("4 KiB read", PENSTOCK_READ, 20'000);
}

class CachedHotPath : public HotPath {
  uint64_t cache_bytes() const override { return 2 * kFileBytes; }
};

TEST_F(CachedHotPath, allocates_nothing_for_reads_that_the_cache_answers) {
  ASSERT_EQ(client.run(client.io(PENSTOCK_WARM, file, 0, kFileBytes)),
            static_cast<int64_t>(kFileBytes));
  ASSERT_TRUE(test::eventually([&] {
    penstock_route route = 0;
    EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, kFileBytes - 4096, 4096), &route), 4096);
    return route == kRouteCache;
  }));
  hits = 0;
  measure("4 KiB hit", PENSTOCK_READ, 200'000);
  EXPECT_EQ(hits, 202'000u);
}

}  // namespace
}  // namespace penstock::api
