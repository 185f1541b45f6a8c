// A logged write whose data write fails while its record becomes whole.
#include "log_rig.h"

namespace penstock::store {
namespace {

// Its data write fails and its record is whole, which nobody can take back before a commit.
class FailedDataTest : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    write(kChunk, 0, 1, 3);
    ASSERT_TRUE(rig.sync().ok());
    // Commits take seconds from now on, writes less than a millisecond.
    rig.records.faults.delay_min = rig.records.faults.delay_max = std::chrono::seconds(1);
    fail_data_write();
  }

  // Blocks 0 and 1, whole. The data write is on its way when it was submitted, its record is not.
  void fail_data_write() {
    const uint64_t before = logged();
    start(failed_, 0, 2 * kBlockBytes, 2);
    ASSERT_EQ(logged(), before + 1) << "it has joined";
    rig.platter.faults.latency_min = rig.platter.faults.latency_max = std::chrono::milliseconds(5);
    rig.platter.faults.write_error_permille = 1000;
    rig.world.run_for(std::chrono::milliseconds(1));
    rig.platter.faults = {};
    rig.world.run_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(rig.core().failed.ok());
    ASSERT_FALSE(failed_.done) << "a crash would bring it back";
  }

  struct Started : WriteOp {
    bool done = false;
    std::vector<std::byte> bytes;
  };
  void start(Started& op, uint32_t offset, uint32_t length, uint64_t seed) {
    op.bytes.resize(length + kBlockBytes);
    const auto address = reinterpret_cast<uintptr_t>(op.bytes.data());
    std::byte* const memory = op.bytes.data() + (align_up(address, kBlockBytes) - address);
    const auto content = test::content(length, seed);
    std::copy(content.begin(), content.end(), memory);
    op.chunk = kChunk;
    op.offset = offset;
    op.source = {memory, length, engine::kNoBuffer, engine::MemoryKind::host};
    op.durable = true;
    op.owner = &op;
    op.completion = [](engine::Op& ended) { ended.owner_as<Started>().done = true; };
    rig.target().submit(op);
  }

  Started failed_;
  Started later_;
};

TEST_F(FailedDataTest, comes_back_whole_after_a_crash) {
  rig.power_cut();
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  EXPECT_EQ(rig.core().counters.replayed.value(), 1u);
  EXPECT_TRUE(holds(kChunk, 0, 2, 2));
}

TEST_F(FailedDataTest, a_later_write_that_shares_a_block_leaves_no_half_of_it) {
  // The second half of block 1: the first half is completed from what it held before the failure.
  const uint32_t half = kBlockBytes / 2;
  start(later_, kBlockBytes + half, half, 3);
  rig.world.run_for(std::chrono::milliseconds(50));
  const bool acknowledged = later_.done;
  EXPECT_FALSE(acknowledged) << "no record may follow that builds on the old bytes";
  rig.power_cut();
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  auto expected = test::content(2 * kBlockBytes, 2);
  const auto later = test::content(half, 3);
  if (acknowledged) std::copy(later.begin(), later.end(), expected.begin() + kBlockBytes + half);
  EXPECT_TRUE(rig.read(kChunk, 0, 2 * kBlockBytes) == expected);
}

TEST_F(FailedDataTest, has_had_no_effect_when_it_is_told) {
  ASSERT_TRUE(rig.world.run_until([&] { return failed_.done; }, std::chrono::seconds(20)));
  EXPECT_EQ(failed_.status.code(), Code::io_error);
  const uint64_t before = logged();
  rig.records.faults = {};
  write(kChunk, 1, 3);
  EXPECT_EQ(logged(), before + 1) << "the inode uses the log again";
  rig.power_cut();
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  auto expected = test::content(3 * kBlockBytes, 1);
  const auto later = test::content(kBlockBytes, 3);
  std::copy(later.begin(), later.end(), expected.begin() + kBlockBytes);
  EXPECT_TRUE(rig.read(kChunk, 0, 3 * kBlockBytes) == expected);
}

}  // namespace
}  // namespace penstock::store
