// Many threads that play kernels, a thread that plays their proxy, and rings that go round.
#include "kernel_rig.h"
#include "penstock_device/thread_warp.h"

#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>

namespace penstock::ring {
namespace {

using device::Ticket;
using Taken = KernelQueue::Taken;

// A file whose bytes tell their offset.
class KernelThreads : public testing::Test {
 protected:
  static constexpr uint64_t kFileBytes = 64 * kKiB;

  KernelThreads() {
    for (size_t i = 0; i < file_.size(); ++i) file_[i] = static_cast<std::byte>(mix64(i) >> 9);
  }
  // As the node cache does; now and then what it says is out of date.
  void answer(KernelRig& rig, const Taken& taken) {
    const device::Descriptor& asks = taken.descriptor;
    device::Answer answer = answer_at({file_.data() + asks.offset, asks.length});
    if (taken.by_copy) {
      std::copy_n(file_.data() + asks.offset, asks.length, rig.region.data() + asks.destination);
      answer.kind = device::kLanded;
    } else if (mix64(asks.offset + taken.attempt) % 4 == 0) {
      answer.remainder ^= 0x1000;
    }
    rig.queue.answer(taken, answer);
  }
  bool holds(const KernelRig& rig, uint64_t destination, uint64_t offset, uint64_t length) const {
    return std::equal(file_.data() + offset, file_.data() + offset + length,
                      rig.region.data() + destination);
  }

  std::vector<std::byte> file_ = std::vector<std::byte>(kFileBytes);
};

TEST_F(KernelThreads, get_their_own_bytes_in_any_order_while_laps_go_by) {
  // Each thread goes on until its share has landed: how often it finds the ring full is the
  // scheduler's.
  constexpr uint64_t kThreads = 6, kShare = 1'000, kDepth = 24, kPiece = 40;
  KernelRig rig(64);
  rig.serve([&](const Taken& taken) { answer(rig, taken); });
  std::atomic<uint64_t> asked{0}, good{0}, busy{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      device::Ring ring = rig.view();
      uint64_t mine = 0;
      for (uint64_t round = 0; mine < kShare; ++round) {
        std::vector<Ticket> tickets(kDepth);
        std::vector<uint64_t> offsets(kDepth);
        uint64_t made = 0;
        for (; made < kDepth; ++made) {
          offsets[made] = mix64(t * 1'000'000 + round * 100 + made) % (kFileBytes - kPiece);
          const uint64_t to = (t * kDepth + made) * 64 + made % 16;
          if (device::submit(ring, request(offsets[made], kPiece, to), &tickets[made]) != 0) break;
        }
        mine += made;
        busy += made < kDepth ? 1 : 0;
        for (uint64_t i = made; i-- > 0;) {
          const bool arrived =
              device::wait(ring, tickets[i], 60'000 * kMillisecond) == int64_t{kPiece} &&
              holds(rig, tickets[i].destination, offsets[i], kPiece);
          good += arrived ? 1 : 0;
        }
      }
      asked += mine;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, asked);
  EXPECT_GT(busy, 0U);
  EXPECT_EQ(rig.outstanding(), 0U);
}

TEST_F(KernelThreads, of_a_warp_share_reservations_and_copies) {
  KernelRig rig(64);
  rig.serve([&](const Taken& taken) { answer(rig, taken); });
  device::ThreadWarp warp;
  std::atomic<uint32_t> good{0}, asked{0};
  warp.run([&] {
    device::Ring ring = rig.view();
    const uint32_t lane = device::warp_lane();
    for (uint32_t round = 0; round < 6; ++round) {
      // More than fit at a time in some rounds; each lane keeps at it until its own is through.
      const bool asks = (mix64(round) >> lane & 1) != 0;
      const uint64_t offset = mix64(round * 32 + lane) % (kFileBytes - 300);
      const uint32_t length = 1 + static_cast<uint32_t>(mix64(offset) % 300);
      const uint64_t to = lane * 512 + offset % 16;
      asked += asks ? 1 : 0;
      Ticket ticket;
      bool left = asks;
      while (device::ballot(device::kWholeWarp, left) != 0) {
        const int error = device::submit_by_warp(ring, left, request(offset, length, to), &ticket);
        if (left && error == 0) left = false;
        const int64_t got = device::wait_by_warp(ring, ticket, 60'000 * kMillisecond);
        if (got == int64_t{length} && holds(rig, to, offset, length)) ++good;
      }
    }
  });
  EXPECT_EQ(good, asked);
  EXPECT_GT(asked, 32U);
  EXPECT_EQ(rig.outstanding(), 0U);
}

TEST_F(KernelThreads, of_a_warp_get_as_many_positions_as_there_are) {
  KernelRig rig(64);
  device::Ring alone = rig.view();
  std::vector<Ticket> tickets(50);
  for (Ticket& ticket : tickets) ASSERT_EQ(device::submit(alone, request(1), &ticket), 0);
  device::ThreadWarp warp;
  std::atomic<uint32_t> submitted{0}, busy{0}, bad{0};
  warp.run([&] {
    device::Ring ring = rig.view();
    Ticket ticket;
    const uint32_t length = device::warp_lane() == 3 ? 0 : 1;
    const int error = device::submit_by_warp(ring, true, request(2, length), &ticket);
    submitted += error == 0 ? 1 : 0;
    busy += error == -EAGAIN ? 1 : 0;
    bad += error == -EINVAL ? 1 : 0;
    EXPECT_EQ(ticket.pending, error == 0);
  });
  EXPECT_EQ(submitted, 14U);
  EXPECT_EQ(bad, 1U);
  EXPECT_EQ(busy, 17U);
  rig.queue.close();
  std::atomic<uint32_t> closed{0};
  warp.run([&] {
    device::Ring ring = rig.view();
    Ticket ticket;
    closed += device::submit_by_warp(ring, true, request(2), &ticket) == -ESHUTDOWN ? 1 : 0;
  });
  EXPECT_EQ(closed, device::kWarpLanes);
}

TEST_F(KernelThreads, of_a_warp_give_up_together_when_time_is_over_or_the_ring_closed) {
  KernelRig rig(64);
  device::ThreadWarp warp;
  std::atomic<uint32_t> timed_out{0}, closed{0};
  warp.run([&] {
    device::Ring ring = rig.view();
    Ticket ticket;
    device::submit_by_warp(ring, device::warp_lane() % 2 == 0, request(2), &ticket);
    timed_out += device::wait_by_warp(ring, ticket, 10 * kMillisecond) == -ETIMEDOUT ? 1 : 0;
    if (device::warp_lane() == 0) rig.queue.close();
    device::together(device::kWholeWarp);
    closed += device::wait_by_warp(ring, ticket, 60'000 * kMillisecond) == -ESHUTDOWN ? 1 : 0;
  });
  EXPECT_EQ(timed_out, 16U);
  EXPECT_EQ(closed, 16U);
}

}  // namespace
}  // namespace penstock::ring
