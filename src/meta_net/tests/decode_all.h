// Feeds bytes to every decoder; for the tests and the fuzzer.
#pragma once

#include "fill.h"

namespace penstock::meta_net {

// What the bytes say as an answer, whether a Meta would say it or not, as bytes again; none: they
// are no answer.
template <class Call>
std::optional<std::string> answer_again(std::string_view bytes) {
  meta::Reader reader(bytes);
  reader.require(reader.byte() == Call::kKind);
  In in(reader);
  Result<typename Call::Answer> answer = Code::corrupt;
  in(answer);
  if (!reader.finished()) return std::nullopt;
  return encode_answer<Call>(answer);
}

// How many decoders take the bytes. What is taken must encode to the same bytes again.
inline int decode_all(std::string_view bytes) {
  int taken = 0;
  const auto request = decode_request(bytes);
  if (request) {
    ++taken;
    ASSERT(encode(*request) == bytes);
    (void)check_asked(*request, [] { return uint64_t{1} << 40; });
  }
  for_each_call([&]<class Call>() {
    const auto again = answer_again<Call>(bytes);
    const auto sound = decode_answer<Call>(bytes);
    ASSERT(!sound || again);
    if (!again) return;
    ++taken;
    ASSERT(*again == bytes);
  });
  return taken;
}

}  // namespace penstock::meta_net
