#include "penstock/verbs/message.h"

#include <bit>
#include <cstring>

namespace penstock::verbs {
namespace {

static_assert(std::endian::native == std::endian::little, "structs go to the wire as they are");

constexpr uint32_t kNumberBits = 24;
constexpr uint8_t kMtuMin = 1;
constexpr uint8_t kMtuMax = 5;

struct WireHeader {
  uint8_t version = kVersion;
  uint8_t kind = 0;
  uint16_t method = 0;
  uint32_t taken = 0;
  uint64_t call = 0;
  uint64_t time_us = 0;
  uint32_t detail = 0;
  uint8_t exposures = 0;
  uint8_t reserved[3] = {};
};
static_assert(sizeof(WireHeader) == limits::kHeaderBytes);
static_assert(offsetof(WireHeader, call) == 8 && offsetof(WireHeader, detail) == 24);
static_assert(std::has_unique_object_representations_v<WireHeader>, "no padding");

struct WireSpan {
  uint64_t address = 0;
  uint64_t length = 0;
  uint32_t key = 0;
  uint8_t access = 0;
  uint8_t reserved[3] = {};
};
static_assert(sizeof(WireSpan) == limits::kSpanBytes);
static_assert(std::has_unique_object_representations_v<WireSpan>, "no padding");

struct WireOffer {
  uint8_t version = kVersion;
  uint8_t mtu = 0;
  uint8_t reads = 0;
  uint8_t reserved = 0;
  uint32_t queue_pair = 0;
  uint32_t first_packet = 0;
  uint16_t lid = 0;
  uint16_t reserved_too = 0;
  std::array<std::byte, 16> gid{};
  uint32_t credits = 0;
  uint32_t calls = 0;
  uint64_t reserved_last = 0;
};
static_assert(sizeof(WireOffer) == limits::kOfferBytes);
static_assert(std::has_unique_object_representations_v<WireOffer>, "no padding");

bool has_call(MessageKind kind) {
  return kind == MessageKind::request || kind == MessageKind::response ||
         kind == MessageKind::abandon || kind == MessageKind::released;
}

bool has_bytes(MessageKind kind) {
  return kind == MessageKind::request || kind == MessageKind::response;
}

bool keeps_shape(const Header& header) {
  const bool request = header.kind == MessageKind::request;
  const bool response = header.kind == MessageKind::response;
  if (header.kind < MessageKind::request || header.kind > MessageKind::pong) return false;
  if (has_call(header.kind) != (header.call != 0)) return false;
  if (header.exposures > (request ? engine::kNetExposuresMax : 0)) return false;
  if (!request && header.time_us != 0) return false;
  if (!response && header.detail != 0) return false;
  return request || response || header.method == 0;
}

bool keeps_shape(const Span& span) {
  if (span.length == 0) return span.address == 0 && span.key == 0;
  return span.length <= limits::kSpanBytesMax && span.address <= UINT64_MAX - span.length;
}

}  // namespace

uint32_t encode(const Message& message, std::span<std::byte, limits::kMessageBytesMax> to) {
  const Header& header = message.header;
  ASSERT(keeps_shape(header) && message.bytes.size() <= engine::kNetMessageMax);
  ASSERT(message.bytes.empty() || has_bytes(header.kind));
  const WireHeader wire{.kind = static_cast<uint8_t>(header.kind),
                        .method = header.method,
                        .taken = header.taken,
                        .call = header.call,
                        .time_us = header.time_us,
                        .detail = header.detail,
                        .exposures = header.exposures};
  std::memcpy(to.data(), &wire, sizeof wire);
  uint32_t length = sizeof wire;
  for (uint32_t i = 0; i < header.exposures; ++i) {
    const Span& span = message.spans[i];
    ASSERT(keeps_shape(span));
    const WireSpan wire_span{.address = span.address,
                             .length = span.length,
                             .key = span.key,
                             .access = static_cast<uint8_t>(span.access)};
    std::memcpy(to.data() + length, &wire_span, sizeof wire_span);
    length += sizeof wire_span;
  }
  if (!message.bytes.empty()) {
    std::memcpy(to.data() + length, message.bytes.data(), message.bytes.size());
  }
  return length + static_cast<uint32_t>(message.bytes.size());
}

Result<Message> decode(Bytes bytes) {
  WireHeader wire;
  if (bytes.size() < sizeof wire || bytes.size() > limits::kMessageBytesMax) {
    return Code::bad_message;
  }
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.version != kVersion) return Code::wrong_version;
  Message message;
  message.header = {.kind = static_cast<MessageKind>(wire.kind),
                    .method = wire.method,
                    .taken = wire.taken,
                    .call = wire.call,
                    .time_us = wire.time_us,
                    .detail = wire.detail,
                    .exposures = wire.exposures};
  if (!keeps_shape(message.header)) return Code::bad_message;
  if (wire.reserved[0] != 0 || wire.reserved[1] != 0 || wire.reserved[2] != 0) {
    return Code::bad_message;
  }
  Bytes rest = bytes.subspan(sizeof wire);
  if (rest.size() < size_t{wire.exposures} * sizeof(WireSpan)) return Code::bad_message;
  for (uint32_t i = 0; i < wire.exposures; ++i) {
    WireSpan span;
    std::memcpy(&span, rest.data(), sizeof span);
    rest = rest.subspan(sizeof span);
    const bool fetch = span.access == static_cast<uint8_t>(engine::Access::fetch);
    if (!fetch && span.access != static_cast<uint8_t>(engine::Access::place)) {
      return Code::bad_message;
    }
    if (span.reserved[0] != 0 || span.reserved[1] != 0 || span.reserved[2] != 0) {
      return Code::bad_message;
    }
    message.spans[i] = {span.address, span.length, span.key,
                        fetch ? engine::Access::fetch : engine::Access::place};
    if (!keeps_shape(message.spans[i])) return Code::bad_message;
  }
  if (rest.size() > engine::kNetMessageMax) return Code::bad_message;
  if (!rest.empty() && !has_bytes(message.header.kind)) return Code::bad_message;
  message.bytes = rest;
  return message;
}

OfferBytes encode_offer(const Offer& offer) {
  return std::bit_cast<OfferBytes>(WireOffer{.mtu = offer.endpoint.mtu,
                                             .reads = offer.endpoint.reads,
                                             .queue_pair = offer.endpoint.queue_pair,
                                             .first_packet = offer.endpoint.first_packet,
                                             .lid = offer.endpoint.lid,
                                             .gid = offer.endpoint.gid,
                                             .credits = offer.credits,
                                             .calls = offer.calls});
}

Result<Offer> decode_offer(Bytes bytes) {
  WireOffer wire;
  if (bytes.size() != sizeof wire) return Code::bad_message;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.version != kVersion) return Code::wrong_version;
  if (wire.reserved != 0 || wire.reserved_too != 0 || wire.reserved_last != 0) {
    return Code::bad_message;
  }
  if (wire.queue_pair >> kNumberBits != 0 || wire.first_packet >> kNumberBits != 0 ||
      wire.mtu < kMtuMin || wire.mtu > kMtuMax) {
    return Code::bad_message;
  }
  // Half of them are returned at a time.
  if (wire.credits < 2 || wire.calls == 0) return Code::bad_message;
  return Offer{{wire.queue_pair, wire.first_packet, wire.gid, wire.lid, wire.mtu, wire.reads},
               wire.credits,
               wire.calls};
}

}  // namespace penstock::verbs
