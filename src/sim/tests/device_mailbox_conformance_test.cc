// What every engine::CopyMailbox does: the simulated one everywhere, CUDA's where there is a GPU.
#include <atomic>
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "penstock/gpu.h"
#include "penstock/sim.h"

namespace penstock::sim {
namespace {

using engine::CopyDirection;
using engine::CopyMailbox;
using engine::DeviceId;
using engine::DeviceSpan;
using engine::kMailboxBytesMax;

constexpr uint64_t kMemoryBytes = 2 * kMiB;

class MailboxConformance : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("simulated")) {
      memory_ = &simulated_;
    } else {
      const Outcome<engine::DeviceMemory*> devices = gpu::devices();
      if (!devices) GTEST_SKIP() << "no GPU";
      memory_ = *devices;
    }
    void* const host =
        ::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(host, MAP_FAILED);
    host_ = {static_cast<std::byte*>(host), kMemoryBytes};
    ASSERT_TRUE(memory_->pin(host_, false));
    lanes_ = memory_->make_lanes(loop_);
    loop_.add(*lanes_);
    Outcome<DeviceSpan> span = memory_->allocate(DeviceId(0), kMemoryBytes);
    ASSERT_TRUE(span) << span.error().message;
    span_ = *span;
  }

  void TearDown() override {
    if (lanes_ != nullptr) loop_.remove(*lanes_);
    lanes_.reset();
    if (span_.length > 0) {
      EXPECT_TRUE(memory_->release(span_).ok());
    }
    if (host_.data() == nullptr) return;
    memory_->unpin(host_);
    ::munmap(host_.data(), host_.size());
  }

  std::unique_ptr<CopyMailbox> make_mailbox() {
    Outcome<std::unique_ptr<CopyMailbox>> made = memory_->make_mailbox(DeviceId(0));
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    return made ? std::move(*made) : nullptr;
  }

  DeviceSpan part(uint64_t offset, uint64_t length) const {
    return {span_.device, span_.data + offset, length, span_.allocation};
  }

  // Sends bytes that `seed` gives.
  static Status send(CopyMailbox& mailbox, const DeviceSpan& to, uint64_t seed) {
    const MutableBytes space = mailbox.space_for(to);
    EXPECT_EQ(space.size(), to.length);
    for (uint64_t i = 0; i < to.length; ++i) space[i] = byte_of(seed, i);
    return mailbox.send(to, space.data());
  }
  static std::byte byte_of(uint64_t seed, uint64_t i) {
    return static_cast<std::byte>(mix64(seed << 20 | i) >> 7);
  }

  void copy(CopyDirection direction, const std::byte* source, std::byte* destination) {
    const engine::CopyPiece piece{source, destination, kMemoryBytes};
    engine::CopyOp op;
    op.direction = direction;
    op.pieces = {&piece, 1};
    bool done = false;
    op.owner = &done;
    op.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
    lanes_->submit(op);
    const engine::Time limit = loop_.clock().now() + std::chrono::seconds(30);
    while (!done && loop_.clock().now() < limit) loop_.poll();
    ASSERT_TRUE(done);
    ASSERT_TRUE(op.status.ok());
  }
  void clear_device() {
    std::memset(host_.data(), 0, host_.size());
    copy(CopyDirection::to_device, host_.data(), span_.data);
  }
  // What the device's memory has, in host_.
  void look() { copy(CopyDirection::from_device, span_.data, host_.data()); }
  void expect(uint64_t offset, uint64_t length, uint64_t seed) const {
    for (uint64_t i = 0; i < length; ++i) {
      ASSERT_EQ(host_[offset + i], byte_of(seed, i)) << "byte " << i << " of " << length;
    }
  }

  engine::SeededRandom random_{7};
  SimDeviceMemory simulated_{random_};
  engine::DeviceMemory* memory_ = nullptr;
  engine::FutexParker parker_{engine::system_clock()};
  engine::SeededRandom loop_random_{8};
  engine::Loop loop_{engine::system_clock(), loop_random_, parker_};
  std::unique_ptr<engine::CopyLanes> lanes_;
  MutableBytes host_;
  DeviceSpan span_;
};

TEST_P(MailboxConformance, bytes_land_whatever_the_alignment_and_length) {
  const auto mailbox = make_mailbox();
  ASSERT_NE(mailbox, nullptr);
  clear_device();
  struct Sent {
    uint64_t offset, length;
  };
  std::vector<Sent> all;
  uint64_t at = 0;
  for (const uint64_t length : {1U, 2U, 15U, 16U, 17U, 31U, 33U, 255U, 4095U, 4096U, 4097U, 16384U,
                                65535U, kMailboxBytesMax}) {
    for (const uint64_t past : {0U, 1U, 7U, 8U, 15U}) {
      const Sent next{at + past, length};
      ASSERT_TRUE(send(*mailbox, part(next.offset, length), all.size()).ok());
      all.push_back(next);
      at = (next.offset + length + 32) / 16 * 16;
      ASSERT_LT(at, kMemoryBytes);
    }
  }
  look();
  uint64_t end = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    expect(all[i].offset, all[i].length, i);
    for (; end < all[i].offset; ++end) ASSERT_EQ(host_[end], std::byte{0}) << "beside a piece";
    end = all[i].offset + all[i].length;
  }
}

// The same memory again and again, as fast as possible and with pauses in which a kernel leaves.
TEST_P(MailboxConformance, what_landed_last_is_what_is_there) {
  const auto mailbox = make_mailbox();
  ASSERT_NE(mailbox, nullptr);
  uint64_t seed = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(send(*mailbox, part(4096, 4096), ++seed).ok());
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(round * 4));
    look();
    expect(4096, 4096, seed);
  }
}

TEST_P(MailboxConformance, threads_with_mailboxes_of_their_own_do_not_meet) {
  constexpr uint64_t kThreads = 16;
  constexpr uint64_t kSent = 500;
  std::atomic<uint64_t> failed{0};
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([this, t, &failed] {
        const auto mailbox = make_mailbox();
        for (uint64_t i = 0; i < kSent; ++i) {
          // A GPU that others fill for a moment is no failure.
          Status sent = Code::busy;
          for (int n = 0; n < 1000 && sent == Code::busy; ++n) {
            sent = send(*mailbox, part(t * kMailboxBytesMax, 4096), t << 16 | i);
          }
          if (!sent.ok()) ++failed;
        }
      });
    }
  }
  EXPECT_EQ(failed, 0U);
  look();
  for (uint64_t t = 0; t < kThreads; ++t) expect(t * kMailboxBytesMax, 4096, t << 16 | (kSent - 1));
}

// From pinned memory at all distances of source and destination that a mailbox takes.
TEST_P(MailboxConformance, bytes_come_from_pinned_memory) {
  const auto mailbox = make_mailbox();
  ASSERT_NE(mailbox, nullptr);
  void* const mapped =
      ::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const MutableBytes pages{static_cast<std::byte*>(mapped), kMemoryBytes};
  for (uint64_t i = 0; i < kMemoryBytes; ++i) pages[i] = byte_of(1, i);
  ASSERT_TRUE(memory_->pin(pages, false));
  clear_device();
  uint64_t to = 0;
  std::vector<std::pair<uint64_t, uint64_t>> sent;  // from where, and how much
  for (const uint64_t length : {1U, 100U, 4096U, 20'000U, kMailboxBytesMax}) {
    for (const uint64_t past : {0U, 3U, 15U}) {
      const uint64_t from = kMiB + length * 3 / 16 * 16 + past;
      const DeviceSpan destination = part(to + past, length);
      ASSERT_TRUE(engine::is_mailable(destination, pages.data() + from));
      ASSERT_TRUE(mailbox->send(destination, pages.data() + from).ok());
      sent.emplace_back(from, length);
      to += kMailboxBytesMax + 64;
    }
  }
  look();
  to = 0;
  for (const auto& [from, length] : sent) {
    ASSERT_EQ(std::memcmp(&host_[to + from % 16], &pages[from], length), 0) << length;
    to += kMailboxBytesMax + 64;
  }
  memory_->unpin(pages);
  ::munmap(mapped, kMemoryBytes);
}

TEST_P(MailboxConformance, released_memory_is_refused) {
  const auto mailbox = make_mailbox();
  ASSERT_NE(mailbox, nullptr);
  const Outcome<DeviceSpan> other = memory_->allocate(DeviceId(0), kMiB);
  ASSERT_TRUE(other);
  const DeviceSpan to{other->device, other->data, 4096, other->allocation};
  ASSERT_TRUE(send(*mailbox, to, 1).ok());
  ASSERT_TRUE(memory_->release(*other).ok());
  EXPECT_EQ(send(*mailbox, to, 2), Code::invalid_argument);
  EXPECT_TRUE(send(*mailbox, part(0, 4096), 3).ok());
}

TEST_P(MailboxConformance, no_such_device_is_told) {
  const auto count = static_cast<uint32_t>(memory_->devices().size());
  const auto made = memory_->make_mailbox(DeviceId(count));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().status, Code::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(All, MailboxConformance, testing::Values("simulated", "cuda"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace penstock::sim
