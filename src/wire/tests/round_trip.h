// A request out and in again.
#pragma once

#include <string>
#include <utility>

#include "penstock/wire.h"

namespace penstock::wire {

inline Bytes bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

template <class Body>
Result<Request> round_trip(Body body, uint64_t id = 7) {
  const Result<std::string> message = encode(Request{id, std::move(body)});
  if (!message) return message.error();
  return decode_request(bytes_of(*message));
}

}  // namespace penstock::wire
