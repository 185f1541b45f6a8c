#include "allocator.h"

#include <gtest/gtest.h>
#include <set>

#include "penstock/engine.h"

namespace penstock::store {
namespace {

constexpr uint32_t kArea = BlockAllocator::kAreaBlocks;

TEST(BlockAllocator, gives_one_run_when_one_is_long_enough) {
  BlockAllocator allocator;
  allocator.add({0, kArea});
  EXPECT_EQ(allocator.allocate(300), (BlockRun{0, 300}));
  EXPECT_EQ(allocator.free_blocks(), kArea - 300u);
  // The surplus of the power of two went back: the next request continues right behind.
  EXPECT_EQ(allocator.allocate(4), (BlockRun{300, 4}));
  EXPECT_TRUE(allocator.consistent());
}

TEST(BlockAllocator, gives_the_longest_run_when_space_is_in_pieces) {
  BlockAllocator allocator;
  allocator.add({0, 64});
  ASSERT_TRUE(allocator.take({16, 1}));
  EXPECT_EQ(allocator.allocate(64), (BlockRun{32, 32}));
  EXPECT_EQ(allocator.allocate(64), (BlockRun{0, 16}));
  EXPECT_EQ(allocator.allocate(64), (BlockRun{24, 8}));
  EXPECT_EQ(allocator.free_blocks(), 7u);
}

TEST(BlockAllocator, merges_to_the_largest_run_when_all_comes_back) {
  BlockAllocator allocator;
  allocator.add({0, 2 * kArea});
  std::vector<BlockRun> taken;
  while (const auto run = allocator.allocate(7)) taken.push_back(*run);
  EXPECT_EQ(allocator.free_blocks(), 0u);
  for (const BlockRun& run : taken) allocator.release(run);
  EXPECT_EQ(allocator.allocate(kArea), (BlockRun{0, kArea}));
  EXPECT_EQ(allocator.allocate(kArea), (BlockRun{kArea, kArea}));
}

TEST(BlockAllocator, refuses_to_take_what_is_not_free_and_changes_nothing) {
  BlockAllocator allocator;
  allocator.add({0, 100});
  ASSERT_TRUE(allocator.take({50, 10}));
  EXPECT_FALSE(allocator.take({59, 1}));
  EXPECT_FALSE(allocator.take({40, 20}));
  EXPECT_FALSE(allocator.take({99, 2}));
  EXPECT_FALSE(allocator.take({UINT32_MAX, 2}));
  EXPECT_EQ(allocator.free_blocks(), 90u);
  EXPECT_TRUE(allocator.consistent());
}

TEST(BlockAllocator, works_at_the_end_of_the_number_space) {
  BlockAllocator allocator;
  const BlockNumber last_area = limits::kTargetBlocksMax - kArea;
  allocator.add({last_area, kArea});
  const auto run = allocator.allocate(kArea / 2);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->first, last_area);
  allocator.release(*run);
  EXPECT_TRUE(allocator.is_free(limits::kTargetBlocksMax - 1));
  EXPECT_FALSE(allocator.is_free(limits::kTargetBlocksMax));
  EXPECT_FALSE(allocator.take({limits::kTargetBlocksMax - 1, 2}));
}

TEST(BlockAllocator, keeps_bitmaps_of_areas_that_are_free_in_part_and_of_no_others) {
  BlockAllocator allocator;
  constexpr uint32_t kAreas = 100;
  for (uint32_t area = 0; area < kAreas; ++area) allocator.add({area * uint64_t{kArea}, kArea});
  EXPECT_EQ(allocator.mixed_areas(), 0u) << "all is free";
  const auto first = allocator.allocate(100);
  ASSERT_TRUE(first);
  EXPECT_EQ(allocator.mixed_areas(), 1u);
  while (allocator.allocate(kArea / 2)) continue;
  EXPECT_EQ(allocator.free_blocks(), 0u);
  EXPECT_EQ(allocator.mixed_areas(), 0u) << "all is in use";
  allocator.release({50 * uint64_t{kArea} + 7, 1});
  EXPECT_EQ(allocator.mixed_areas(), 1u);
  EXPECT_EQ(allocator.allocate(64), (BlockRun{50 * uint64_t{kArea} + 7, 1}));
  allocator.release({50 * uint64_t{kArea}, kArea});
  EXPECT_EQ(allocator.mixed_areas(), 0u) << "one is free again";
  EXPECT_EQ(allocator.allocate(kArea), (BlockRun{50 * uint64_t{kArea}, kArea}));
  EXPECT_TRUE(allocator.consistent());
}

// Random requests against a plain set of free numbers.
class AllocatorModel {
 public:
  explicit AllocatorModel(uint64_t seed) : random_(seed) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const uint64_t kind = random_.below(10);
      if (kind == 0) {
        grow();
      } else if (kind < 5) {
        allocate();
      } else if (kind < 9) {
        release();
      } else {
        take();
      }
      ASSERT_EQ(allocator_.free_blocks(), free_.size());
      if (step % 256 == 0) {
        ASSERT_TRUE(allocator_.consistent());
      }
    }
    for (uint32_t block = 0; block < end_; ++block) {
      ASSERT_EQ(allocator_.is_free(block), free_.contains(block)) << block;
    }
  }

 private:
  void grow() {
    if (end_ > 3 * kArea) return;
    // Not necessarily adjacent: a data file may have ended early.
    end_ += random_.chance(1, 8) ? static_cast<uint32_t>(random_.below(500)) : 0;
    const auto count = static_cast<uint32_t>(1 + random_.below(kArea / 4));
    allocator_.add({end_, count});
    for (uint32_t i = 0; i < count; ++i) free_.insert(end_ + i);
    end_ += count;
  }
  uint32_t longest_power_of_two() const {
    for (uint32_t size = kArea; size > 0; size /= 2) {
      for (auto it = free_.lower_bound(0); it != free_.end();) {
        const uint32_t begin = (*it + size - 1) / size * size;
        uint32_t got = 0;
        while (got < size && free_.contains(begin + got)) ++got;
        if (got == size) return size;
        it = free_.upper_bound(begin + got);
      }
    }
    return 0;
  }
  void allocate() {
    const auto wanted = static_cast<uint32_t>(1 + random_.below(uint64_t{1} << random_.below(13)));
    const auto run = allocator_.allocate(wanted);
    ASSERT_EQ(run.has_value(), !free_.empty());
    if (!run) return;
    ASSERT_LE(run->count, wanted);
    if (run->count < wanted) {
      ASSERT_EQ(run->count, longest_power_of_two());
      ASSERT_LT(run->count, std::bit_ceil(wanted));
    }
    for (uint32_t i = 0; i < run->count; ++i) {
      ASSERT_EQ(free_.erase(run->first + i), 1u) << "handed out twice: " << run->first + i;
    }
    used_.push_back(*run);
  }
  void release() {
    if (used_.empty()) return;
    const size_t which = random_.below(used_.size());
    BlockRun& run = used_[which];
    // The whole, or a part from the front.
    const auto count =
        static_cast<uint32_t>(random_.chance(1, 2) ? run.count : 1 + random_.below(run.count));
    allocator_.release({run.first, count});
    for (uint32_t i = 0; i < count; ++i) free_.insert(run.first + i);
    run.first += count;
    run.count -= count;
    if (run.count == 0) {
      run = used_.back();
      used_.pop_back();
    }
  }
  void take() {
    if (end_ == 0) return;
    const auto first = static_cast<uint32_t>(random_.below(end_));
    const auto count = static_cast<uint32_t>(1 + random_.below(100));
    bool all_free = true;
    for (uint32_t i = 0; i < count; ++i) all_free &= free_.contains(first + i);
    ASSERT_EQ(allocator_.take({first, count}), all_free);
    if (!all_free) return;
    for (uint32_t i = 0; i < count; ++i) free_.erase(first + i);
    used_.push_back({first, count});
  }

  engine::SeededRandom random_;
  BlockAllocator allocator_;
  std::set<uint32_t> free_;
  std::vector<BlockRun> used_;
  uint32_t end_ = 0;
};

TEST(BlockAllocator, behaves_like_a_set_when_used_at_random) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    AllocatorModel(seed).run(1500);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::store
