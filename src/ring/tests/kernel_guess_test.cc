// Warps that load bytes before they are told where they lie: right guesses, wrong ones, and none.
#include "kernel_rig.h"
#include "penstock_device/thread_warp.h"

#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>

namespace penstock::ring {
namespace {

using device::Hint;
using device::Ticket;
using Taken = KernelQueue::Taken;

constexpr uint64_t kExtent = 64 * kKiB;
constexpr uint8_t kSlabLog2 = 21;
constexpr uint64_t kSlab = uint64_t{1} << kSlabLog2;

device::Request read_of(uint64_t offset, uint32_t length, uint8_t file = 3) {
  device::Request out = request(offset, length);
  out.file = file;
  return out;
}

TEST(Hints, are_read_as_they_were_written) {
  const Hint hint = {true, true, 255, (uint64_t{1} << 48) - 1, (uint64_t{1} << 47) + 5, 63};
  const Hint back = device::decode_hint(device::encode(hint));
  EXPECT_TRUE(back.there && back.sure);
  EXPECT_EQ(back.file, hint.file);
  EXPECT_EQ(back.offset, hint.offset);
  EXPECT_EQ(back.address, hint.address);
  EXPECT_EQ(back.span_log2, hint.span_log2);
  EXPECT_FALSE(device::decode_hint({0, 0}).there);
}

TEST(Hints, speak_of_their_own_piece_of_their_own_file) {
  const Hint hint = {true, false, 3, kExtent + 100, 8 * kSlab + 100, kSlabLog2};
  EXPECT_EQ(address_by(hint, read_of(kExtent + 100, 1), 16), hint.address);
  EXPECT_EQ(address_by(hint, read_of(2 * kExtent - 7, 7), 16), 8 * kSlab + kExtent - 7);
  EXPECT_EQ(address_by(hint, read_of(kExtent, 4096), 16), 8 * kSlab);
  EXPECT_EQ(address_by(hint, read_of(2 * kExtent, 1), 16), 0U) << "the next piece";
  EXPECT_EQ(address_by(hint, read_of(2 * kExtent, 1), 24), 8 * kSlab + kExtent) << "a larger one";
  EXPECT_EQ(address_by(hint, read_of(kExtent + 100, 1, 4), 16), 0U) << "another file";
  EXPECT_EQ(address_by(Hint{}, read_of(0, 1, 0), 16), 0U) << "none";
}

TEST(Hints, never_lead_out_of_the_memory_that_was_spoken_of) {
  const Hint last = {true, true, 3, 10 * kExtent, 9 * kSlab - 4096, kSlabLog2};
  EXPECT_EQ(address_by(last, read_of(10 * kExtent, 4096), 24), last.address);
  EXPECT_EQ(address_by(last, read_of(10 * kExtent, 4097), 24), 0U);
  EXPECT_EQ(address_by(last, read_of(10 * kExtent + 4096, 1), 24), 0U);
  const Hint first = {true, true, 3, 10 * kExtent, 8 * kSlab, kSlabLog2};
  EXPECT_EQ(address_by(first, read_of(10 * kExtent - 1, 4096), 24), 0U);
  // Nobody has said anything about what is around it.
  const Hint alone = {true, true, 3, 10 * kExtent, 8 * kSlab, 0};
  EXPECT_EQ(address_by(alone, read_of(10 * kExtent, 2), 24), 0U);
}

// A warp that reads one piece after the other, and a proxy that says where it lies. Mostly few
// bytes: threads that play a warp are slow.
class KernelGuesses : public testing::Test {
 protected:
  KernelGuesses() {
    for (size_t i = 0; i < kSlab; ++i) slab()[i] = static_cast<std::byte>(mix64(i) >> 7);
  }
  std::byte* slab() { return memory_.get(); }

  struct Seen {
    int64_t result = 0;
    bool guessed = false;
    device::Kind kind = device::kFailed;
    bool same = false;  // as the bytes that the answer meant
  };
  Seen read(const device::Request& request) {
    Seen seen;
    device::ThreadWarp warp;
    warp.run([&] {
      device::Ring ring = rig_.view();
      Ticket ticket;
      const int64_t result = device::run_by_warp(ring, request, &ticket, 60'000 * kMillisecond);
      if (device::warp_lane() == 0) {
        seen.result = result;
        seen.guessed = ticket.guessed;
        seen.kind = ticket.kind;
      }
      EXPECT_FALSE(ticket.pending);
    });
    const uint64_t there = std::min<uint64_t>(request.length, file_bytes_ - request.offset);
    seen.same = seen.result == static_cast<int64_t>(there) &&
                std::equal(rig_.region.data() + request.destination,
                           rig_.region.data() + request.destination + there,
                           slab() + place_of(request.offset));
    return seen;
  }
  Seen read(uint64_t offset, uint32_t length = 128, uint64_t destination = 0) {
    return read(request(offset, length, destination));
  }
  // What a warp would guess; null: nothing.
  const std::byte* guess_of(uint64_t offset, uint32_t length = 128) {
    device::Guess guess;
    const device::Ring ring = rig_.view();
    return reinterpret_cast<const std::byte*>(
        device::guess_address(ring, request(offset, length), &guess));
  }
  void serve() {
    rig_.serve([this](const Taken& taken) { answer(taken); });
  }
  void answer(const Taken& taken) {
    again_ += taken.attempt > 0 ? 1 : 0;
    const device::Descriptor& asks = taken.descriptor;
    const uint64_t length = std::min<uint64_t>(asks.length, file_bytes_ - asks.offset);
    device::Answer out = answer_at({slab() + place_of(asks.offset), length});
    out.span_log2 = kSlabLog2;
    if (asks.operation != device::kRead) {
      out = {device::kDone, 0, asks.length, 0};
    } else if (asks.by_copy || copies_) {
      std::copy_n(slab() + place_of(asks.offset), asks.length,
                  rig_.region.data() + asks.destination);
      out.kind = device::kLanded;
    }
    rig_.queue.answer(taken, out);
  }
  // In the slab: file bytes lie together within an extent, and extents `stride_` apart.
  uint64_t place_of(uint64_t offset) const {
    return (first_ + offset / kExtent * stride_) % kSlab + offset % kExtent;
  }

  KernelRig rig_;
  std::atomic<uint64_t> first_{0};
  std::atomic<uint64_t> stride_{kExtent};
  std::atomic<uint64_t> file_bytes_{kSlab};
  std::atomic<bool> copies_{false};
  std::atomic<uint32_t> again_{0};  // requests for what did not verify

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> memory_{
      static_cast<std::byte*>(std::aligned_alloc(kSlab, kSlab))};
};

TEST_F(KernelGuesses, are_right_where_the_extent_was_read_before) {
  serve();
  const Seen first = read(0);
  EXPECT_TRUE(first.same);
  EXPECT_FALSE(first.guessed);
  const struct {
    uint64_t offset;
    uint32_t length;
    uint64_t destination;
  } cases[] = {{4096, 4096, 0}, {8192, 512, 64},     {0, 1, 3},    {61440, 600, 16},
               {4090, 13, 1},   {kExtent - 1, 1, 0}, {77, 6000, 5}};
  for (const auto& one : cases) {
    const Seen seen = read(one.offset, one.length, one.destination);
    EXPECT_TRUE(seen.same) << one.offset;
    EXPECT_TRUE(seen.guessed) << one.offset;
    EXPECT_EQ(seen.kind, device::kAddress);
  }
}

TEST_F(KernelGuesses, follow_extents_that_lie_in_a_row_once_two_reads_agree) {
  serve();
  EXPECT_FALSE(read(0).guessed);
  EXPECT_EQ(guess_of(3 * kExtent), nullptr) << "one read says nothing of other extents";
  EXPECT_FALSE(read(3 * kExtent).guessed);
  for (const uint64_t extent : {7, 1}) {
    const Seen seen = read(extent * kExtent + 8192);
    EXPECT_TRUE(seen.same);
    EXPECT_TRUE(seen.guessed) << extent;
  }
  EXPECT_EQ(guess_of(31 * kExtent + 5), slab() + 31 * kExtent + 5);
  EXPECT_EQ(guess_of(32 * kExtent), nullptr) << "beyond the slab";
}

TEST_F(KernelGuesses, are_not_made_where_extents_lie_scattered) {
  stride_ = 7 * kExtent;
  serve();
  for (uint64_t extent = 0; extent < 5; ++extent) {
    EXPECT_EQ(guess_of(extent * kExtent), nullptr) << extent;
    EXPECT_TRUE(read(extent * kExtent).same);
    EXPECT_EQ(guess_of(extent * kExtent + 512), slab() + place_of(extent * kExtent + 512));
  }
}

TEST_F(KernelGuesses, that_are_wrong_leave_the_answers_bytes) {
  serve();
  ASSERT_TRUE(read(0).same);
  ASSERT_TRUE(read(0).guessed);
  first_ = 16 * kExtent;  // it lies elsewhere now
  const Seen moved = read(4096);
  EXPECT_TRUE(moved.same);
  EXPECT_FALSE(moved.guessed);
  EXPECT_TRUE(read(8192).guessed) << "from its new place";
  file_bytes_ = 8200;  // it is shorter than asked for
  const Seen end = read(8192);
  EXPECT_TRUE(end.same);
  EXPECT_FALSE(end.guessed);
  EXPECT_EQ(again_, 0U) << "a wrong guess costs no round trip";
}

TEST_F(KernelGuesses, do_not_pass_for_bytes_that_came_to_the_place_meanwhile) {
  serve();
  ASSERT_TRUE(read(0).same);
  rig_.stop();
  std::atomic<uint32_t> replaced{0};
  rig_.serve([&](const Taken& taken) {
    // Behind the loads of the guess, mostly; before them the bytes are right as well.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    auto& word = *reinterpret_cast<uint32_t*>(slab() + 100);
    std::atomic_ref(word).fetch_xor(++replaced);
    answer(taken);
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(read(0).same);
    EXPECT_EQ(rig_.region[100], slab()[100]);
  }
  EXPECT_EQ(replaced, 3U);
  EXPECT_EQ(again_, 0U) << "they are copied from where they are";
}

TEST_F(KernelGuesses, need_the_place_to_be_the_same) {
  serve();
  ASSERT_TRUE(read(0).same);
  // Other bytes elsewhere with the same remainder: they differ by the polynomial.
  std::copy_n(slab(), kExtent, slab() + 16 * kExtent);
  *reinterpret_cast<uint64_t*>(slab() + 16 * kExtent + 104) ^= 1 | uint64_t{device::kPolynomial}
                                                                       << 1;
  ASSERT_EQ(remainder_of({slab(), 128}), remainder_of({slab() + 16 * kExtent, 128}));
  first_ = 16 * kExtent;
  const Seen seen = read(0);
  EXPECT_TRUE(seen.same);
  EXPECT_FALSE(seen.guessed);
}

TEST_F(KernelGuesses, are_made_of_places_only) {
  serve();
  ASSERT_TRUE(read(0).same);
  ASSERT_TRUE(read(kExtent).same);
  EXPECT_EQ(guess_of(0, device::kAddressBytesMax + 1), nullptr);
  for (const bool writes : {false, true}) {
    device::Request other = request(0, 128);
    other.by_copy = !writes;
    other.operation = writes ? device::kWrite : device::kRead;
    const Seen seen = read(other);
    EXPECT_EQ(seen.result, 128);
    EXPECT_FALSE(seen.guessed);
    EXPECT_NE(guess_of(0), nullptr) << "it says nothing about places";
  }
  EXPECT_NE(guess_of(9 * kExtent), nullptr);
  copies_ = true;  // the extent has left the cache
  EXPECT_EQ(read(0).kind, device::kLanded);
  EXPECT_EQ(guess_of(0), nullptr);
  EXPECT_EQ(guess_of(9 * kExtent), nullptr) << "others may have left it, too";
  EXPECT_NE(guess_of(kExtent), nullptr);
  copies_ = false;
  EXPECT_TRUE(read(0).same);
  EXPECT_NE(guess_of(9 * kExtent), nullptr) << "they have not";
}

TEST_F(KernelGuesses, are_given_up_with_a_wait_that_is_over) {
  serve();
  ASSERT_TRUE(read(0).same);
  rig_.stop();
  device::ThreadWarp warp;
  std::atomic<uint32_t> timed_out{0}, good{0};
  warp.run([&] {
    device::Ring ring = rig_.view();
    Ticket ticket;
    const int64_t first = device::run_by_warp(ring, request(64, 100), &ticket, kMillisecond);
    timed_out += first == -ETIMEDOUT ? 1 : 0;
    EXPECT_EQ(ticket.pending, device::warp_lane() == 0);
    if (device::warp_lane() == 0) serve();
    device::together(device::kWholeWarp);
    const int64_t second = device::wait_by_warp(ring, ticket, 60'000 * kMillisecond);
    good += device::warp_lane() != 0 || (second == 100 && !ticket.guessed) ? 1 : 0;
  });
  EXPECT_EQ(timed_out, device::kWarpLanes);
  EXPECT_EQ(good, device::kWarpLanes);
  EXPECT_TRUE(std::equal(slab() + 64, slab() + 164, rig_.region.data()));
  EXPECT_EQ(rig_.outstanding(), 0U);
}

}  // namespace
}  // namespace penstock::ring
