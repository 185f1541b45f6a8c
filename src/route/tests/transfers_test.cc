// Transfers in real time, with threads.
#include "sim_source.h"

#include <ctime>
#include <deque>
#include <gtest/gtest.h>
#include <thread>

namespace penstock::route {
namespace {

using engine::DeviceSpan;

constexpr uint64_t kTransfersBytes = 4 * kMiB + 99;

class TransfersTest : public testing::Test {
 protected:
  TransfersTest() {
    const auto make = [this](engine::Loop& loop) {
      auto source = std::make_unique<SimSource>(loop, source_random_, devices_);
      source_ = source.get();
      auto& bytes = source->file(1);
      bytes.resize(kTransfersBytes);
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(mix64(i) >> 3);
      for (uint64_t extent = 0; extent < 20; ++extent) source->keep(1, extent);
      return source;
    };
    auto started = Transfers::start(devices_, make, {.slots = slots_.bytes()});
    EXPECT_TRUE(started);
    transfers_ = std::move(*started);
    span_ = *devices_.allocate(engine::DeviceId(0), 32 * kMiB);
  }

  void set_up(Transfer& transfer, uint64_t offset, uint64_t length, uint64_t to) {
    transfer.file = 1;
    transfer.offset = offset;
    transfer.memory = {span_.device, span_.data + to, length, span_.allocation};
  }
  bool is_there(const Transfer& transfer) {
    std::vector<std::byte> got(transfer.memory.length);
    devices_.peek(transfer.memory.data, got);
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i] != static_cast<std::byte>(mix64(transfer.offset + i) >> 3)) return false;
    }
    return transfer.status.ok() && transfer.transferred == got.size();
  }

  engine::SeededRandom device_random_{1};
  engine::SeededRandom source_random_{2};
  sim::SimDeviceMemory devices_{device_random_};
  const test::MappedMemory slots_{4 * kMiB};
  SimSource* source_ = nullptr;
  std::unique_ptr<Transfers> transfers_;
  DeviceSpan span_;
};

TEST_F(TransfersTest, run_returns_when_the_bytes_are_there) {
  for (const uint64_t offset : {uint64_t{0}, uint64_t{77'777}, 2 * kMiB, 3 * kMiB + 5}) {
    Transfer transfer;
    set_up(transfer, offset, 100'000, 3);
    transfers_->run(transfer);
    EXPECT_TRUE(is_there(transfer));
  }
}

TEST_F(TransfersTest, start_says_that_there_is_no_thread) {
  const auto make = [this](engine::Loop& loop) {
    return std::make_unique<SimSource>(loop, source_random_, devices_);
  };
  const test::MappedMemory slots(4 * kMiB);
  {
    const test::NoMoreThreads none;
    const auto started = Transfers::start(devices_, make, {.slots = slots.bytes()});
    ASSERT_FALSE(started.has_value());
    EXPECT_EQ(started.error().status, Code::busy);
  }
  EXPECT_TRUE(Transfers::start(devices_, make, {.slots = slots.bytes()}).has_value());
}

TEST_F(TransfersTest, threads_run_and_submit_side_by_side) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (uint64_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      engine::SeededRandom random(t);
      for (int i = 0; i < 60; ++i) {
        Transfer transfer;
        set_up(transfer, random.below(kTransfersBytes - 50'000), 1 + random.below(50'000),
               t * kMiB);
        if (t % 2 == 0) {
          transfers_->run(transfer);
        } else {
          struct Wait {
            std::atomic<bool> done{false};
          } wait;
          transfer.owner = &wait;
          transfer.ended = [](Transfer& ended) {
            auto& flag = ended.owner_as<Wait>().done;
            flag.store(true);
            flag.notify_one();
          };
          transfers_->submit(transfer);
          wait.done.wait(false);
        }
        good += is_there(transfer) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 360);
}

TEST_F(TransfersTest, what_nobody_waits_for_ends_all_the_same) {
  std::deque<Transfer> all(40);
  std::atomic<int> left{40};
  for (size_t i = 0; i < all.size(); ++i) {
    set_up(all[i], i * 90'000, 60'000, i * 64 * kKiB);
    all[i].owner = &left;
    all[i].ended = [](Transfer& ended) {
      auto& count = ended.owner_as<std::atomic<int>>();
      if (--count == 0) count.notify_one();
    };
    transfers_->submit(all[i]);
  }
  for (int now = left; now > 0; now = left) left.wait(now);
  for (const Transfer& one : all) EXPECT_TRUE(is_there(one));
}

engine::Duration processor_time() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

TEST_F(TransfersTest, copy_that_is_late_leaves_the_lock_and_the_processor_to_others) {
  constexpr std::chrono::milliseconds kLate{300};
  devices_.faults.late = kLate;
  Transfer transfer;
  set_up(transfer, 0, 4096, 0);
  std::atomic<bool> done{false};
  transfer.owner = &done;
  transfer.ended = [](Transfer& ended) { ended.owner_as<std::atomic<bool>>() = true; };
  const auto begun = engine::system_clock().now();
  transfers_->post(transfer);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const engine::Duration used = processor_time();
  transfers_->quiesce();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(processor_time() - used, std::chrono::milliseconds(50));
  // Whether settling waited for it can be seen unless the machine was so busy that it is over.
  const bool is_over = done;
  if (engine::system_clock().now() < begun + kLate) {
    EXPECT_FALSE(is_over);
  }
  ASSERT_TRUE(test::eventually([&] { return done.load(); }));
  transfers_->quiesce();
  EXPECT_TRUE(is_there(transfer));
}

TEST_F(TransfersTest, deadline_wakes_who_sleeps) {
  source_->sleeps_until_roused = true;
  source_->faults.delay_min = source_->faults.delay_max = std::chrono::seconds(100);
  for (const bool submits : {false, true}) {
    Transfer transfer;
    set_up(transfer, 2 * kMiB, 2 * kMiB, 0);
    transfer.deadline = engine::system_clock().now() + std::chrono::milliseconds(30);
    std::atomic<bool> done{false};
    transfer.owner = &done;
    transfer.ended = [](Transfer& ended) { ended.owner_as<std::atomic<bool>>() = true; };
    // Either the thread begins it, or it sleeps meanwhile.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    submits ? transfers_->submit(transfer) : transfers_->post(transfer);
    ASSERT_TRUE(test::eventually([&] { return done.load(); }));
    transfers_->quiesce();
    EXPECT_EQ(transfer.status, Code::timed_out);
  }
}

TEST_F(TransfersTest, work_without_end_holds_nobody_up) {
  struct Chain {
    Transfers* transfers = nullptr;
    std::atomic<bool> stop{false};
    std::atomic<bool> stopped{false};
  } chain;
  chain.transfers = transfers_.get();
  PeerTransfer next;  // of memory that is not there: it ends at once
  next.owner = &chain;
  next.ended = [](PeerTransfer& ended) {
    auto& self = ended.owner_as<Chain>();
    if (self.stop) {
      self.stopped = true;
    } else {
      self.transfers->submit(ended);
    }
  };
  transfers_->submit(next);
  transfers_->quiesce();
  Transfer transfer;
  set_up(transfer, 5, 50'000, 0);
  transfers_->run(transfer);
  EXPECT_TRUE(is_there(transfer));
  chain.stop = true;
  while (!chain.stopped) std::this_thread::yield();
  transfers_->quiesce();
}

// Submits a copy and waits for its end.
void run_peer(Transfers& transfers, PeerTransfer& copy) {
  std::atomic<bool> done{false};
  copy.owner = &done;
  copy.ended = [](PeerTransfer& ended) {
    auto& flag = ended.owner_as<std::atomic<bool>>();
    flag.store(true);
    flag.notify_one();
  };
  transfers.submit(copy);
  done.wait(false);
  transfers.quiesce();
}

TEST_F(TransfersTest, bytes_go_from_device_to_device) {
  const DeviceSpan other = *devices_.allocate(engine::DeviceId(1), 2 * kMiB);
  std::vector<std::byte> content(kMiB + 3);
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(mix64(i));
  devices_.poke(span_.data + 5, content);
  PeerTransfer copy;
  copy.from = {span_.device, span_.data + 5, content.size(), span_.allocation};
  copy.to = {other.device, other.data + 77, content.size(), other.allocation};
  run_peer(*transfers_, copy);
  EXPECT_TRUE(copy.status.ok()) << copy.status.name();
  std::vector<std::byte> got(content.size());
  devices_.peek(other.data + 77, got);
  EXPECT_EQ(got, content);
}

TEST_F(TransfersTest, copy_between_devices_needs_both_allocations_and_both_devices) {
  const DeviceSpan other = *devices_.allocate(engine::DeviceId(1), kMiB);
  const auto copy = [&](DeviceSpan from, DeviceSpan to) {
    from.length = to.length = 4096;
    PeerTransfer one;
    one.from = from;
    one.to = to;
    run_peer(*transfers_, one);
    return one.status;
  };
  EXPECT_TRUE(copy(span_, other).ok());
  DeviceSpan wrong = other;
  wrong.device = engine::DeviceId(0);
  EXPECT_EQ(copy(span_, wrong), Code::invalid_argument);
  ASSERT_TRUE(devices_.release(other).ok());
  EXPECT_EQ(copy(span_, other), Code::invalid_argument);
  EXPECT_EQ(copy(other, span_), Code::invalid_argument);
  const DeviceSpan last = *devices_.allocate(engine::DeviceId(1), kMiB);
  devices_.lose(engine::DeviceId(1));
  EXPECT_EQ(copy(span_, last), Code::io_error);
}

TEST_F(TransfersTest, end_waits_for_copies_between_devices) {
  const DeviceSpan other = *devices_.allocate(engine::DeviceId(1), kMiB);
  devices_.faults.delay_min = devices_.faults.delay_max = std::chrono::milliseconds(5);
  std::atomic<bool> ended{false};
  PeerTransfer copy;
  copy.from = {span_.device, span_.data, kMiB, span_.allocation};
  copy.to = other;
  copy.owner = &ended;
  copy.ended = [](PeerTransfer& one) { one.owner_as<std::atomic<bool>>() = true; };
  transfers_->submit(copy);
  transfers_.reset();
  EXPECT_TRUE(ended);
}

TEST_F(TransfersTest, end_cancels_what_is_under_way) {
  devices_.faults.delay_min = devices_.faults.delay_max = std::chrono::milliseconds(3);
  std::deque<Transfer> all(20);
  static std::atomic<int> ended;
  ended = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    set_up(all[i], 0, kMiB, i * kMiB);
    all[i].ended = [](Transfer&) { ++ended; };
    transfers_->submit(all[i]);
  }
  transfers_.reset();
  EXPECT_EQ(ended, 20);
}

TEST_F(TransfersTest, copies_of_others_go_both_ways_beside_transfers) {
  const test::MappedMemory mapped(kMiB);
  const MutableBytes memory = mapped.bytes();
  ASSERT_TRUE(devices_.pin(memory, false));
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i / 5);
  const auto copy = [&](engine::CopyDirection direction) {
    std::byte* const sides[] = {memory.data(), span_.data + 8 * kMiB};
    const bool to_device = direction == engine::CopyDirection::to_device;
    const engine::CopyPiece piece{sides[to_device ? 0 : 1], sides[to_device ? 1 : 0], kMiB};
    engine::CopyOp op;
    op.device = span_.device;
    op.direction = direction;
    op.pieces = {&piece, 1};
    op.allocation = span_.allocation;
    transfers_->run(op);
    return op.status;
  };
  Transfer transfer;
  std::thread other([&] {
    set_up(transfer, 0, 4 * kMiB, 0);
    transfers_->run(transfer);
  });
  const std::vector<std::byte> before(memory.begin(), memory.end());
  EXPECT_TRUE(copy(engine::CopyDirection::to_device).ok());
  std::fill(memory.begin(), memory.end(), std::byte{0});
  EXPECT_TRUE(copy(engine::CopyDirection::from_device).ok());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), memory.begin()));
  other.join();
  EXPECT_TRUE(is_there(transfer));
  devices_.lose(span_.device);
  EXPECT_EQ(copy(engine::CopyDirection::to_device), Code::peer_gone);
  devices_.unpin(memory);
}

}  // namespace
}  // namespace penstock::route
