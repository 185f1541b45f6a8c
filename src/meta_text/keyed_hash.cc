#include "keyed_hash.h"

#include <bit>

namespace penstock::meta_text {
namespace {

// The state of SipHash and its round.
struct SipState {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void take(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
  uint64_t half() {
    for (int i = 0; i < 4; ++i) round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

uint64_t little_endian(std::string_view bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    word |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  }
  return word;
}

}  // namespace

KeyedHash::Value KeyedHash::of(std::string_view bytes) const {
  constexpr size_t kWord = sizeof(uint64_t);
  // The 0xee stands for the result of 128 bits, here and below.
  SipState state{low_ ^ 0x736f6d6570736575, high_ ^ 0x646f72616e646f6d ^ 0xee,
                 low_ ^ 0x6c7967656e657261, high_ ^ 0x7465646279746573};
  size_t at = 0;
  for (; bytes.size() - at >= kWord; at += kWord) {
    state.take(little_endian(bytes.substr(at, kWord)));
  }
  // What is left, and the length's lowest byte.
  state.take(little_endian(bytes.substr(at)) | uint64_t{bytes.size()} << 56);
  state.v2 ^= 0xee;
  const uint64_t low = state.half();
  state.v1 ^= 0xdd;
  const uint64_t high = state.half();
  return Value{high} << 64 | low;
}

}  // namespace penstock::meta_text
