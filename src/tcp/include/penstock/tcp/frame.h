// Frames: a header of fixed size, a message of bounded size, and perhaps payload, which a receiver
// puts where it belongs without looking at it.
//
// decode_header() and decode_request() take foreign bytes and check everything that can be checked
// without knowing which calls are under way: what they return keeps the limits. Whether there is
// such a call, and whether a range lies in its exposure, is for the connection to check.
#pragma once

#include <array>
#include <span>

#include "penstock/base.h"
#include "penstock/engine.h"
#include "penstock/tcp/limits.h"

namespace penstock::tcp {

// The version that this code speaks; greetings are the same in all versions and say 0.
inline constexpr uint8_t kVersion = 1;

enum class FrameKind : uint8_t {
  hello = 1,     // caller to server, first: who it is and what it speaks
  welcome = 2,   // server to caller: the answer; from here on frames of the agreed version
  refusal = 3,   // server to caller, instead: why not; then the connection ends
  request = 4,   // caller to server: a call, with the bytes that it brings along as payload
  response = 5,  // server to caller: the end of a call
  data = 6,      // payload placed by the server, or, to the server, payload that it wanted
  want = 7,      // server to caller: send me these bytes of an exposure
  abandon = 8,   // caller to server: the call has ended here; nothing of it matters any more
  ping = 9,      // either way: answer with a pong of the same call number
  pong = 10,
  goodbye = 11,  // whoever sends it sends nothing after it
};

// A field that a kind does not use is 0, on its way out and in.
struct Header {
  uint8_t version = kVersion;
  FrameKind kind = FrameKind::ping;
  uint16_t method = 0;         // of a request; of a response: the status' code
  uint64_t call = 0;           // the caller's number of the call; of a ping: any number
  uint32_t message_bytes = 0;  // what follows the header
  uint32_t payload_bytes = 0;  // what follows the message
  uint64_t offset = 0;         // data, want: in the exposure. Request: microseconds until its
                               // deadline, counted from its sending; 0 without one
  uint32_t length = 0;         // want: bytes. Response: the status' detail
  uint32_t transfer = 0;       // want, and the data that answers it: the server's number, not 0
  uint8_t exposure = 0;        // data, want: which. Request: how many there are

  friend bool operator==(const Header&, const Header&) = default;
};

using HeaderBytes = std::array<std::byte, limits::kHeaderBytes>;

// The header keeps the limits: it is this side's own.
HeaderBytes encode_header(const Header& header);

// Of exactly kHeaderBytes. bad_message: another magic, a wrong checksum, an unknown kind, a length
// above its limit, or a field that is not 0 where it is unused. wrong_version: a good header of a
// version that this code does not speak.
Result<Header> decode_header(Bytes bytes);

// One exposed span, as its server learns of it.
struct Span {
  uint64_t length = 0;
  engine::Access access = engine::Access::place;
  bool is_inline = false;  // all its bytes, to be fetched, are in the request's payload

  friend bool operator==(const Span&, const Span&) = default;
};

struct Request {
  std::array<Span, engine::kNetExposuresMax> spans;
  uint32_t span_count = 0;
  Bytes bytes;  // of the message that was decoded
};

// Writes the message of a request to `to` and returns its length. Spans and bytes keep the limits.
uint32_t encode_request(const Request& request, std::span<std::byte, limits::kMessageBytesMax> to);

// The message of a request whose header was decoded. bad_message: too short for its spans, an
// unknown access, a span above its limit, or inline bytes that are not the payload's.
Result<Request> decode_request(const Header& header, Bytes message);

// Bytes of the spans that come in the payload, in the spans' order.
uint64_t inline_bytes(const Request& request);

}  // namespace penstock::tcp
