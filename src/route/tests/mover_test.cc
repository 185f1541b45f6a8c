#include "sim_source.h"

#include <algorithm>
#include <deque>
#include <gtest/gtest.h>

namespace penstock::route {
namespace {

using engine::DeviceId;
using engine::DeviceSpan;
using engine::Route;

constexpr uint64_t kMovedBytes = 8 * kMiB + 12345;

class MoverTest : public testing::Test {
 protected:
  explicit MoverTest(uint64_t seed = 1) : world_(seed) {
    EXPECT_TRUE(devices_.pin(slots_, false));
    loop_.add(source_);
    make_mover({.slots = slots_});
    auto& bytes = source_.file(1);
    bytes.resize(kMovedBytes);
    for (uint64_t i = 0; i < bytes.size(); i += 8) {
      const uint64_t word = mix64(i);
      std::memcpy(&bytes[i], &word, std::min<uint64_t>(8, bytes.size() - i));
    }
    const Outcome<DeviceSpan> span = devices_.allocate(DeviceId(0), 32 * kMiB);
    span_ = *span;
  }
  ~MoverTest() override {
    loop_.remove(*mover_);
    mover_.reset();
    loop_.remove(source_);
    devices_.unpin(slots_);
  }

  void make_mover(MoverConfig config) {
    if (mover_ != nullptr) loop_.remove(*mover_);
    mover_ = std::make_unique<Mover>(loop_, devices_, source_, config);
    loop_.add(*mover_);
  }

  DeviceSpan at(uint64_t offset, uint64_t length) const {
    return {span_.device, span_.data + offset, length, span_.allocation};
  }

  void start(TransferOp& op) {
    ++left_;
    op.owner = this;
    op.completion = [](engine::Op& done) { --done.owner_as<MoverTest>().left_; };
    mover_->submit(op);
  }
  void finish() {
    for (int i = 0; i < 200'000 && left_ > 0; ++i) {
      world_.run_for(std::chrono::microseconds(5));
    }
    ASSERT_EQ(left_, 0);
    EXPECT_TRUE(mover_->idle());
  }

  Status read(uint64_t offset, uint64_t length, uint64_t to, Route only = Route::none) {
    op_ = std::make_unique<TransferOp>();
    op_->file = 1;
    op_->offset = offset;
    op_->memory = at(to, length);
    op_->only = only;
    start(*op_);
    finish();
    return op_->status;
  }

  // Into a file of its own.
  Status write(uint64_t offset, uint64_t length, uint64_t from) {
    op_ = std::make_unique<TransferOp>();
    op_->write = true;
    op_->file = 2;
    op_->offset = offset;
    op_->memory = at(from, length);
    start(*op_);
    finish();
    return op_->status;
  }

  // What a POSIX read of the file would have brought to that place, and nothing beside it.
  void expect_bytes(uint64_t offset, uint64_t length, uint64_t to) {
    const auto& bytes = source_.file(1);
    const uint64_t there = offset < bytes.size() ? bytes.size() - offset : 0;
    const uint64_t count = std::min(length, there);
    EXPECT_EQ(op_->transferred, count);
    std::vector<std::byte> got(count);
    devices_.peek(span_.data + to, got);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), bytes.data() + offset));
  }

  void keep_all() {
    for (uint64_t extent = 0; extent * SimSource::kExtent < kMovedBytes; ++extent) {
      source_.keep(1, extent);
    }
  }

  sim::SimWorld world_;
  sim::SimLoop loop_{world_};
  sim::SimDeviceMemory devices_{world_.random()};
  SimSource source_{loop_, world_.random(), devices_};
  const test::MappedMemory memory_{8 * kMiB};
  const MutableBytes slots_ = memory_.bytes();
  std::unique_ptr<Mover> mover_;
  DeviceSpan span_;
  std::unique_ptr<TransferOp> op_;
  int left_ = 0;
};

TEST_F(MoverTest, bytes_arrive_through_slots_whatever_the_alignment) {
  for (const auto& [offset, length] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 4096}, {1, 1}, {4095, 2}, {100, 5 * kMiB + 3}, {kMiB - 1, 2}, {4096, 65536}}) {
    EXPECT_TRUE(read(offset, length, 77).ok());
    expect_bytes(offset, length, 77);
    EXPECT_EQ(op_->route, Route::device_slots);
  }
}

TEST_F(MoverTest, read_is_short_at_the_end_of_the_file) {
  EXPECT_TRUE(read(kMovedBytes - 1000, 5 * kMiB, 0).ok());
  expect_bytes(kMovedBytes - 1000, 5 * kMiB, 0);
  EXPECT_TRUE(read(kMovedBytes, 4096, 0).ok());
  EXPECT_EQ(op_->transferred, 0U);
  EXPECT_TRUE(read(kMovedBytes + 100 * kMiB, 4096, 0).ok());
  EXPECT_EQ(op_->transferred, 0U);
  EXPECT_TRUE(read(kMovedBytes - 5 * kMiB, 20 * kMiB, 0).ok());
  expect_bytes(kMovedBytes - 5 * kMiB, 20 * kMiB, 0);
}

TEST_F(MoverTest, cached_bytes_are_gathered_without_the_source) {
  keep_all();
  source_.submitted = 0;
  EXPECT_TRUE(read(4096 * 3, 4096, 0).ok());
  expect_bytes(4096 * 3, 4096, 0);
  EXPECT_EQ(op_->route, Route::device_gather);
  EXPECT_TRUE(read(999, 3 * kMiB, 5).ok());
  expect_bytes(999, 3 * kMiB, 5);
  EXPECT_EQ(source_.submitted, 0U);
  EXPECT_TRUE(read(kMovedBytes - 10, 4096, 0).ok());
  expect_bytes(kMovedBytes - 10, 4096, 0);
  EXPECT_EQ(source_.submitted, 0U);
}

TEST_F(MoverTest, source_that_reaches_the_memory_brings_the_bytes_itself) {
  source_.reached = &devices_;
  for (const auto& [offset, length] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 4096}, {1, 1}, {100, 7 * kMiB + 3}, {kMovedBytes - 1000, 5 * kMiB}}) {
    EXPECT_TRUE(read(offset, length, 77).ok());
    expect_bytes(offset, length, 77);
    EXPECT_EQ(op_->route, Route::device_network);
  }
  EXPECT_TRUE(read(kMovedBytes, 4096, 0).ok());
  EXPECT_EQ(op_->transferred, 0U);
}

TEST_F(MoverTest, what_the_source_brought_wrong_is_noticed_and_comes_through_slots) {
  source_.reached = &devices_;
  source_.flip_permille = 1000;
  EXPECT_TRUE(read(4096, 2 * kMiB, 77).ok());
  expect_bytes(4096, 2 * kMiB, 77);
  EXPECT_EQ(op_->route, Route::device_slots);
  EXPECT_EQ(read(4096, 4096, 0, Route::device_network), Status(Code::corrupt));
}

// Its pages are still there for a card.
TEST_F(MoverTest, memory_that_was_released_is_read_and_written_by_no_source) {
  source_.reached = &devices_;
  ASSERT_TRUE(devices_.release(span_).ok());
  EXPECT_EQ(read(0, kMiB, 0), Status(Code::invalid_argument));
  EXPECT_EQ(write(0, 4096, 0), Status(Code::invalid_argument));
  EXPECT_EQ(source_.reached_count, 0u);
}

TEST_F(MoverTest, what_the_source_cannot_bring_itself_comes_through_slots) {
  source_.reached = &devices_;
  source_.out_of_reach_permille = 1000;
  EXPECT_TRUE(read(999, 6 * kMiB, 5).ok());
  expect_bytes(999, 6 * kMiB, 5);
  EXPECT_EQ(op_->route, Route::device_slots);
  source_.out_of_reach_permille = 500;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(read(999, kMovedBytes, 5).ok());
    expect_bytes(999, kMovedBytes, 5);
  }
  EXPECT_GT(source_.reached_count, 20U);
}

TEST_F(MoverTest, only_the_network_is_only_the_network) {
  EXPECT_EQ(read(0, 4096, 0, Route::device_network), Status(Code::not_supported));
  source_.reached = &devices_;
  keep_all();
  EXPECT_TRUE(read(0, 3 * kMiB, 0, Route::device_network).ok());
  expect_bytes(0, 3 * kMiB, 0);
  EXPECT_EQ(op_->route, Route::device_network);
  source_.out_of_reach_permille = 1000;
  EXPECT_EQ(read(0, 4096, 0, Route::device_network), Status(Code::not_supported));
}

TEST_F(MoverTest, more_reads_than_the_source_takes_at_once_all_arrive) {
  source_.reached = &devices_;
  source_.out_of_reach_permille = 100;
  std::deque<TransferOp> ops;
  for (uint64_t i = 0; i < 300; ++i) {
    TransferOp& op = ops.emplace_back();
    op.file = 1;
    op.offset = i * 1000;
    op.memory = at(i * 65536, 65536);
    start(op);
  }
  finish();
  for (uint64_t i = 0; i < ops.size(); ++i) {
    ASSERT_TRUE(ops[i].status.ok());
    std::vector<std::byte> got(65536);
    devices_.peek(ops[i].memory.data, got);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), &source_.file(1)[i * 1000])) << i;
  }
}

TEST_F(MoverTest, writes_go_by_the_source_where_it_reaches_the_memory) {
  source_.reached = &devices_;
  std::vector<std::byte> bytes(5 * kMiB + 11);
  test::fill(bytes, 3);
  devices_.poke(span_.data + 13, bytes);
  EXPECT_TRUE(write(777, bytes.size(), 13).ok());
  EXPECT_EQ(op_->transferred, bytes.size());
  EXPECT_EQ(op_->route, Route::device_network);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), source_.file(2).begin() + 777));
}

TEST_F(MoverTest, reads_that_the_source_brings_itself_end_when_they_are_given_up) {
  source_.reached = &devices_;
  source_.faults.delay_min = std::chrono::milliseconds(5);
  source_.faults.delay_max = std::chrono::milliseconds(6);
  TransferOp op;
  op.file = 1;
  op.memory = at(0, 6 * kMiB);
  start(op);
  world_.run_for(std::chrono::microseconds(50));
  mover_->cancel(op);
  finish();
  EXPECT_EQ(op.status, Status(Code::cancelled));
  TransferOp late;
  late.file = 1;
  late.memory = at(0, 6 * kMiB);
  late.deadline = loop_.now() + std::chrono::milliseconds(1);
  start(late);
  finish();
  EXPECT_EQ(late.status, Status(Code::timed_out));
}

TEST_F(MoverTest, long_runs_of_cached_bytes_go_by_a_copy_engine) {
  make_mover({.slots = slots_,
              .costs = {.engine_bytes_per_second = 50e9,
                        .engine_seconds_per_copy = 1e-6,
                        .gather_bytes_per_second = 20e9}});
  keep_all();
  EXPECT_TRUE(read(0, 128 * kKiB, 0).ok());
  expect_bytes(0, 128 * kKiB, 0);
  EXPECT_EQ(op_->route, Route::device_cache);
  EXPECT_TRUE(read(0, 8 * kKiB, 0).ok());
  EXPECT_EQ(op_->route, Route::device_gather);
}

TEST_F(MoverTest, small_piece_that_is_alone_and_unchecked_goes_by_a_copy_engine) {
  make_mover({.slots = slots_, .verify = false});
  keep_all();
  EXPECT_TRUE(read(4096, 4096, 0).ok());
  expect_bytes(4096, 4096, 0);
  EXPECT_EQ(op_->route, Route::device_cache);
}

TEST_F(MoverTest, forced_route_is_taken_or_refused) {
  EXPECT_EQ(read(0, kMiB, 0, Route::device_cache), Code::not_supported);
  EXPECT_EQ(op_->transferred, 0U);
  EXPECT_EQ(read(0, kMiB, 0, Route::device_peer), Code::not_supported);
  keep_all();
  for (const Route route : {Route::device_cache, Route::device_gather, Route::device_slots}) {
    EXPECT_TRUE(read(5, kMiB, 9, route).ok());
    expect_bytes(5, kMiB, 9);
    EXPECT_EQ(op_->route, route);
  }
}

TEST_F(MoverTest, wrong_bit_in_the_cache_ends_the_operation_and_names_the_place) {
  keep_all();
  ASSERT_TRUE(source_.spoil(1, 300'000));
  EXPECT_EQ(read(0, kMiB, 0), Code::corrupt);
  EXPECT_EQ(op_->bad_offset, 300'000 / kBlockBytes * kBlockBytes);
  EXPECT_EQ(op_->transferred, op_->bad_offset);
  // Others are not concerned.
  EXPECT_TRUE(read(2 * kMiB, kMiB, 0).ok());
}

TEST_F(MoverTest, wrong_bit_on_the_link_ends_the_operation) {
  devices_.faults.flip_permille = 1000;
  EXPECT_EQ(read(0, kMiB, 0), Code::corrupt);
  devices_.faults.flip_permille = 0;
  EXPECT_TRUE(read(0, kMiB, 0).ok());
  expect_bytes(0, kMiB, 0);
}

TEST_F(MoverTest, bytes_that_the_source_did_not_verify_are_read_again_with_care) {
  source_.wrong_bits[200'000] = 1;
  EXPECT_TRUE(read(100, kMiB, 0).ok());
  expect_bytes(100, kMiB, 0);
  EXPECT_EQ(source_.wrong_bits[200'000], 0U);
}

TEST_F(MoverTest, wrong_bit_on_the_disk_ends_the_operation_as_the_source_says) {
  source_.wrong_bits[200'000] = 2;
  EXPECT_EQ(read(0, kMiB, 0), Code::corrupt);
  EXPECT_EQ(source_.wrong_bits[200'000], 0U);
  EXPECT_TRUE(read(kMiB, kMiB, 0).ok());
}

TEST_F(MoverTest, source_may_verify_by_itself) {
  source_.tells_checksums = false;
  EXPECT_TRUE(read(4095, 3 * kMiB, 7).ok());
  expect_bytes(4095, 3 * kMiB, 7);
  devices_.faults.flip_permille = 1000;
  EXPECT_EQ(read(0, kMiB, 0), Code::corrupt);
}

TEST_F(MoverTest, without_kernels_the_caller_is_told_the_checksum) {
  const auto& bytes = source_.file(1);
  for (const bool cached : {false, true}) {
    if (cached) keep_all();
    for (const auto& [offset, length] :
         std::vector<std::pair<uint64_t, uint64_t>>{{0, 4096},
                                                    {1, 1},
                                                    {4095, 2},
                                                    {100, 5 * kMiB + 3},
                                                    {kMovedBytes - 3 * kMiB, 4 * kMiB}}) {
      TransferOp op;
      op.file = 1;
      op.offset = offset;
      op.memory = at(3, length);
      op.without_kernels = true;
      start(op);
      finish();
      EXPECT_TRUE(op.status.ok());
      EXPECT_EQ(op.transferred, std::min(length, kMovedBytes - offset));
      EXPECT_EQ(op.crc32c, crc32c(Bytes(bytes).subspan(offset, op.transferred)));
      EXPECT_EQ(op.route, cached ? Route::device_cache : Route::device_slots);
    }
  }
  // Nothing of ours looks at what landed.
  devices_.faults.flip_permille = 1000;
  TransferOp op;
  op.file = 1;
  op.memory = at(0, kMiB);
  op.without_kernels = true;
  start(op);
  finish();
  EXPECT_TRUE(op.status.ok());
  std::vector<std::byte> landed(kMiB);
  devices_.peek(span_.data, landed);
  EXPECT_NE(crc32c(landed), op.crc32c);
}

TEST_F(MoverTest, error_of_the_source_ends_the_operation_with_what_came_before) {
  source_.faults.error_permille = 300;
  int failures = 0;
  for (int i = 0; i < 20; ++i) {
    const Status status = read(123, 8 * kMiB, 0);
    if (status.ok()) continue;
    ++failures;
    EXPECT_EQ(status, Code::io_error);
    EXPECT_LT(op_->transferred, 8 * kMiB);
    std::vector<std::byte> got(op_->transferred);
    devices_.peek(span_.data, got);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), source_.file(1).data() + 123));
  }
  EXPECT_GT(failures, 10);
}

TEST_F(MoverTest, operation_on_freed_memory_ends_and_writes_nowhere) {
  const Outcome<DeviceSpan> other = devices_.allocate(DeviceId(1), kMiB);
  TransferOp op;
  op.file = 1;
  op.memory = *other;
  start(op);
  world_.run_for(std::chrono::microseconds(5));
  EXPECT_TRUE(devices_.release(*other).ok());
  finish();
  EXPECT_EQ(op.status, Code::invalid_argument);
}

TEST_F(MoverTest, lost_device_ends_operations_with_an_error) {
  devices_.lose(DeviceId(0));
  EXPECT_EQ(read(0, 4 * kMiB, 0), Code::io_error);
}

TEST_F(MoverTest, deadline_ends_the_operation) {
  source_.faults.delay_min = source_.faults.delay_max = std::chrono::milliseconds(50);
  TransferOp op;
  op.file = 1;
  op.memory = at(0, 8 * kMiB);
  op.deadline = loop_.now() + std::chrono::milliseconds(2);
  const engine::Time began = loop_.now();
  start(op);
  finish();
  EXPECT_EQ(op.status, Code::timed_out);
  EXPECT_LT(loop_.now() - began, std::chrono::milliseconds(5));
}

TEST_F(MoverTest, cancelled_operation_ends_early) {
  source_.faults.delay_min = source_.faults.delay_max = std::chrono::milliseconds(50);
  TransferOp op;
  op.file = 1;
  op.memory = at(0, 8 * kMiB);
  start(op);
  world_.run_for(std::chrono::milliseconds(1));
  mover_->cancel(op);
  finish();
  EXPECT_EQ(op.status, Code::cancelled);
}

TEST_F(MoverTest, write_brings_device_memory_into_the_file) {
  std::vector<std::byte> content(3 * kMiB + 77);
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(mix64(i) >> 9);
  devices_.poke(span_.data + 3, content);
  TransferOp op;
  op.write = true;
  op.file = 2;
  op.offset = 4097;
  op.memory = at(3, content.size());
  start(op);
  finish();
  EXPECT_TRUE(op.status.ok());
  EXPECT_EQ(op.transferred, content.size());
  const auto& file = source_.file(2);
  ASSERT_EQ(file.size(), 4097 + content.size());
  EXPECT_TRUE(std::memcmp(file.data() + 4097, content.data(), content.size()) == 0);
}

TEST_F(MoverTest, small_reads_overtake_a_large_one_that_waits_for_slots) {
  TransferOp large;
  large.file = 1;
  large.memory = at(0, 8 * kMiB);
  std::deque<TransferOp> small(50);
  start(large);
  uint64_t to = 9 * kMiB;
  for (TransferOp& op : small) {
    op.file = 1;
    op.offset = to;
    op.memory = at(to, 4096);
    to += 4096;
    start(op);
  }
  int done_before = 0;
  while (left_ > 0) {
    world_.run_for(std::chrono::microseconds(5));
    if (left_ == 1) break;
    if (large.status.ok() && large.transferred > 0) break;
    ++done_before;
  }
  finish();
  EXPECT_GT(done_before, 0);
}

TEST_F(MoverTest, more_pieces_than_there_may_be_come_by_slots_when_all_were_replaced) {
  keep_all();
  devices_.faults.delay_min = devices_.faults.delay_max = std::chrono::milliseconds(1);
  std::deque<TransferOp> all(9000);
  uint64_t to = 0;
  for (TransferOp& op : all) {
    op.file = 1;
    op.offset = to;
    op.memory = at(to, 64);
    to += 64;
    start(op);
  }
  world_.run_for(std::chrono::microseconds(500));
  source_.drop_all();
  finish();
  for (const TransferOp& op : all) EXPECT_TRUE(op.status.ok());
}

TEST_F(MoverTest, operation_that_waits_for_a_slot_asks_once_what_is_in_memory) {
  TransferOp large;
  large.file = 1;
  large.memory = at(0, kMovedBytes);
  start(large);
  finish();
  EXPECT_TRUE(large.status.ok());
  // Once for each of its pieces, as long as slots.
  EXPECT_EQ(source_.asked_count, kMovedBytes / kMiB + 1);
}

TEST_F(MoverTest, cancelling_one_of_many_leaves_the_others_alone) {
  source_.faults.delay_min = source_.faults.delay_max = std::chrono::milliseconds(1);
  std::deque<TransferOp> all(100);
  uint64_t to = 0;
  for (TransferOp& op : all) {
    op.file = 1;
    op.offset = to;
    op.memory = at(to, 4096);
    to += 4096;
    start(op);
  }
  world_.run_for(std::chrono::microseconds(100));
  for (size_t i = 0; i < all.size(); i += 2) mover_->cancel(all[i]);
  finish();
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].status, i % 2 == 0 ? Status(Code::cancelled) : Status());
  }
}

// Whatever happens to the cache, the source and the order of things, each operation brings exactly
// the file's bytes, or says why not.
class MoverSimulation : public MoverTest, public testing::WithParamInterface<uint64_t> {
 protected:
  MoverSimulation() : MoverTest(GetParam()) {}
};

TEST_P(MoverSimulation, random_operations_bring_the_files_bytes) {
  engine::Random& random = world_.random();
  if (world_.buggify("replace", 500)) source_.faults.replace_permille = 300;
  if (world_.buggify("errors", 300)) source_.faults.error_permille = 10;
  source_.tells_checksums = !world_.buggify("verifies", 300);
  if (world_.buggify("reaches", 500)) {
    source_.reached = &devices_;
    source_.out_of_reach_permille = 200;
    source_.flip_permille = 100;
  }
  for (int k = 0; k < 20; ++k) source_.wrong_bits[random.below(kMovedBytes)] = 1;
  if (world_.buggify("engine", 500)) {
    make_mover({.slots = slots_, .costs = {.engine_seconds_per_copy = 1e-7}});
  }
  struct One {
    TransferOp op;
    uint64_t to = 0;
    bool ended = false;
  };
  std::deque<One> all;
  uint64_t to = 0;
  while (to + 512 * kKiB < span_.length && all.size() < 300) {
    One& one = all.emplace_back();
    const bool large = random.chance(1, 10);
    const uint64_t length = 1 + random.below(large ? 400 * kKiB : 10'000);
    one.op.file = 1;
    one.op.offset = random.below(kMovedBytes + 10'000);
    one.to = to;
    one.op.memory = at(to, length);
    one.op.without_kernels = random.chance(1, 5);
    to += length;
    if (random.chance(1, 20)) one.op.deadline = loop_.now() + std::chrono::microseconds(300);
    for (int k = 0; k < 3; ++k) source_.keep(1, random.below(kMovedBytes / SimSource::kExtent + 1));
    start(one.op);
    one.op.owner = &one;
    one.op.completion = [](engine::Op& op) { op.owner_as<One>().ended = true; };
    --left_;
    if (random.chance(1, 3)) world_.run_for(std::chrono::microseconds(20));
    if (random.chance(1, 40)) {
      One& victim = all[random.below(all.size())];
      if (!victim.ended) mover_->cancel(victim.op);
    }
  }
  for (int i = 0; i < 200'000 && !mover_->idle(); ++i) {
    world_.run_for(std::chrono::microseconds(5));
  }
  ASSERT_TRUE(mover_->idle());
  const auto& bytes = source_.file(1);
  for (const One& one : all) {
    ASSERT_TRUE(one.ended);
    const uint64_t there = one.op.offset < bytes.size() ? bytes.size() - one.op.offset : 0;
    const uint64_t whole = std::min(one.op.memory.length, there);
    if (one.op.status.ok()) {
      EXPECT_EQ(one.op.transferred, whole);
    } else {
      const Code code = one.op.status.code();
      EXPECT_TRUE(code == Code::io_error || code == Code::cancelled || code == Code::timed_out ||
                  code == Code::corrupt)
          << one.op.status.name();
    }
    std::vector<std::byte> got(one.op.transferred);
    devices_.peek(span_.data + one.to, got);
    ASSERT_LE(got.size(), whole);
    ASSERT_TRUE(std::equal(got.begin(), got.end(), bytes.data() + one.op.offset));
    if (one.op.without_kernels && one.op.status.ok()) {
      ASSERT_EQ(one.op.crc32c, crc32c(got));
    }
  }
}

std::vector<uint64_t> seeds() {
  const sim::SeedRange range = sim::seed_range(60);
  std::vector<uint64_t> all;
  for (uint64_t i = 0; i < range.count; ++i) all.push_back(range.first + i);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Seeds, MoverSimulation, testing::ValuesIn(seeds()));

}  // namespace
}  // namespace penstock::route
