// Records and the mark of the log of durable writes.
#include "log_record.h"

#include <gtest/gtest.h>

#include "penstock/engine.h"

namespace penstock::store {
namespace {

using limits::kBlockBytes;

const LogIdentity kIdentity{{1, 2, 3}, 77, 5};

class LogRecordTest : public testing::Test {
 protected:
  LogRecordTest() { writer.use(buffer.data(), static_cast<uint32_t>(buffer.size())); }

  // Blocks of random bytes; what it expects to find again.
  LoggedWrite add(uint32_t first_block, uint32_t count, uint32_t short_by = 0) {
    LoggedWrite write;
    write.chain = ChainId(static_cast<uint32_t>(random.next()));
    write.chunk = {InodeId(random.next()), static_cast<uint32_t>(random.next())};
    write.first_block = first_block;
    write.end = (first_block + count) * static_cast<uint32_t>(kBlockBytes) - short_by;
    std::vector<std::byte> bytes(count * kBlockBytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    for (uint32_t i = 0; i < count; ++i) {
      write.blocks.push_back({random.below(limits::kTargetBlocksMax),
                              crc32c({bytes.data() + i * kBlockBytes, kBlockBytes})});
    }
    std::byte* to =
        writer.add({write.chain, write.chunk}, write.first_block, write.end, write.blocks);
    std::copy(bytes.begin(), bytes.end(), to);
    contents.push_back(std::move(bytes));
    return write;
  }
  Bytes sealed() { return {buffer.data(), writer.seal(kIdentity)}; }

  engine::SeededRandom random{1};
  std::vector<std::byte> buffer = std::vector<std::byte>(limits::kLogRecordBytes);
  std::vector<std::vector<std::byte>> contents;
  LogRecordWriter writer;
};

TEST_F(LogRecordTest, decodes_to_what_was_added) {
  for (int round = 0; round < 50; ++round) {
    writer.clear();
    contents.clear();
    std::vector<LoggedWrite> writes;
    uint32_t blocks = 1;
    while (true) {
      const auto count = static_cast<uint32_t>(1 + random.below(limits::kLogBlocks));
      if (!writer.room(count)) break;
      writes.push_back(add(static_cast<uint32_t>(random.below(limits::kChunkBlocksMax - count)),
                           count, static_cast<uint32_t>(random.below(kBlockBytes))));
      blocks += count;
    }
    const Bytes bytes = sealed();
    EXPECT_EQ(bytes.size(), blocks * kBlockBytes);
    // What lies behind it in the file does not matter.
    const auto record = decode_log_record(kIdentity, buffer);
    ASSERT_TRUE(record);
    EXPECT_EQ(record->length, bytes.size());
    ASSERT_EQ(record->writes.size(), writes.size());
    for (size_t i = 0; i < writes.size(); ++i) {
      EXPECT_EQ(record->writes[i].chain, writes[i].chain);
      EXPECT_EQ(record->writes[i].chunk, writes[i].chunk);
      EXPECT_EQ(record->writes[i].first_block, writes[i].first_block);
      EXPECT_EQ(record->writes[i].end, writes[i].end);
      EXPECT_EQ(record->writes[i].blocks, writes[i].blocks);
      EXPECT_TRUE(std::equal(contents[i].begin(), contents[i].end(),
                             record->writes[i].bytes.begin(), record->writes[i].bytes.end()));
    }
  }
}

TEST_F(LogRecordTest, holds_the_bytes_of_64_small_writes) {
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(writer.room(1));
    add(7, 1);
  }
}

TEST_F(LogRecordTest, is_none_when_any_of_it_is_torn_or_changed) {
  add(3, 2);
  add(9, 1, 100);
  const Bytes bytes = sealed();
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  for (int i = 0; i < 2000; ++i) {
    const uint64_t bit = random.below(copy.size() * 8);
    // The rest of the first block is zeros that nobody reads.
    if (bit / 8 >= 64 + 2 * 24 + 3 * 12 && bit / 8 < kBlockBytes) continue;
    copy[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto record = decode_log_record(kIdentity, copy);
    ASSERT_FALSE(record);
    EXPECT_EQ(record.error().code(), Code::not_found) << bit / 8;
    copy[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  for (uint64_t length = 0; length < bytes.size(); length += 512) {
    EXPECT_EQ(decode_log_record(kIdentity, bytes.first(length)).error().code(), Code::not_found);
  }
  EXPECT_TRUE(decode_log_record(kIdentity, copy));
}

TEST_F(LogRecordTest, belongs_to_one_target_one_opening_and_one_place) {
  add(0, 1);
  const Bytes bytes = sealed();
  LogIdentity other = kIdentity;
  other.uuid[15] = 1;
  EXPECT_EQ(decode_log_record(other, bytes).error().code(), Code::not_found);
  other = kIdentity;
  ++other.epoch;
  EXPECT_EQ(decode_log_record(other, bytes).error().code(), Code::not_found);
  other = kIdentity;
  ++other.number;
  EXPECT_EQ(decode_log_record(other, bytes).error().code(), Code::not_found);
}

// Changes a field of the header or an entry and makes the checksum right again, as only another
// version of this program would.
TEST_F(LogRecordTest, of_another_version_is_refused) {
  add(3, 1);
  const Bytes bytes = sealed();
  const auto with = [&](size_t at, uint32_t value) {
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    std::memcpy(copy.data() + at, &value, 4);
    uint32_t length = 0, crc = 0;
    std::memcpy(&length, copy.data() + 40, 4);
    std::memcpy(copy.data() + 48, &crc, 4);
    crc = crc32c({copy.data(), length});
    std::memcpy(copy.data() + 48, &crc, 4);
    const auto record = decode_log_record(kIdentity, copy);
    return record ? Code::ok : record.error().code();
  };
  EXPECT_EQ(with(44, 1), Code::ok) << "the same again";
  EXPECT_EQ(with(44, 2), Code::wrong_version) << "count of entries";
  EXPECT_EQ(with(52, 1), Code::wrong_version) << "reserved";
  EXPECT_EQ(with(64 + 16, limits::kChunkBlocksMax), Code::wrong_version) << "block";
  EXPECT_EQ(with(64 + 20, 3 * kBlockBytes), Code::wrong_version) << "end";
  EXPECT_EQ(with(64 + 20, 4 * kBlockBytes + 1), Code::wrong_version) << "end";
  EXPECT_EQ(with(64 + 24, 0), Code::wrong_version) << "count";
  EXPECT_EQ(with(64 + 24, 2), Code::wrong_version) << "count";
  EXPECT_EQ(with(64 + 24, UINT32_MAX), Code::wrong_version) << "count";
  EXPECT_EQ(with(64 + 32, limits::kTargetBlocksMax >> 32), Code::wrong_version) << "place";
  EXPECT_EQ(with(64 + 32, (limits::kTargetBlocksMax >> 32) - 1), Code::ok) << "place";
}

TEST(LogMark, decodes_to_what_was_encoded) {
  const LogMark mark{9, 1234567, 20480, limits::kLogBytes, 0};
  const std::string record = encode_log_mark(mark);
  EXPECT_EQ(record.size(), 44u);
  ASSERT_TRUE(decode_log_mark(record));
  EXPECT_EQ(*decode_log_mark(record), mark);
  for (size_t i = 0; i < record.size(); ++i) {
    std::string changed = record;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    EXPECT_EQ(decode_log_mark(changed).error().code(), Code::corrupt) << i;
  }
  EXPECT_EQ(decode_log_mark("").error().code(), Code::corrupt);
  EXPECT_EQ(decode_log_mark(record.substr(1)).error().code(), Code::wrong_version);
}

TEST(LogMark, points_into_its_file) {
  const auto code = [](LogMark mark) {
    const auto decoded = decode_log_mark(encode_log_mark(mark));
    return decoded ? Code::ok : decoded.error().code();
  };
  constexpr uint64_t kSize = limits::kLogBytesMin;
  EXPECT_EQ(code({1, 1, kSize - log_record_bytes(kSize), kSize, 0}), Code::ok);
  EXPECT_EQ(code({1, 1, kSize - kBlockBytes, kSize, 0}), Code::wrong_version);
  EXPECT_EQ(code({1, 1, 100, kSize, 0}), Code::wrong_version);
  EXPECT_EQ(code({1, 0, 0, kSize, 0}), Code::wrong_version);
  EXPECT_EQ(code({1, 1, 0, kSize / 2, 0}), Code::wrong_version);
  EXPECT_EQ(code({1, 1, 0, UINT64_MAX - 4095, 0}), Code::wrong_version);
}

TEST(LogPlace, no_record_spans_the_end_of_the_file) {
  constexpr uint64_t kSize = limits::kLogBytesMin;
  for (uint64_t end = 0; end <= kSize; end += kBlockBytes) {
    const uint64_t next = next_record_at(end, kSize);
    EXPECT_LE(next + log_record_bytes(kSize), kSize);
    EXPECT_TRUE(next == end || next == 0);
  }
}

class PrepareRecordTest : public LogRecordTest {
 protected:
  // Of `blocks` blocks of random bytes; what it expects to find again.
  LoggedPrepare add_prepare(uint32_t blocks, uint32_t parts = 1) {
    LoggedPrepare prepare;
    prepare.at = {ChainId(static_cast<uint32_t>(random.next())),
                  {InodeId(random.next()), static_cast<uint32_t>(random.next())}};
    prepare.base = {random.next(), 4, {1, random.next(), 3, 4}};
    prepare.update.name = {random.next(), 5 + random.below(1000), {2, 3, 4, 5}};
    prepare.update.parts.resize(parts);
    for (uint32_t i = 0; i < parts; ++i) {
      prepare.update.parts[i] = {{1, random.next(), 3, i}, i * 4096, i * 4096 + 1};
    }
    std::vector<std::byte> bytes(blocks * kBlockBytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    for (uint32_t i = 0; i < blocks; ++i) {
      prepare.update.blocks.push_back({i * 2,
                                       {random.below(limits::kTargetBlocksMax),
                                        crc32c({bytes.data() + i * kBlockBytes, kBlockBytes})}});
    }
    prepare.record = encode_pending(encode_chunk_key(kPendingKeyType, prepare.at), prepare.update);
    EXPECT_EQ(prepare.record.size(), pending_bytes(prepare.update, blocks));
    EXPECT_TRUE(writer.room_for_prepare(prepare.record.size(), blocks));
    std::byte* const to = writer.add_prepare(prepare.at, prepare.base, prepare.record, blocks);
    std::copy(bytes.begin(), bytes.end(), to);
    contents.push_back(std::move(bytes));
    return prepare;
  }
};

TEST_F(PrepareRecordTest, decodes_to_what_was_added) {
  for (int round = 0; round < 30; ++round) {
    writer.clear();
    contents.clear();
    std::vector<LoggedPrepare> prepares;
    uint32_t blocks = 0;
    size_t entries = 0;
    while (true) {
      const auto count = static_cast<uint32_t>(random.below(round % 2 == 0 ? 3 : 64));
      const auto parts = static_cast<uint32_t>(1 + random.below(round % 3 == 0 ? 64 : 2));
      PendingRecord like;
      like.parts.resize(parts);
      if (!writer.room_for_prepare(pending_bytes(like, count), count)) break;
      prepares.push_back(add_prepare(count, parts));
      blocks += count;
      entries += 64 + prepares.back().record.size();
    }
    const Bytes bytes = sealed();
    EXPECT_EQ(bytes.size(), align_up(64 + entries, kBlockBytes) + blocks * kBlockBytes);
    const auto record = decode_log_record(kIdentity, buffer);
    ASSERT_TRUE(record);
    EXPECT_EQ(record->length, bytes.size());
    EXPECT_TRUE(record->writes.empty());
    ASSERT_EQ(record->prepares.size(), prepares.size());
    for (size_t i = 0; i < prepares.size(); ++i) {
      const LoggedPrepare& found = record->prepares[i];
      EXPECT_EQ(found.at, prepares[i].at);
      EXPECT_EQ(found.base, prepares[i].base);
      EXPECT_EQ(found.record, prepares[i].record);
      EXPECT_EQ(found.update.name, prepares[i].update.name);
      EXPECT_EQ(found.update.blocks, prepares[i].update.blocks);
      EXPECT_TRUE(std::equal(contents[i].begin(), contents[i].end(), found.bytes.begin(),
                             found.bytes.end()));
    }
  }
}

TEST_F(PrepareRecordTest, is_none_when_any_of_it_is_torn_or_changed) {
  for (int i = 0; i < 30; ++i) add_prepare(1);
  const size_t entries = 30 * (64 + 56 + 40 + 16 + 4);
  const Bytes bytes = sealed();
  ASSERT_EQ(bytes.size(), 32 * kBlockBytes);
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  for (int i = 0; i < 4000; ++i) {
    const uint64_t bit = random.below(i % 2 == 0 ? (64 + entries) * 8 : copy.size() * 8);
    // The rest of the blocks of entries is zeros that nobody reads.
    if (bit / 8 >= 64 + entries && bit / 8 < 2 * kBlockBytes) continue;
    copy[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto record = decode_log_record(kIdentity, copy);
    ASSERT_FALSE(record);
    EXPECT_EQ(record.error().code(), Code::not_found) << bit / 8;
    copy[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  for (uint64_t length = 0; length < bytes.size(); length += 512) {
    EXPECT_EQ(decode_log_record(kIdentity, bytes.first(length)).error().code(), Code::not_found);
  }
  EXPECT_TRUE(decode_log_record(kIdentity, copy));
}

TEST_F(PrepareRecordTest, holds_prepares_or_writes) {
  add(3, 2);
  EXPECT_FALSE(writer.room_for_prepare(200, 1));
  writer.clear();
  add_prepare(1);
  EXPECT_FALSE(writer.room(1));
  writer.clear();
  EXPECT_TRUE(writer.room(1));
}

TEST_F(PrepareRecordTest, a_whole_one_that_says_what_we_do_not_write_is_of_another_version) {
  add_prepare(1);
  const Bytes bytes = sealed();
  const auto with = [&](size_t at, std::byte flip, Code code) {
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    copy[at] ^= flip;
    uint32_t length = 0;
    std::memcpy(&length, copy.data() + 56, 4);
    if (at >= 64 && 64 + length <= copy.size()) {
      const uint32_t entries = crc32c({copy.data() + 64, length});
      std::memcpy(copy.data() + 60, &entries, 4);
    }
    std::memset(copy.data() + 48, 0, 4);
    const uint32_t crc = crc32c({copy.data(), 64});
    std::memcpy(copy.data() + 48, &crc, 4);
    const auto record = decode_log_record(kIdentity, copy);
    ASSERT_FALSE(record) << at;
    EXPECT_EQ(record.error().code(), code) << at;
  };
  with(44, std::byte{2}, Code::wrong_version);           // the count
  with(52, std::byte{3}, Code::wrong_version);           // the kind
  with(53, std::byte{1}, Code::wrong_version);           // zeros
  with(58, std::byte{1}, Code::wrong_version);           // more entries than a record has
  with(56, std::byte{64}, Code::not_found);              // entries that are not summed
  with(64 + 60, std::byte{1}, Code::wrong_version);      // zeros of an entry
  with(64 + 56, std::byte{8}, Code::wrong_version);      // its record's length
  with(64 + 24 + 7, std::byte{1}, Code::wrong_version);  // a base beyond the name
  with(64 + 64, std::byte{2}, Code::wrong_version);      // the pending record
  EXPECT_EQ(decode_log_record_2(kIdentity, ChainId(1), bytes).error().code(), Code::not_found);
  std::vector<std::byte> old(bytes.begin(), bytes.end());
  old[7] = std::byte{'1'};
  std::memset(old.data() + 48, 0, 4);
  const uint32_t crc = crc32c({old.data(), 64});
  std::memcpy(old.data() + 48, &crc, 4);
  EXPECT_EQ(decode_log_record_2(kIdentity, ChainId(1), old).error().code(), Code::wrong_version)
      << "targets of format 2 have no chains";
}

}  // namespace
}  // namespace penstock::store
