// What a kernel that makes a collective operation on a stream is given where some members of the
// team are far to each other, and what the host finds out for it. All PEs find the same.
//
// Islands are members that are all near to one another. What goes to all of an island goes there
// once: to one of them, or a part to each, which then passes it on by loads and stores.
#pragma once

#include "penstock_device/symm/grid_work.h"

namespace penstock::device {

// Members, bit by bit.
using MemberBits = uint64_t;
static_assert(kSymmNearMax <= 64, "a bit for each member");

PENSTOCK_ANYWHERE constexpr bool has_member(MemberBits members, int member) {
  return (members >> member & 1) != 0;
}
PENSTOCK_ANYWHERE constexpr MemberBits bit_of(int member) {
  return MemberBits{1} << member;
}
PENSTOCK_ANYWHERE constexpr int count_of(MemberBits members) {
  int count = 0;
  for (; members != 0; members &= members - 1) ++count;
  return count;
}
PENSTOCK_ANYWHERE constexpr MemberBits all_members(int size) {
  return size >= 64 ? ~MemberBits{0} : bit_of(size) - 1;
}

struct FarPlan {
  MemberBits mates;    // near ones, without this PE
  MemberBits give_to;  // of other islands, who get what this PE gives to all
  MemberBits gifts;    // whose gifts come to this PE, to be passed on to its mates
  uint32_t passes;     // not 0: some members pass on
  uint32_t reserved;
  uint8_t place[kSymmNearMax];     // of each member on its island
  uint8_t mates_of[kSymmNearMax];  // how many that has
};

struct FarWork {
  GridWork work;
  FarPlan plan;
  uint32_t combine;  // of a reduction: FarCombine
  uint32_t element;  // and FarElement
  uint32_t is_small;
  uint32_t landing_bytes;  // two halves, which take turns
};
static_assert(sizeof(FarWork) == 64 + 160 + 16, "the argument of kernels");

enum class FarCombine : uint32_t { sum, prod, min, max, bit_and, bit_or, bit_xor };
enum class FarElement : uint32_t { s8, s16, s32, s64, u8, u16, u32, u64, f16, bf16, f32, f64 };

// Whether nearness divides the members into islands: GPUs of a node may reach each other pair by
// pair only. `near`: of each member those that are near to it, with itself.
PENSTOCK_ANYWHERE constexpr bool has_islands(const MemberBits* near, int size) {
  for (int one = 0; one < size; ++one) {
    for (int other = 0; other < size; ++other) {
      if (has_member(near[one], other) && near[one] != near[other]) return false;
    }
  }
  return true;
}

PENSTOCK_ANYWHERE constexpr FarPlan far_plan(const MemberBits* near, int size, int index) {
  FarPlan plan = {};
  plan.mates = near[index] & ~bit_of(index);
  for (int i = 0; i < size; ++i) plan.mates_of[i] = 1;
  plan.give_to = all_members(size) & ~near[index];
  // Without islands everybody gives to each, and nobody passes on.
  if (!has_islands(near, size)) return plan;
  for (int i = 0; i < size; ++i) {
    plan.place[i] = static_cast<uint8_t>(count_of(near[i] & (bit_of(i) - 1)));
    plan.mates_of[i] = static_cast<uint8_t>(count_of(near[i]));
    if (plan.mates_of[i] > 1) plan.passes = 1;
  }
  // Equal places give to each other, so that each has as much to do.
  for (int i = 0; i < size; ++i) {
    if (has_member(near[index], i)) continue;
    if (plan.place[i] != plan.place[index] % plan.mates_of[i]) plan.give_to &= ~bit_of(i);
    if (plan.place[index] == plan.place[i] % plan.mates_of[index]) plan.gifts |= bit_of(i);
  }
  if (plan.mates == 0) plan.gifts = 0;
  return plan;
}

// Where what others send lands: the marked words of all blocks, which such teams do not use.
constexpr uint32_t kFarLandingBytes = sizeof(SymmPair) * kSymmMarkedBlocks * 2 * kSymmMarkedPairs;
// Up to it everything goes to everybody: that is one way of it and of a word behind it, where
// larger ones take two or three.
constexpr uint64_t kFarSmallBytes = 16384;

PENSTOCK_ANYWHERE constexpr uint64_t far_room(uint64_t bytes, int size) {
  return bytes / static_cast<uint64_t>(size) / 16 * 16;
}
PENSTOCK_ANYWHERE constexpr bool is_far_small(int size, uint64_t bytes) {
  return bytes <= kFarSmallBytes && bytes <= far_room(kFarLandingBytes / 2, size);
}

// Of one block: no more than there are words to move, but one for each member, which asks for it.
PENSTOCK_ANYWHERE constexpr uint32_t far_threads(uint64_t bytes) {
  return static_cast<uint32_t>(within(divided_up(bytes, 16 * 32) * 32, 64, kGridThreads));
}

}  // namespace penstock::device
