#include <gtest/gtest.h>

#include "penstock/wire.h"

namespace penstock::wire {
namespace {

constexpr uint16_t kRead = 1, kWrite = 2, kClear = 3, kRemove = 4, kSync = 5, kEndQuery = 6;

bool accepted(uint16_t method, const ChunkRequest& request) {
  return decode_chunk_request(method, as_wire(request)).has_value();
}

TEST(ChunkRequestTest, comes_back_as_it_was_when_good) {
  const ChunkRequest request{.inode = 77, .chunk = 3, .begin = 4096, .length = 512, .flags = 1};
  const Result<ChunkRequest> decoded = decode_chunk_request(kRead, as_wire(request));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->inode, 77u);
  EXPECT_EQ(decoded->chunk, 3u);
  EXPECT_EQ(decoded->begin, 4096u);
  EXPECT_EQ(decoded->length, 512u);
  EXPECT_EQ(decoded->flags, uint32_t{kChunkRefuseHoles});
}

TEST(ChunkRequestTest, bytes_are_those_of_the_format) {
  const ChunkRequest request{
      .inode = 0x0102030405060708, .chunk = 9, .begin = 0x100, .length = 0x20000, .flags = 2};
  const unsigned char expected[] = {8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0,
                                    0, 1, 0, 0, 0, 0, 2, 0, 2, 0, 0, 0};
  ASSERT_EQ(as_wire(request).size(), sizeof expected);
  EXPECT_EQ(std::memcmp(as_wire(request).data(), expected, sizeof expected), 0);
}

TEST(ChunkRequestTest, is_refused_when_size_is_wrong) {
  const ChunkRequest request{.inode = 1, .length = 1};
  const Bytes bytes = as_wire(request);
  EXPECT_FALSE(decode_chunk_request(kRead, bytes.first(23)).has_value());
  EXPECT_FALSE(decode_chunk_request(kRead, {}).has_value());
  std::byte longer[25] = {};
  EXPECT_FALSE(decode_chunk_request(kSync, longer).has_value());
}

TEST(ChunkRequestTest, is_refused_when_method_is_unknown) {
  const ChunkRequest request{.inode = 1};
  for (const uint16_t method : {0, 7, 255, 65535}) EXPECT_FALSE(accepted(method, request));
}

TEST(ChunkRequestTest, is_refused_when_range_leaves_the_largest_chunk) {
  const auto max = static_cast<uint32_t>(limits::kChunkBytesMax);
  EXPECT_TRUE(accepted(kRead, {.inode = 1, .begin = max - 1, .length = 1}));
  EXPECT_FALSE(accepted(kRead, {.inode = 1, .begin = max, .length = 1}));
  EXPECT_FALSE(accepted(kWrite, {.inode = 1, .begin = 1, .length = max}));
  EXPECT_FALSE(accepted(kWrite, {.inode = 1, .begin = UINT32_MAX, .length = UINT32_MAX}));
  EXPECT_FALSE(accepted(kRead, {.inode = 1, .begin = 0, .length = 0}));
}

TEST(ChunkRequestTest, clear_needs_an_ordered_range) {
  EXPECT_TRUE(accepted(kClear, {.inode = 1, .begin = 5, .length = 6}));
  EXPECT_TRUE(accepted(kClear, {.inode = 1, .begin = 5, .length = kChunkEnd}));
  EXPECT_FALSE(accepted(kClear, {.inode = 1, .begin = 5, .length = 5}));
  EXPECT_FALSE(accepted(kClear, {.inode = 1, .begin = 6, .length = 5}));
  EXPECT_FALSE(accepted(kClear, {.inode = 1, .begin = 5, .length = kChunkEnd - 1}));
}

TEST(ChunkRequestTest, is_refused_when_flags_or_unused_fields_are_set) {
  EXPECT_FALSE(accepted(kRead, {.inode = 1, .length = 1, .flags = kChunkDurable}));
  EXPECT_FALSE(accepted(kWrite, {.inode = 1, .length = 1, .flags = kChunkRefuseHoles}));
  EXPECT_TRUE(accepted(kWrite, {.inode = 1, .length = 1, .flags = kChunkDurable}));
  EXPECT_FALSE(accepted(kWrite, {.inode = 1, .length = 1, .flags = 1u << 31}));
  EXPECT_TRUE(accepted(kRemove, {.inode = 1, .chunk = 8, .flags = kChunkDurable}));
  EXPECT_FALSE(accepted(kRemove, {.inode = 1, .chunk = 8, .begin = 1}));
  EXPECT_TRUE(accepted(kSync, {}));
  EXPECT_FALSE(accepted(kSync, {.inode = 1, .chunk = 1}));
  EXPECT_TRUE(accepted(kEndQuery, {.inode = 1}));
  EXPECT_FALSE(accepted(kEndQuery, {.inode = 1, .flags = 1}));
}

TEST(ChunkRequestTest, only_sync_may_do_without_an_inode) {
  EXPECT_FALSE(accepted(kRead, {.length = 1}));
  EXPECT_FALSE(accepted(kWrite, {.length = 1}));
  EXPECT_FALSE(accepted(kClear, {.begin = 0, .length = 1}));
  EXPECT_FALSE(accepted(kRemove, {}));
  EXPECT_FALSE(accepted(kEndQuery, {}));
}

TEST(ChunkResponseTest, is_refused_when_size_is_wrong) {
  const ChunkEndResponse response{.allocated_bytes = 4096, .last_chunk = 1, .any = 1};
  EXPECT_EQ(decode_chunk_response<ChunkEndResponse>(as_wire(response))->last_chunk, 1u);
  EXPECT_FALSE(decode_chunk_response<ChunkIoResponse>(as_wire(response)).has_value());
}

}  // namespace
}  // namespace penstock::wire
