#include "penstock/testing/content.h"

#include <algorithm>

namespace penstock::test {

void fill(MutableBytes to, uint64_t seed, uint64_t offset) {
  for (uint64_t i = 0; i < to.size(); ++i) {
    const uint64_t at = offset + i;
    to[i] = static_cast<std::byte>(mix64(seed * 1'000'003 + at / 8) >> (8 * (at % 8)));
  }
}

std::vector<std::byte> content(uint64_t length, uint64_t seed, uint64_t offset) {
  std::vector<std::byte> bytes(length);
  fill(bytes, seed, offset);
  return bytes;
}

bool is_content(Bytes bytes, uint64_t seed, uint64_t offset) {
  return std::ranges::equal(bytes, content(bytes.size(), seed, offset));
}

}  // namespace penstock::test
