// Messages between the two sides of a connection, and what they tell each other before it
// (docs/formats/verbs.md). All decoding takes foreign bytes, and what it returns keeps the limits.
#pragma once

#include <array>
#include <span>

#include "penstock/engine.h"
#include "penstock/verbs/provider.h"

namespace penstock::verbs {

inline constexpr uint8_t kVersion = 1;

enum class MessageKind : uint8_t {
  request = 1,   // caller to server: a call, with its spans
  response = 2,  // server to caller: its end
  abandon = 3,   // caller to server: it was given up
  released = 4,  // server to caller: it is, and nothing of it is under way; its response follows
  credit = 5,    // either way: only the count; uses no credit itself
  ping = 6,      // either way: answer with a pong
  pong = 7,
};

// A field that a kind does not use is 0.
struct Header {
  MessageKind kind = MessageKind::ping;
  uint16_t method = 0;    // request; response: the status' code
  uint32_t taken = 0;     // messages that used a credit and that the sender has got so far
  uint64_t call = 0;      // request, response, abandon, released: the caller's number, not 0
  uint64_t time_us = 0;   // request: until its deadline; 0: it has none
  uint32_t detail = 0;    // response: the status'
  uint8_t exposures = 0;  // request: spans after the header
  friend bool operator==(const Header&, const Header&) = default;
};

// One exposed span. Of length 0 it has neither address nor key.
struct Span {
  uint64_t address = 0;
  uint64_t length = 0;
  uint32_t key = 0;
  engine::Access access = engine::Access::place;
  friend bool operator==(const Span&, const Span&) = default;
};

struct Message {
  Header header{};
  std::array<Span, engine::kNetExposuresMax> spans{};
  Bytes bytes{};  // of request and response; within what was decoded
};

// Keeps the limits: it is this side's own. Returns the length.
uint32_t encode(const Message& message, std::span<std::byte, limits::kMessageBytesMax> to);
// bad_message; wrong_version.
Result<Message> decode(Bytes bytes);

// What each side says before the queue pair is used, over a connection on which both are proven.
struct Offer {
  Endpoint endpoint;
  uint32_t credits = limits::kCredits;  // messages that may be under way to it
  uint32_t calls = limits::kCallsMax;   // of the caller that the server answers at a time
  friend bool operator==(const Offer&, const Offer&) = default;
};

using OfferBytes = std::array<std::byte, limits::kOfferBytes>;
OfferBytes encode_offer(const Offer& offer);
// Of exactly kOfferBytes. bad_message: a number that has more bits than it can, no credits or
// calls, an MTU that there is not; wrong_version.
Result<Offer> decode_offer(Bytes bytes);

}  // namespace penstock::verbs
