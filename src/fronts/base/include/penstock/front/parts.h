// Operations that are longer than a native one may be go as several parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "penstock/base.h"
#include "penstock/front/limits.h"

namespace penstock::front {

struct Part {
  uint64_t begin = 0;  // in the operation
  uint64_t length = 0;
};

// Of an operation of so many bytes.
constexpr uint64_t part_count(uint64_t length) {
  return length / limits::kIoBytesMax + (length % limits::kIoBytesMax != 0 ? 1 : 0);
}
// Part `number` of it; of a number that it does not have, no bytes behind its end.
constexpr Part part_at(uint64_t length, uint64_t number) {
  const uint64_t begin = number * limits::kIoBytesMax;
  if (begin >= length) return {begin, 0};
  return {begin, std::min(length - begin, limits::kIoBytesMax)};
}

}  // namespace penstock::front
