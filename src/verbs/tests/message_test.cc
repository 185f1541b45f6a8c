#include <cstring>
#include <gtest/gtest.h>

#include "penstock/verbs.h"

namespace penstock::verbs {
namespace {

using engine::Access;
using Buffer = std::array<std::byte, limits::kMessageBytesMax>;

Message request() {
  Message message;
  message.header = {.kind = MessageKind::request,
                    .method = 7,
                    .taken = 9,
                    .call = 0x1'0000'0002,
                    .time_us = 1000,
                    .exposures = 2};
  message.spans[0] = {0x7000, 4096, 0x501, Access::place};
  message.spans[1] = {0x9000, 1, 0x602, Access::fetch};
  return message;
}

Bytes encoded(const Message& message, Buffer& buffer) {
  return Bytes(buffer).first(encode(message, buffer));
}

TEST(Message, a_request_comes_back_as_it_was) {
  Buffer buffer;
  std::array<std::byte, 100> text;
  text.fill(std::byte{3});
  Message message = request();
  message.bytes = text;
  const auto back = decode(encoded(message, buffer));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->header, message.header);
  EXPECT_EQ(back->spans, message.spans);
  ASSERT_EQ(back->bytes.size(), text.size());
  EXPECT_EQ(std::memcmp(back->bytes.data(), text.data(), text.size()), 0);
}

TEST(Message, every_cut_of_header_and_spans_is_refused) {
  Buffer buffer;
  const Bytes bytes = encoded(request(), buffer);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decode(bytes.first(length))) << length;
  }
  EXPECT_TRUE(decode(bytes));
}

TEST(Message, fields_that_a_kind_does_not_use_are_zero) {
  struct Change {
    size_t offset;
    uint8_t value;
    Code code;
  };
  // Of the request: version, kind, call, exposures, reserved; of its first span: access, reserved.
  for (const Change& change :
       {Change{0, 2, Code::wrong_version}, Change{1, 0, Code::bad_message},
        Change{1, 8, Code::bad_message}, Change{28, 5, Code::bad_message},
        Change{29, 1, Code::bad_message}, Change{24, 1, Code::bad_message},
        Change{32 + 20, 2, Code::bad_message}, Change{32 + 21, 1, Code::bad_message}}) {
    Buffer buffer;
    const Bytes bytes = encoded(request(), buffer);
    buffer[change.offset] = std::byte{change.value};
    const auto back = decode(bytes);
    ASSERT_FALSE(back) << change.offset;
    EXPECT_EQ(back.error(), Status(change.code)) << change.offset;
  }
}

TEST(Message, a_span_stays_within_its_limits) {
  const auto with = [](Span span) {
    // Written by hand: encode() asserts the same.
    Buffer buffer;
    const Bytes bytes = encoded(request(), buffer);
    std::memcpy(buffer.data() + 32, &span.address, 8);
    std::memcpy(buffer.data() + 40, &span.length, 8);
    std::memcpy(buffer.data() + 48, &span.key, 4);
    return decode(bytes).has_value();
  };
  EXPECT_TRUE(with({1, limits::kSpanBytesMax, 1}));
  EXPECT_FALSE(with({1, limits::kSpanBytesMax + 1, 1}));
  EXPECT_FALSE(with({UINT64_MAX - 10, 11, 1}));
  EXPECT_TRUE(with({0, 0, 0}));
  EXPECT_FALSE(with({0, 0, 1}));
  EXPECT_FALSE(with({1, 0, 0}));
}

TEST(Message, only_calls_have_numbers_and_bytes) {
  Buffer buffer;
  Message ping;
  const Bytes bytes = encoded(ping, buffer);
  EXPECT_TRUE(decode(bytes));
  EXPECT_FALSE(decode(Bytes(buffer).first(bytes.size() + 1)));
  buffer[8] = std::byte{1};
  EXPECT_FALSE(decode(bytes));
}

TEST(Offer, comes_back_as_it_was_and_is_checked) {
  Offer offer;
  offer.endpoint = {0xabcdef, 0x123456, {}, 17, 5, 16};
  offer.endpoint.gid.fill(std::byte{0xfe});
  const OfferBytes bytes = encode_offer(offer);
  const auto back = decode_offer(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, offer);
  // Version, MTU, reserved, the upper byte of both numbers, reserved, credits, calls, reserved.
  for (const auto& [offset, value] : {std::pair{0, 2},
                                      {1, 0},
                                      {1, 6},
                                      {3, 1},
                                      {7, 1},
                                      {11, 1},
                                      {14, 1},
                                      {32, 1},
                                      {36, 0},
                                      {47, 1}}) {
    OfferBytes changed = bytes;
    changed[static_cast<size_t>(offset)] = static_cast<std::byte>(value);
    if (offset == 36) changed[37] = std::byte{0};
    EXPECT_FALSE(decode_offer(changed)) << offset;
  }
  EXPECT_FALSE(decode_offer(Bytes(bytes).first(47)));
}

}  // namespace
}  // namespace penstock::verbs
