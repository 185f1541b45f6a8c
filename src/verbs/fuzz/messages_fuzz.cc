// Foreign bytes as messages and offers: what decodes keeps the limits, and is encoded to the same
// bytes again.
#include "fuzz.h"

#include <cstdlib>
#include <cstring>

#include "penstock/verbs.h"

namespace penstock::fuzz {
namespace {

using namespace verbs;

void check(bool holds) {
  if (!holds) std::abort();
}

bool equal(Bytes a, Bytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

void check_message(Bytes bytes) {
  const auto message = decode(bytes);
  if (!message) return;
  check(message->header.exposures <= engine::kNetExposuresMax);
  check(message->bytes.size() <= engine::kNetMessageMax);
  for (uint32_t i = 0; i < message->header.exposures; ++i) {
    const Span& span = message->spans[i];
    check(range_within(span.address, span.length, UINT64_MAX));
    check(span.length <= verbs::limits::kSpanBytesMax);
  }
  std::array<std::byte, verbs::limits::kMessageBytesMax> buffer;
  check(equal(Bytes(buffer).first(encode(*message, buffer)), bytes));
}

void check_offer(Bytes bytes) {
  const auto offer = decode_offer(bytes);
  if (!offer) return;
  check(offer->credits >= 2 && offer->calls >= 1);
  check(equal(encode_offer(*offer), bytes));
}

std::string text_of(const Message& message) {
  std::array<std::byte, verbs::limits::kMessageBytesMax> buffer;
  const uint32_t length = encode(message, buffer);
  return std::string("m") + std::string(reinterpret_cast<const char*>(buffer.data()), length);
}

}  // namespace

std::vector<std::string> seeds() {
  Message request;
  request.header = {.kind = MessageKind::request, .method = 3, .call = 17, .exposures = 2};
  request.spans[0] = {0x10000, 4096, 0x101, engine::Access::place};
  request.spans[1] = {0x20000, 64, 0x202, engine::Access::fetch};
  const std::array<std::byte, 24> bytes{};
  request.bytes = bytes;
  Message response;
  response.header = {.kind = MessageKind::response, .method = 19, .call = 17, .detail = 4};
  Message abandon;
  abandon.header = {.kind = MessageKind::abandon, .taken = 5, .call = 17};
  Offer offer;
  offer.endpoint.mtu = 5;
  const OfferBytes offered = encode_offer(offer);
  return {text_of(request), text_of(response), text_of(abandon), text_of({}),
          "o" + std::string(reinterpret_cast<const char*>(offered.data()), offered.size())};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const penstock::Bytes bytes = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] == 'o') {
    penstock::fuzz::check_offer(bytes);
  } else {
    penstock::fuzz::check_message(bytes);
  }
  return 0;
}
