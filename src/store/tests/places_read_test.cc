// Reads of maps that are not in memory: they begin with places, and checksums come beside.
#include "rig.h"
#include "stored_maps.h"

namespace penstock::store {
namespace {

using limits::kBlockBytes;
using std::chrono::milliseconds;

constexpr uint32_t kBytes = 3 * kMiB;

class ReadsWithPlaces : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(rig.begin());
    ASSERT_TRUE(rig.write(kChunk, 0, bytes).ok());
    reopen();
  }
  // No map is in memory after it.
  void reopen() {
    ASSERT_TRUE(rig.close().ok());
    ASSERT_TRUE(rig.begin()) << rig.refusal.message;
    ASSERT_EQ(rig.target().status().block_maps_cached, 0u);
  }
  void slow(engine::Duration disk, engine::Duration database) {
    rig.platter.faults.latency_min = rig.platter.faults.latency_max = disk;
    rig.records.faults.delay_min = rig.records.faults.delay_max = database;
  }
  std::vector<std::byte> part(uint32_t offset, uint32_t length) const {
    return {bytes.begin() + offset, bytes.begin() + offset + length};
  }
  Status status_of_read(uint32_t offset) {
    Status status;
    (void)rig.read(kChunk, offset, kBlockBytes, &status);
    return status;
  }
  void put(const std::string& key, const std::string& value) {
    sim::SimKv kv(rig.records);
    ASSERT_TRUE(kv.run(engine::KvMode::write_durable, [&](engine::KvTransaction& t) -> Status {
                    t.put(key, value);
                    return Code::ok;
                  }).ok());
  }

  Rig rig;
  std::vector<std::byte> bytes = test::content(kBytes, 1);
};

TEST_F(ReadsWithPlaces, wait_for_the_later_of_disk_and_database) {
  slow(milliseconds(50), milliseconds(10));
  const engine::Time begin = rig.world.now();
  EXPECT_EQ(rig.read(kChunk, 40 * 4096, 4096), part(40 * 4096, 4096));
  const engine::Duration cold = rig.world.now() - begin;
  EXPECT_EQ(rig.target().status().block_maps_cached, 1u);
  EXPECT_EQ(rig.read(kChunk, 41 * 4096, 4096), part(41 * 4096, 4096));
  const engine::Duration warm = rig.world.now() - begin - cold;
  EXPECT_LT(cold - warm, milliseconds(1));
}

TEST_F(ReadsWithPlaces, return_nothing_before_it_is_verified) {
  slow(milliseconds(1), milliseconds(50));
  const engine::Time begin = rig.world.now();
  EXPECT_EQ(rig.read(kChunk, 40 * 4096 + 7, 100'000), part(40 * 4096 + 7, 100'000));
  EXPECT_GE(rig.world.now() - begin, milliseconds(50));
  const auto maps = stored_maps(rig.records.content());
  ASSERT_TRUE(maps);
  const BlockNumber place = maps->at({ChainId{}, kChunk, 1}).blocks[3].physical;
  rig.platter.flip_bit("/target/data-0000", place * kBlockBytes + 17, 2);
  EXPECT_EQ(status_of_read(256 * 4096 + 3 * 4096).code(), Code::corrupt);
  EXPECT_EQ(rig.read(kChunk, kMiB + 4 * 4096, 4096), part(kMiB + 4 * 4096, 4096));
}

TEST_F(ReadsWithPlaces, of_several_maps_get_all_of_their_checksums) {
  for (const auto& [disk, database] : {std::pair(1, 40), std::pair(40, 1)}) {
    reopen();
    slow(milliseconds(disk), milliseconds(database));
    EXPECT_EQ(rig.read(kChunk, kMiB - 5000, 10'000), part(kMiB - 5000, 10'000)) << "both cold";
    EXPECT_EQ(rig.read(kChunk, 2 * kMiB - 5000, 10'000), part(2 * kMiB - 5000, 10'000))
        << "one is in memory";
    EXPECT_EQ(rig.read(kChunk, 0, kBytes), bytes);
  }
}

TEST_F(ReadsWithPlaces, tell_checksums_to_who_verifies) {
  slow(milliseconds(1), milliseconds(20));
  alignas(4096) static std::byte memory[2 * 4096];
  uint32_t checksums[2] = {};
  ReadOp op;
  op.chunk = kChunk;
  op.offset = 8192;
  op.destination = {memory, sizeof(memory), engine::kNoBuffer, engine::MemoryKind::host};
  op.checksums = checksums;
  ASSERT_TRUE(rig.run(op).ok());
  EXPECT_EQ(checksums[0], crc32c({bytes.data() + 8192, 4096}));
  EXPECT_EQ(checksums[1], crc32c({bytes.data() + 12288, 4096}));
}

TEST_F(ReadsWithPlaces, need_no_map_where_there_are_holes_and_for_probes) {
  ASSERT_TRUE(rig.clear(kChunk, 100 * 4096, 130 * 4096).ok());
  reopen();
  EXPECT_EQ(rig.read(kChunk, 110 * 4096, 4096), std::vector<std::byte>(4096));
  ReadOp op;
  op.chunk = kChunk;
  op.offset = 90 * 4096;
  op.destination.length = 50 * 4096;
  op.probe = true;
  ASSERT_TRUE(rig.run(op).ok());
  EXPECT_EQ(op.alike_blocks, 10u);
  EXPECT_EQ(rig.target().status().block_maps_cached, 0u);
}

TEST_F(ReadsWithPlaces, of_damaged_quarters_end_with_corrupt) {
  const std::string key(as_view(encode_quarter_key({ChainId{}, kChunk, 0}, 2)));
  std::string record = rig.records.content().at(key);
  record[30] = static_cast<char>(record[30] ^ 1);
  put(key, record);
  for (const auto& [disk, database] : {std::pair(1, 40), std::pair(40, 1)}) {
    slow(milliseconds(disk), milliseconds(database));
    EXPECT_EQ(status_of_read(0).code(), Code::corrupt);
    EXPECT_EQ(rig.read(kChunk, kMiB, 4096), part(kMiB, 4096));
  }
}

TEST_F(ReadsWithPlaces, end_with_corrupt_when_the_database_names_other_places) {
  const MapKey key{ChainId{}, kChunk, 0};
  const auto maps = stored_maps(rig.records.content());
  ASSERT_TRUE(maps);
  BlockMap map = maps->at(key);
  for (BlockRef& ref : map.blocks) ref.physical = ref.physical + 1;
  std::string record(kMapRecordBytesMax, '\0');
  record.resize(encode_map(key, map, record.data()));
  put(std::string(as_view(encode_key(key))), record);
  EXPECT_EQ(status_of_read(0).code(), Code::corrupt);
}

TEST_F(ReadsWithPlaces, end_with_the_databases_error_and_may_be_tried_again) {
  for (const auto& [disk, database] : {std::pair(1, 40), std::pair(40, 1)}) {
    slow(milliseconds(disk), milliseconds(database));
    rig.records.faults.read_error_permille = 1000;
    EXPECT_EQ(status_of_read(0).code(), Code::io_error);
    rig.records.faults.read_error_permille = 0;
    EXPECT_EQ(rig.read(kChunk, 0, 4096), part(0, 4096));
    reopen();
  }
}

// The read has begun; the write waits for the map that is being read, and replaces the block.
TEST_F(ReadsWithPlaces, show_what_was_there_when_they_began) {
  slow(milliseconds(30), milliseconds(5));
  alignas(4096) static std::byte into[4096];
  alignas(4096) static std::byte from[4096];
  std::fill_n(from, 4096, std::byte{0x77});
  uint32_t ended = 0;
  const auto completion = [](engine::Op& op) { ++op.owner_as<uint32_t>(); };
  ReadOp read;
  read.chunk = kChunk;
  read.destination = {into, 4096, engine::kNoBuffer, engine::MemoryKind::host};
  WriteOp write;
  write.chunk = kChunk;
  write.source = {from, 4096, engine::kNoBuffer, engine::MemoryKind::host};
  read.owner = write.owner = &ended;
  read.completion = write.completion = completion;
  rig.target().submit(read);
  rig.world.run_for(milliseconds(1));
  rig.target().submit(write);
  ASSERT_TRUE(rig.world.run_until([&] { return ended == 2; }, std::chrono::seconds(10)));
  EXPECT_TRUE(read.status.ok() && write.status.ok());
  EXPECT_EQ(std::vector<std::byte>(into, into + 4096), part(0, 4096));
  EXPECT_EQ(rig.read(kChunk, 0, 4096), std::vector<std::byte>(4096, std::byte{0x77}));
}

// From few runs to many and back, with one quarter changed at a time.
TEST(WideMaps, are_read_as_they_were_written) {
  Rig rig(1, {.capacity_bytes = 16 * kMiB});
  ASSERT_TRUE(rig.begin());
  auto bytes = test::content(kMiB, 1);
  const auto write = [&](uint32_t block) {
    auto one = test::content(4096, 100 + block);
    std::copy(one.begin(), one.end(), bytes.begin() + block * 4096);
    ASSERT_TRUE(rig.write(kChunk, block * 4096, one).ok());
  };
  const auto check = [&](bool wide) {
    ASSERT_TRUE(rig.close().ok());
    const auto maps = stored_maps(rig.records.content());
    ASSERT_TRUE(maps);
    ASSERT_EQ(is_scattered_wide(maps->at({ChainId{}, kChunk, 0})), wide);
    ASSERT_TRUE(rig.begin()) << rig.refusal.message;
    ASSERT_EQ(rig.read(kChunk, 0, kMiB), bytes);
    const Core& core = rig.core();
    ASSERT_EQ(core.allocator.total_blocks() - core.allocator.free_blocks(), core.mapped_blocks);
    ASSERT_EQ(core.mapped_blocks, maps->at({ChainId{}, kChunk, 0}).mapped());
  };
  ASSERT_TRUE(rig.write(kChunk, 0, bytes).ok());
  check(false);
  for (uint32_t block = 0; block < 64; block += 2) write(block);
  check(true);
  write(200);
  check(true);
  // The first quarter lies together again; so few runs are left that the map is not wide.
  ASSERT_TRUE(rig.clear(kChunk, 0, 64 * 4096).ok());
  std::fill_n(bytes.begin(), 64 * 4096, std::byte{0});
  check(false);
  for (uint32_t block = 64; block < 128; block += 2) write(block);
  check(true);
  ASSERT_TRUE(rig.clear(kChunk, 0, kWholeChunk).ok());
  ASSERT_TRUE(rig.close().ok());
  EXPECT_EQ(rig.records.content().size(), 1u) << "no record of a quarter is left";
}

// More maps than memory has whole: they come and go, and places stay.
TEST(ManyMaps, are_read_and_written_in_little_memory) {
  Rig rig(1, {.capacity_bytes = 64 * kMiB, .map_cache_bytes = 64 * kKiB});
  ASSERT_TRUE(rig.begin());
  engine::SeededRandom random(1);
  std::map<uint32_t, std::vector<std::byte>> model;
  for (int step = 0; step < 1500; ++step) {
    const auto n = static_cast<uint32_t>(random.below(200));
    const ChunkId chunk{InodeId(10 + n % 7), n};
    const uint32_t offset = n % 3 * 300 * 4096;
    if (step == 700) {
      ASSERT_TRUE(rig.close().ok());
      ASSERT_TRUE(rig.begin()) << rig.refusal.message;
    }
    if (random.chance(1, 3)) {
      auto bytes = test::content(9000, static_cast<uint64_t>(step));
      ASSERT_TRUE(rig.write(chunk, offset, bytes, random.chance(1, 4)).ok());
      model[n] = bytes;
    } else if (random.chance(1, 20)) {
      ASSERT_TRUE(rig.clear(chunk, 0, kWholeChunk).ok());
      model.erase(n);
    } else {
      const auto found = model.find(n);
      const auto wanted = found == model.end() ? std::vector<std::byte>(9000) : found->second;
      ASSERT_EQ(rig.read(chunk, offset, 9000), wanted) << step;
    }
    const MapIndex& index = rig.core().index;
    ASSERT_LE(index.size(), 64 * kKiB / sizeof(CachedMap) + 4);
  }
  ASSERT_TRUE(rig.sync().ok());
  EXPECT_GT(rig.core().index.runs().entries(), 100u);
}

}  // namespace
}  // namespace penstock::store
