// Rings for kernels: bad input, and the end of everybody.
#include "device_ring_rig.h"
#include "library_threads.h"

#include <sys/wait.h>

#include "penstock/proxy.h"

namespace penstock::api {
namespace {

using device::Request;
using device::Ticket;

class DeviceRingEnds : public DeviceRingTest {
 protected:
  // A request of a kernel that checks nothing, with words changed on their way.
  int64_t run_wild(device::Ring& ring, const Request& request, device::Pair change = {0, 0}) {
    const uint64_t position = device::reserve(ring, 1, 1);
    const device::Descriptor asks = {request.operation,
                                     request.by_copy,
                                     request.file,
                                     request.offset,
                                     request.length,
                                     request.destination,
                                     0};
    device::Pair words = device::encode(asks, device::lap_of(ring, position));
    words = {words.first ^ change.first, words.second ^ change.second};
    Ticket ticket = {position, request.destination, request.length, 0, device::kFailed, true,
                     false};
    device::store_shared(&ring.descriptors[device::index_of(ring, position)], words);
    return device::wait(ring, ticket, 60 * kSecond);
  }
};

TEST_F(DeviceRingEnds, every_field_is_checked) {
  device::Ring ring = view();
  ASSERT_EQ(run_wild(ring, read(0, 100, 0)), 100);
  EXPECT_EQ(run_wild(ring, read(0, 0, 0)), -EINVAL);
  EXPECT_EQ(run_wild(ring, read(0, device::kRequestBytesMax + 1, 0)), -EINVAL);
  EXPECT_EQ(run_wild(ring, read(0, 100, kRegionBytes - 99)), -EINVAL);
  EXPECT_EQ(run_wild(ring, read(0, 100, device::kRegionBytesMax - 1)), -EINVAL);
  EXPECT_EQ(run_wild(ring, read(limits::kFileBytesMax - 99, 100, 0)), -EINVAL);
  Request request = read(0, 100, 0);
  request.operation = static_cast<device::Operation>(0);
  EXPECT_EQ(run_wild(ring, request), -EINVAL);
  for (uint32_t spare = 56; spare < 60; ++spare) {
    EXPECT_EQ(run_wild(ring, read(0, 100, 0), {uint64_t{1} << spare, 0}), -EINVAL);
  }
  request = read(0, 100, 0);
  request.file = 255;
  EXPECT_EQ(run_wild(ring, request), -EBADF);
  EXPECT_EQ(stats().failed, 11U);
  EXPECT_EQ(run_wild(ring, read(0, 100, 0)), 100);
}

TEST_F(DeviceRingEnds, files_are_used_as_they_were_opened) {
  device::Ring ring = view();
  const penstock_file reads = client_.open("/a", O_RDONLY);
  const penstock_file writes = client_.open("/a", O_WRONLY);
  Request request = read(0, 100, 0);
  request.file = static_cast<uint8_t>(penstock_device_ring_add_file(ring_, reads));
  EXPECT_EQ(run(ring, request), 100);
  request.operation = device::kWrite;
  EXPECT_EQ(run(ring, request), -EBADF);
  request.file = static_cast<uint8_t>(penstock_device_ring_add_file(ring_, writes));
  EXPECT_EQ(run(ring, request), 100);
  request.operation = device::kRead;
  EXPECT_EQ(run(ring, request), -EBADF);
  EXPECT_EQ(penstock_device_ring_remove_file(ring_, request.file), 0);
  EXPECT_EQ(penstock_device_ring_remove_file(ring_, request.file), -EBADF);
  request.operation = device::kWrite;
  EXPECT_EQ(run(ring, request), -EBADF);
  ASSERT_EQ(penstock_file_close(client_.session, file_), 0);
  EXPECT_EQ(run(ring, read(0, 100, 0)), -EBADF);
}

TEST_F(DeviceRingEnds, a_number_is_given_to_another_file_as_late_as_possible) {
  ASSERT_EQ(penstock_device_ring_add_file(ring_, file_), 1);
  ASSERT_EQ(penstock_device_ring_remove_file(ring_, 1), 0);
  for (int i = 2; i < 256; ++i) ASSERT_EQ(penstock_device_ring_add_file(ring_, file_), i);
  EXPECT_EQ(penstock_device_ring_add_file(ring_, file_), 1);
  ASSERT_EQ(penstock_device_ring_remove_file(ring_, 7), 0);
  EXPECT_EQ(penstock_device_ring_add_file(ring_, file_), 7);
}

TEST_F(DeviceRingEnds, calls_say_what_is_wrong) {
  penstock_device_ring* ring = nullptr;
  EXPECT_EQ(penstock_device_ring_create(client_.session, client_.region, 64, &ring), -EINVAL);
  EXPECT_EQ(penstock_device_ring_create(client_.session, gpu_, 0, &ring), -EINVAL);
  EXPECT_EQ(penstock_device_ring_create(client_.session, gpu_, 32769, &ring), -EINVAL);
  EXPECT_EQ(penstock_device_ring_create(client_.session, nullptr, 64, &ring), -EINVAL);
  char small[8];
  EXPECT_EQ(penstock_device_ring_view(ring_, small, sizeof small), -EINVAL);
  EXPECT_NE(std::string(penstock_last_error()).find("version"), std::string::npos);
  device::Ring other{};
  ++other.version;
  EXPECT_EQ(penstock_device_ring_view(ring_, &other, sizeof other), -EINVAL);
  EXPECT_EQ(penstock_device_ring_add_file(ring_, 77), -EBADF);
  EXPECT_EQ(penstock_device_ring_remove_file(ring_, -1), -EBADF);
  EXPECT_EQ(penstock_device_ring_remove_file(ring_, 256), -EBADF);
  for (int i = 1; i < 256; ++i) ASSERT_EQ(penstock_device_ring_add_file(ring_, file_), i);
  EXPECT_EQ(penstock_device_ring_add_file(ring_, file_), -EAGAIN);
  EXPECT_EQ(penstock_region_release(gpu_), -EBUSY);
  EXPECT_EQ(penstock_device_ring_destroy(nullptr), -EINVAL);
  EXPECT_EQ(penstock_device_ring_destroy(ring_), 0);
  EXPECT_EQ(penstock_region_release(gpu_), 0);
}

TEST_F(DeviceRingEnds, rings_of_a_session_are_limited_and_come_back) {
  std::vector<penstock_device_ring*> rings;
  penstock_device_ring* ring = nullptr;
  int error = 0;
  while ((error = penstock_device_ring_create(client_.session, gpu_, 1, &ring)) == 0) {
    rings.push_back(ring);
    ASSERT_LT(rings.size(), 1000U);
  }
  EXPECT_EQ(error, -EAGAIN);
  for (penstock_device_ring* const one : rings) EXPECT_EQ(penstock_device_ring_destroy(one), 0);
  EXPECT_EQ(penstock_device_ring_create(client_.session, gpu_, 1, &ring), 0);
}

TEST_F(DeviceRingEnds, destroying_a_ring_ends_waits_and_what_is_in_flight) {
  gpus_.faults.delay_min = gpus_.faults.delay_max = std::chrono::milliseconds(200);
  const device::Ring shared = view();
  std::atomic<int> ready{0};
  std::vector<int64_t> results(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      device::Ring ring = shared;
      Ticket ticket;
      EXPECT_EQ(device::submit(ring, read(t * 4096, 4096, t * 4096), &ticket), 0);
      ++ready;
      results[t] = device::wait(ring, ticket, 60 * kSecond);
    });
  }
  while (ready < 8) std::this_thread::yield();
  const uint64_t unpins = gpus_.unpins();
  EXPECT_EQ(penstock_device_ring_destroy(ring_), 0);
  EXPECT_GT(gpus_.unpins(), unpins) << "its memory stays while somebody has not left";
  for (std::thread& thread : threads) thread.join();
  for (const int64_t result : results) {
    EXPECT_TRUE(result == -ESHUTDOWN || result == -ECANCELED || result == 4096) << result;
  }
  const std::vector<char> before(shared.memory, shared.memory + kMiB);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), shared.memory)) << "nobody writes there";
  EXPECT_EQ(penstock_region_release(gpu_), 0);
}

TEST_F(DeviceRingEnds, memory_stays_while_a_request_was_never_waited_for) {
  device::Ring ring = view();
  warm(ring);
  ASSERT_EQ(device::submit(ring, read(0, 4096, 0), &ticket_), 0);
  EXPECT_EQ(penstock_device_ring_destroy(ring_), 0);
  // As a kernel that comes to its wait late.
  const int64_t result = device::wait(ring, ticket_, 60 * kSecond);
  EXPECT_TRUE(result == -ESHUTDOWN || result == 4096) << result;
}

// As penstock_close() has it.
TEST_F(DeviceRingEnds, only_what_a_kernel_may_still_touch_outlives_the_session) {
  penstock_region* quiet = nullptr;
  ASSERT_EQ(penstock_region_create_device(client_.session, 0, kRegionBytes, &quiet), 0);
  std::vector<penstock_device_ring*> rings(4);
  for (penstock_device_ring*& one : rings) {
    ASSERT_EQ(penstock_device_ring_create(client_.session, quiet, 64, &one), 0);
  }
  void* const used = penstock_region_base(gpu_);
  void* const unused = penstock_region_base(quiet);
  device::Ring ring = view();
  warm(ring);
  ASSERT_EQ(device::submit(ring, read(0, 4096, 0), &ticket_), 0);
  penstock_close(std::exchange(client_.session, nullptr));
  EXPECT_TRUE(gpus_.find(used, kRegionBytes));
  EXPECT_FALSE(gpus_.find(unused, kRegionBytes)) << "its rings had time enough to be quiet";
  const int64_t result = device::wait(ring, ticket_, 60 * kSecond);
  EXPECT_TRUE(result == -ESHUTDOWN || result == 4096) << result;
}

TEST_F(DeviceRingEnds, whoever_ends_a_ring_that_is_being_ended_waits) {
  for (int round = 0; round < 10; ++round) {
    penstock_device_ring* ring = nullptr;
    ASSERT_EQ(penstock_device_ring_create(client_.session, gpu_, 64, &ring), 0);
    ASSERT_EQ(penstock_device_ring_add_file(ring, file_), 0);
    gpus_.faults.delay_min = gpus_.faults.delay_max = std::chrono::milliseconds(20);
    device::Ring kernel = view(ring);
    ASSERT_EQ(device::submit(kernel, read(0, 200'000, 0), &ticket_), 0);
    while (stats(ring).requests == 0) std::this_thread::yield();
    std::thread other([&] { EXPECT_EQ(penstock_device_ring_close(ring), 0); });
    EXPECT_EQ(penstock_device_ring_close(ring), 0);
    const std::vector<char> before(kernel.memory, kernel.memory + 200'000);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_TRUE(std::equal(before.begin(), before.end(), kernel.memory)) << "it has ended";
    other.join();
    (void)device::wait(kernel, ticket_, kSecond);
    EXPECT_EQ(penstock_device_ring_destroy(ring), 0);
  }
}

TEST_F(DeviceRingEnds, closing_comes_before_destroying) {
  device::Ring ring = view();
  EXPECT_EQ(penstock_device_ring_close(ring_), 0);
  EXPECT_EQ(penstock_device_ring_close(ring_), 0);
  EXPECT_EQ(run(ring, read(0, 4096, 0)), -ESHUTDOWN);
  EXPECT_FALSE(ticket_.pending);
  const uint64_t unpins = gpus_.unpins();
  EXPECT_EQ(penstock_device_ring_destroy(ring_), 0);
  EXPECT_GT(gpus_.unpins(), unpins) << "who gave up has left";
}

TEST_F(DeviceRingEnds, a_gpu_that_is_lost_ends_requests_and_its_ring_can_be_destroyed) {
  device::Ring ring = view();
  gpus_.lose(engine::DeviceId(0));
  EXPECT_EQ(run(ring, read(0, 4096, 0)), -EIO);
  EXPECT_EQ(penstock_device_ring_destroy(ring_), 0);
  EXPECT_LT(penstock_device_ring_create(client_.session, gpu_, 64, &ring_), 0);
}

TEST_F(DeviceRingEnds, requests_go_on_with_the_successor_of_an_agent_that_was_killed) {
  device::Ring ring = view();
  warm(ring);
  for (int round = 0; round < 3; ++round) {
    std::thread kernel([&] {
      device::Ring own = ring;
      for (uint64_t i = 0; i < 40; ++i) {
        Ticket ticket;
        ASSERT_EQ(device::submit(own, read(i * 4096, 4096, i * 4096), &ticket), 0);
        ASSERT_EQ(device::wait(own, ticket, 60 * kSecond), 4096);
        ASSERT_TRUE(holds(own, i * 4096, i * 4096, 4096));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    agent_.kill();
    ASSERT_TRUE(agent_.start());
    kernel.join();
    // The next cache, and its memory beside that of the dead one.
    warm(ring);
  }
}

TEST_F(DeviceRingEnds, are_made_when_nothing_is_being_unpinned) {
  device::Ring ring = view();
  warm(ring);
  ASSERT_EQ(penstock_device_ring_destroy(ring_), 0);
  gpus_.begin_kernel();
  agent_.kill();
  EXPECT_TRUE(agent_.start());
  EXPECT_TRUE(test::eventually([this] { return gpus_.is_blocked(); }));
  // Not for ever, as the kernel may be waiting for who makes it.
  EXPECT_EQ(penstock_device_ring_create(client_.session, gpu_, 64, &ring_), -EAGAIN);
  EXPECT_NE(std::string(penstock_last_error()).find("kernels that run"), std::string::npos);
  std::atomic<bool> made{false};
  std::thread maker([&] {
    int error = -EAGAIN;
    while (error == -EAGAIN) {
      error = penstock_device_ring_create(client_.session, gpu_, 64, &ring_);
    }
    EXPECT_EQ(error, 0) << penstock_last_error();
    made = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(made);
  gpus_.end_kernel();
  maker.join();
  ring = view();
  ASSERT_EQ(penstock_device_ring_add_file(ring_, file_), 0);
  EXPECT_EQ(run(ring, read(0, 4096, 0)), 4096);
}

// The driver gives a dead agent's memory back when kernels have ended, and copies nothing before.
TEST_F(DeviceRingEnds, nobody_whom_a_kernel_needs_waits_for_it_when_the_agent_died) {
  device::Ring ring = view();
  warm(ring);
  struct Kernel {
    explicit Kernel(sim::SimDeviceMemory& all) : gpus(all) { gpus.begin_kernel(); }
    ~Kernel() { gpus.end_kernel(); }
    sim::SimDeviceMemory& gpus;
  } const kernel(gpus_);
  agent_.kill();
  ASSERT_TRUE(agent_.start());
  // Now only the ring knows the dead one's memory, and lets go of it while the kernel goes on.
  ASSERT_EQ(client_.run(client_.io(PENSTOCK_READ, file_, 0, 1)), 1);
  for (uint64_t i = 0; i < 3 * ring.entries; ++i) {
    const uint64_t at = i % 64 * 4096;
    ASSERT_EQ(device::submit(ring, read(at, 4096, at), &ticket_), 0);
    ASSERT_EQ(device::wait(ring, ticket_, 60 * kSecond), 4096) << i;
    ASSERT_TRUE(holds(ring, at, at, 4096));
  }
  EXPECT_EQ(penstock_device_ring_close(ring_), 0);
}

// As above, for the memory of a ring that is destroyed.
TEST_F(DeviceRingEnds, destroying_one_does_not_hold_up_kernels_in_another) {
  device::Ring ring = view();
  penstock_device_ring* others[2] = {};
  for (auto& other : others) {
    ASSERT_EQ(penstock_device_ring_create(client_.session, gpu_, 64, &other), 0);
  }
  const uint64_t before = gpus_.unpins();
  gpus_.begin_kernel();
  std::thread destroyer([&] {
    for (auto* other : others) EXPECT_EQ(penstock_device_ring_destroy(other), 0);
  });
  Request request = read(0, 4096, 0);
  request.by_copy = true;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(run(ring, request), 4096);
    ::usleep(1000);
  }
  destroyer.join();
  EXPECT_FALSE(gpus_.is_blocked());
  EXPECT_EQ(gpus_.unpins(), before);
  // The next one has memory of theirs, as new.
  penstock_device_ring* next = nullptr;
  ASSERT_EQ(penstock_device_ring_create(client_.session, gpu_, 64, &next), 0);
  ASSERT_EQ(penstock_device_ring_add_file(next, file_), 0);
  device::Ring again = view(next);
  EXPECT_EQ(run(again, request), 4096);
  EXPECT_TRUE(holds(again, 0, 0, 4096));
  EXPECT_EQ(penstock_device_ring_destroy(next), 0);
  EXPECT_EQ(gpus_.unpins(), before);
  gpus_.end_kernel();
  EXPECT_EQ(penstock_device_ring_destroy(ring_), 0);
  EXPECT_EQ(gpus_.unpins(), before + 3) << "with the last ring all goes";
}

// Nobody knows whether a kernel runs, which would hold up the driver and with it all copies.
TEST_F(DeviceRingEnds, keep_the_memory_of_an_agent_that_died_until_they_are_gone) {
  device::Ring ring = view();
  warm(ring);
  // All positions again, so that none has a place.
  Request request = read(0, 1, 0);
  request.by_copy = true;
  for (uint32_t i = 0; i < ring.entries; ++i) ASSERT_EQ(run(ring, request), 1);
  const uint64_t before = gpus_.unpins();
  agent_.kill();
  ASSERT_TRUE(agent_.start());
  for (uint32_t i = 0; i < 3 * ring.entries; ++i) ASSERT_EQ(run(ring, request), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(gpus_.unpins(), before);
  ASSERT_EQ(penstock_device_ring_destroy(ring_), 0);
  // The ring's own memory is one.
  EXPECT_TRUE(test::eventually([&] { return gpus_.unpins() >= before + 2; }));
}

TEST_F(DeviceRingEnds, a_place_stays_readable_when_its_agent_has_died) {
  device::Ring ring = view();
  warm(ring);
  Ticket ticket;
  ASSERT_EQ(device::submit(ring, read(4096, 4096, kMiB), &ticket), 0);
  while (!device::poll(ring, ticket)) std::this_thread::yield();
  agent_.kill();
  ASSERT_TRUE(agent_.start());
  // Others are answered out of the successor's memory by now.
  warm(ring);
  EXPECT_EQ(device::wait(ring, ticket, 60 * kSecond), 4096);
  EXPECT_EQ(ticket.kind, device::kAddress);
  EXPECT_TRUE(holds(ring, kMiB, 4096, 4096));
}

TEST_F(DeviceRingEnds, nothing_is_answered_out_of_memory_that_nobody_vouches_for) {
  device::Ring ring = view();
  warm(ring);
  agent_.pause();
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  Ticket ticket;
  ASSERT_EQ(device::submit(ring, read(4096, 4096, 0), &ticket), 0);
  EXPECT_EQ(device::wait(ring, ticket, kSecond / 5), -ETIMEDOUT);
  agent_.resume();
  EXPECT_EQ(device::wait(ring, ticket, 60 * kSecond), 4096);
  EXPECT_EQ(ticket.kind, device::kLanded);
  EXPECT_TRUE(holds(ring, 0, 4096, 4096));
}

TEST(DeviceRingsAlone, end_their_requests_when_no_successor_comes) {
  ASSERT_EQ(::setenv("PENSTOCK_RECONNECT_SECONDS", "1", 1), 0);
  struct Case : DeviceRingTest {
    void TestBody() override {
      device::Ring ring = view();
      agent_.kill();
      EXPECT_EQ(run(ring, read(0, 4096, 0)), -ECONNRESET);
      EXPECT_EQ(run(ring, read(0, 4096, 0)), -ECONNRESET);
    }
    void run_all() {
      SetUp();
      TestBody();
      TearDown();
    }
  };
  Case().run_all();
  ::unsetenv("PENSTOCK_RECONNECT_SECONDS");
}

TEST_F(DeviceRingEnds, calls_of_a_forked_child_fail) {
  const pid_t child = ::fork();
  if (child == 0) {
    penstock_device_ring* ring = nullptr;
    const bool good = penstock_device_ring_create(client_.session, gpu_, 64, &ring) == -ECHILD &&
                      penstock_device_ring_wake(ring_) == -ECHILD &&
                      penstock_device_ring_destroy(ring_) == -ECHILD;
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  device::Ring ring = view();
  EXPECT_EQ(run(ring, read(0, 4096, 0)), 4096);
}

TEST(DeviceRingsAlone, sleep_for_a_part_of_the_time_that_nobody_asked) {
  using std::chrono::microseconds;
  EXPECT_EQ(proxy::sleep_after(microseconds(0)), proxy::limits::kDeviceRingSleepMin);
  EXPECT_EQ(proxy::sleep_after(microseconds(1600)), microseconds(100));
  EXPECT_EQ(proxy::sleep_after(std::chrono::seconds(9)), proxy::limits::kDeviceRingSleepMax);
  // A few dozen looks, until they are as rare as they get.
  uint32_t looks = 0;
  for (engine::Duration idle{}; proxy::sleep_after(idle) < proxy::limits::kDeviceRingSleepMax;
       ++looks) {
    idle += proxy::sleep_after(idle);
  }
  EXPECT_LT(looks, 100U);
}

TEST_F(DeviceRingEnds, threads_of_the_library_take_no_signals) {
  device::Ring ring = view();
  warm(ring);
  EXPECT_GE(count_library_threads(), 4) << "of the session, its cache, its transfers, its rings";
}

TEST_F(DeviceRingEnds, an_idle_thread_uses_next_to_no_processor) {
  device::Ring ring = view();
  EXPECT_EQ(run(ring, read(0, 4096, 0)), 4096);
  EXPECT_GT(stats().thread_nanoseconds, 0U);
  // Once it has found out that it is idle, a twentieth of the time at most.
  EXPECT_TRUE(test::eventually([this] {
    const uint64_t begun = penstock_now();
    const uint64_t before = stats().thread_nanoseconds;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return (stats().thread_nanoseconds - before) * 20 < penstock_now() - begun;
  }));
  EXPECT_EQ(penstock_device_ring_wake(ring_), 0);
  EXPECT_EQ(run(ring, read(0, 4096, 0)), 4096);
}

}  // namespace
}  // namespace penstock::api
