// Foreign bytes as a stream of frames: what decodes keeps the limits, and is encoded to the same
// bytes again.
#include "fuzz.h"

#include <cstdlib>
#include <cstring>

#include "penstock/tcp.h"

namespace penstock::fuzz {
namespace {

using namespace tcp;

void check(bool holds) {
  if (!holds) std::abort();
}

bool equal(Bytes a, Bytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

using Buffer = std::array<std::byte, tcp::limits::kMessageBytesMax>;

// A fuzzer finds no checksums: those of its headers are made right for half of the inputs.
Result<Header> decode_repaired(Bytes bytes, bool repair) {
  HeaderBytes header;
  std::memcpy(header.data(), bytes.data(), header.size());
  if (repair) {
    const uint32_t checksum = crc32c(Bytes(header).first(header.size() - 4));
    std::memcpy(header.data() + header.size() - 4, &checksum, sizeof checksum);
  }
  const auto decoded = decode_header(header);
  if (decoded) check(encode_header(*decoded) == header);
  return decoded;
}

void check_message(const Header& header, Bytes message) {
  Buffer buffer;
  if (header.kind == FrameKind::request) {
    const auto request = decode_request(header, message);
    if (!request) return;
    check(request->span_count <= request->spans.size());
    check(inline_bytes(*request) == header.payload_bytes);
    check(request->bytes.size() <= engine::kNetMessageMax);
    check(equal(Bytes(buffer).first(encode_request(*request, buffer)), message));
  } else if (header.kind == FrameKind::hello) {
    const auto hello = decode_hello(message);
    if (!hello) return;
    check(equal(Bytes(buffer).first(encode_hello(*hello, buffer)), message));
    Identity self;
    self.cluster = hello->cluster;
    self.node = NodeId{1};
    self.highest_version = 1;
    if (objection(self, *hello)) return;
    check(check_welcome(*hello, agree(self, *hello, 1)).ok());
  } else if (header.kind == FrameKind::welcome) {
    const auto welcome = decode_welcome(message);
    if (welcome) check(equal(Bytes(buffer).first(encode_welcome(*welcome, buffer)), message));
  } else if (header.kind == FrameKind::refusal) {
    const auto refused = decode_refused(message);
    if (refused) check(equal(Bytes(buffer).first(encode_refused(*refused, buffer)), message));
  }
}

std::string framed(Header header, Bytes message) {
  header.message_bytes = static_cast<uint32_t>(message.size());
  const HeaderBytes bytes = encode_header(header);
  std::string out = "r";
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return out.append(reinterpret_cast<const char*>(message.data()), message.size());
}

}  // namespace

std::vector<std::string> seeds() {
  Buffer buffer;
  std::vector<std::string> out;
  Hello hello;
  hello.highest_version = 1;
  hello.node = NodeId{2};
  hello.wanted = NodeId{1};
  Welcome welcome;
  welcome.version = 1;
  welcome.calls_max = 5;
  welcome.node = NodeId{1};
  const auto greeting = [&](FrameKind kind, uint32_t length) {
    out.push_back(framed({.version = 0, .kind = kind}, Bytes(buffer).first(length)));
  };
  greeting(FrameKind::hello, encode_hello(hello, buffer));
  greeting(FrameKind::welcome, encode_welcome(welcome, buffer));
  greeting(FrameKind::refusal, encode_refused({Refusal::no_service, 0, 1, "why"}, buffer));
  Request request;
  request.span_count = 2;
  request.spans[0] = {24, engine::Access::fetch, true};
  request.spans[1] = {4096, engine::Access::place, false};
  const uint32_t length = encode_request(request, buffer);
  out.push_back(framed({.kind = FrameKind::request, .call = 1, .payload_bytes = 24, .exposure = 2},
                       Bytes(buffer).first(length)));
  out.push_back(framed({.kind = FrameKind::response, .method = 1, .call = 1}, {}) +
                framed({.kind = FrameKind::data, .call = 1, .payload_bytes = 7}, {}));
  out.push_back(framed({.kind = FrameKind::want, .call = 1, .length = 5, .transfer = 1}, {}));
  return out;
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size == 0) return 0;
  const bool repair = data[0] % 2 == 0;
  Bytes rest = std::as_bytes(std::span(data, size)).subspan(1);
  while (rest.size() >= tcp::limits::kHeaderBytes) {
    const auto header = fuzz::decode_repaired(rest, repair);
    if (!header) return 0;
    rest = rest.subspan(tcp::limits::kHeaderBytes);
    fuzz::check(header->message_bytes <= tcp::limits::kMessageBytesMax);
    fuzz::check(header->payload_bytes <= tcp::limits::kDataBytesMax);
    if (rest.size() < header->message_bytes) return 0;
    fuzz::check_message(*header, rest.first(header->message_bytes));
    rest = rest.subspan(header->message_bytes);
  }
  return 0;
}
