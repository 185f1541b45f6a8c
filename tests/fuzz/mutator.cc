#include "mutator.h"

#include <algorithm>
#include <cstring>

namespace penstock::fuzz {
namespace {

constexpr size_t kBytesMax = 4096;

}  // namespace

uint64_t Mutator::below(uint64_t bound) {
  state_ = mix64(state_ + 1);
  return state_ % bound;
}

// Mostly what lies at a border.
uint64_t Mutator::some_number() {
  static constexpr uint64_t kBorders[] = {0,          1,          127,        128,        255,
                                          4095,       4096,       65535,      65536,      INT32_MAX,
                                          1ULL << 31, UINT32_MAX, 1ULL << 32, 1ULL << 40, INT64_MAX,
                                          1ULL << 63, UINT64_MAX};
  if (below(4) == 0) return mix64(below(UINT64_MAX)) >> below(64);
  return kBorders[below(std::size(kBorders))] + below(3) - 1;
}

void Mutator::put_number(std::string* bytes) {
  const size_t width = size_t{1} << below(4);
  if (bytes->size() < width) return;
  const uint64_t number = some_number();
  // Often where a field may begin.
  size_t at = below(bytes->size() - width + 1);
  if (below(2) == 0) at -= at % width;
  std::memcpy(bytes->data() + at, &number, width);
}

// Some of another input behind or amid this one.
void Mutator::join(std::string* bytes) {
  const std::string& other = seeds_[below(seeds_.size())];
  const size_t begin = below(other.size() + 1);
  bytes->insert(below(bytes->size() + 1), other, begin, below(other.size() - begin + 1));
}

void Mutator::change(std::string* bytes) {
  if (bytes->empty()) {
    for (uint64_t i = below(64); i > 0; --i) bytes->push_back(static_cast<char>(below(256)));
    return;
  }
  const size_t at = below(bytes->size());
  const size_t length = 1 + below(std::min<size_t>(bytes->size() - at, 32));
  switch (below(8)) {
    case 0:
      (*bytes)[at] ^= static_cast<char>(1U << below(8));
      return;
    case 1:
      (*bytes)[at] = static_cast<char>(below(256));
      return;
    case 2:
    case 3:
      return put_number(bytes);
    case 4:
      bytes->erase(at, length);
      return;
    case 5:
      bytes->insert(at, std::string(*bytes, at, length));
      return;
    case 6:
      bytes->resize(at);
      return;
    default:
      return join(bytes);
  }
}

std::string Mutator::input(uint64_t number) {
  // The seeds themselves come first.
  if (number < seeds_.size()) return seeds_[number];
  state_ = mix64(seed_ ^ mix64(number));
  std::string bytes = below(16) == 0 ? std::string() : seeds_[below(seeds_.size())];
  for (uint64_t i = 1 + below(8); i > 0; --i) change(&bytes);
  if (bytes.size() > kBytesMax) bytes.resize(kBytesMax);
  return bytes;
}

}  // namespace penstock::fuzz
