// Targets of old formats become targets of this one, with the process dying at any step of it.
#include "old_target.h"

#include <gmock/gmock.h>

namespace penstock::store {
namespace {

using engine::KvMode;
using testing::HasSubstr;

constexpr uint32_t kFile = 3 * kMiB;
const ChunkId kFarChunk{InodeId(900), 0};

std::vector<std::byte> content() {
  auto bytes = test::content(kFile, 1);
  std::fill_n(bytes.begin() + 100 * 4096, 30 * 4096, std::byte{0});  // a hole
  return bytes;
}

// A target with some files, then everything as an old format would have written it. Returns its
// identity. Among the maps are some of no content that matters, so that there are several batches.
Identity make_old(Rig& rig, uint32_t format, uint32_t more_maps) {
  EXPECT_TRUE(rig.begin()) << rig.refusal.message;
  auto bytes = content();
  EXPECT_TRUE(rig.write(kChunk, 0, bytes).ok());
  EXPECT_TRUE(rig.clear(kChunk, 100 * 4096, 130 * 4096).ok());
  auto few = test::content(777, 2);
  EXPECT_TRUE(rig.write(kFarChunk, 12345, few).ok());
  const Identity identity = rig.core().identity;
  EXPECT_TRUE(rig.close().ok());
  write_as_old(rig, identity, format, more_maps);
  return identity;
}

void expect_converted(Rig& rig, const Identity& identity, size_t maps) {
  EXPECT_EQ(superblock_text(rig), encode_superblock(identity));
  for (const auto& [name, record] : rig.records.content()) {
    if (name == kIdentityKey) {
      EXPECT_EQ(record, encode_identity(identity));
    } else {
      ASSERT_TRUE(decode_key(name) || decode_quarter_key(name));
    }
  }
  const auto stored = stored_maps(rig.records.content());
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->size(), maps);
}

// 3 MiB of one chunk, and one block of another.
constexpr size_t kMaps = 4;

void expect_content(Rig& rig) {
  EXPECT_EQ(rig.read(kChunk, 0, kFile), content());
  EXPECT_EQ(rig.read(kFarChunk, 12345, 777), test::content(777, 2));
  ScrubOp scrub;
  EXPECT_TRUE(rig.run(scrub).ok());
  EXPECT_EQ(scrub.damaged_blocks, 0u);
}

class Conversion : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(From, Conversion, testing::Values(1, 2, 3));

TEST_P(Conversion, keeps_everything) {
  Rig rig;
  const Identity identity = make_old(rig, GetParam(), 0);
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  expect_converted(rig, identity, kMaps);
  expect_content(rig);
  auto more = test::content(50'000, 3);
  ASSERT_TRUE(rig.write(kChunk, 4096, more).ok());
  ASSERT_TRUE(rig.close().ok());
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  EXPECT_EQ(rig.read(kChunk, 4096, 50'000), more);
}

TEST_P(Conversion, of_an_empty_target) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  const Identity identity = rig.core().identity;
  ASSERT_TRUE(rig.close().ok());
  set_superblock(rig, encode_superblock(identity, GetParam()));
  {
    sim::SimKv kv(rig.records);
    ASSERT_TRUE(kv.run(KvMode::write_durable, [&](engine::KvTransaction& t) -> Status {
                    t.put(kIdentityKey, encode_identity(identity, GetParam()));
                    return Code::ok;
                  }).ok());
  }
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  expect_converted(rig, identity, 0);
}

// Dies as soon as so many steps of the conversion are done.
class Bomb {
 public:
  Bomb(Rig& rig, int steps, bool power) : rig_(rig), left_(steps), power_(power) {}
  void step() {
    if (left_-- != 0) return;
    went_off_ = true;
    if (power_) {
      rig_.platter.power_cut();
      rig_.records.power_cut();
    } else {
      rig_.platter.kill();
      rig_.records.kill();
    }
  }
  bool went_off() const { return went_off_; }

 private:
  Rig& rig_;
  int left_;
  const bool power_;
  bool went_off_ = false;
};

class BombedKv final : public engine::Kv {
 public:
  BombedKv(engine::Kv& kv, Bomb& bomb) : kv_(kv), bomb_(bomb) {}
  void submit(engine::KvOp& op) override { kv_.submit(op); }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override {
    // Also before the first commit, when only the superblock was written.
    if (op.mode != KvMode::read) bomb_.step();
    const Status status = kv_.run(op);
    if (op.mode != KvMode::read) bomb_.step();
    return status;
  }
  Status sync() override { return kv_.sync(); }

 private:
  engine::Kv& kv_;
  Bomb& bomb_;
};

// One life that tries to open the target. True if it came through.
bool open_with(Rig& rig, Bomb& bomb, Failure& refusal) {
  sim::SimLoop loop(rig.world);
  sim::SimDisk disk(rig.platter, loop);
  sim::SimKv kv(rig.records);
  BombedKv bombed(kv, bomb);
  TargetConfig config;
  config.directory = "/target";
  config.id = TargetId(7);
  config.capacity_bytes = 64 * kMiB;
  config.map_cache_bytes = kMiB;
  auto opened = Target::open(loop, disk, bombed, config);
  if (!opened) refusal = opened.error();
  return opened && !bomb.went_off();
}

void survives_deaths(uint32_t format, bool power) {
  constexpr uint32_t kMore = 4500;
  int deaths = 0;
  bool to_the_end = false;
  for (int steps = 0; !to_the_end; ++steps) {
    Rig rig(static_cast<uint64_t>(1 + steps));
    const Identity identity = make_old(rig, format, kMore);
    Bomb bomb(rig, steps, power);
    Failure refusal;
    to_the_end = open_with(rig, bomb, refusal);
    if (!to_the_end) {
      ++deaths;
      // Once more, dying later: the conversion goes on from what is there.
      Bomb second(rig, steps / 2, power);
      (void)open_with(rig, second, refusal);
    }
    ASSERT_TRUE(rig.begin()) << "after " << steps << " steps: " << rig.refusal.message;
    expect_converted(rig, identity, kMaps + kMore);
    expect_content(rig);
    ASSERT_TRUE(rig.close().ok());
  }
  EXPECT_GE(deaths, 10) << "several batches, before and after each commit";
}

TEST_P(Conversion, survives_power_cuts_at_every_step) {
  survives_deaths(GetParam(), true);
}

TEST_P(Conversion, survives_kills_at_every_step) {
  survives_deaths(GetParam(), false);
}

TEST_P(Conversion, changes_nothing_when_the_old_target_is_damaged) {
  Rig rig;
  make_old(rig, GetParam(), 0);
  const std::string name = encode_old_key({ChainId{}, kChunk, 0}, GetParam());
  {
    std::string record = rig.records.content().at(name);
    record[10] = static_cast<char>(record[10] ^ 1);
    sim::SimKv kv(rig.records);
    ASSERT_TRUE(kv.run(KvMode::write_durable, [&](engine::KvTransaction& t) -> Status {
                    t.put(name, record);
                    return Code::ok;
                  }).ok());
  }
  const auto records = rig.records.content();
  const std::string text = superblock_text(rig);
  ASSERT_FALSE(rig.begin());
  EXPECT_EQ(rig.refusal.status.code(), Code::corrupt);
  EXPECT_THAT(rig.refusal.message, HasSubstr("inode 5 chunk 3"));
  EXPECT_EQ(rig.records.content(), records);
  EXPECT_EQ(superblock_text(rig), text);
}

TEST_P(Conversion, is_not_expected_of_a_finished_target) {
  Rig rig;
  const Identity identity = make_old(rig, GetParam(), 0);
  ASSERT_TRUE(rig.begin());
  ASSERT_TRUE(rig.close().ok());
  // A record of the old format in it is no leftover of a conversion.
  OldMap map;
  map.valid_end = 1;
  const std::string key = encode_old_key({ChainId{}, {InodeId(1), 1}, 1}, GetParam());
  {
    sim::SimKv kv(rig.records);
    ASSERT_TRUE(kv.run(KvMode::write_durable, [&](engine::KvTransaction& t) -> Status {
                    t.put(key, encode_as(GetParam(), key, map));
                    return Code::ok;
                  }).ok());
  }
  ASSERT_FALSE(rig.begin());
  EXPECT_EQ(rig.refusal.status.code(), Code::corrupt);
  // Nor is an old superblock over a converted database.
  set_superblock(rig, encode_superblock(identity, GetParam()));
  ASSERT_FALSE(rig.begin());
  EXPECT_THAT(rig.refusal.message, HasSubstr("older than its database"));
}

// The log of format 2 names no chains either, and is brought home before the maps get theirs.
TEST(ConversionOfLog, keeps_what_only_the_log_has) {
  RigOptions options;
  options.log_bytes = kMiB;
  options.log_after = 1;
  Rig rig(1, options);
  const Identity identity = make_old(rig, 2, 0);
  // A mark and a record of one write, with its bytes nowhere else.
  const LogMark mark{4, 1, 0, kMiB, 0};
  auto bytes = test::content(4096, 5);
  const BlockRef place{2000, crc32c(bytes)};
  std::vector<std::byte> record(kMiB);
  encode_log_record_2({identity.uuid, mark.epoch, mark.number}, kChunk, 2, place, bytes, record);
  {
    sim::SimLoop loop(rig.world);
    sim::SimDisk disk(rig.platter, loop);
    const std::string text(reinterpret_cast<const char*>(record.data()), record.size());
    ASSERT_TRUE(disk.replace_file("/target/write-log", text).ok());
    sim::SimKv kv(rig.records);
    ASSERT_TRUE(kv.run(KvMode::write_durable, [&](engine::KvTransaction& t) -> Status {
                    t.put(kLogKey, encode_log_mark(mark));
                    return Code::ok;
                  }).ok());
  }
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  EXPECT_EQ(rig.core().counters.replayed.value(), 1u);
  EXPECT_EQ(rig.read(kChunk, 2 * 4096, 4096), bytes);
  auto all = content();
  EXPECT_EQ(rig.read(kChunk, 3 * 4096, 4096),
            std::vector<std::byte>(all.begin() + 3 * 4096, all.begin() + 4 * 4096));
}

// Its records of writes say places as today's do.
TEST(ConversionOfLog, of_format_3_keeps_what_only_the_log_has) {
  RigOptions options;
  options.log_bytes = kMiB;
  options.log_after = 1;
  Rig rig(1, options);
  ASSERT_TRUE(rig.begin());
  auto bytes = content();
  ASSERT_TRUE(rig.write(kChunk, 0, bytes).ok());
  for (uint64_t n = 0; n < 3; ++n) {
    auto few = test::content(4096, n);
    ASSERT_TRUE(rig.write(kFarChunk, 0, few).ok());
  }
  ASSERT_TRUE(rig.sync().ok());
  rig.records.faults.delay_min = rig.records.faults.delay_max = std::chrono::seconds(1);
  const uint64_t logged = rig.core().counters.logged.value();
  auto last = test::content(10'000, 9);
  ASSERT_TRUE(rig.write(kChunk, kMiB - 5000, last).ok());
  ASSERT_EQ(rig.core().counters.logged.value(), logged + 1);
  std::copy(last.begin(), last.end(), bytes.begin() + kMiB - 5000);
  const Identity identity = rig.core().identity;
  rig.kill();
  rig.records.faults = {};
  write_as_old(rig, identity, 3, 0);
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  EXPECT_EQ(rig.core().counters.replayed.value(), 1u);
  EXPECT_EQ(rig.read(kChunk, 0, kFile), bytes);
  EXPECT_EQ(superblock_text(rig), encode_superblock(identity));
}

}  // namespace
}  // namespace penstock::store
