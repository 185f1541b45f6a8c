#include "penstock/tcp/frame.h"

#include <bit>
#include <cstring>

namespace penstock::tcp {
namespace {

static_assert(std::endian::native == std::endian::little, "structs go to the wire as they are");

constexpr uint32_t kMagic = 0x54534e50;  // "PNST"

// A header as it travels; docs/formats/tcp.md.
struct WireHeader {
  uint32_t magic = kMagic;
  uint8_t version = 0;
  uint8_t kind = 0;
  uint16_t method = 0;
  uint64_t call = 0;
  uint32_t message_bytes = 0;
  uint32_t payload_bytes = 0;
  uint64_t offset = 0;
  uint32_t length = 0;
  uint32_t transfer = 0;
  uint8_t exposure = 0;
  uint8_t reserved[3] = {};
  uint32_t checksum = 0;  // CRC-32C of all bytes before it
};
static_assert(sizeof(WireHeader) == limits::kHeaderBytes);
static_assert(offsetof(WireHeader, call) == 8 && offsetof(WireHeader, message_bytes) == 16 &&
              offsetof(WireHeader, offset) == 24 && offsetof(WireHeader, length) == 32 &&
              offsetof(WireHeader, exposure) == 40 && offsetof(WireHeader, checksum) == 44);
static_assert(std::has_unique_object_representations_v<WireHeader>, "no padding");

struct WireSpan {
  uint64_t length = 0;
  uint8_t access = 0;
  uint8_t is_inline = 0;
  uint8_t reserved[6] = {};
};
static_assert(sizeof(WireSpan) == limits::kExposureBytes);
static_assert(std::has_unique_object_representations_v<WireSpan>, "no padding");

uint32_t checksum_of(const WireHeader& wire) {
  return crc32c(std::as_bytes(std::span(&wire, 1)).first(offsetof(WireHeader, checksum)));
}

bool is_greeting(FrameKind kind) {
  return kind == FrameKind::hello || kind == FrameKind::welcome || kind == FrameKind::refusal;
}

// Which fields a kind uses, beside version and kind, and the most that its lengths may say.
struct Shape {
  uint32_t message_max = 0;
  uint32_t payload_max = 0;
  bool method = false;
  bool call = false;
  bool offset = false;
  bool length = false;
  bool transfer = false;
  uint8_t exposure_max = 0;
};

// False for a kind that there is not.
bool shape_of(FrameKind kind, Shape& shape) {
  constexpr uint8_t kLastExposure = engine::kNetExposuresMax - 1;
  switch (kind) {
    case FrameKind::hello:
    case FrameKind::welcome:
    case FrameKind::refusal:
      shape = {.message_max = limits::kMessageBytesMax};
      return true;
    case FrameKind::request:
      shape = {.message_max = limits::kMessageBytesMax,
               .payload_max = limits::kInlineBytesMax,
               .method = true,
               .call = true,
               .offset = true,
               .exposure_max = engine::kNetExposuresMax};
      return true;
    case FrameKind::response:
      shape = {.message_max = engine::kNetMessageMax, .method = true, .call = true, .length = true};
      return true;
    case FrameKind::data:
      shape = {.payload_max = limits::kDataBytesMax,
               .call = true,
               .offset = true,
               .transfer = true,
               .exposure_max = kLastExposure};
      return true;
    case FrameKind::want:
      shape = {.call = true,
               .offset = true,
               .length = true,
               .transfer = true,
               .exposure_max = kLastExposure};
      return true;
    case FrameKind::abandon:
    case FrameKind::ping:
    case FrameKind::pong:
      shape = {.call = true};
      return true;
    case FrameKind::goodbye:
      shape = {};
      return true;
  }
  return false;
}

bool keeps_shape(const Header& header) {
  Shape shape;
  if (!shape_of(header.kind, shape)) return false;
  if (header.message_bytes > shape.message_max || header.payload_bytes > shape.payload_max ||
      header.exposure > shape.exposure_max) {
    return false;
  }
  if ((!shape.method && header.method != 0) || (!shape.call && header.call != 0) ||
      (!shape.offset && header.offset != 0) || (!shape.length && header.length != 0) ||
      (!shape.transfer && header.transfer != 0)) {
    return false;
  }
  if (header.kind == FrameKind::data) {
    return header.payload_bytes > 0 &&
           range_within(header.offset, header.payload_bytes, limits::kSpanBytesMax);
  }
  if (header.kind == FrameKind::want) {
    return header.transfer != 0 && header.length > 0 &&
           range_within(header.offset, header.length, limits::kSpanBytesMax);
  }
  return true;
}

}  // namespace

HeaderBytes encode_header(const Header& header) {
  ASSERT(keeps_shape(header));
  ASSERT(header.version == (is_greeting(header.kind) ? 0 : kVersion));
  WireHeader wire{.version = header.version,
                  .kind = static_cast<uint8_t>(header.kind),
                  .method = header.method,
                  .call = header.call,
                  .message_bytes = header.message_bytes,
                  .payload_bytes = header.payload_bytes,
                  .offset = header.offset,
                  .length = header.length,
                  .transfer = header.transfer,
                  .exposure = header.exposure};
  wire.checksum = checksum_of(wire);
  return std::bit_cast<HeaderBytes>(wire);
}

Result<Header> decode_header(Bytes bytes) {
  ASSERT(bytes.size() == limits::kHeaderBytes);
  WireHeader wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.magic != kMagic || wire.checksum != checksum_of(wire)) return Code::bad_message;
  const auto kind = static_cast<FrameKind>(wire.kind);
  if (wire.version != (is_greeting(kind) ? 0 : kVersion)) return Code::wrong_version;
  if (wire.reserved[0] != 0 || wire.reserved[1] != 0 || wire.reserved[2] != 0) {
    return Code::bad_message;
  }
  const Header header{.version = wire.version,
                      .kind = kind,
                      .method = wire.method,
                      .call = wire.call,
                      .message_bytes = wire.message_bytes,
                      .payload_bytes = wire.payload_bytes,
                      .offset = wire.offset,
                      .length = wire.length,
                      .transfer = wire.transfer,
                      .exposure = wire.exposure};
  if (!keeps_shape(header)) return Code::bad_message;
  return header;
}

uint64_t inline_bytes(const Request& request) {
  ASSERT(request.span_count <= request.spans.size());
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < request.span_count; ++i) {
    if (request.spans[i].is_inline) bytes += request.spans[i].length;
  }
  return bytes;
}

uint32_t encode_request(const Request& request, std::span<std::byte, limits::kMessageBytesMax> to) {
  ASSERT(request.span_count <= request.spans.size());
  ASSERT(request.bytes.size() <= engine::kNetMessageMax);
  ASSERT(inline_bytes(request) <= limits::kInlineBytesMax);
  uint32_t length = 0;
  for (uint32_t i = 0; i < request.span_count; ++i) {
    const Span& span = request.spans[i];
    ASSERT(span.length <= limits::kSpanBytesMax);
    ASSERT(!span.is_inline || span.access == engine::Access::fetch);
    const WireSpan wire{.length = span.length,
                        .access = static_cast<uint8_t>(span.access),
                        .is_inline = span.is_inline ? uint8_t{1} : uint8_t{0}};
    std::memcpy(to.data() + length, &wire, sizeof wire);
    length += sizeof wire;
  }
  if (!request.bytes.empty()) {
    std::memcpy(to.data() + length, request.bytes.data(), request.bytes.size());
  }
  length += static_cast<uint32_t>(request.bytes.size());
  ASSERT(length <= to.size());
  return length;
}

Result<Request> decode_request(const Header& header, Bytes message) {
  ASSERT(header.kind == FrameKind::request && header.exposure <= engine::kNetExposuresMax);
  ASSERT(message.size() == header.message_bytes);
  const size_t spans_bytes = size_t{header.exposure} * sizeof(WireSpan);
  if (message.size() < spans_bytes) return Code::bad_message;
  if (message.size() - spans_bytes > engine::kNetMessageMax) return Code::bad_message;
  Request request;
  request.span_count = header.exposure;
  for (uint32_t i = 0; i < request.span_count; ++i) {
    WireSpan wire;
    std::memcpy(&wire, message.data() + i * sizeof wire, sizeof wire);
    const bool fetch = wire.access == static_cast<uint8_t>(engine::Access::fetch);
    if (!fetch && wire.access != static_cast<uint8_t>(engine::Access::place)) {
      return Code::bad_message;
    }
    if (wire.length > limits::kSpanBytesMax || wire.is_inline > 1 ||
        (wire.is_inline == 1 && !fetch)) {
      return Code::bad_message;
    }
    for (const uint8_t byte : wire.reserved) {
      if (byte != 0) return Code::bad_message;
    }
    request.spans[i] = {wire.length, fetch ? engine::Access::fetch : engine::Access::place,
                        wire.is_inline == 1};
  }
  if (inline_bytes(request) != header.payload_bytes) return Code::bad_message;
  request.bytes = message.subspan(spans_bytes);
  return request;
}

}  // namespace penstock::tcp
