#include "penstock/ring/remainder.h"

#include <iterator>

namespace penstock::ring {

using device::times;

namespace {

constexpr uint32_t kOne = uint32_t{1} << 31;  // x^0

// x^(8 * bytes).
uint32_t power(uint64_t bytes) {
  return crc32c_join(kOne, 0, bytes);
}

// What the inversion before CRC-32C adds to a range of that length.
uint32_t inversion(uint64_t length) {
  return crc32c_join(UINT32_MAX, 0, length);
}

// Slices of 5 bits of the remainder times `power`; the last has 2.
void fill(device::SlicedMap& map, uint32_t factor) {
  for (uint32_t slice = 0; slice < device::kSlices; ++slice) {
    for (uint32_t i = 0; i < device::kWarpLanes; ++i)
      map[slice][i] = times(i << (5 * slice), factor);
  }
}

}  // namespace

uint32_t remainder_of(Bytes bytes, uint32_t before) {
  return ~crc32c(bytes, ~before);
}

uint32_t remainder_from(uint32_t crc32c, uint64_t length) {
  static const uint32_t of_block = inversion(limits::kBlockBytes);
  return ~crc32c ^ (length == limits::kBlockBytes ? of_block : inversion(length));
}

void fill(device::Constants& constants) {
  fill(constants.row, power(device::kUnitBytes * device::kWarpLanes));
  fill(constants.word, power(4));
  for (uint32_t lane = 0; lane < device::kWarpLanes; ++lane) {
    const uint32_t bytes = device::kUnitBytes * (device::kWarpLanes - 1 - lane) + 4;
    // Byte 3 holds the lowest powers of the remainder that is multiplied.
    for (uint32_t byte = 0; byte < 4; ++byte) {
      constants.warp_lane[byte][lane] = power(bytes + 3 - byte);
    }
  }
  for (uint32_t i = 0; i < std::size(constants.byte); ++i) constants.byte[i] = power(i);
  for (uint32_t byte = 0; byte < 4; ++byte) {
    for (uint32_t i = 0; i < 256; ++i) constants.table[byte][i] = times(i << (8 * byte), power(4));
  }
}

}  // namespace penstock::ring
