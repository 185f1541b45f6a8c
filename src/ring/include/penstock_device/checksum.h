// CRC-32C as a kernel takes it of what it has copied.
//
// A remainder is that of the bytes, followed by 32 zero bits, modulo the Castagnoli polynomial: the
// CRC-32C without its customary inversions. Bit 31 stands for x^0. Zeros before the bytes change
// nothing, so a warp may begin at any whole row; zeros behind them multiply by a power of x.
#pragma once

#include "penstock_device/primitives.h"

namespace penstock::device {

inline constexpr uint32_t kPolynomial = 0x82f63b78;
inline constexpr uint32_t kUnitBytes = 16;  // what a thread loads at once

// A linear map of remainders in slices of 5 bits: a slice of a warp's lanes is a table of 32 words,
// one in a register of each, that an exchange between lanes looks up without a conflict.
inline constexpr uint32_t kSlices = 7;
using SlicedMap = uint32_t[kSlices][kWarpLanes];

// What the host has worked out; in the ring's GPU memory.
struct Constants {
  SlicedMap row;   // times x^4096: 32 lanes of 16 bytes further on
  SlicedMap word;  // times x^32
  // For each lane of a warp x^(128 * (31 - lane) + 32), times x^24, ..., x^0.
  uint32_t warp_lane[4][kWarpLanes];
  uint32_t byte[16];       // x^(8 * i)
  uint32_t table[4][256];  // times x^32, by the bytes of the remainder
};
static_assert(sizeof(Constants) == 6464 && offsetof(Constants, word) == 896 &&
                  offsetof(Constants, warp_lane) == 1792 && offsetof(Constants, byte) == 2304 &&
                  offsetof(Constants, table) == 2368,
              "written by one compiler's code, read by another's");

PENSTOCK_DEVICE_BOTH uint32_t times_x(uint32_t remainder) {
  return remainder >> 1 ^ ((remainder & 1) != 0 ? kPolynomial : 0);
}

PENSTOCK_DEVICE_BOTH uint32_t times(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (int i = 0; i < 32; ++i, a <<= 1, b = times_x(b)) product ^= (a >> 31) != 0 ? b : 0;
  return product;
}

// The same by one thread, a word or a byte after the other.
PENSTOCK_DEVICE uint32_t add_word(const Constants& constants, uint32_t remainder, uint32_t word) {
  remainder ^= word;
  uint32_t out = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    out ^= load_constant(&constants.table[i][remainder >> (8 * i) & 255]);
  }
  return out;
}
PENSTOCK_DEVICE uint32_t add_byte(const Constants& constants, uint32_t remainder, uint32_t byte) {
  // One byte is the remainder's lowest: its table is that of the word's last byte.
  return remainder >> 8 ^ load_constant(&constants.table[3][(remainder ^ byte) & 255]);
}

// ---- by a whole warp ----

// This lane's share of a map.
struct MapShare {
  uint32_t slice[kSlices];
};

PENSTOCK_DEVICE MapShare share_of(const SlicedMap& map) {
  MapShare share;
  for (uint32_t i = 0; i < kSlices; ++i) share.slice[i] = load_constant(&map[i][warp_lane()]);
  return share;
}

PENSTOCK_DEVICE uint32_t apply(const MapShare& map, uint32_t value) {
  uint32_t out = 0;
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (uint32_t i = 0; i < kSlices; ++i) {
    out ^= from_warp_lane(kWholeWarp, map.slice[i], value >> (5 * i));  // its lowest 5 bits count
  }
  return out;
}

// This lane's share of what puts columns together.
struct JoinShare {
  MapShare word;
  uint32_t power[4];
};

PENSTOCK_DEVICE JoinShare join_share_of(const Constants& constants) {
  JoinShare share;
  share.word = share_of(constants.word);
  for (uint32_t i = 0; i < 4; ++i)
    share.power[i] = load_constant(&constants.warp_lane[i][warp_lane()]);
  return share;
}

// Puts the lanes' columns of 16 bytes together: column `k` of each lane are its words k, k + 128,
// ... of the bytes, as remainders without the 32 zero bits. All lanes get the sum.
PENSTOCK_DEVICE uint32_t join_columns(const JoinShare& share, const uint32_t (&columns)[4]) {
  uint32_t sum = columns[0];
  for (uint32_t k = 1; k < 4; ++k) sum = apply(share.word, sum) ^ columns[k];
  // Times the lane's power of x, 8 bits of the sum at a time and side by side.
  uint32_t product = 0;
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t power = share.power[i];
    const uint32_t byte = sum >> (8 * i);
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (int bit = 7; bit >= 0; --bit, power = times_x(power)) {
      product ^= (byte >> bit & 1) != 0 ? power : 0;
    }
  }
  return sum_up(kWholeWarp, product);
}

}  // namespace penstock::device
