#include "rig.h"

#include <gtest/gtest.h>

namespace penstock::store {
namespace {

using limits::kBlockBytes;
using limits::kMapBytes;

std::vector<std::byte> zeros(size_t length) {
  return std::vector<std::byte>(length);
}

TEST(Target, reads_back_what_was_written) {
  Rig rig;
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  // Aligned or not, within a map and over several.
  const std::pair<uint32_t, uint32_t> ranges[] = {
      {0, 4096},      {8192, 65536}, {1, 1},           {4095, 2},
      {100000, 5000}, {262143, 2},   {262144, 262144}, {524288 + 17, 300000}};
  auto expected = zeros(kMiB);
  uint64_t seed = 1;
  for (const auto& [offset, length] : ranges) {
    auto bytes = test::content(length, seed++);
    ASSERT_TRUE(rig.write(kChunk, offset, bytes).ok());
    std::copy(bytes.begin(), bytes.end(), expected.begin() + offset);
    EXPECT_EQ(rig.read(kChunk, 0, kMiB), expected) << offset;
    EXPECT_EQ(rig.read(kChunk, offset, length), bytes) << offset;
  }
  ASSERT_TRUE(rig.close().ok());
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  EXPECT_EQ(rig.read(kChunk, 0, kMiB), expected);
  EXPECT_EQ(rig.read(kChunk, 3, 4097),
            std::vector<std::byte>(expected.begin() + 3, expected.begin() + 4100));
}

TEST(Target, handles_the_largest_chunk_in_one_operation) {
  Rig rig(1, {.capacity_bytes = 256 * kMiB});
  ASSERT_TRUE(rig.begin());
  auto bytes = test::content(limits::kChunkBytesMax, 9);
  ASSERT_TRUE(rig.write(kChunk, 0, bytes).ok());
  EXPECT_EQ(rig.read(kChunk, 0, limits::kChunkBytesMax), bytes);
  ASSERT_TRUE(rig.clear(kChunk, 0, kWholeChunk).ok());
  EXPECT_EQ(rig.target().status().used_bytes, 0u);
  EXPECT_EQ(rig.read(kChunk, 0, 4096), zeros(4096));
}

TEST(Target, reports_the_route_of_each_operation) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  std::vector<std::byte> memory(64 * kKiB);
  std::byte* aligned = memory.data() + (4096 - reinterpret_cast<uintptr_t>(memory.data()) % 4096);
  WriteOp write;
  write.chunk = kChunk;
  write.source = {aligned, 8192, engine::kNoBuffer, engine::MemoryKind::host};
  ASSERT_TRUE(rig.run(write).ok());
  EXPECT_EQ(write.route, engine::Route::disk_staged) << "a private copy is what is written";
  const auto route_of = [&](std::byte* to, uint32_t offset, uint64_t length) {
    ReadOp read;
    read.chunk = kChunk;
    read.offset = offset;
    read.destination = {to, length, engine::kNoBuffer, engine::MemoryKind::host};
    EXPECT_TRUE(rig.run(read).ok());
    return read.route;
  };
  EXPECT_EQ(route_of(aligned, 0, 8192), engine::Route::disk_direct);
  EXPECT_EQ(route_of(aligned + 1, 0, 8192), engine::Route::disk_staged);
  EXPECT_EQ(route_of(aligned, 1, 4096), engine::Route::disk_staged);
  EXPECT_EQ(route_of(aligned, 8192, 4096), engine::Route::hole);
}

TEST(Target, stores_what_verifies_when_the_source_changes_meanwhile) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  constexpr uint32_t kMost = kMiB + 4096;
  std::vector<std::byte> memory(kMost + 8192);
  std::byte* aligned = memory.data() + (4096 - reinterpret_cast<uintptr_t>(memory.data()) % 4096);
  const std::pair<uint32_t, uint32_t> ranges[] = {
      {0, 4096}, {8192, 65536}, {0, kMiB}, {100, 50}, {5000, 300'000}};
  for (const auto& [at, size] : ranges) {
    const uint32_t length = size;
    for (const uint32_t skew : {0, 1}) {
      WriteOp write;
      write.chunk = kChunk;
      write.offset = at;
      write.source = {aligned + skew, length, engine::kNoBuffer, engine::MemoryKind::host};
      // Every block changes again and again, between any two things that happen.
      bool over = false;
      std::function<void()> scribble = [&] {
        if (over) return;
        for (uint32_t i = 0; i < length; i += 49) aligned[skew + i] ^= std::byte{1};
        rig.world.after(std::chrono::microseconds(3), "scribble", scribble);
      };
      scribble();
      ASSERT_TRUE(rig.run(write).ok());
      over = true;
      rig.world.run_for(std::chrono::milliseconds(1));
      Status status;
      (void)rig.read(kChunk, at, length, &status);
      EXPECT_TRUE(status.ok()) << at << " +" << length << ": " << status.name();
    }
  }
  ScrubOp scrub;
  ASSERT_TRUE(rig.run(scrub).ok());
  EXPECT_EQ(scrub.damaged_blocks, 0u);
}

TEST(Target, works_without_direct_io) {
  Rig rig(1, {.direct = false});
  ASSERT_TRUE(rig.begin());
  auto bytes = test::content(10000, 3);
  ASSERT_TRUE(rig.write(kChunk, 77, bytes).ok());
  EXPECT_EQ(rig.read(kChunk, 77, 10000), bytes);
}

TEST(Target, reads_holes_as_zeros_or_refuses_them) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  auto bytes = test::content(4096, 1);
  ASSERT_TRUE(rig.write(kChunk, 8192, bytes).ok());
  EXPECT_EQ(rig.read(kChunk, 0, 8192), zeros(8192));
  EXPECT_EQ(rig.read({InodeId(99), 0}, 5, 100), zeros(100));
  std::vector<std::byte> memory(12288);
  ReadOp op;
  op.chunk = kChunk;
  op.destination = {memory.data(), memory.size(), engine::kNoBuffer, engine::MemoryKind::host};
  op.refuse_holes = true;
  EXPECT_EQ(rig.run(op).code(), Code::no_data);
}

TEST(Target, refuses_ranges_outside_a_chunk) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  std::vector<std::byte> bytes(8192);
  ReadOp read;
  read.chunk = kChunk;
  read.offset = limits::kChunkBytesMax - 4096;
  read.destination = {bytes.data(), 8192, engine::kNoBuffer, engine::MemoryKind::host};
  EXPECT_EQ(rig.run(read).code(), Code::invalid_argument);
  read.destination.length = 0;
  EXPECT_EQ(rig.run(read).code(), Code::invalid_argument);
  read.offset = UINT32_MAX;
  read.destination.length = 8192;
  EXPECT_EQ(rig.run(read).code(), Code::invalid_argument);
  EXPECT_EQ(rig.write(kChunk, limits::kChunkBytesMax - 1, bytes).code(), Code::invalid_argument);
  EXPECT_EQ(rig.clear(kChunk, 10, 5).code(), Code::invalid_argument);
  EXPECT_EQ(rig.clear(kChunk, 0, limits::kChunkBytesMax + 1).code(), Code::invalid_argument);
  EXPECT_TRUE(rig.clear(kChunk, 5, 5).ok());
}

TEST(Target, clears_bytes_and_frees_whole_blocks) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  auto expected = test::content(600000, 4);
  ASSERT_TRUE(rig.write(kChunk, 0, expected).ok());
  const uint64_t used = rig.target().status().used_bytes;
  ASSERT_TRUE(rig.clear(kChunk, 5000, 300001).ok());
  std::fill(expected.begin() + 5000, expected.begin() + 300001, std::byte{0});
  EXPECT_EQ(rig.read(kChunk, 0, 600000), expected);
  EXPECT_EQ(rig.target().status().used_bytes, used - (73 - 2) * kBlockBytes);
  // To the end: also the valid length goes.
  ASSERT_TRUE(rig.clear(kChunk, 400, kWholeChunk).ok());
  EndQueryOp query;
  query.inode = kChunk.inode;
  ASSERT_TRUE(rig.run(query).ok());
  EXPECT_TRUE(query.any);
  EXPECT_EQ(query.last_chunk, kChunk.index);
  EXPECT_EQ(query.end_in_chunk, 400u);
  EXPECT_EQ(query.allocated_bytes, kBlockBytes);
  std::fill(expected.begin() + 400, expected.end(), std::byte{0});
  EXPECT_EQ(rig.read(kChunk, 0, 600000), expected);
}

TEST(Target, finds_the_end_of_an_inode) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  EndQueryOp query;
  query.inode = InodeId(5);
  ASSERT_TRUE(rig.run(query).ok());
  EXPECT_FALSE(query.any);
  auto bytes = test::content(10, 1);
  // Not durable: the query counts what is visible.
  ASSERT_TRUE(rig.write({InodeId(5), 9}, kMapBytes * 3 + 100, bytes, false).ok());
  ASSERT_TRUE(rig.write({InodeId(5), 2}, 0, bytes, false).ok());
  ASSERT_TRUE(rig.write({InodeId(6), 20}, 0, bytes, false).ok());
  ASSERT_TRUE(rig.run(query).ok());
  EXPECT_TRUE(query.any);
  EXPECT_EQ(query.last_chunk, 9u);
  EXPECT_EQ(query.end_in_chunk, kMapBytes * 3 + 110);
  EXPECT_EQ(query.allocated_bytes, 2 * kBlockBytes);
}

TEST(Target, tells_which_inodes_have_chunks_of_a_chain) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  const auto ask = [&](uint64_t first, uint32_t limit) {
    InodesOp op;
    op.first = InodeId(first);
    op.limit = limit;
    EXPECT_TRUE(rig.run(op).ok());
    return std::pair(op.found, op.next);
  };
  using Found = std::pair<std::vector<InodeId>, InodeId>;
  EXPECT_EQ(ask(1, 10), Found());
  auto bytes = test::content(10, 1);
  for (const uint64_t inode : {3, 7, 8, 12}) {
    ASSERT_TRUE(rig.write({InodeId(inode), 2}, 0, bytes, false).ok());
  }
  // Of one more maps than are looked at in one go.
  for (uint32_t i = 0; i <= limits::kSweepKeys; ++i) {
    ASSERT_TRUE(rig.write({InodeId(9), i}, 0, bytes, false).ok());
  }
  WriteOp other;
  other.chain = ChainId(5);
  other.chunk = {InodeId(10), 0};
  other.source = {bytes.data(), bytes.size()};
  ASSERT_TRUE(rig.run(other).ok());
  EXPECT_EQ(ask(4, 2), Found({InodeId(7), InodeId(8)}, InodeId(9)));
  EXPECT_EQ(ask(8, 10), Found({InodeId(8), InodeId(9)}, InodeId(10)));
  EXPECT_EQ(ask(10, 10), Found({InodeId(12)}, InodeId()));
  ASSERT_TRUE(rig.clear({InodeId(12), 2}, 0, kWholeChunk).ok());
  EXPECT_EQ(ask(10, 10), Found());
  InodesOp none;
  none.limit = 1;
  EXPECT_EQ(rig.run(none).code(), Code::invalid_argument);
}

TEST(Target, removes_an_inode_from_a_chunk_on) {
  Rig rig(1, {.capacity_bytes = 64 * kMiB, .map_cache_bytes = 1});
  ASSERT_TRUE(rig.begin());
  auto bytes = test::content(5000, 1);
  // More maps than are kept in memory.
  for (uint32_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(rig.write({InodeId(5), i}, i * 1000, bytes, false).ok());
  }
  ASSERT_TRUE(rig.write({InodeId(4), 0}, 0, bytes, false).ok());
  ASSERT_TRUE(rig.write({InodeId(6), 0}, 0, bytes, false).ok());
  RemoveOp remove;
  remove.inode = InodeId(5);
  remove.first_chunk = 1;
  remove.durable = true;
  ASSERT_TRUE(rig.run(remove).ok());
  EXPECT_GT(remove.removed_bytes, 199 * 2 * kBlockBytes - 1);
  EXPECT_EQ(rig.target().status().used_bytes, 3 * 2 * kBlockBytes);
  EXPECT_EQ(rig.records.content().size(), 7u) << "three maps, a quarter of each, and the identity";
  EXPECT_EQ(rig.read({InodeId(5), 0}, 0, 5000), bytes);
  EXPECT_EQ(rig.read({InodeId(5), 100}, 100000, 5000), zeros(5000));
  EXPECT_EQ(rig.read({InodeId(6), 0}, 0, 5000), bytes);
}

TEST(Target, keeps_what_is_durable_through_a_power_cut) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  auto first = test::content(10000, 1);
  auto second = test::content(10000, 2);
  auto third = test::content(10000, 3);
  ASSERT_TRUE(rig.write(kChunk, 0, first, false).ok());
  ASSERT_TRUE(rig.write(kChunk, 20000, second, true).ok());
  rig.power_cut();
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  EXPECT_EQ(rig.read(kChunk, 20000, 10000), second);
  EXPECT_EQ(rig.read(kChunk, 0, 10000), first) << "a durable write of the inode covers it";
  ASSERT_TRUE(rig.write(kChunk, 0, third, false).ok());
  ASSERT_TRUE(rig.sync(kChunk.inode).ok());
  rig.power_cut();
  ASSERT_TRUE(rig.begin());
  EXPECT_EQ(rig.read(kChunk, 0, 10000), third);
}

TEST(Target, acknowledges_no_durable_write_before_what_was_written_earlier) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  auto first = test::content(600000, 1);
  auto second = test::content(600000, 2);
  ASSERT_TRUE(rig.write(kChunk, 0, first, false).ok());
  // The first group's commit takes long, the second one's would overtake it.
  rig.records.faults.delay_min = rig.records.faults.delay_max = std::chrono::seconds(1);
  SyncOp sync;
  sync.completion = [](engine::Op&) {};
  rig.target().submit(sync);
  rig.world.run_for(std::chrono::milliseconds(50));
  rig.records.faults.delay_min = rig.records.faults.delay_max = std::chrono::microseconds(1);
  ASSERT_TRUE(rig.write(kChunk, 4 * kMapBytes, second, true).ok());
  rig.power_cut();
  ASSERT_TRUE(rig.begin());
  EXPECT_EQ(rig.read(kChunk, 0, 600000), first);
  EXPECT_EQ(rig.read(kChunk, 4 * kMapBytes, 600000), second);
}

TEST(Target, commits_by_itself_after_a_while) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  auto bytes = test::content(10000, 1);
  ASSERT_TRUE(rig.write(kChunk, 0, bytes, false).ok());
  EXPECT_EQ(rig.records.content().size(), 1u);
  rig.world.run_for(std::chrono::seconds(1));
  EXPECT_EQ(rig.records.content().size(), 3u) << "the identity, a map, and a quarter of it";
  rig.power_cut();
  ASSERT_TRUE(rig.begin());
  EXPECT_EQ(rig.read(kChunk, 0, 10000), bytes);
}

TEST(Target, gives_no_space_and_loses_nothing_when_full) {
  Rig rig(1, {.capacity_bytes = 2 * kMiB});
  ASSERT_TRUE(rig.begin());
  auto bytes = test::content(256 * kKiB, 1);
  uint32_t written = 0;
  Status status;
  while (status.ok()) {
    status = rig.write({InodeId(1), written}, 0, bytes);
    written += status.ok() ? 1 : 0;
  }
  EXPECT_EQ(status.code(), Code::no_space);
  EXPECT_EQ(written, 7u) << "all but what is kept for clears";
  EXPECT_EQ(rig.target().status().capacity_bytes, 2 * kMiB);
  for (uint32_t i = 0; i < written; ++i) {
    EXPECT_EQ(rig.read({InodeId(1), i}, 0, 256 * kKiB), bytes);
  }
  // Freeing goes on working, also where it must copy, and gives the space back.
  ASSERT_TRUE(rig.clear({InodeId(1), 3}, 100, kWholeChunk).ok());
  ASSERT_TRUE(rig.clear({InodeId(1), 4}, 0, kWholeChunk).ok());
  EXPECT_TRUE(rig.write({InodeId(2), 0}, 0, bytes).ok());
}

TEST(Target, writes_into_space_that_is_just_being_freed) {
  Rig rig(1, {.capacity_bytes = 3 * kMiB});
  ASSERT_TRUE(rig.begin());
  auto bytes = test::content(kMiB, 1);
  // Each overwrite needs the blocks of the one before the last, which a commit must free first.
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(rig.write(kChunk, 0, bytes, false).ok()) << i;
  }
}

TEST(Target, answers_a_flipped_bit_with_corrupt_and_goes_on) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  log::set_level(log::Level::off);
  auto bytes = test::content(40960, 1);
  ASSERT_TRUE(rig.write(kChunk, 0, bytes).ok());
  const CachedMap* map = rig.core().index.find({ChainId{}, kChunk, 0});
  ASSERT_NE(map, nullptr);
  rig.platter.flip_bit("/target/data-0000", map->blocks[3].physical * kBlockBytes + 17, 2);
  Status status;
  (void)rig.read(kChunk, 0, 40960, &status);
  EXPECT_EQ(status.code(), Code::corrupt);
  ReadOp op;
  std::vector<std::byte> memory(40960);
  op.chunk = kChunk;
  op.destination = {memory.data(), memory.size(), engine::kNoBuffer, engine::MemoryKind::host};
  EXPECT_EQ(rig.run(op).code(), Code::corrupt);
  EXPECT_EQ(op.bad_block, 3u);
  (void)rig.read(kChunk, 0, 12288);
  (void)rig.read(kChunk, 16384, 8192);
  auto part = test::content(10, 2);
  EXPECT_EQ(rig.write(kChunk, 12300, part).code(), Code::corrupt) << "would hide the damage";
  ScrubOp scrub;
  std::vector<Damage> damage;
  scrub.on_damage = [&](const Damage& d) { damage.push_back(d); };
  ASSERT_TRUE(rig.run(scrub).ok());
  EXPECT_EQ(scrub.verified_bytes, 9 * kBlockBytes);
  ASSERT_EQ(damage.size(), 1u);
  EXPECT_EQ(damage[0].chunk, kChunk);
  EXPECT_EQ(damage[0].block, 3u);
  EXPECT_EQ(damage[0].status.code(), Code::corrupt);
  EXPECT_GE(rig.target().status().corrupt_blocks_seen, 3u);
  // Writing the whole block anew heals it.
  auto block = test::content(4096, 3);
  ASSERT_TRUE(rig.write(kChunk, 12288, block).ok());
  EXPECT_EQ(rig.read(kChunk, 12288, 4096), block);
  log::set_level(log::Level::warning);
}

TEST(Target, leaves_verifying_to_whoever_asks_for_checksums) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  auto bytes = test::content(5 * kBlockBytes, 4);
  ASSERT_TRUE(rig.write(kChunk, kBlockBytes, bytes).ok());
  const CachedMap* const map = rig.core().index.find({ChainId{}, kChunk, 0});
  ASSERT_NE(map, nullptr);
  rig.platter.flip_bit("/target/data-0000", map->blocks[3].physical * kBlockBytes + 17, 2);
  std::vector<std::byte> memory(7 * kBlockBytes);
  uint32_t checksums[7] = {};
  ReadOp op;
  op.chunk = kChunk;
  op.destination = {memory.data(), memory.size(), engine::kNoBuffer, engine::MemoryKind::host};
  op.checksums = checksums;
  ASSERT_TRUE(rig.run(op).ok());
  for (size_t i = 0; i < 7; ++i) {
    const bool good = crc32c(Bytes(memory).subspan(i * kBlockBytes, kBlockBytes)) == checksums[i];
    EXPECT_EQ(good, i != 3) << i;
  }
  // A block of which only a part is wanted is nobody else's to verify.
  op.destination.length = 4 * kBlockBytes - 1;
  EXPECT_EQ(rig.run(op).code(), Code::corrupt);
}

TEST(Target, survives_a_bit_that_flips_on_the_way_once) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  auto bytes = test::content(4096, 1);
  ASSERT_TRUE(rig.write(kChunk, 0, bytes).ok());
  rig.platter.faults.flipped_read_permille = 200;
  const uint64_t before = rig.core().counters.repeated_reads.value();
  int good = 0;
  log::set_level(log::Level::off);
  for (int i = 0; i < 100; ++i) {
    Status status;
    const auto got = rig.read(kChunk, 0, 4096, &status);
    if (status.ok()) {
      ++good;
      ASSERT_EQ(got, bytes);
    }
  }
  log::set_level(log::Level::warning);
  EXPECT_GT(good, 85) << "only what flips twice in a row fails";
  EXPECT_GT(rig.core().counters.repeated_reads.value(), before + 5);
}

TEST(Target, takes_no_updates_after_a_failed_sync_and_shows_what_is_committed) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  log::set_level(log::Level::off);
  auto old_bytes = test::content(8192, 1);
  auto new_bytes = test::content(8192, 2);
  ASSERT_TRUE(rig.write(kChunk, 0, old_bytes).ok());
  rig.platter.faults.sync_error_permille = 1000;
  EXPECT_EQ(rig.write(kChunk, 0, new_bytes).code(), Code::io_error);
  rig.platter.faults.sync_error_permille = 0;
  EXPECT_EQ(rig.read(kChunk, 0, 8192), old_bytes);
  EXPECT_EQ(rig.write(kChunk, 0, new_bytes).code(), Code::read_only);
  EXPECT_EQ(rig.sync().code(), Code::read_only);
  EXPECT_EQ(rig.close().code(), Code::read_only);
  log::set_level(log::Level::warning);
  ASSERT_TRUE(rig.begin());
  EXPECT_EQ(rig.read(kChunk, 0, 8192), old_bytes);
  EXPECT_TRUE(rig.write(kChunk, 0, new_bytes).ok());
}

TEST(Target, counts_what_it_holds) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  auto bytes = test::content(5000, 1);
  for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(rig.write({InodeId(1), i}, 0, bytes).ok());
  EXPECT_EQ(rig.target().status().used_bytes, 6 * kBlockBytes);
  EXPECT_EQ(rig.target().status().chunks, 3u);
  ASSERT_TRUE(rig.clear({InodeId(1), 1}, 0, kWholeChunk).ok());
  ASSERT_TRUE(rig.close().ok());
  ASSERT_TRUE(rig.begin());
  EXPECT_EQ(rig.target().status().used_bytes, 4 * kBlockBytes);
  EXPECT_EQ(rig.target().status().chunks, 2u);
  EXPECT_EQ(rig.target().status().block_maps_cached, 0u);
  EXPECT_EQ(rig.read({InodeId(1), 0}, 0, 5000), bytes);
  EXPECT_EQ(rig.target().status().block_maps_cached, 1u);
}

}  // namespace
}  // namespace penstock::store
