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
      write.blocks.push_back({static_cast<uint32_t>(random.below(kHole)),
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
  EXPECT_EQ(with(64 + 28, kHole), Code::wrong_version) << "place";
  EXPECT_EQ(with(64 + 32, 1), Code::wrong_version) << "place beyond 32 bits";
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

}  // namespace
}  // namespace penstock::store
