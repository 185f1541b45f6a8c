// Copies between a PE's memory and another one's, by a thread, a warp or a block.
//
// Never a byte outside the range is read or written. The widest word by which both sides are
// equally aligned is moved at once: 16 bytes where both are equal modulo 16.
//
// What limits it: loads in flight. A block's copy over NVLink ends at some 45 to 50 GB/s whatever
// the means; a warp's at 4 KiB of loads in flight over their latency; a thread's at 128 bytes over
// it. So loads stand together, and stores, which wait for nobody, follow. More words of a thread
// than this would need more registers than a kernel of 1,024 threads may have. A warp alone gets
// its source from L2 instead, where it has asked for it some rows ahead.
#pragma once

#include "penstock_device/symm/primitives.h"

namespace penstock::device {

constexpr uint32_t kSymmInFlight = 8;       // words of each thread of a warp or block
constexpr uint32_t kSymmInFlightAlone = 4;  // of a thread alone
constexpr uint32_t kSymmFewUnits = 4;       // of each thread, in a copy without tiles
constexpr uint32_t kSymmTilesAhead = 4;     // tiles of 4 KiB: the latency of memory over that of L2

// Where the source stands. Bytes of another PE may be kept in this processor's cache until the next
// acquire, fence or kernel, as the program's own are; but a thread that gets a word or two may be
// polling, and must see that they change.
enum class Source { near, far, polled };

template <Source kSource>
struct Loads {
  template <class T>
  static PENSTOCK_DEVICE T load(const T* from) {
    return load_weak(from);
  }
};
template <>
struct Loads<Source::polled> {
  template <class T>
  static PENSTOCK_DEVICE T load(const T* from) {
    return load_system(from);
  }
};

template <Source kSource, class T>
PENSTOCK_DEVICE void copy_one(T* to, const T* from) {
  store_weak(to, Loads<kSource>::load(from));
}

// By one thread, each time the widest word that fits, up to 8 bytes: for what is left of a range.
template <Source kSource>
PENSTOCK_DEVICE void copy_alone(char* to, const char* from, uint64_t bytes) {
  PENSTOCK_NOT_UNROLLED
  while (bytes != 0) {
    const auto unaligned =
        static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from));
    uint32_t step = 1;
    if (bytes >= 8 && unaligned % 8 == 0) {
      copy_one<kSource>(reinterpret_cast<uint64_t*>(to), reinterpret_cast<const uint64_t*>(from));
      step = 8;
    } else if (bytes >= 4 && unaligned % 4 == 0) {
      copy_one<kSource>(reinterpret_cast<uint32_t*>(to), reinterpret_cast<const uint32_t*>(from));
      step = 4;
    } else if (bytes >= 2 && unaligned % 2 == 0) {
      copy_one<kSource>(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const uint16_t*>(from));
      step = 2;
    } else {
      copy_one<kSource>(reinterpret_cast<uint8_t*>(to), reinterpret_cast<const uint8_t*>(from));
    }
    to += step;
    from += step;
    bytes -= step;
  }
}

// How copies are dealt out: in tiles of 8 rows, a row being a word of each lane. Within a tile
// every distance is known when it is compiled, so that addresses need no registers.
struct Share {
  uint64_t tile;  // the first; then every step-th
  uint64_t step;
  uint32_t lane;
};

template <uint32_t kLanes>
constexpr PENSTOCK_DEVICE uint32_t in_flight() {
  return kLanes == 1 ? kSymmInFlightAlone : kSymmInFlight;
}

// This lane's words of whole tiles, and of the one that ends with the range. The rest of what a
// copy knows is used up before: what lives over this loop takes registers from its words.
template <Source kSource, bool kAhead, uint32_t kLanes, class T>
PENSTOCK_DEVICE void copy_tiles(T* to, const T* from, uint64_t count, Share share) {
  constexpr uint32_t kInFlight = in_flight<kLanes>();
  constexpr uint32_t kTile = kLanes * kInFlight;
  const uint64_t begin = share.tile * kTile;
  const auto step = static_cast<uint32_t>(share.step) * kTile;
  if (begin >= count) return;
  T* target = to + begin + share.lane;
  const T* source = from + begin + share.lane;
  uint64_t left = count - begin;  // from the tile on
  PENSTOCK_NOT_UNROLLED
  while (true) {
    // Asks for what a later tile reads, 128 bytes for each lane.
    constexpr uint32_t kAheadBy = kSymmTilesAhead * kTile;
    if (kAhead && kAheadBy + share.lane * kInFlight < left) {
      prefetch_to_l2(source + kAheadBy + share.lane * (kInFlight - 1));
    }
    if (left >= kTile) {
      T word[kInFlight];
      PENSTOCK_UNROLL
      for (uint32_t k = 0; k < kInFlight; ++k) {
        word[k] = Loads<kSource>::load(source + k * kLanes);
      }
      PENSTOCK_UNROLL
      for (uint32_t k = 0; k < kInFlight; ++k) store_weak(target + k * kLanes, word[k]);
    } else {
      // Fewer words, still with one latency only. What has no value would be kept over all loops.
      const auto mine = static_cast<int32_t>(left) - static_cast<int32_t>(share.lane);
      T word[kInFlight] = {};
      PENSTOCK_UNROLL
      for (int32_t k = 0; k < static_cast<int32_t>(kInFlight); ++k) {
        if (k * static_cast<int32_t>(kLanes) < mine) {
          word[k] = Loads<kSource>::load(source + k * kLanes);
        }
      }
      PENSTOCK_UNROLL
      for (int32_t k = 0; k < static_cast<int32_t>(kInFlight); ++k) {
        if (k * static_cast<int32_t>(kLanes) < mine) store_weak(target + k * kLanes, word[k]);
      }
    }
    if (left <= step) return;
    left -= step;
    target += step;
    source += step;
  }
}

// As words of this type, and the bytes before and behind them, up to 15 each, one by one by the
// lanes of tile 0. Both sides are equal modulo the word's size.
template <class T, Source kSource, bool kAhead, uint32_t kLanes>
PENSTOCK_DEVICE void copy_as(char* to, const char* from, uint64_t bytes, Share share) {
  auto head = static_cast<uint32_t>((0 - static_cast<uint64_t>(reinterpret_cast<uintptr_t>(to))) %
                                    sizeof(T));
  if (head > bytes) head = static_cast<uint32_t>(bytes);
  const uint64_t words = (bytes - head) / sizeof(T);
  const auto rest = static_cast<uint32_t>(bytes - words * sizeof(T));
  if (rest != 0 && share.tile == 0) {
    const uint64_t behind = words * sizeof(T);
    if (kLanes == 1) {
      copy_alone<kSource>(to, from, head);
      copy_alone<kSource>(to + head + behind, from + head + behind, rest - head);
    } else {
      PENSTOCK_NOT_UNROLLED
      for (uint32_t i = share.lane; i < rest; i += kLanes) {
        const uint64_t at = i < head ? i : i + behind;
        copy_one<kSource>(reinterpret_cast<uint8_t*>(to + at),
                          reinterpret_cast<const uint8_t*>(from + at));
      }
    }
  }
  T* const to_words = reinterpret_cast<T*>(to + head);
  const T* const from_words = reinterpret_cast<const T*>(from + head);
  if (kLanes > 1 && words <= share.step * kLanes) {
    // A word for each lane of all: nothing but its load and its store.
    const auto index = static_cast<uint32_t>(share.tile) * kLanes + share.lane;
    if (index < words) copy_one<kSource>(to_words + index, from_words + index);
  } else {
    copy_tiles<kSource, kAhead, kLanes>(to_words, from_words, words, share);
  }
}

template <Source kSource, uint32_t kLanes>
PENSTOCK_DEVICE void copy_narrow(char* to, const char* from, uint64_t bytes, Share share,
                                 uint32_t apart) {
  if (apart % 8 == 0) {
    copy_as<uint64_t, kSource, false, kLanes>(to, from, bytes, share);
  } else if (apart % 4 == 0) {
    copy_as<uint32_t, kSource, false, kLanes>(to, from, bytes, share);
  } else if (apart % 2 == 0) {
    copy_as<uint16_t, kSource, false, kLanes>(to, from, bytes, share);
  } else {
    copy_as<uint8_t, kSource, false, kLanes>(to, from, bytes, share);
  }
}

template <Source kSource, bool kAhead, uint32_t kLanes>
PENSTOCK_DEVICE void copy_share(void* to_any, const void* from_any, uint64_t bytes, Share share) {
  char* const to = static_cast<char*>(to_any);
  const char* const from = static_cast<const char*>(from_any);
  const auto apart = static_cast<uint32_t>(
      (reinterpret_cast<uintptr_t>(to) ^ reinterpret_cast<uintptr_t>(from)) % 16);
  if (apart != 0) {
    copy_narrow<kSource, kLanes>(to, from, bytes, share, apart);
  } else {
    copy_as<SymmUnit, kSource, kAhead, kLanes>(to, from, bytes, share);
  }
}

// Which of several companies that share a copy this is: the blocks of a grid, for example.
struct PartOf {
  uint32_t part;
  uint32_t parts;
};

// The same address, of which the compiler knows nothing. A loop around a copy, as of a program that
// copies the same again, would keep in registers what each width needs, if it knew that it stays.
template <class T>
PENSTOCK_DEVICE T* anew(T* address) {
  return reinterpret_cast<T*>(forgotten(reinterpret_cast<uintptr_t>(address)));
}

// The part of a copy that this company does.
template <Source kSource, Scope kScope>
PENSTOCK_DEVICE void copy_part(void* to, const void* from, uint64_t bytes, PartOf whole) {
  to = anew(to);
  from = anew(from);
  bytes = forgotten(bytes);
  const auto rank = static_cast<uint32_t>(forgotten(Company<kScope>::rank()));
  const uint32_t size = Company<kScope>::size();
  if (size < kSymmLanes) {
    // A thread, or a block that is no warp: each one's words stand together.
    const Share share = {uint64_t{whole.part} * size + rank, uint64_t{whole.parts} * size, 0};
    copy_share<kSource, false, 1>(to, from, bytes, share);
    return;
  }
  // Threads beyond the last whole warp have no share.
  const uint32_t warps = size / kSymmLanes;
  if (rank >= warps * kSymmLanes) return;
  const Share share = {uint64_t{whole.part} * warps + rank / kSymmLanes,
                       uint64_t{whole.parts} * warps, rank % kSymmLanes};
  copy_share<kSource, kSource == Source::near && kScope == Scope::warp, kSymmLanes>(to, from, bytes,
                                                                                    share);
}

constexpr uint64_t kPolledBytes = 16;

// Whether addresses and length are multiples of a word's size.
template <class T>
PENSTOCK_DEVICE bool is_of_whole(const void* to, const void* from, uint64_t bytes) {
  const uint64_t all = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes;
  return static_cast<uint32_t>(all) % sizeof(T) == 0;
}

// A word for each thread: nothing but its load and its store.
template <class T, Source kSource>
PENSTOCK_DEVICE void copy_word_each(void* to, const void* from, uint64_t bytes, uint32_t rank) {
  if (rank * sizeof(T) < bytes)
    copy_one<kSource>(static_cast<T*>(to) + rank, static_cast<const T*>(from) + rank);
}

// A few units for each thread, all of them on their way at once.
template <Source kSource, Scope kScope>
PENSTOCK_DEVICE void copy_few_units(void* to, const void* from, uint64_t bytes, uint32_t rank) {
  const auto units = static_cast<uint32_t>(bytes / sizeof(SymmUnit));
  if (rank >= units) return;
  const uint32_t size = Company<kScope>::size();
  SymmUnit* const target = static_cast<SymmUnit*>(to) + rank;
  const SymmUnit* const source = static_cast<const SymmUnit*>(from) + rank;
  SymmUnit unit[kSymmFewUnits] = {};  // what has no value would be kept over all loops
  PENSTOCK_UNROLL
  for (uint32_t k = 0; k < kSymmFewUnits; ++k) {
    if (rank + k * size < units) unit[k] = Loads<kSource>::load(source + k * size);
  }
  PENSTOCK_UNROLL
  for (uint32_t k = 0; k < kSymmFewUnits; ++k) {
    if (rank + k * size < units) store_weak(target + k * size, unit[k]);
  }
}

// As many units for each thread, and no fewer for any.
template <uint32_t kEach, Source kSource, Scope kScope>
PENSTOCK_DEVICE void copy_units_each(void* to, const void* from, uint32_t rank) {
  const uint64_t size = Company<kScope>::size();
  SymmUnit* const target = static_cast<SymmUnit*>(to) + rank;
  const SymmUnit* const source = static_cast<const SymmUnit*>(from) + rank;
  SymmUnit unit[kEach];
  PENSTOCK_UNROLL
  for (uint32_t k = 0; k < kEach; ++k) unit[k] = Loads<kSource>::load(source + k * size);
  PENSTOCK_UNROLL
  for (uint32_t k = 0; k < kEach; ++k) store_weak(target + k * size, unit[k]);
}

// Whether copy() has something to do for this thread's warp. Warps without anything, which are most
// of a large block's, leave at once: what each of them does is what a small copy costs.
template <Scope kScope>
PENSTOCK_DEVICE bool has_share(const void* to, const void* from, uint64_t bytes) {
  if (kScope != Scope::block) return bytes != 0;
  const uint64_t first = Company<kScope>::rank() / kSymmLanes * kSymmLanes;
  return first * (is_of_whole<SymmUnit>(to, from, bytes) ? sizeof(SymmUnit) : 1) < bytes;
}

template <Source kSource, Scope kScope>
PENSTOCK_DEVICE void copy(void* to, const void* from, uint64_t bytes) {
  if (kScope == Scope::thread && bytes <= kPolledBytes) {
    copy_alone<kSource == Source::far ? Source::polled : kSource>(
        static_cast<char*>(to), static_cast<const char*>(from), bytes);
    return;
  }
  to = anew(to);
  from = anew(from);
  bytes = forgotten(bytes);
  const auto rank = static_cast<uint32_t>(forgotten(Company<kScope>::rank()));
  constexpr uint64_t kUnit = sizeof(SymmUnit);
  const uint64_t units = Company<kScope>::size() * kUnit;
  const bool is_of_units = is_of_whole<SymmUnit>(to, from, bytes);
  if (is_of_units && bytes <= units) {
    copy_word_each<SymmUnit, kSource>(to, from, bytes, rank);
  } else if (is_of_whole<uint64_t>(to, from, bytes) && bytes <= units / 2) {
    copy_word_each<uint64_t, kSource>(to, from, bytes, rank);
  } else if (is_of_units && bytes == units * kSymmFewUnits) {
    copy_units_each<kSymmFewUnits, kSource, kScope>(to, from, rank);
  } else if (is_of_units && bytes == units * 2) {
    copy_units_each<2, kSource, kScope>(to, from, rank);
  } else if (is_of_units && bytes < units * kSymmFewUnits) {
    copy_few_units<kSource, kScope>(to, from, bytes, rank);
  } else if (kScope == Scope::block && is_of_units && units % (kSymmLanes * kUnit) == 0) {
    // Tiles without what comes before and behind them.
    const Share share = {rank / kSymmLanes, units / (kSymmLanes * kUnit), rank % kSymmLanes};
    copy_tiles<kSource, false, kSymmLanes>(
        static_cast<SymmUnit*>(to), static_cast<const SymmUnit*>(from), bytes / kUnit, share);
  } else {
    copy_part<kSource, kScope>(to, from, bytes, {0, 1});
  }
}

// Elements with a distance on either side, counted in elements.
struct Strides {
  int64_t to;
  int64_t from;
};

template <Source kSource, Scope kScope, class T>
PENSTOCK_DEVICE void copy_strided(T* to, const T* from, Strides strides, uint64_t count) {
  const int64_t step = Company<kScope>::size();
  PENSTOCK_NOT_UNROLLED
  for (int64_t i = Company<kScope>::rank(); i < static_cast<int64_t>(count);
       i += step * kSymmInFlight) {
    T word[kSymmInFlight] = {};
    PENSTOCK_UNROLL
    for (int64_t k = 0; k < static_cast<int64_t>(kSymmInFlight); ++k) {
      const int64_t at = i + k * step;
      if (at < static_cast<int64_t>(count))
        word[k] = Loads<kSource>::load(from + at * strides.from);
    }
    PENSTOCK_UNROLL
    for (int64_t k = 0; k < static_cast<int64_t>(kSymmInFlight); ++k) {
      const int64_t at = i + k * step;
      if (at < static_cast<int64_t>(count)) store_weak(to + at * strides.to, word[k]);
    }
  }
}

}  // namespace penstock::device
