#include <cstring>
#include <gtest/gtest.h>

#include "penstock/tcp.h"

namespace penstock::tcp {
namespace {

using engine::Access;

constexpr size_t kChecksumAt = 44;

Header a_request() {
  return {.kind = FrameKind::request,
          .method = 7,
          .call = 0x0102030405060708,
          .message_bytes = 40,
          .payload_bytes = 24,
          .offset = 1'000'000,
          .exposure = 1};
}

std::vector<Header> one_of_each() {
  return {{.version = 0, .kind = FrameKind::hello, .message_bytes = 48},
          {.version = 0, .kind = FrameKind::welcome, .message_bytes = 32},
          {.version = 0, .kind = FrameKind::refusal, .message_bytes = 8},
          a_request(),
          {.kind = FrameKind::response, .method = 20, .call = 5, .message_bytes = 8, .length = 3},
          {.kind = FrameKind::data,
           .call = 5,
           .payload_bytes = limits::kDataBytesMax,
           .offset = 4096,
           .exposure = 3},
          {.kind = FrameKind::want, .call = 5, .offset = 1, .length = 9, .transfer = 2},
          {.kind = FrameKind::abandon, .call = 5},
          {.kind = FrameKind::ping, .call = 9},
          {.kind = FrameKind::pong, .call = 9},
          {.kind = FrameKind::goodbye}};
}

// The bytes of a frame as a peer of another mind would write them: changed, with a good checksum.
Result<Header> decode_changed(const Header& header, size_t at, Bytes change) {
  HeaderBytes bytes = encode_header(header);
  std::memcpy(bytes.data() + at, change.data(), change.size());
  const uint32_t checksum = crc32c(Bytes(bytes).first(kChecksumAt));
  std::memcpy(bytes.data() + kChecksumAt, &checksum, sizeof checksum);
  return decode_header(bytes);
}

template <class T>
Status refusal_of(const Header& header, size_t at, T value) {
  const auto decoded = decode_changed(header, at, std::as_bytes(std::span(&value, 1)));
  return decoded ? Status() : decoded.error();
}

TEST(Frame, headers_of_all_kinds_come_back_as_they_were) {
  for (const Header& header : one_of_each()) {
    const auto decoded = decode_header(encode_header(header));
    ASSERT_TRUE(decoded.has_value()) << static_cast<int>(header.kind);
    EXPECT_EQ(*decoded, header);
  }
}

TEST(Frame, the_bytes_of_a_header_are_those_of_the_format) {
  const HeaderBytes bytes = encode_header(a_request());
  constexpr uint8_t kExpected[kChecksumAt] = {
      'P',  'N',  'S',  'T',  1,    4,    7,    0,                  // magic to method
      0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,               // call
      40,   0,    0,    0,    24,   0,    0,    0,                  // lengths
      0x40, 0x42, 0x0f, 0,    0,    0,    0,    0,                  // deadline
      0,    0,    0,    0,    0,    0,    0,    0,    1, 0, 0, 0};  // to the checksum
  EXPECT_EQ(std::memcmp(bytes.data(), kExpected, sizeof kExpected), 0);
  uint32_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + kChecksumAt, sizeof checksum);
  EXPECT_EQ(checksum, crc32c(Bytes(bytes).first(kChecksumAt)));
}

TEST(Frame, a_header_with_any_bit_turned_is_refused) {
  const HeaderBytes good = encode_header(a_request());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    HeaderBytes bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    ASSERT_FALSE(decode_header(bytes).has_value()) << "bit " << bit;
  }
}

TEST(Frame, unknown_kinds_and_other_versions_are_refused) {
  EXPECT_EQ(refusal_of(a_request(), 5, uint8_t{0}), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(a_request(), 5, uint8_t{12}), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(a_request(), 4, uint8_t{2}), Status(Code::wrong_version));
  EXPECT_EQ(refusal_of(a_request(), 4, uint8_t{0}), Status(Code::wrong_version));
  const Header hello = one_of_each().front();
  EXPECT_EQ(refusal_of(hello, 4, uint8_t{1}), Status(Code::wrong_version));
}

TEST(Frame, lengths_above_their_limits_are_refused) {
  EXPECT_EQ(refusal_of(a_request(), 16, limits::kMessageBytesMax), Status());
  EXPECT_EQ(refusal_of(a_request(), 16, limits::kMessageBytesMax + 1), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(a_request(), 20, limits::kInlineBytesMax), Status());
  EXPECT_EQ(refusal_of(a_request(), 20, limits::kInlineBytesMax + 1), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(a_request(), 40, uint8_t{5}), Status(Code::bad_message));
  const Header data{.kind = FrameKind::data, .call = 5, .payload_bytes = 8};
  EXPECT_EQ(refusal_of(data, 20, limits::kDataBytesMax + 1), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(data, 20, uint32_t{0}), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(data, 24, limits::kSpanBytesMax - 8), Status());
  EXPECT_EQ(refusal_of(data, 24, limits::kSpanBytesMax - 7), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(data, 24, UINT64_MAX), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(data, 40, uint8_t{4}), Status(Code::bad_message));
}

TEST(Frame, fields_that_a_kind_does_not_use_must_be_zero) {
  const Header ping{.kind = FrameKind::ping, .call = 9};
  EXPECT_EQ(refusal_of(ping, 6, uint16_t{1}), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(ping, 24, uint64_t{1}), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(ping, 32, uint32_t{1}), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(ping, 36, uint32_t{1}), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(ping, 40, uint8_t{1}), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(ping, 41, uint8_t{1}), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(ping, 43, uint8_t{1}), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(Header{.kind = FrameKind::goodbye}, 8, uint64_t{1}),
            Status(Code::bad_message));
}

TEST(Frame, a_want_names_bytes_and_a_transfer) {
  const Header want{.kind = FrameKind::want, .call = 5, .length = 9, .transfer = 2};
  EXPECT_EQ(refusal_of(want, 32, uint32_t{0}), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(want, 36, uint32_t{0}), Status(Code::bad_message));
  EXPECT_EQ(refusal_of(want, 24, limits::kSpanBytesMax), Status(Code::bad_message));
}

// A request with one inline span of 24 bytes and one to place into, and 8 bytes of its own.
struct Encoded {
  std::array<std::byte, limits::kMessageBytesMax> bytes{};
  Header header = a_request();

  explicit Encoded(Request request) {
    header.message_bytes = encode_request(request, bytes);
    header.exposure = static_cast<uint8_t>(request.span_count);
    header.payload_bytes = static_cast<uint32_t>(inline_bytes(request));
  }
  Bytes message() const { return Bytes(bytes).first(header.message_bytes); }
  Result<Request> decode() const { return decode_request(header, message()); }
};

const std::array<std::byte, 8> kOwnBytes{std::byte{1}, std::byte{2}, std::byte{3}};

Request two_spans() {
  Request request;
  request.span_count = 2;
  request.bytes = kOwnBytes;
  request.spans[0] = {24, Access::fetch, true};
  request.spans[1] = {kMiB, Access::place, false};
  return request;
}

TEST(Frame, requests_come_back_as_they_were) {
  const Encoded encoded(two_spans());
  const auto decoded = encoded.decode();
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->span_count, 2u);
  EXPECT_EQ(decoded->spans, two_spans().spans);
  EXPECT_TRUE(std::ranges::equal(decoded->bytes, kOwnBytes));
  EXPECT_EQ(inline_bytes(*decoded), 24u);
}

TEST(Frame, requests_that_break_the_rules_are_refused) {
  const auto with = [](size_t at, uint8_t value) {
    Encoded encoded(two_spans());
    encoded.bytes[at] = std::byte{value};
    return encoded.decode().has_value();
  };
  EXPECT_TRUE(with(0, 24));
  EXPECT_FALSE(with(0, 25)) << "another length than the payload's";
  EXPECT_FALSE(with(8, 2)) << "no such access";
  EXPECT_FALSE(with(8, 0)) << "inline bytes of a span to place into";
  EXPECT_FALSE(with(9, 2));
  EXPECT_FALSE(with(10, 1)) << "reserved";
  EXPECT_FALSE(with(16 + 7, 1)) << "a span above its limit";
  Encoded shorter(two_spans());
  shorter.header.message_bytes = 31;
  EXPECT_FALSE(shorter.decode().has_value()) << "too short for its spans";
}

TEST(Frame, inline_lengths_whose_sum_wraps_do_not_pass_for_small_ones) {
  Encoded encoded(two_spans());
  const uint64_t huge = UINT64_MAX - 23;
  std::memcpy(encoded.bytes.data(), &huge, sizeof huge);
  EXPECT_FALSE(encoded.decode().has_value());
}

}  // namespace
}  // namespace penstock::tcp
