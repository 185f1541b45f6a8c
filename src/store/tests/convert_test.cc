// Targets of format 1 become targets of this one, with the process dying at any step of it.
#include "old_format.h"
#include "rig.h"

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

void set_superblock(Rig& rig, const std::string& text) {
  sim::SimLoop loop(rig.world);
  sim::SimDisk disk(rig.platter, loop);
  ASSERT_TRUE(disk.replace_file("/target/target", text).ok());
}

// A target with some files, then everything as format 1 would have written it. Returns its
// identity. Among the maps are some of no content that matters, so that there are several batches.
Identity make_old(Rig& rig, uint32_t more_maps) {
  EXPECT_TRUE(rig.begin()) << rig.refusal.message;
  auto bytes = content();
  EXPECT_TRUE(rig.write(kChunk, 0, bytes).ok());
  EXPECT_TRUE(rig.clear(kChunk, 100 * 4096, 130 * 4096).ok());
  auto few = test::content(777, 2);
  EXPECT_TRUE(rig.write(kFarChunk, 12345, few).ok());
  const Identity identity = rig.core().identity;
  EXPECT_TRUE(rig.close().ok());
  set_superblock(rig, encode_superblock(identity, 1));
  const auto records = rig.records.content();
  sim::SimKv kv(rig.records);
  EXPECT_TRUE(kv.run(KvMode::write_durable, [&](engine::KvTransaction& t) -> Status {
                  for (const auto& [name, record] : records) {
                    const auto key = decode_key(name);
                    BlockMap map;
                    if (key && decode_map(*key, record, map).ok()) {
                      t.put(name, encode_map_1(*key, map));
                    }
                  }
                  BlockMap holes;
                  holes.valid_end = 99;
                  for (uint32_t i = 0; i < more_maps; ++i) {
                    const MapKey key{{InodeId(100), i}, 0};
                    t.put(as_view(encode_key(key)), encode_map_1(key, holes));
                  }
                  t.put(kIdentityKey, encode_identity(identity, 1));
                  return Code::ok;
                }).ok());
  return identity;
}

void expect_converted(Rig& rig, const Identity& identity, size_t maps) {
  EXPECT_EQ(superblock_text(rig), encode_superblock(identity));
  size_t seen = 0;
  for (const auto& [name, record] : rig.records.content()) {
    if (name == kIdentityKey) {
      EXPECT_EQ(record, encode_identity(identity));
      continue;
    }
    BlockMap map;
    ASSERT_TRUE(decode_map(*decode_key(name), record, map).ok());
    ++seen;
  }
  EXPECT_EQ(seen, maps);
}

void expect_content(Rig& rig) {
  EXPECT_EQ(rig.read(kChunk, 0, kFile), content());
  EXPECT_EQ(rig.read(kFarChunk, 12345, 777), test::content(777, 2));
  ScrubOp scrub;
  EXPECT_TRUE(rig.run(scrub).ok());
  EXPECT_EQ(scrub.damaged_blocks, 0u);
}

TEST(Conversion, of_a_target_of_format_1_keeps_everything) {
  Rig rig;
  const Identity identity = make_old(rig, 0);
  const size_t maps = rig.records.content().size() - 1;
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  expect_converted(rig, identity, maps);
  expect_content(rig);
  auto more = test::content(50'000, 3);
  ASSERT_TRUE(rig.write(kChunk, 4096, more).ok());
  ASSERT_TRUE(rig.close().ok());
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  EXPECT_EQ(rig.read(kChunk, 4096, 50'000), more);
}

TEST(Conversion, of_an_empty_target) {
  Rig rig;
  ASSERT_TRUE(rig.begin());
  const Identity identity = rig.core().identity;
  ASSERT_TRUE(rig.close().ok());
  set_superblock(rig, encode_superblock(identity, 1));
  {
    sim::SimKv kv(rig.records);
    ASSERT_TRUE(kv.run(KvMode::write_durable, [&](engine::KvTransaction& t) -> Status {
                    t.put(kIdentityKey, encode_identity(identity, 1));
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

void survives_deaths(bool power) {
  constexpr uint32_t kMore = 4500;
  int deaths = 0;
  bool to_the_end = false;
  for (int steps = 0; !to_the_end; ++steps) {
    Rig rig(static_cast<uint64_t>(1 + steps));
    const Identity identity = make_old(rig, kMore);
    const size_t maps = rig.records.content().size() - 1;
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
    expect_converted(rig, identity, maps);
    expect_content(rig);
    ASSERT_TRUE(rig.close().ok());
  }
  EXPECT_GE(deaths, 10) << "several batches, before and after each commit";
}

TEST(Conversion, survives_power_cuts_at_every_step) {
  survives_deaths(true);
}

TEST(Conversion, survives_kills_at_every_step) {
  survives_deaths(false);
}

TEST(Conversion, changes_nothing_when_the_old_target_is_damaged) {
  Rig rig;
  make_old(rig, 0);
  const std::string name(as_view(encode_key({kChunk, 0})));
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

TEST(Conversion, is_not_expected_of_a_finished_target) {
  Rig rig;
  const Identity identity = make_old(rig, 0);
  ASSERT_TRUE(rig.begin());
  ASSERT_TRUE(rig.close().ok());
  // A record of the old format in it is no leftover of a conversion.
  BlockMap map;
  map.valid_end = 1;
  const MapKey key{{InodeId(1), 1}, 1};
  {
    sim::SimKv kv(rig.records);
    ASSERT_TRUE(kv.run(KvMode::write_durable, [&](engine::KvTransaction& t) -> Status {
                    t.put(as_view(encode_key(key)), encode_map_1(key, map));
                    return Code::ok;
                  }).ok());
  }
  ASSERT_FALSE(rig.begin());
  EXPECT_EQ(rig.refusal.status.code(), Code::wrong_version);
  // Nor is an old superblock over a converted database.
  set_superblock(rig, encode_superblock(identity, 1));
  ASSERT_FALSE(rig.begin());
  EXPECT_THAT(rig.refusal.message, HasSubstr("older than its database"));
}

}  // namespace
}  // namespace penstock::store
