// Reads and writes of kernels: their bytes, and the ways that these take.
#include "device_ring_rig.h"
#include "penstock_device/thread_warp.h"

#include "penstock/arena.h"

namespace penstock::api {
namespace {

using device::Request;
using device::Ticket;

class DeviceRingReads : public DeviceRingTest {
 protected:
  // Brings the file's extents in again one by one, so that neighbours of the file do not stay
  // neighbours in memory.
  void scatter_extents() {
    for (uint64_t i = 0; i < 200; ++i) {
      const uint64_t at = random_.below(kFileBytes / arena::kExtentBytes) * arena::kExtentBytes;
      std::copy_n(content_.begin() + static_cast<int64_t>(at), 4096, client_.memory());
      ASSERT_EQ(client_.run(client_.io(PENSTOCK_WRITE, file_, at, 4096)), 4096);
      if (i % 3 != 0) continue;
      warm_without_reading();
    }
    warm_without_reading();
  }
};
using DeviceRingWrites = DeviceRingTest;

TEST_F(DeviceRingReads, bring_bytes_from_the_disk_and_from_the_node_cache) {
  device::Ring ring = view();
  EXPECT_EQ(run(ring, read(5000, 4096, 3)), 4096);
  EXPECT_EQ(ticket_.kind, device::kLanded);
  EXPECT_TRUE(holds(ring, 3, 5000, 4096));
  warm(ring);
  EXPECT_EQ(run(ring, read(8192, 4096, 100)), 4096);
  EXPECT_EQ(ticket_.kind, device::kAddress);
  EXPECT_TRUE(holds(ring, 100, 8192, 4096));
  Request by_copy = read(8192, 4096, 9000);
  by_copy.by_copy = true;
  EXPECT_EQ(run(ring, by_copy), 4096);
  EXPECT_EQ(ticket_.kind, device::kLanded);
  EXPECT_TRUE(holds(ring, 9000, 8192, 4096));
  EXPECT_EQ(run(ring, read(0, device::kAddressBytesMax + 1, 0)), device::kAddressBytesMax + 1);
  EXPECT_EQ(ticket_.kind, device::kLanded) << "long ones are for copy engines";
}

TEST_F(DeviceRingReads, of_any_range_are_what_the_file_holds) {
  device::Ring ring = view();
  uint32_t places = 0, landed = 0;
  for (int round = 0; round < 400; ++round) {
    if (round == 100) warm(ring);
    if (round == 250) scatter_extents();
    const uint64_t offset = random_.below(kFileBytes + 1000);
    const auto length = static_cast<uint32_t>(1 + random_.below(round % 10 == 0 ? 200'000 : 9'000));
    const uint64_t to = random_.below(64 * kKiB);
    const uint64_t there = offset < kFileBytes ? kFileBytes - offset : 0;
    const uint64_t expected = std::min<uint64_t>(length, there);
    ASSERT_EQ(run(ring, read(offset, length, to)), static_cast<int64_t>(expected))
        << length << " from " << offset;
    ASSERT_TRUE(holds(ring, to, std::min(offset, kFileBytes), expected));
    places += ticket_.kind == device::kAddress ? 1 : 0;
    landed += ticket_.kind == device::kLanded ? 1 : 0;
  }
  EXPECT_GT(places, 100U);
  EXPECT_GT(landed, 100U);
  EXPECT_GE(stats().places, places);
  EXPECT_GE(stats().copies, landed);
}

TEST_F(DeviceRingReads, end_where_the_file_ends) {
  device::Ring ring = view();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(run(ring, read(kFileBytes - 10, 4096, 0)), 10);
    EXPECT_EQ(run(ring, read(kFileBytes, 4096, 0)), 0);
    EXPECT_EQ(run(ring, read(kFileBytes + 12345, 4096, 0)), 0);
    EXPECT_EQ(run(ring, read(limits::kFileBytesMax - 4096, 4096, 0)), 0);
    warm(ring);
  }
}

TEST_F(DeviceRingReads, of_a_warp_go_side_by_side) {
  device::Ring alone = view();
  warm(alone);
  device::ThreadWarp warp;
  std::atomic<uint32_t> good{0};
  warp.run([&] {
    device::Ring ring = alone;
    const uint64_t lane = device::warp_lane();
    Ticket ticket;
    const uint64_t offset = lane * 70'001;
    const Request request = read(offset, 300, lane * 1000 + offset % 16);
    device::submit_by_warp(ring, true, request, &ticket);
    const int64_t got = device::wait_by_warp(ring, ticket, 60 * kSecond);
    if (got == 300 && holds(ring, request.destination, offset, 300)) ++good;
  });
  EXPECT_EQ(good, device::kWarpLanes);
}

TEST_F(DeviceRingReads, of_a_warp_as_one_are_guessed_and_never_wrong) {
  device::Ring alone = view();
  warm(alone);
  uint32_t guessed = 0;
  for (uint64_t seed = 2; seed < 6; ++seed) {
    // What is known of places is out of date now, for some of the file or for all of it.
    if (seed % 2 == 0) write(seed);
    scatter_extents();
    device::ThreadWarp warp;
    std::atomic<uint32_t> good{0};
    warp.run([&] {
      device::Ring ring = alone;
      for (uint64_t i = 0; i < 8; ++i) {
        // Within half a megabyte, so that extents are read again.
        const uint64_t offset = mix64(seed * 100 + i) % (512 * kKiB);
        const auto length = static_cast<uint32_t>(1 + mix64(offset) % (i == 0 ? 5000 : 500));
        Ticket ticket;
        const int64_t got =
            device::run_by_warp(ring, read(offset, length, offset % 64), &ticket, 60 * kSecond);
        if (device::warp_lane() != 0) continue;
        if (got == length && holds(ring, offset % 64, offset, length)) ++good;
        guessed += ticket.guessed ? 1 : 0;
      }
    });
    EXPECT_EQ(good, 8U) << seed;
  }
  EXPECT_GT(guessed, 0U);
}

TEST_F(DeviceRingReads, whose_place_was_given_away_are_asked_for_again) {
  device::Ring ring = view();
  warm(ring);
  uint64_t renewed = 0;
  for (uint64_t seed = 2; seed < 200 && stats().again < 3; ++seed) {
    const std::vector<std::byte> before = content_;
    const uint64_t offset = seed * 4096 % kMiB;
    ASSERT_EQ(device::submit(ring, read(offset, 4096, 0), &ticket_), 0);
    while (!device::poll(ring, ticket_)) std::this_thread::yield();
    // The answer is there, and the file changes before the kernel comes to copy.
    write(seed);
    warm_without_reading();
    ASSERT_EQ(device::wait(ring, ticket_, 60 * kSecond), 4096);
    const bool is_new = holds(ring, 0, offset, 4096);
    const bool is_old = std::equal(ring.memory, ring.memory + 4096,
                                   reinterpret_cast<const char*>(before.data()) + offset);
    ASSERT_TRUE(is_new || is_old) << "bytes that the file never had";
    renewed += is_new ? 1 : 0;
  }
  EXPECT_GE(stats().again, 3U);
  EXPECT_GT(renewed, 0U);
}

TEST_F(DeviceRingReads, are_never_older_than_a_write_that_returned) {
  device::Ring ring = view();
  warm(ring);
  for (uint64_t seed = 2; seed < 30; ++seed) {
    write(seed);
    for (const uint64_t offset : {uint64_t{0}, uint64_t{123'456}, kFileBytes - 4096}) {
      ASSERT_EQ(run(ring, read(offset, 4096, 0)), 4096);
      ASSERT_TRUE(holds(ring, 0, offset, 4096));
    }
    if (seed % 2 == 0) warm_without_reading();
  }
}

TEST_F(DeviceRingReads, that_never_verify_end_with_eio) {
  device::Ring ring = view();
  gpus_.faults.flip_permille = 1000;
  EXPECT_EQ(run(ring, read(0, 4096, 0)), -EIO);
  gpus_.faults.flip_permille = 0;
  EXPECT_EQ(run(ring, read(0, 4096, 0)), 4096);
  EXPECT_TRUE(holds(ring, 0, 0, 4096));
}

TEST_F(DeviceRingReads, of_threads_with_rings_of_their_own_do_not_mix) {
  device::Ring first = view();
  warm(first);
  penstock_device_ring* other = nullptr;
  ASSERT_EQ(penstock_device_ring_create(client_.session, gpu_, 256, &other), 0);
  ASSERT_EQ(penstock_device_ring_add_file(other, file_), 0);
  const device::Ring second = view(other);
  std::atomic<int> bad{0}, ended{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      device::Ring ring = t % 2 == 0 ? first : second;
      engine::SeededRandom random(t);
      for (int i = 0; i < 500; ++i) {
        Ticket tickets[8];
        uint64_t offsets[8];
        uint64_t made = 0;
        // Positions are free in order: who is told that the ring is full must not hold on to any.
        for (int error = 0; made < 8 && error == 0; made += error == 0 ? 1 : 0) {
          offsets[made] = random.below(kFileBytes - 5000);
          const uint64_t to = (t * 8 + made) * 8192;
          error = device::submit(ring, read(offsets[made], 5000, to), &tickets[made]);
        }
        for (uint64_t k = 0; k < made; ++k) {
          const bool arrived = device::wait(ring, tickets[k], 60 * kSecond) == 5000 &&
                               holds(ring, tickets[k].destination, offsets[k], 5000);
          bad += arrived ? 0 : 1;
          ++ended;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
  EXPECT_GT(ended, 500 * 8);
  EXPECT_EQ(penstock_device_ring_destroy(other), 0);
}

TEST_F(DeviceRingWrites, take_bytes_from_gpu_memory) {
  device::Ring ring = view();
  for (const device::Operation operation : {device::kWrite, device::kDurableWrite}) {
    const uint64_t seed = 10 + operation;
    test::fill({reinterpret_cast<std::byte*>(ring.memory) + 11, 100'000}, seed);
    Request request = read(4000, 100'000, 11);
    request.operation = operation;
    ASSERT_EQ(run(ring, request), 100'000);
    if (operation == device::kDurableWrite) {
      agent_.kill();
      ASSERT_TRUE(agent_.start());
    }
    ASSERT_EQ(client_.run(client_.io(PENSTOCK_READ, file_, 4000, 100'000)), 100'000);
    EXPECT_TRUE(test::is_content({client_.memory(), 100'000}, seed));
    ASSERT_EQ(run(ring, read(4000, 100'000, kMiB)), 100'000);
    EXPECT_TRUE(
        test::is_content({reinterpret_cast<std::byte*>(ring.memory) + kMiB, 100'000}, seed));
  }
  EXPECT_EQ(stats().writes, 2U);
}

}  // namespace
}  // namespace penstock::api
