// Copying bytes and taking their remainder on the way, by a thread or a warp, between any
// addresses.
//
// The source is read in whole aligned units of 16 bytes, also where the range begins or ends within
// one, so that up to 15 bytes around it must be readable, as they are in any allocation of a GPU's;
// the destination is written in units where it is aligned with the source, in words or bytes where
// it is not. So copies are fastest where both are equal modulo 16.
#pragma once

#include "penstock_device/checksum.h"

namespace penstock::device {

inline constexpr uint32_t kInFlight = 8;       // loads of a thread: 4 KiB of a warp
inline constexpr uint32_t kInFlightAlone = 4;  // of one that takes the remainder by itself

// A range, not empty, as the units that it touches.
struct Units {
  const char* first;
  uint32_t count;
  uint32_t front;  // bytes of the first that are before the range
  uint32_t back;   // bytes of the last that are behind it
};

PENSTOCK_DEVICE Units units_of(const char* from, uint32_t length) {
  const auto front = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % kUnitBytes);
  const uint32_t count = (front + length + kUnitBytes - 1) / kUnitBytes;
  return {from - front, count, front, count * kUnitBytes - front - length};
}

// The lowest `bytes` of a word.
PENSTOCK_DEVICE uint32_t low_bytes(int bytes) {
  if (bytes <= 0) return 0;
  return bytes >= 4 ? ~uint32_t{0} : (uint32_t{1} << (8 * bytes)) - 1;
}

// What of unit `index` is in the range: bytes [begin, end).
struct Part {
  uint32_t begin;
  uint32_t end;
};
PENSTOCK_DEVICE Part part_of(const Units& units, uint32_t index) {
  return {index == 0 ? units.front : 0,
          index + 1 == units.count ? kUnitBytes - units.back : kUnitBytes};
}

// Whole, or zeros. What is made of it comes after all loads: a lane that uses one waits for it.
PENSTOCK_DEVICE Unit load_if(bool there, const Units& units, uint32_t index) {
  return there ? load_unit(units.first + uint64_t{index} * kUnitBytes) : Unit{{0, 0, 0, 0}};
}

// Zeros where the unit is not in the range.
PENSTOCK_DEVICE void cut(Unit& unit, const Part& part) {
  if (part.end - part.begin == kUnitBytes) return;
  for (int i = 0; i < 4; ++i) {
    unit.word[i] &= low_bytes(static_cast<int>(part.end) - 4 * i) &
                    ~low_bytes(static_cast<int>(part.begin) - 4 * i);
  }
}

// Its words one by one and never by an index that is not known beforehand, so that units stay in
// registers.
PENSTOCK_DEVICE uint32_t byte_of(const Unit& unit, uint32_t index) {
  const uint32_t low = index < 4 ? unit.word[0] : unit.word[1];
  const uint32_t high = index < 12 ? unit.word[2] : unit.word[3];
  return (index < 8 ? low : high) >> (8 * (index % 4)) & 255;
}

PENSTOCK_DEVICE void store_bytes(char* to, const Unit& unit, uint32_t begin, uint32_t end) {
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (uint32_t i = begin; i < end; ++i) to[i] = static_cast<char>(byte_of(unit, i));
}

// `to` is where the unit's first byte would lie.
PENSTOCK_DEVICE void store_part(char* to, const Unit& unit, const Part& part) {
  const auto past = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to) % kUnitBytes);
  if (part.end - part.begin < kUnitBytes) {
    store_bytes(to, unit, part.begin, part.end);
  } else if (past == 0) {
    store_unit(to, unit);
  } else if (past % 4 == 0) {
    for (int i = 0; i < 4; ++i) reinterpret_cast<uint32_t*>(to)[i] = unit.word[i];
  } else {
    // Three whole words, and single bytes around them.
    const uint32_t head = 4 - past % 4;
    auto* const words = reinterpret_cast<uint32_t*>(to + head);
    for (int i = 0; i < 3; ++i) {
      words[i] = unit.word[i] >> (8 * head) | unit.word[i + 1] << (32 - 8 * head);
    }
    store_bytes(to, unit, 0, head);
    store_bytes(to, unit, head + 12, kUnitBytes);
  }
}

PENSTOCK_DEVICE uint32_t add_part(const Constants& constants, uint32_t remainder, const Unit& unit,
                                  const Part& part) {
  if (part.end - part.begin == kUnitBytes) {
    for (const uint32_t word : unit.word) remainder = add_word(constants, remainder, word);
    return remainder;
  }
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (uint32_t i = part.begin; i < part.end; ++i) {
    remainder = add_byte(constants, remainder, byte_of(unit, i));
  }
  return remainder;
}

// Copies, or only reads where `to` is null, and says whether the bytes have this remainder.
PENSTOCK_DEVICE bool copy_by_thread(const Constants& constants, const char* from, char* to,
                                    uint32_t length, uint32_t expected) {
  const Units units = units_of(from, length);
  uint32_t remainder = 0;
  for (uint32_t first = 0; first < units.count; first += kInFlightAlone) {
    Unit unit[kInFlightAlone];
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (uint32_t k = 0; k < kInFlightAlone; ++k) {
      unit[k] = load_if(first + k < units.count, units, first + k);
    }
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (uint32_t k = 0; k < kInFlightAlone; ++k) {
      const uint32_t index = first + k;
      if (index >= units.count) break;
      const Part part = part_of(units, index);
      if (to != nullptr) store_part(to - units.front + uint64_t{index} * kUnitBytes, unit[k], part);
      remainder = add_part(constants, remainder, unit[k], part);
    }
  }
  return remainder == expected;
}

// ---- by the 32 lanes of a warp ----

// A row of 32 units more; `first`: there was none before it.
PENSTOCK_DEVICE void add_row(const MapShare& row_map, bool first, const Unit& unit,
                             uint32_t (&columns)[4]) {
  for (uint32_t i = 0; i < 4; ++i) {
    columns[i] = (first ? 0 : apply(row_map, columns[i])) ^ unit.word[i];
  }
}

// A range as rows, which end with it.
struct Rows {
  Units units;
  uint32_t count;
  uint32_t before;  // units of the first row that are before the range
};

PENSTOCK_DEVICE Rows rows_of(const char* from, uint32_t length) {
  const Units units = units_of(from, length);
  const uint32_t count = (units.count + kWarpLanes - 1) / kWarpLanes;
  return {units, count, count * kWarpLanes - units.count};
}

// The lane's units of rows [first, first + kInFlight), each for itself; what is before the range,
// or behind its last row, is zeros.
PENSTOCK_DEVICE void load_rows(const Rows& rows, uint32_t first, Unit (&unit)[kInFlight]) {
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (uint32_t k = 0; k < kInFlight; ++k) {
    const uint32_t at = (first + k) * kWarpLanes + warp_lane();
    const bool inside = first + k < rows.count && at >= rows.before;
    unit[k] = load_if(inside, rows.units, at - rows.before);
  }
}
// Stores them, where there is a `to`, and adds them to the columns.
PENSTOCK_DEVICE void use_rows(const MapShare& row_map, const Rows& rows, uint32_t first,
                              Unit (&unit)[kInFlight], char* to, uint32_t (&columns)[4]) {
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (uint32_t k = 0; k < kInFlight; ++k) {
    if (first + k >= rows.count) break;
    const uint32_t at = (first + k) * kWarpLanes + warp_lane();
    if (at >= rows.before) {
      const uint32_t index = at - rows.before;
      const Part part = part_of(rows.units, index);
      cut(unit[k], part);
      if (to != nullptr) {
        store_part(to - rows.units.front + uint64_t{index} * kUnitBytes, unit[k], part);
      }
    }
    add_row(row_map, first + k == 0, unit[k], columns);
  }
}

// Whether they are of whole units, aligned at both ends.
PENSTOCK_DEVICE bool are_whole(const Rows& rows, uint32_t length) {
  return length == rows.count * kWarpLanes * kUnitBytes && rows.units.front == 0;
}

// The same of such rows: nothing stands between their loads.
PENSTOCK_DEVICE void load_whole_rows(const char* from, uint32_t first, Unit (&unit)[kInFlight]) {
  const uint64_t begin = (uint64_t{first} * kWarpLanes + warp_lane()) * kUnitBytes;
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (uint32_t k = 0; k < kInFlight; ++k) {
    unit[k] = load_unit(from + begin + k * kWarpLanes * kUnitBytes);
  }
}
PENSTOCK_DEVICE void use_whole_rows(const MapShare& row_map, uint32_t first,
                                    const Unit (&unit)[kInFlight], char* to,
                                    uint32_t (&columns)[4]) {
  const uint64_t begin = (uint64_t{first} * kWarpLanes + warp_lane()) * kUnitBytes;
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (uint32_t k = 0; k < kInFlight; ++k) {
    if (to != nullptr) store_unit(to + begin + k * kWarpLanes * kUnitBytes, unit[k]);
    add_row(row_map, first + k == 0, unit[k], columns);
  }
}

// What load_rows() has of the first rows.
PENSTOCK_DEVICE void load_first_rows(const char* from, uint32_t length, Unit (&unit)[kInFlight]) {
  const Rows rows = rows_of(from, length);
  if (are_whole(rows, length) && rows.count >= kInFlight) {
    load_whole_rows(from, 0, unit);
  } else {
    load_rows(rows, 0, unit);
  }
}

// As copy_by_thread(), by all lanes, which give the same arguments and get the same answer. With
// `loaded` the first rows are in `unit`, as load_rows() has them.
PENSTOCK_DEVICE bool copy_by_warp(const Constants& constants, const char* from, char* to,
                                  uint32_t length, uint32_t expected, bool loaded,
                                  Unit (&unit)[kInFlight]) {
  const Rows rows = rows_of(from, length);
  const Units& units = rows.units;
  const bool aligned = are_whole(rows, length) && reinterpret_cast<uintptr_t>(to) % kUnitBytes == 0;
  // All that the host has worked out comes while the bytes do.
  const MapShare row_map = share_of(constants.row);
  const JoinShare join = join_share_of(constants);
  const uint32_t behind = units.back == 0 ? 0 : load_constant(&constants.byte[units.back]);
  uint32_t columns[4] = {0, 0, 0, 0};
  for (uint32_t first = 0; first < rows.count; first += kInFlight) {
    const bool is_here = loaded && first == 0;
    if (aligned && first + kInFlight <= rows.count) {
      if (!is_here) load_whole_rows(from, first, unit);
      use_whole_rows(row_map, first, unit, to, columns);
    } else {
      if (!is_here) load_rows(rows, first, unit);
      use_rows(row_map, rows, first, unit, to, columns);
    }
  }
  if (units.back != 0) expected = times(expected, behind);
  return join_columns(join, columns) == expected;
}

PENSTOCK_DEVICE bool copy_by_warp(const Constants& constants, const char* from, char* to,
                                  uint32_t length, uint32_t expected) {
  Unit unit[kInFlight];
  return copy_by_warp(constants, from, to, length, expected, false, unit);
}

}  // namespace penstock::device
