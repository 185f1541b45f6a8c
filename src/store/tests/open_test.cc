#include "rig.h"
#include "stored_maps.h"

#include <gmock/gmock.h>

namespace penstock::store {
namespace {

using testing::HasSubstr;

// What is on the platter and in the database, to see that a refusal changes nothing.
std::map<std::string, std::string> everything(Rig& rig) {
  auto content = rig.records.content();
  for (const std::string& path : rig.platter.files()) {
    const auto bytes = rig.platter.peek(path, 0, std::min<uint64_t>(rig.platter.size(path), 65536));
    content["file " + path] =
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return content;
}

void expect_refusal(Rig& rig, Code code, const std::string& message) {
  const auto before = everything(rig);
  ASSERT_FALSE(rig.begin());
  EXPECT_EQ(rig.refusal.status.code(), code) << rig.refusal.message;
  EXPECT_THAT(rig.refusal.message, HasSubstr("/target: "));
  EXPECT_THAT(rig.refusal.message, HasSubstr(message));
  EXPECT_EQ(everything(rig), before);
}

void fill(Rig& rig) {
  ASSERT_TRUE(rig.begin()) << rig.refusal.message;
  auto bytes = test::content(10000, 1);
  ASSERT_TRUE(rig.write(kChunk, 0, bytes).ok());
  ASSERT_TRUE(rig.close().ok());
}

void set_record(Rig& rig, const std::string& key, std::optional<std::string> value) {
  sim::SimKv kv(rig.records);
  ASSERT_TRUE(kv.run(engine::KvMode::write_durable, [&](engine::KvTransaction& t) -> Status {
                  if (value) {
                    t.put(key, *value);
                  } else {
                    t.erase(key);
                  }
                  return Code::ok;
                }).ok());
}

void set_file(Rig& rig, const std::string& path, const std::string& text) {
  sim::SimLoop loop(rig.world);
  sim::SimDisk disk(rig.platter, loop);
  ASSERT_TRUE(disk.replace_file(path, text).ok());
}

TEST(TargetOpen, refuses_another_version) {
  Rig rig;
  fill(rig);
  std::string text = superblock_text(rig);
  text.replace(text.find("version 4"), 9, "version 5");
  set_file(rig, "/target/target", text);
  expect_refusal(rig, Code::wrong_version, "format 5");
}

TEST(TargetOpen, refuses_to_hold_more_than_it_can_number) {
  Rig rig(1, {.capacity_bytes = (kTiB * 1024) + 1});
  ASSERT_FALSE(rig.begin());
  EXPECT_EQ(rig.refusal.status.code(), Code::invalid_argument);
  EXPECT_THAT(rig.refusal.message, HasSubstr("1 PiB"));
  Rig largest(1, {.capacity_bytes = (kTiB * 1024)});
  ASSERT_TRUE(largest.begin()) << largest.refusal.message;
}

TEST(TargetOpen, refuses_a_damaged_superblock) {
  Rig rig;
  fill(rig);
  set_file(rig, "/target/target", superblock_text(rig).substr(0, 50));
  expect_refusal(rig, Code::corrupt, "restore");
}

TEST(TargetOpen, refuses_a_half_made_target) {
  Rig rig;
  fill(rig);
  set_record(rig, std::string(kIdentityKey), std::nullopt);
  for (const auto& [key, value] : rig.records.content()) set_record(rig, key, std::nullopt);
  {
    sim::SimLoop loop(rig.world);
    sim::SimDisk disk(rig.platter, loop);
    ASSERT_TRUE(disk.remove("/target/data-0000").ok());
  }
  expect_refusal(rig, Code::corrupt, "interrupted");
}

TEST(TargetOpen, refuses_a_lost_database) {
  Rig rig;
  fill(rig);
  for (const auto& [key, value] : rig.records.content()) set_record(rig, key, std::nullopt);
  expect_refusal(rig, Code::corrupt, "database is missing");
}

TEST(TargetOpen, refuses_an_empty_directory_with_a_full_database) {
  Rig rig;
  fill(rig);
  {
    sim::SimLoop loop(rig.world);
    sim::SimDisk disk(rig.platter, loop);
    ASSERT_TRUE(disk.remove("/target/data-0000").ok());
    ASSERT_TRUE(disk.remove("/target/target").ok());
  }
  expect_refusal(rig, Code::not_found, "is the disk mounted");
}

TEST(TargetOpen, refuses_a_database_of_another_target) {
  Rig rig;
  fill(rig);
  const Identity other{TargetId(7), {1, 2, 3}};
  set_record(rig, std::string(kIdentityKey), encode_identity(other));
  expect_refusal(rig, Code::invalid_argument, "another target");
}

TEST(TargetOpen, refuses_a_directory_with_foreign_files) {
  Rig rig;
  {
    sim::SimLoop loop(rig.world);
    sim::SimDisk disk(rig.platter, loop);
    ASSERT_TRUE(disk.make_directory("/target").ok());
  }
  set_file(rig, "/target/holiday.jpg", "x");
  expect_refusal(rig, Code::not_empty, "holiday.jpg");
}

TEST(TargetOpen, refuses_a_directory_in_use) {
  Rig rig;
  fill(rig);
  sim::SimLoop loop(rig.world);
  sim::SimDisk disk(rig.platter, loop);
  const auto lock = disk.lock_directory("/target");
  ASSERT_TRUE(lock);
  expect_refusal(rig, Code::in_use, "in use");
}

TEST(TargetOpen, refuses_a_read_only_file_system) {
  Rig rig;
  fill(rig);
  rig.platter.set_read_only(true);
  expect_refusal(rig, Code::read_only, "read-only");
}

TEST(TargetOpen, refuses_a_damaged_record) {
  Rig rig;
  fill(rig);
  const std::string key(as_view(encode_key({ChainId{}, kChunk, 0})));
  std::string record = rig.records.content().at(key);
  record[10] = static_cast<char>(record[10] ^ 1);
  set_record(rig, key, record);
  expect_refusal(rig, Code::corrupt, "inode 5 chunk 3");
}

TEST(TargetOpen, refuses_a_record_of_a_later_version) {
  Rig rig;
  fill(rig);
  const MapKey key{ChainId{}, kChunk, 0};
  const std::string name(as_view(encode_key(key)));
  std::string record = rig.records.content().at(name);
  record[1] = 1;  // pending
  const uint32_t crc = map_checksum(name, std::string_view(record).substr(0, record.size() - 4));
  record.replace(record.size() - 4, 4, reinterpret_cast<const char*>(&crc), 4);
  set_record(rig, name, record);
  expect_refusal(rig, Code::wrong_version, "inode 5 chunk 3");
}

TEST(TargetOpen, takes_records_of_kinds_it_does_not_know_for_those_of_a_newer_program) {
  for (const std::string key : {"A", "Z", "L2", "snapshot"}) {
    Rig rig;
    fill(rig);
    set_record(rig, key, "anything");
    expect_refusal(rig, Code::wrong_version, "most likely a newer one");
  }
}

TEST(TargetOpen, takes_a_log_it_does_not_know_for_that_of_a_newer_program) {
  Rig rig;
  fill(rig);
  std::string mark = encode_log_mark({1, 1, 0, kMiB, 0});
  mark[0] = 2;
  const uint32_t crc = crc32c(std::as_bytes(std::span(mark).first(mark.size() - 4)));
  mark.replace(mark.size() - 4, 4, reinterpret_cast<const char*>(&crc), 4);
  set_record(rig, std::string(kLogKey), mark);
  expect_refusal(rig, Code::wrong_version, "most likely a newer one");
}

TEST(TargetOpen, refuses_the_key_of_a_map_that_no_target_has) {
  Rig rig;
  fill(rig);
  set_record(rig, std::string(1, kMapKeyType) + "short", "");
  expect_refusal(rig, Code::corrupt, "damaged");
}

TEST(TargetOpen, refuses_blocks_that_are_used_twice) {
  Rig rig;
  fill(rig);
  const BlockMap map = stored_maps(rig.records.content())->at({ChainId{}, kChunk, 0});
  const MapKey other{ChainId{}, {InodeId(6), 0}, 0};
  std::string record(kMapRecordBytesMax, '\0');
  record.resize(encode_map(other, map, record.data()));
  set_record(rig, std::string(as_view(encode_key(other))), record);
  expect_refusal(rig, Code::corrupt, "inode 6");
}

TEST(TargetOpen, refuses_missing_data_files) {
  Rig rig;
  fill(rig);
  {
    sim::SimLoop loop(rig.world);
    sim::SimDisk disk(rig.platter, loop);
    ASSERT_TRUE(disk.remove("/target/data-0000").ok());
  }
  expect_refusal(rig, Code::corrupt, "beyond the data files");
  set_file(rig, "/target/data-0001", "");
  const auto before = everything(rig);
  ASSERT_FALSE(rig.begin());
  EXPECT_THAT(rig.refusal.message, HasSubstr("data-0000 is missing"));
}

TEST(TargetOpen, leaves_an_unwritable_place_as_it_was) {
  Rig rig;
  rig.platter.set_read_only(true);
  expect_refusal(rig, Code::read_only, "read-only");
}

}  // namespace
}  // namespace penstock::store
