// The contract of engine::Disk, held by the real disks and by the simulated one alike: operations.
#include "disk_conformance.h"

#include <cstring>
#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock::sim {
namespace {

TEST_P(DiskConformance, reads_what_was_written) {
  const DiskFile file = create("data");
  fill(0, kMiB, 1);
  ASSERT_TRUE(write(file, 8192, kMiB).ok());
  ASSERT_TRUE(change(DiskOpKind::sync, file, 0, 0).ok());
  uint64_t transferred = 0;
  ASSERT_TRUE(read(file, 8192, kMiB, 2 * kMiB, &transferred).ok());
  EXPECT_EQ(transferred, kMiB);
  EXPECT_TRUE(same(0, 2 * kMiB, kMiB));
  // The gap before it reads as zeros.
  ASSERT_TRUE(read(file, 0, 8192, 2 * kMiB, &transferred).ok());
  EXPECT_EQ(transferred, 8192u);
  EXPECT_TRUE(same(2 * kMiB, 3 * kMiB + 8192, 8192));
  auto size = disk().size(file);
  ASSERT_TRUE(size.has_value());
  EXPECT_EQ(*size, kMiB + 8192);
  disk().close(file);
}

TEST_P(DiskConformance, reads_end_at_the_end_of_the_file) {
  const DiskFile file = create("data");
  ASSERT_TRUE(write(file, 0, 8192).ok());
  uint64_t transferred = 9;
  ASSERT_TRUE(read(file, 4096, 16384, kMiB, &transferred).ok());
  EXPECT_EQ(transferred, 4096u);
  ASSERT_TRUE(read(file, 8192, 4096, kMiB, &transferred).ok());
  EXPECT_EQ(transferred, 0u);
  ASSERT_TRUE(read(file, 1 * kGiB, 4096, kMiB, &transferred).ok());
  EXPECT_EQ(transferred, 0u);
  disk().close(file);
}

TEST_P(DiskConformance, a_file_whose_length_is_odd_is_read_to_its_end) {
  ASSERT_TRUE(disk().replace_file(path("odd"), std::string(5000, 'x')).ok());
  auto opened = disk().open(path("odd"), {.read_only = true});
  ASSERT_TRUE(opened.has_value());
  uint64_t transferred = 0;
  ASSERT_TRUE(read(*opened, 0, 16384, 0, &transferred).ok());
  EXPECT_EQ(transferred, 5000u);
  EXPECT_EQ(memory_.get()[4999], std::byte{'x'});
  disk().close(*opened);
}

TEST_P(DiskConformance, completes_in_a_later_turn_and_never_inside_submit) {
  const DiskFile file = create("data");
  bool completed = false;
  DiskOp op;
  op.kind = DiskOpKind::sync;
  op.file = file;
  op.owner = &completed;
  op.completion = [](Op& self) { self.owner_as<bool>() = true; };
  disk().submit(op);
  EXPECT_FALSE(completed);
  while (!completed) bench_->loop().poll_or_park(engine::kNever);
  // Refusals too.
  completed = false;
  op.file = DiskFile(4000);
  disk().submit(op);
  EXPECT_FALSE(completed);
  while (!completed) bench_->loop().poll_or_park(engine::kNever);
  EXPECT_EQ(op.status, Status(Code::bad_handle));
  disk().close(file);
}

TEST_P(DiskConformance, alignment_is_demanded_where_files_are_direct_and_only_there) {
  const DiskFile file = create("data");
  ASSERT_TRUE(write(file, 0, 8192).ok());
  const bool direct = disk().facts().direct;
  EXPECT_EQ(direct, alignment_ > 1);
  EXPECT_EQ(direct, disk().facts().direct_reason.empty());
  const uint64_t odd = direct ? alignment_ / 2 : 1;
  const Status expected = direct ? Code::invalid_argument : Code::ok;
  uint64_t transferred = 0;
  EXPECT_EQ(write(file, odd, 4096), expected);
  EXPECT_EQ(write(file, 0, odd), expected);
  EXPECT_EQ(read(file, 0, 4096, odd, &transferred), expected);
  EXPECT_EQ(read(file, 0, 4096, alignment_, &transferred), Status(Code::ok));
  disk().close(file);
}

TEST_P(DiskConformance, plain_files_take_any_alignment) {
  const DiskFile file = create("data", false);
  fill(1, 1000, 5);
  ASSERT_TRUE(write(file, 77, 1000, 1).ok());
  uint64_t transferred = 0;
  ASSERT_TRUE(read(file, 77, 5000, kMiB + 3, &transferred).ok());
  EXPECT_EQ(transferred, 1000u);
  EXPECT_TRUE(same(1, kMiB + 3, 1000));
  disk().close(file);
}

TEST_P(DiskConformance, allocate_extends_the_file_with_zeros) {
  const DiskFile file = create("data");
  std::memset(memory_.get(), 0xff, 8192);
  ASSERT_TRUE(change(DiskOpKind::allocate, file, 0, 64 * kMiB).ok());
  EXPECT_EQ(*disk().size(file), 64 * kMiB);
  uint64_t transferred = 0;
  ASSERT_TRUE(read(file, 63 * kMiB, 8192, 0, &transferred).ok());
  EXPECT_EQ(transferred, 8192u);
  EXPECT_TRUE(same(0, kMiB, 8192));
  // It does not shrink or erase what is there.
  fill(0, 4096, 3);
  ASSERT_TRUE(write(file, 0, 4096).ok());
  ASSERT_TRUE(change(DiskOpKind::allocate, file, 0, kMiB).ok());
  EXPECT_EQ(*disk().size(file), 64 * kMiB);
  ASSERT_TRUE(read(file, 0, 4096, kMiB, &transferred).ok());
  EXPECT_TRUE(same(0, kMiB, 4096));
  disk().close(file);
}

TEST_P(DiskConformance, discarded_ranges_read_as_zeros_and_the_rest_stays) {
  const DiskFile file = create("data");
  fill(0, 16384, 3);
  ASSERT_TRUE(write(file, 0, 16384).ok());
  ASSERT_TRUE(change(DiskOpKind::discard, file, 4096, 8192).ok());
  EXPECT_EQ(*disk().size(file), 16384u);
  uint64_t transferred = 0;
  ASSERT_TRUE(read(file, 0, 16384, kMiB, &transferred).ok());
  EXPECT_EQ(transferred, 16384u);
  EXPECT_TRUE(same(0, kMiB, 4096));
  EXPECT_TRUE(same(12288, kMiB + 12288, 4096));
  EXPECT_TRUE(same(kMiB + 4096, 2 * kMiB, 8192));
  disk().close(file);
}

TEST_P(DiskConformance, refuses_impossible_operations) {
  const DiskFile file = create("data");
  ASSERT_TRUE(write(file, 0, 4096).ok());
  const Status refused = Code::invalid_argument;
  EXPECT_EQ(write(file, UINT64_MAX - 4095, 4096), refused);
  EXPECT_EQ(write(file, INT64_MAX - 4094, 4096), refused);
  EXPECT_EQ(write(file, 0, kGiB + 4096), refused);
  EXPECT_EQ(change(DiskOpKind::allocate, file, 0, 0), refused);
  EXPECT_EQ(change(DiskOpKind::discard, file, 0, 0), refused);
  DiskOp op;
  op.file = file;
  op.memory = {memory_.get(), 4096, engine::kNoBuffer, engine::MemoryKind::device};
  EXPECT_EQ(run(op), refused);
  EXPECT_EQ(write(DiskFile(99), 0, 4096), Status(Code::bad_handle));
  uint64_t transferred = 7;
  EXPECT_TRUE(read(file, 0, 0, 0, &transferred).ok());
  EXPECT_EQ(transferred, 0u);
  disk().close(file);
}

TEST_P(DiskConformance, durable_writes_are_read_like_any_others) {
  const DiskFile file = create("data");
  fill(0, 64 * kKiB, 1);
  DiskOp op;
  op.kind = DiskOpKind::write;
  op.file = file;
  op.offset = 8192;
  op.memory = {memory_.get(), 64 * kKiB, engine::kNoBuffer, {}};
  op.durable = true;
  ASSERT_TRUE(run(op).ok());
  uint64_t transferred = 0;
  ASSERT_TRUE(read(file, 8192, 64 * kKiB, 2 * kMiB, &transferred).ok());
  EXPECT_EQ(transferred, 64 * kKiB);
  EXPECT_TRUE(same(0, 2 * kMiB, 64 * kKiB));
  disk().close(file);
}

TEST_P(DiskConformance, two_opens_of_one_file_see_one_content) {
  const DiskFile first = create("data");
  const DiskFile second = create("data");
  EXPECT_NE(first, second);
  fill(0, 4096, 8);
  ASSERT_TRUE(write(first, 0, 4096).ok());
  uint64_t transferred = 0;
  ASSERT_TRUE(read(second, 0, 4096, kMiB, &transferred).ok());
  EXPECT_TRUE(same(0, kMiB, 4096));
  disk().close(first);
  ASSERT_TRUE(read(second, 0, 4096, kMiB, &transferred).ok());
  disk().close(second);
}

TEST_P(DiskConformance, registered_buffers_work_as_any_memory) {
  const DiskFile file = create("data");
  const engine::BufferId id(5);
  const Status status = disk().register_buffer(id, {memory_.get(), kMemoryBytes});
  if (status.ok()) {
    EXPECT_EQ(disk().register_buffer(id, {memory_.get(), kMemoryBytes}),
              Status(Code::already_exists));
  }
  EXPECT_FALSE(
      disk().register_buffer(engine::BufferId(engine::kDiskBuffersMax), {memory_.get(), 1}).ok());
  fill(0, 65536, 4);
  DiskOp op;
  op.kind = DiskOpKind::write;
  op.file = file;
  // Refused or not, the reference is valid.
  op.memory = {memory_.get(), 65536, id, engine::MemoryKind::host};
  ASSERT_TRUE(run(op).ok());
  op.kind = DiskOpKind::read;
  op.memory = {memory_.get() + kMiB, 65536, id, engine::MemoryKind::host};
  ASSERT_TRUE(run(op).ok());
  EXPECT_TRUE(same(0, kMiB, 65536));
  disk().unregister_buffer(id);
  if (status.ok()) {
    EXPECT_TRUE(disk().register_buffer(id, {memory_.get() + kMiB, kMiB}).ok());
  }
  // Memory outside of what is now behind the id is not the buffer's: nothing fixed about it.
  disk().unregister_buffer(id);
  ASSERT_TRUE(run(op).ok());
  disk().close(file);
}

// Many operations at once on blocks of their own, against a model.
class BlockModel {
 public:
  static constexpr uint64_t kBlock = 4096;
  static constexpr int kBlocks = 96;

  struct Slot : DiskOp {
    int block = -1;
  };

  void begin(Slot& slot, int block, bool write) {
    taken[block] = true;
    slot.block = block;
    slot.offset = static_cast<uint64_t>(block) * kBlock;
    slot.kind = write ? DiskOpKind::write : DiskOpKind::read;
    if (!write) return;
    ++versions_[block];
    for (uint64_t word = 0; word < kBlock / 8; ++word) {
      const uint64_t value = stamp(block, word);
      std::memcpy(slot.memory.data + word * 8, &value, 8);
    }
  }
  void end(Slot& slot) {
    idle.push_back(&slot);
    taken[slot.block] = false;
    bad += !slot.status.ok();
    if (slot.kind != DiskOpKind::read) return;
    bad += slot.transferred != kBlock;
    for (uint64_t word = 0; word < kBlock / 8; ++word) {
      uint64_t value = 0;
      std::memcpy(&value, slot.memory.data + word * 8, 8);
      bad += value != stamp(slot.block, word);
    }
  }

  std::vector<Slot*> idle;
  std::vector<bool> taken = std::vector<bool>(kBlocks, false);
  int bad = 0;

 private:
  uint64_t stamp(int block, uint64_t word) const {
    const auto version = static_cast<uint64_t>(versions_[block]);
    return version == 0 ? 0 : mix64(static_cast<uint64_t>(block) << 40 ^ version << 16 ^ word);
  }
  std::vector<int> versions_ = std::vector<int>(kBlocks, 0);  // 0: not written yet
};

TEST_P(DiskConformance, concurrent_operations_do_not_disturb_each_other) {
  constexpr int kDepth = 32;
  const DiskFile file = create("data");
  ASSERT_TRUE(change(DiskOpKind::allocate, file, 0, BlockModel::kBlocks * BlockModel::kBlock).ok());
  BlockModel model;
  std::vector<BlockModel::Slot> slots(kDepth);
  for (int i = 0; i < kDepth; ++i) {
    slots[i].file = file;
    slots[i].memory = {memory_.get() + i * BlockModel::kBlock, BlockModel::kBlock,
                       engine::kNoBuffer, engine::MemoryKind::host};
    slots[i].owner = &model;
    slots[i].completion = [](Op& op) {
      op.owner_as<BlockModel>().end(static_cast<BlockModel::Slot&>(op));
    };
    model.idle.push_back(&slots[i]);
  }
  engine::SeededRandom random(7);
  int left = 3000;
  while (left > 0 || model.idle.size() < kDepth) {
    while (left > 0 && !model.idle.empty()) {
      const int block = static_cast<int>(random.below(BlockModel::kBlocks));
      if (model.taken[block]) continue;
      BlockModel::Slot& slot = *model.idle.back();
      model.idle.pop_back();
      model.begin(slot, block, random.chance(1, 2));
      disk().submit(slot);
      --left;
    }
    bench_->loop().poll_or_park(engine::kNever);
  }
  EXPECT_EQ(model.bad, 0);
  disk().close(file);
}

INSTANTIATE_TEST_SUITE_P(All, DiskConformance, testing::ValuesIn(disk_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace

std::vector<Kind> disk_kinds() {
  std::vector<Kind> all = {
      {"files", [] { return std::make_unique<RealBench>("/tmp", false); }},
      {"threads", [] { return std::make_unique<RealBench>("/tmp", true); }},
      {"simulated", [] { return std::make_unique<SimBench>(); }},
  };
  if (::access("/dev/shm", W_OK) == 0) {
    all.push_back({"tmpfs", [] { return std::make_unique<RealBench>("/dev/shm", false); }});
  }
  return all;
}

}  // namespace penstock::sim
