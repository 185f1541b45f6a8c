#include "sim_source.h"

#include <algorithm>
#include <deque>
#include <gtest/gtest.h>

namespace penstock::route {
namespace {

using engine::DeviceId;
using engine::DeviceSpan;
using engine::Route;

constexpr uint64_t kFileBytes = 8 * kMiB + 4321;

class GathererTest : public testing::TestWithParam<uint64_t> {
 protected:
  GathererTest() : world_(GetParam()) {
    EXPECT_TRUE(devices_.pin(slots_, false));
    loop_.add(source_);
    loop_.add(gatherer_);
    loop_.add(mover_);
    auto& bytes = source_.file(1);
    bytes.resize(kFileBytes);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(mix64(i) >> 7);
    span_ = *devices_.allocate(DeviceId(0), 48 * kMiB);
  }
  ~GathererTest() override {
    loop_.remove(mover_);
    loop_.remove(gatherer_);
    loop_.remove(source_);
    devices_.unpin(slots_);
  }

  struct List {
    GatherOp op;
    std::vector<ListEntry> entries;
    bool ended = false;
  };

  void keep(uint64_t permille) {
    for (uint64_t extent = 0; extent * SimSource::kExtent < kFileBytes; ++extent) {
      if (world_.random().chance(permille, 1000)) source_.keep(1, extent);
    }
  }
  void start(List& list) {
    list.op.file = 1;
    list.op.memory = span_;
    list.op.entries = list.entries;
    list.op.owner = &list;
    list.op.completion = [](engine::Op& op) { op.owner_as<List>().ended = true; };
    gatherer_.submit(list.op);
  }
  void finish() {
    for (int i = 0; i < 400'000 && !gatherer_.idle(); ++i) {
      world_.run_for(std::chrono::microseconds(5));
    }
    ASSERT_TRUE(gatherer_.idle());
    world_.run_for(std::chrono::microseconds(5));
  }
  void expect_entries(const List& list) {
    const auto& bytes = source_.file(1);
    uint64_t sum = 0;
    for (const ListEntry& entry : list.entries) {
      const uint64_t there = entry.offset < kFileBytes ? kFileBytes - entry.offset : 0;
      ASSERT_EQ(entry.done, std::min<uint64_t>(entry.length, there));
      std::vector<std::byte> got(entry.done);
      devices_.peek(span_.data + entry.memory_offset, got);
      ASSERT_TRUE(std::equal(got.begin(), got.end(), bytes.data() + entry.offset));
      sum += entry.done;
    }
    EXPECT_EQ(list.op.transferred, sum);
  }
  void fill(List& list, size_t count, uint64_t length_max) {
    uint64_t to = next_target_;
    for (size_t i = 0; i < count; ++i) {
      const auto length = static_cast<uint32_t>(1 + world_.random().below(length_max));
      list.entries.push_back({world_.random().below(kFileBytes + 1000), to, length, 77});
      to += length;
    }
    next_target_ = to;
  }

  sim::SimWorld world_;
  sim::SimLoop loop_{world_};
  sim::SimDeviceMemory devices_{world_.random()};
  SimSource source_{loop_, world_.random(), devices_};
  const test::MappedMemory memory_{8 * kMiB};
  const MutableBytes slots_ = memory_.bytes();
  Mover mover_{loop_, devices_, source_, {.slots = slots_}};
  Gatherer gatherer_{loop_, mover_, source_, mover_.lanes(), true};
  DeviceSpan span_;
  uint64_t next_target_ = 0;
};

TEST_P(GathererTest, entries_arrive_each_at_its_place_cached_or_not) {
  keep(700);
  if (world_.buggify("replace", 500)) source_.faults.replace_permille = 400;
  std::deque<List> lists;
  for (int i = 0; i < 6; ++i) {
    List& list = lists.emplace_back();
    fill(list, 1 + world_.random().below(900), 6000);
    start(list);
    if (i % 2 == 0) world_.run_for(std::chrono::microseconds(30));
  }
  finish();
  for (const List& list : lists) {
    EXPECT_TRUE(list.ended);
    EXPECT_TRUE(list.op.status.ok()) << list.op.status.name();
    expect_entries(list);
  }
}

TEST_P(GathererTest, one_bad_block_fails_its_entry_only) {
  keep(1000);
  List list;
  for (uint64_t i = 0; i < 500; ++i) list.entries.push_back({i * 4096, i * 4096, 4096, 0});
  const uint64_t bad = world_.random().below(500);
  ASSERT_TRUE(source_.spoil(1, bad * 4096 + 5));
  start(list);
  finish();
  EXPECT_EQ(list.op.status, Code::corrupt);
  for (uint64_t i = 0; i < 500; ++i) {
    EXPECT_EQ(list.entries[i].done, i == bad ? 0U : 4096U) << i;
  }
}

TEST_P(GathererTest, errors_of_the_source_leave_the_other_entries_good) {
  source_.faults.error_permille = 100;
  List list;
  fill(list, 300, 5000);
  start(list);
  finish();
  EXPECT_EQ(list.op.status, Code::io_error);
  uint64_t good = 0;
  for (const ListEntry& entry : list.entries) good += entry.done == entry.length ? 1 : 0;
  EXPECT_GT(good, 100U);
}

TEST_P(GathererTest, cancelled_list_ends_early) {
  List list;
  fill(list, 2000, 5000);
  start(list);
  world_.run_for(std::chrono::microseconds(20));
  gatherer_.cancel(list.op);
  finish();
  EXPECT_TRUE(list.ended);
  EXPECT_EQ(list.op.status, Code::cancelled);
}

TEST_P(GathererTest, cancelling_all_ends_lists_without_reading_the_rest) {
  source_.faults.delay_min = source_.faults.delay_max = std::chrono::milliseconds(20);
  std::deque<List> lists(3);
  for (List& list : lists) {
    fill(list, 2000, 4000);
    start(list);
  }
  world_.run_for(std::chrono::microseconds(100));
  const uint64_t before = source_.submitted;
  gatherer_.cancel_all();
  finish();
  for (const List& list : lists) {
    EXPECT_TRUE(list.ended);
    EXPECT_EQ(list.op.status, Code::cancelled);
  }
  EXPECT_EQ(source_.submitted, before);
}

TEST_P(GathererTest, cancelled_list_ends_behind_one_that_goes_on) {
  source_.faults.delay_min = source_.faults.delay_max = std::chrono::milliseconds(2);
  std::deque<List> lists(2);
  for (List& list : lists) {
    fill(list, 1000, 4000);
    start(list);
  }
  world_.run_for(std::chrono::microseconds(100));
  gatherer_.cancel(lists[1].op);
  world_.run_for(std::chrono::microseconds(10));
  EXPECT_TRUE(lists[1].ended);
  EXPECT_EQ(lists[1].op.status, Code::cancelled);
  EXPECT_FALSE(lists[0].ended);
  // Once more, of one that has ended.
  gatherer_.cancel(lists[1].op);
  finish();
  EXPECT_TRUE(lists[0].op.status.ok());
  expect_entries(lists[0]);
}

TEST_P(GathererTest, deadline_ends_a_list_whatever_it_waits_for) {
  keep(world_.random().below(2) * 1000);
  source_.faults.delay_min = source_.faults.delay_max = std::chrono::milliseconds(20);
  devices_.faults.delay_min = devices_.faults.delay_max = std::chrono::milliseconds(1);
  std::deque<List> lists(3);
  for (List& list : lists) {
    for (uint64_t i = 0; i < 3'000; ++i) list.entries.push_back({i % 2048 * 4096, 0, 4096, 0});
    list.op.deadline = loop_.now() + std::chrono::microseconds(200);
    start(list);
  }
  EXPECT_EQ(gatherer_.next_deadline(), lists[0].op.deadline);
  const engine::Time began = loop_.now();
  finish();
  // What is under way ends before.
  EXPECT_LT(loop_.now() - began, std::chrono::milliseconds(5));
  for (const List& list : lists) {
    EXPECT_TRUE(list.ended);
    EXPECT_EQ(list.op.status, Code::timed_out);
  }
  EXPECT_EQ(gatherer_.next_deadline(), engine::kNever);
}

TEST_P(GathererTest, lost_device_ends_the_list) {
  keep(1000);
  List list;
  fill(list, 100, 5000);
  devices_.lose(DeviceId(0));
  start(list);
  finish();
  EXPECT_EQ(list.op.status, Code::io_error);
}

std::vector<uint64_t> gatherer_seeds() {
  const sim::SeedRange range = sim::seed_range(15);
  std::vector<uint64_t> all;
  for (uint64_t i = 0; i < range.count; ++i) all.push_back(range.first + i);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Seeds, GathererTest, testing::ValuesIn(gatherer_seeds()));

}  // namespace
}  // namespace penstock::route
