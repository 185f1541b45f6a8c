// What only the simulated disk does: losing power, dying, and every kind of fault.
#include <cstring>
#include <gtest/gtest.h>

#include "penstock/sim.h"

namespace penstock::sim {
namespace {

using engine::DiskFile;
using engine::DiskOp;
using engine::DiskOpKind;
using engine::Op;

struct alignas(4096) Block {
  std::array<std::byte, 4096> bytes{};
  void fill(int value) { bytes.fill(static_cast<std::byte>(value)); }
};

struct Request : DiskOp {
  bool done = false;
  Request() {
    completion = [](Op& op) { static_cast<Request&>(op).done = true; };
  }
};

class SimDiskTest : public testing::Test {
 protected:
  explicit SimDiskTest(uint64_t seed = 1) : world_(seed) { restart(); }

  void restart() {
    disk_.reset();
    disk_ = std::make_unique<SimDisk>(image_, loop_);
    file_ = *disk_->open("/data", {.create = true});
  }
  void submit(Request& request, DiskOpKind kind, uint64_t block, Block* memory,
              uint64_t blocks = 1) {
    request.kind = kind;
    request.file = file_;
    request.offset = block * 4096;
    request.length = blocks * 4096;
    if (memory != nullptr) {
      request.memory = {memory->bytes.data(), blocks * 4096, engine::kNoBuffer, {}};
    }
    request.done = false;
    disk_->submit(request);
  }
  Status finish(Request& request) {
    EXPECT_TRUE(world_.run_until([&] { return request.done; }));
    return request.status;
  }
  Status write(uint64_t block, int value, bool durable = false) {
    block_.fill(value);
    Request request;
    request.durable = durable;
    submit(request, DiskOpKind::write, block, &block_);
    return finish(request);
  }
  Status sync() {
    Request request;
    submit(request, DiskOpKind::sync, 0, nullptr);
    return finish(request);
  }
  // The value that every byte of the block has, or -1 if they differ.
  int value_of(uint64_t block) {
    const auto bytes = image_.peek("/data", block * 4096, 4096);
    for (const std::byte byte : bytes) {
      if (byte != bytes[0]) return -1;
    }
    return static_cast<int>(bytes[0]);
  }

  SimWorld world_;
  SimLoop loop_{world_};
  SimDiskImage image_{world_};
  std::unique_ptr<SimDisk> disk_;
  DiskFile file_;
  Block block_;
};

TEST_F(SimDiskTest, synced_writes_survive_a_power_cut) {
  image_.faults.lose_unsynced_permille = 1000;
  ASSERT_TRUE(write(0, 1).ok());
  ASSERT_TRUE(write(1, 2).ok());
  ASSERT_TRUE(sync().ok());
  ASSERT_TRUE(write(0, 3).ok());
  ASSERT_TRUE(write(2, 4).ok());
  EXPECT_EQ(value_of(0), 3);
  image_.power_cut();
  restart();
  EXPECT_EQ(value_of(0), 1);
  EXPECT_EQ(value_of(1), 2);
  EXPECT_EQ(image_.size("/data"), 8192u);
}

TEST_F(SimDiskTest, a_durable_write_survives_a_power_cut_alone) {
  image_.faults.lose_unsynced_permille = 1000;
  ASSERT_TRUE(write(0, 1).ok());
  ASSERT_TRUE(write(1, 1).ok());
  ASSERT_TRUE(write(0, 2, true).ok());
  ASSERT_TRUE(write(2, 3, true).ok());
  image_.power_cut();
  restart();
  EXPECT_EQ(value_of(0), 2);
  EXPECT_EQ(value_of(1), 0);
  EXPECT_EQ(value_of(2), 3);
  EXPECT_EQ(image_.size("/data"), 12288u);
}

TEST_F(SimDiskTest, an_older_write_in_doubt_never_comes_back_over_a_durable_one) {
  image_.faults.lose_unsynced_permille = 0;
  image_.faults.tear_unsynced_permille = 0;  // keep everything
  ASSERT_TRUE(write(0, 1).ok());
  ASSERT_TRUE(write(0, 2, true).ok());
  image_.power_cut();
  restart();
  EXPECT_EQ(value_of(0), 2);
}

TEST_F(SimDiskTest, a_durable_write_that_has_not_ended_may_be_lost_or_torn) {
  int kept = 0, lost = 0, torn = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(write(0, 1, true).ok());
    block_.fill(2);
    Request request;
    request.durable = true;
    submit(request, DiskOpKind::write, 0, &block_);
    image_.power_cut();
    EXPECT_EQ(finish(request), Status(Code::closed));
    const int value = value_of(0);
    kept += value == 2;
    lost += value == 1;
    torn += value == -1;
    restart();
  }
  EXPECT_GT(kept, 10);
  EXPECT_GT(lost, 10);
  EXPECT_GT(torn, 10);
}

TEST_F(SimDiskTest, writes_that_complete_after_the_sync_was_submitted_are_not_covered) {
  image_.faults.lose_unsynced_permille = 1000;
  Block a, b;
  a.fill(1);
  b.fill(2);
  Request first, sync_request, second;
  submit(first, DiskOpKind::write, 0, &a);
  ASSERT_TRUE(finish(first).ok());
  // The sync is slow, the write after it quick.
  image_.faults.latency_min = image_.faults.latency_max = std::chrono::milliseconds(5);
  submit(sync_request, DiskOpKind::sync, 0, nullptr);
  image_.faults.latency_min = image_.faults.latency_max = std::chrono::milliseconds(1);
  submit(second, DiskOpKind::write, 1, &b);
  ASSERT_TRUE(finish(sync_request).ok());
  ASSERT_TRUE(second.done);
  image_.power_cut();
  restart();
  EXPECT_EQ(value_of(0), 1);
  EXPECT_EQ(image_.size("/data"), 4096u);
}

TEST_F(SimDiskTest, each_unsynced_write_is_kept_lost_or_torn_by_itself) {
  int kept = 0, lost = 0, torn = 0;
  for (uint64_t block = 0; block < 200; ++block) ASSERT_TRUE(write(block, 1).ok());
  ASSERT_TRUE(sync().ok());
  for (uint64_t block = 0; block < 200; ++block) ASSERT_TRUE(write(block, 2).ok());
  image_.power_cut();
  for (uint64_t block = 0; block < 200; ++block) {
    const int value = value_of(block);
    kept += value == 2;
    lost += value == 1;
    torn += value == -1;
    // Sectors are whole.
    for (uint64_t sector = 0; sector < 8; ++sector) {
      const auto bytes = image_.peek("/data", block * 4096 + sector * 512, 512);
      for (const std::byte byte : bytes) ASSERT_EQ(byte, bytes[0]);
    }
  }
  EXPECT_GT(kept, 30);
  EXPECT_GT(lost, 30);
  EXPECT_GT(torn, 30);
  restart();
}

TEST_F(SimDiskTest, a_kill_loses_nothing_that_completed) {
  ASSERT_TRUE(write(0, 1).ok());
  ASSERT_TRUE(write(0, 2).ok());
  image_.kill();
  restart();
  EXPECT_EQ(value_of(0), 2);
  image_.faults.lose_unsynced_permille = 1000;
  image_.power_cut();
  restart();
  EXPECT_EQ(image_.size("/data"), 0u);
}

TEST_F(SimDiskTest, of_a_write_in_flight_at_a_kill_a_prefix_has_happened) {
  std::array<bool, 4> seen{};
  for (int round = 0; round < 60; ++round) {
    std::array<Block, 3> blocks;
    for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(write(i, 0).ok());
    for (Block& block : blocks) block.fill(round + 1);
    Request request;
    submit(request, DiskOpKind::write, 0, blocks.data(), 3);
    image_.kill();
    EXPECT_EQ(finish(request), Status(Code::closed));
    int happened = 0;
    while (happened < 3 && value_of(happened) == round + 1) ++happened;
    for (int rest = happened; rest < 3; ++rest) EXPECT_EQ(value_of(rest), 0);
    seen[happened] = true;
    restart();
  }
  EXPECT_EQ(seen, (std::array<bool, 4>{true, true, true, true}));
}

TEST_F(SimDiskTest, a_ghost_ends_everything_and_changes_nothing) {
  ASSERT_TRUE(write(0, 1).ok());
  auto lock = disk_->lock_directory("/");
  ASSERT_TRUE(lock.has_value());
  image_.kill();
  EXPECT_EQ(write(0, 2), Status(Code::closed));
  EXPECT_EQ(disk_->replace_file("/x", "x"), Status(Code::closed));
  EXPECT_EQ(disk_->remove("/data"), Status(Code::closed));
  EXPECT_FALSE(disk_->open("/data", {}).has_value());
  EXPECT_EQ(value_of(0), 1);
  // The lock died with the process, and its late destructor does not take the next one's away.
  SimDisk next(image_, loop_);
  auto second = next.lock_directory("/");
  ASSERT_TRUE(second.has_value());
  lock->reset();
  EXPECT_EQ(next.lock_directory("/").error(), Status(Code::in_use));
}

TEST_F(SimDiskTest, a_full_disk_refuses_and_takes_again_after_discard) {
  image_.set_capacity(10 * 4096);
  Request request;
  submit(request, DiskOpKind::allocate, 0, nullptr, 8);
  ASSERT_TRUE(finish(request).ok());
  EXPECT_EQ(image_.used_bytes(), 8u * 4096);
  ASSERT_TRUE(write(7, 1).ok());
  ASSERT_TRUE(write(9, 1).ok());
  submit(request, DiskOpKind::allocate, 8, nullptr, 8);
  EXPECT_EQ(finish(request), Status(Code::no_space));
  EXPECT_EQ(disk_->replace_file("/x", std::string(9000, 'x')), Status(Code::no_space));
  EXPECT_EQ(disk_->space("/")->free_bytes, 4096u);
  submit(request, DiskOpKind::discard, 0, nullptr, 4);
  ASSERT_TRUE(finish(request).ok());
  EXPECT_EQ(disk_->space("/")->free_bytes, 5u * 4096);
  EXPECT_TRUE(disk_->replace_file("/x", std::string(9000, 'x')).ok());
}

TEST_F(SimDiskTest, an_allocation_that_was_not_synced_may_be_lost) {
  image_.faults.lose_unsynced_permille = 1000;
  Request request;
  submit(request, DiskOpKind::allocate, 0, nullptr, 8);
  ASSERT_TRUE(finish(request).ok());
  image_.power_cut();
  restart();
  EXPECT_EQ(image_.size("/data"), 0u);
  EXPECT_EQ(image_.used_bytes(), 0u);
}

TEST_F(SimDiskTest, what_a_failed_sync_covered_is_not_made_durable_by_the_next) {
  image_.faults.lose_unsynced_permille = 1000;
  ASSERT_TRUE(write(0, 1).ok());
  image_.faults.sync_error_permille = 1000;
  EXPECT_EQ(sync(), Status(Code::io_error));
  image_.faults.sync_error_permille = 0;
  ASSERT_TRUE(write(1, 2).ok());
  ASSERT_TRUE(sync().ok());
  image_.power_cut();
  restart();
  EXPECT_EQ(value_of(0), 0);
  EXPECT_EQ(value_of(1), 2);
}

TEST_F(SimDiskTest, a_doomed_write_never_comes_back_over_a_later_durable_one) {
  image_.faults.lose_unsynced_permille = 0;
  image_.faults.tear_unsynced_permille = 0;  // keep everything
  ASSERT_TRUE(write(0, 1).ok());
  image_.faults.sync_error_permille = 1000;
  EXPECT_EQ(sync(), Status(Code::io_error));
  image_.faults.sync_error_permille = 0;
  ASSERT_TRUE(write(0, 2).ok());
  ASSERT_TRUE(sync().ok());
  image_.power_cut();
  restart();
  EXPECT_EQ(value_of(0), 2);
}

TEST_F(SimDiskTest, injected_errors_are_reported) {
  image_.faults.read_error_permille = image_.faults.write_error_permille = 1000;
  EXPECT_EQ(write(0, 1), Status(Code::io_error));
  Request request;
  submit(request, DiskOpKind::read, 0, &block_);
  EXPECT_EQ(finish(request), Status(Code::io_error));
}

TEST_F(SimDiskTest, silent_faults_are_not_reported) {
  for (uint64_t block = 0; block < 16; ++block) ASSERT_TRUE(write(block, 1).ok());
  image_.faults.lost_write_permille = 1000;
  ASSERT_TRUE(write(0, 2).ok());
  EXPECT_EQ(value_of(0), 1);
  image_.faults.lost_write_permille = 0;
  image_.faults.misdirected_write_permille = 1000;
  int elsewhere = 0;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(write(0, 3).ok());
    elsewhere += value_of(0) == 1;
  }
  EXPECT_GT(elsewhere, 0);
  image_.faults.misdirected_write_permille = 0;
  image_.flip_bit("/data", 4096 * 15, 7);
  EXPECT_EQ(image_.peek("/data", 4096 * 15, 1)[0],
            std::byte{0x81} ^ (std::byte{1} ^ image_.peek("/data", 4096 * 15 + 1, 1)[0]));
  image_.faults.flipped_read_permille = 1000;
  const auto before = image_.peek("/data", 0, 4096);
  Request request;
  submit(request, DiskOpKind::read, 0, &block_);
  ASSERT_TRUE(finish(request).ok());
  int bits = 0;
  for (size_t i = 0; i < 4096; ++i) {
    bits += std::popcount(std::to_integer<unsigned>(before[i] ^ block_.bytes[i]));
  }
  EXPECT_EQ(bits, 1);
}

TEST_F(SimDiskTest, a_large_preallocated_file_costs_no_memory) {
  Request request;
  submit(request, DiskOpKind::allocate, 0, nullptr, 64 * kGiB / 4096);
  ASSERT_TRUE(finish(request).ok());
  EXPECT_EQ(image_.used_bytes(), 64 * kGiB);
  ASSERT_TRUE(write(kGiB / 4096, 1).ok());
  ASSERT_TRUE(sync().ok());
  image_.power_cut();
  restart();
  EXPECT_EQ(image_.size("/data"), 64 * kGiB);
  EXPECT_EQ(value_of(kGiB / 4096), 1);
}

TEST(SimDisk, the_same_seed_repeats_itself_to_the_end) {
  const auto run = [](uint64_t seed) {
    SimWorld world(seed);
    SimLoop loop(world);
    SimDiskImage image(world);
    {
      SimDisk disk(image, loop);
      const DiskFile file = *disk.open("/data", {.create = true});
      std::vector<Request> requests(64);
      std::vector<Block> blocks(64);
      for (size_t i = 0; i < requests.size(); ++i) {
        blocks[i].fill(static_cast<int>(i));
        requests[i].kind = i % 9 == 8 ? DiskOpKind::sync : DiskOpKind::write;
        requests[i].file = file;
        requests[i].offset = world.random().below(32) * 4096;
        requests[i].memory = {blocks[i].bytes.data(), 4096, engine::kNoBuffer, {}};
        disk.submit(requests[i]);
      }
      world.at(world.now() + std::chrono::microseconds(100), "cut", [&] { image.power_cut(); });
      world.run_for(std::chrono::milliseconds(10));
      for (const Request& request : requests) EXPECT_TRUE(request.done);
    }
    const auto bytes = image.peek("/data", 0, 32 * 4096);
    return world.trace_hash() ^ crc32c(bytes);
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

}  // namespace
}  // namespace penstock::sim
