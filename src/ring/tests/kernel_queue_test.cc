// The words between kernels and their proxy, and who may take what when.
#include "kernel_rig.h"

#include <cerrno>
#include <gtest/gtest.h>

namespace penstock::ring {
namespace {

using device::Answer;
using device::Ticket;
using Taken = KernelQueue::Taken;

TEST(KernelWords, come_back_as_they_were_at_all_extremes) {
  for (const uint64_t fill : {uint64_t{0}, UINT64_MAX, uint64_t{0xa5a5a5a5a5a5a5a5}}) {
    const device::Descriptor from = {static_cast<uint8_t>(fill & 3),    (fill & 1) != 0,
                                     static_cast<uint8_t>(fill),        fill >> 16,
                                     static_cast<uint32_t>(fill >> 41), fill >> 24,
                                     static_cast<uint8_t>(fill & 15)};
    for (const uint32_t lap : {0U, 1U, 31U, UINT32_MAX}) {
      const device::Pair travelling = device::encode(from, lap);
      EXPECT_TRUE(device::is_of_lap(travelling.first, lap));
      EXPECT_TRUE(device::is_of_lap(travelling.second, lap));
      EXPECT_FALSE(device::is_of_lap(travelling.first, lap + 1));
      const device::Descriptor to = device::decode_descriptor(travelling);
      EXPECT_EQ(to.operation, from.operation);
      EXPECT_EQ(to.by_copy, from.by_copy);
      EXPECT_EQ(to.file, from.file);
      EXPECT_EQ(to.offset, from.offset);
      EXPECT_EQ(to.length, from.length);
      EXPECT_EQ(to.destination, from.destination);
      EXPECT_EQ(to.spare, from.spare);
    }
    const Answer answer = {static_cast<uint8_t>(fill & 3), fill >> 16,
                           static_cast<uint32_t>(fill >> 40), static_cast<uint32_t>(fill)};
    const device::Pair travelling = device::encode(answer, 0xc3);
    EXPECT_TRUE(device::has_tag(travelling, 0xc3));
    const Answer back = device::decode_answer(travelling);
    EXPECT_EQ(back.kind, answer.kind);
    EXPECT_EQ(back.value, answer.value);
    EXPECT_EQ(back.length, answer.length);
    EXPECT_EQ(back.remainder, answer.remainder);
  }
  EXPECT_FALSE(device::is_of_lap(0, 0)) << "memory of zeros is no request";
  EXPECT_FALSE(device::has_tag({0, 0}, device::tag_of(0, 0))) << "nor an answer";
}

TEST(KernelQueue, says_busy_when_it_is_full_until_the_oldest_has_ended) {
  KernelRig rig(64);
  device::Ring ring = rig.view();
  std::vector<Ticket> tickets(65);
  for (uint64_t i = 0; i < 64; ++i) ASSERT_EQ(device::submit(ring, request(i), &tickets[i]), 0);
  EXPECT_EQ(device::submit(ring, request(64), &tickets[64]), -EAGAIN);
  EXPECT_EQ(rig.outstanding(), 64U);
  std::vector<Taken> taken(64);
  ASSERT_EQ(rig.queue.take(taken), 64U);
  for (const Taken& one : taken) rig.queue.answer(one, {device::kDone, 0, 1, 0});
  // Answered is not ended: the asker may not have looked.
  EXPECT_EQ(device::submit(ring, request(64), &tickets[64]), -EAGAIN);
  for (uint64_t i = 1; i < 64; ++i) EXPECT_EQ(device::wait(ring, tickets[i], kMillisecond), 1);
  EXPECT_EQ(device::submit(ring, request(64), &tickets[64]), -EAGAIN) << "no holes";
  EXPECT_EQ(rig.outstanding(), 1U);
  EXPECT_EQ(device::wait(ring, tickets[0], kMillisecond), 1);
  EXPECT_EQ(rig.outstanding(), 0U);
  EXPECT_EQ(device::submit(ring, request(64), &tickets[64]), 0);
  EXPECT_EQ(rig.take_one().descriptor.offset, 64U);
}

TEST(KernelQueue, refuses_what_does_not_fit_the_descriptor_or_the_region) {
  KernelRig rig(64, 1000);
  device::Ring ring = rig.view();
  Ticket ticket;
  EXPECT_EQ(device::submit(ring, request(0, 0), &ticket), -EINVAL);
  EXPECT_EQ(device::submit(ring, request(0, 1001), &ticket), -EINVAL);
  EXPECT_EQ(device::submit(ring, request(0, 2, 999), &ticket), -EINVAL);
  EXPECT_EQ(device::submit(ring, request(0, 1, UINT64_MAX), &ticket), -EINVAL);
  EXPECT_EQ(device::submit(ring, request(uint64_t{1} << 48), &ticket), -EINVAL);
  EXPECT_EQ(device::submit(ring, request(0, device::kRequestBytesMax + 1), &ticket), -EINVAL);
  EXPECT_FALSE(rig.queue.has_work());
  EXPECT_FALSE(ticket.pending);
}

TEST(KernelQueue, takes_half_a_descriptor_for_none) {
  KernelRig rig;
  device::Ring ring = rig.view();
  Ticket ticket;
  ASSERT_EQ(device::submit(ring, request(5), &ticket), 0);
  const device::Pair whole = ring.descriptors[0];
  for (const device::Pair half : {device::Pair{whole.first, 0}, device::Pair{0, whole.second}}) {
    ring.descriptors[0] = half;
    EXPECT_FALSE(rig.queue.has_work());
    Taken taken;
    EXPECT_EQ(rig.queue.take({&taken, 1}), 0U);
  }
  ring.descriptors[0] = whole;
  EXPECT_EQ(rig.take_one().descriptor.offset, 5U);
}

TEST(KernelQueue, keeps_a_request_in_flight_when_a_wait_times_out) {
  KernelRig rig;
  device::Ring ring = rig.view();
  Ticket ticket;
  ASSERT_EQ(device::submit(ring, request(5), &ticket), 0);
  EXPECT_FALSE(device::poll(ring, ticket));
  EXPECT_EQ(device::wait(ring, ticket, kMillisecond), -ETIMEDOUT);
  EXPECT_TRUE(ticket.pending);
  rig.queue.answer(rig.take_one(), {device::kFailed, EBADF, 0, 0});
  EXPECT_TRUE(device::poll(ring, ticket));
  EXPECT_EQ(device::wait(ring, ticket, kMillisecond), -EBADF);
  EXPECT_FALSE(ticket.pending);
}

TEST(KernelQueue, ends_waits_when_it_is_closed) {
  KernelRig rig;
  device::Ring ring = rig.view();
  Ticket ticket;
  ASSERT_EQ(device::submit(ring, request(5), &ticket), 0);
  std::jthread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    rig.queue.close();
  });
  EXPECT_EQ(device::wait(ring, ticket, 30'000 * kMillisecond), -ESHUTDOWN);
}

// Each look of a kernel that asks in a loop of its own, and never waits.
TEST(KernelQueue, that_is_closed_is_noticed_by_single_looks) {
  KernelRig rig;
  device::Ring ring = rig.view();
  Ticket ticket;
  ASSERT_EQ(device::submit(ring, request(5), &ticket), 0);
  for (int i = 0; i < 20; ++i) ASSERT_FALSE(device::poll(ring, ticket));
  EXPECT_EQ(device::wait(ring, ticket, 0), -ETIMEDOUT);
  rig.queue.close();
  int looks = 1;
  while (!device::poll(ring, ticket) && looks < 100) ++looks;
  EXPECT_LE(looks, 8);
  EXPECT_EQ(device::wait(ring, ticket, 0), -ESHUTDOWN);
  EXPECT_FALSE(ticket.pending);
}

TEST(KernelQueue, that_is_closed_is_not_busy_for_ever) {
  KernelRig rig(64);
  device::Ring ring = rig.view();
  std::vector<Ticket> tickets(64);
  for (Ticket& ticket : tickets) ASSERT_EQ(device::submit(ring, request(5), &ticket), 0);
  Ticket more;
  EXPECT_EQ(device::submit(ring, request(5), &more), -EAGAIN);
  rig.queue.close();
  uint32_t refusals = 0;
  while (device::submit(ring, request(5), &more) == -EAGAIN && refusals < 1000) ++refusals;
  EXPECT_LT(refusals, device::kRefusalsPerClosedCheck);
  // One that has never been refused looks at once.
  device::Ring other = rig.view();
  EXPECT_EQ(device::submit(other, request(5), &more), -ESHUTDOWN);
  EXPECT_FALSE(more.pending);
}

// What comes up when bytes do not verify.
class KernelRetries : public testing::Test {
 protected:
  void SetUp() override {
    ring_ = rig_.view();
    ASSERT_EQ(device::submit(ring_, request(5, 8, 16), &ticket_), 0);
  }
  // Answers what is asked for with a wrong remainder, and returns it.
  Taken answer_wrongly(device::Answer answer) {
    const Taken taken = rig_.take_one();
    answer.remainder ^= 1;
    rig_.queue.answer(taken, answer);
    EXPECT_EQ(device::wait(ring_, ticket_, kMillisecond), -ETIMEDOUT);
    return taken;
  }

  alignas(16) std::byte bytes_[8] = {std::byte{1}, std::byte{2}, std::byte{3}};
  KernelRig rig_;
  device::Ring ring_{};
  Ticket ticket_;
};

TEST_F(KernelRetries, ask_for_the_same_again_and_then_by_copy) {
  for (uint32_t attempt = 0; attempt < device::kAddressAttempts; ++attempt) {
    const Taken taken = answer_wrongly(answer_at(bytes_));
    EXPECT_EQ(taken.attempt, attempt);
    EXPECT_EQ(taken.index, 0U);
    EXPECT_FALSE(taken.by_copy);
    EXPECT_EQ(taken.descriptor.offset, 5U);
  }
  const Taken taken = rig_.take_one();
  EXPECT_TRUE(taken.by_copy);
  std::copy(std::begin(bytes_), std::end(bytes_), rig_.region.begin() + 16);
  Answer landed = answer_at(bytes_);
  landed.kind = device::kLanded;
  rig_.queue.answer(taken, landed);
  EXPECT_EQ(device::wait(ring_, ticket_, kMillisecond), 8);
  EXPECT_EQ(ticket_.kind, device::kLanded);
  EXPECT_EQ(rig_.outstanding(), 0U);
}

TEST_F(KernelRetries, end_with_eio_when_nothing_verifies) {
  for (uint32_t attempt = 0; attempt + 1 < device::kAttempts; ++attempt) {
    answer_wrongly(answer_at(bytes_));
  }
  Answer wrong = answer_at(bytes_);
  ++wrong.remainder;
  rig_.queue.answer(rig_.take_one(), wrong);
  EXPECT_EQ(device::wait(ring_, ticket_, kMillisecond), -EIO);
  EXPECT_FALSE(ticket_.pending);
  EXPECT_EQ(rig_.outstanding(), 0U);
}

TEST_F(KernelRetries, need_no_room_in_a_full_ring) {
  std::vector<Ticket> others(63);
  for (Ticket& other : others) ASSERT_EQ(device::submit(ring_, request(9), &other), 0);
  Ticket more;
  ASSERT_EQ(device::submit(ring_, request(9), &more), -EAGAIN);
  answer_wrongly(answer_at(bytes_));
  const Taken taken = rig_.take_one();
  EXPECT_EQ(taken.descriptor.offset, 5U) << "before the new ones";
  rig_.queue.answer(taken, answer_at(bytes_));
  EXPECT_EQ(device::wait(ring_, ticket_, kMillisecond), 8);
  EXPECT_TRUE(std::equal(std::begin(bytes_), std::end(bytes_), rig_.region.begin() + 16));
}

TEST(KernelQueue, knows_the_lap_of_what_was_taken_also_when_laps_begin_anew) {
  const auto lap_at = [](uint64_t head, uint32_t index) { return lap_taken(head, index, 6); };
  EXPECT_EQ(lap_at(5, 4), 0U);
  EXPECT_EQ(lap_at(5, 5), std::nullopt) << "nobody has asked there yet";
  EXPECT_EQ(lap_at(64, 63), 0U);
  EXPECT_EQ(lap_at(64 * 7 + 3, 2), 7U);
  EXPECT_EQ(lap_at(64 * 7 + 3, 3), 6U);
  const uint64_t anew = uint64_t{64} << 32;
  EXPECT_EQ(lap_at(anew + 3, 2), 0U);
  EXPECT_EQ(lap_at(anew + 3, 3), UINT32_MAX);
}

TEST(KernelQueue, ignores_what_asks_again_without_having_asked) {
  KernelRig rig(64);
  device::Ring ring = rig.view();
  for (const uint32_t index : {0U, 63U, 64U, UINT32_MAX}) {
    const uint32_t count = ring.control->again_tail++;
    ring.again[count] = device::encode(device::Again{false, 1, index}, 0);
  }
  std::vector<Taken> taken(16);
  EXPECT_TRUE(rig.queue.has_work());
  EXPECT_EQ(rig.queue.take(taken), 0U);
  EXPECT_FALSE(rig.queue.has_work());
}

}  // namespace
}  // namespace penstock::ring
