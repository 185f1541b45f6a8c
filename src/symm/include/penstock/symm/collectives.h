// What PEs do together with data. Everything here is pulled: each PE says that its source is ready,
// and takes what it needs from the others' sources with its own processor, all at once; then they
// say that they have it. Two syncs each.
//
// `Who` is a Team or an ActiveSet; all of it call the same with the same sizes. `source` and `dest`
// are symmetric; they do not overlap, but may be the same in a reduction. Bytes are of one PE. A PE
// that ends in between: peer_gone, and what stands in `dest` is not defined. Made by one thread of
// each PE at a time.
#pragma once

#include <algorithm>
#include <array>

#include "penstock/symm/active_set.h"
#include "penstock/symm/group.h"

namespace penstock::symm {

inline Status sync(Group& group, Team& team) {
  return group.sync(team);
}
inline Status sync(Group& group, const ActiveSet& set) {
  return set.sync(group);
}

// The words by which PEs tell each other a number; a PE's own stays until the next sync after it
// was read.
inline Result<uint64_t*> count_word(Group& group, Team& team, uint32_t index) {
  return &group.control(team, index).scratch[0];
}
inline Result<uint64_t*> count_word(Group& group, const ActiveSet& set, uint32_t index) {
  return set.count(group, index);
}

// The root's source into the others' dest, and into its own where that is another place.
template <class Who>
Status broadcast(Group& group, Who& who, void* dest, const void* source, uint64_t bytes,
                 uint32_t root) {
  if (root >= who.size()) return Code::invalid_argument;
  TRY(sync(group, who));
  if (who.index() != root || dest != source)
    TRY(group.get(dest, source, bytes, who.set().pe(root)));
  return sync(group, who);
}

// Each PE's source, one after the other in the order of the set.
template <class Who>
Status fcollect(Group& group, Who& who, void* dest, const void* source, uint64_t bytes) {
  TRY(sync(group, who));
  // Each begins with another one, so that not all read the same memory.
  for (uint32_t step = 0; step < who.size(); ++step) {
    const uint32_t from = (who.index() + step) % who.size();
    TRY(group.get(static_cast<std::byte*>(dest) + from * bytes, source, bytes, who.set().pe(from)));
  }
  return sync(group, who);
}

// The same where PEs bring different lengths.
template <class Who>
Status collect(Group& group, Who& who, void* dest, const void* source, uint64_t bytes) {
  TRY_ASSIGN(uint64_t* const own, count_word(group, who, who.index()));
  __atomic_store_n(own, bytes, __ATOMIC_RELAXED);
  TRY(sync(group, who));
  uint64_t offset = 0;
  for (uint32_t from = 0; from < who.size(); ++from) {
    TRY_ASSIGN(uint64_t* const word, count_word(group, who, from));
    const uint64_t length = __atomic_load_n(word, __ATOMIC_RELAXED);
    if (length != 0) {
      TRY(group.get(static_cast<std::byte*>(dest) + offset, source, length, who.set().pe(from)));
    }
    offset += length;
  }
  TRY(sync(group, who));
  __atomic_store_n(own, 0, __ATOMIC_RELAXED);
  return {};
}

// The part of each PE's source that has this PE's index, one after the other.
template <class Who>
Status alltoall(Group& group, Who& who, void* dest, const void* source, uint64_t bytes) {
  TRY(sync(group, who));
  const auto* const own_part = static_cast<const std::byte*>(source) + who.index() * bytes;
  for (uint32_t step = 0; step < who.size(); ++step) {
    const uint32_t from = (who.index() + step) % who.size();
    TRY(group.get(static_cast<std::byte*>(dest) + from * bytes, own_part, bytes,
                  who.set().pe(from)));
  }
  return sync(group, who);
}

// `count` elements for each PE, with steps between them, counted in elements.
struct Strides {
  ptrdiff_t dest = 1;
  ptrdiff_t source = 1;
};

// Elements of a PE's memory into this one's.
template <class T>
Status iget(Group& group, T* dest, const T* source, Strides strides, uint64_t count, uint32_t pe) {
  if (count == 0) return {};
  const uint64_t reach = (count - 1) * static_cast<uint64_t>(strides.source) + 1;
  const std::byte* const there = group.at(source, reach * sizeof(T), pe);
  if (there == nullptr) return Code::invalid_argument;
  const T* from = reinterpret_cast<const T*>(there);
  for (; count > 0; --count, dest += strides.dest, from += strides.source) *dest = *from;
  return {};
}

template <class T>
Status iput(Group& group, T* dest, const T* source, Strides strides, uint64_t count, uint32_t pe) {
  if (count == 0) return {};
  const uint64_t reach = (count - 1) * static_cast<uint64_t>(strides.dest) + 1;
  std::byte* const there = group.at(dest, reach * sizeof(T), pe);
  if (there == nullptr) return Code::invalid_argument;
  T* to = reinterpret_cast<T*>(there);
  for (; count > 0; --count, to += strides.dest, source += strides.source) *to = *source;
  return {};
}

template <class T, class Who>
Status alltoalls(Group& group, Who& who, T* dest, const T* source, Strides strides,
                 uint64_t count) {
  TRY(sync(group, who));
  const T* const own_part = source + static_cast<ptrdiff_t>(who.index() * count) * strides.source;
  for (uint32_t step = 0; step < who.size(); ++step) {
    const uint32_t from = (who.index() + step) % who.size();
    T* const to = dest + static_cast<ptrdiff_t>(from * count) * strides.dest;
    TRY(iget(group, to, own_part, strides, count, who.set().pe(from)));
  }
  return sync(group, who);
}

namespace internal {

// What is reduced at once: stays in a processor's first cache, with the sources' parts.
inline constexpr uint64_t kReduceBytes = 4096;

// Elements [first, first + count) of all sources, in the order of the set, so that all PEs get the
// same bits.
template <class T, class Who, class Op>
Status reduce_part(Group& group, Who& who, T* result, const T* source, uint64_t count, Op op) {
  for (uint32_t index = 0; index < who.size(); ++index) {
    const auto* const there =
        reinterpret_cast<const T*>(group.at(source, count * sizeof(T), who.set().pe(index)));
    if (there == nullptr) return Code::invalid_argument;
    if (index == 0) {
      std::copy_n(there, count, result);
    } else {
      for (uint64_t i = 0; i < count; ++i) result[i] = op(result[i], there[i]);
    }
  }
  return {};
}

}  // namespace internal

// dest[i] = op over all sources' [i], at all PEs, with the same bits.
template <class T, class Who, class Op>
Status reduce(Group& group, Who& who, T* dest, const T* source, uint64_t count, Op op) {
  constexpr uint64_t kAtOnce = internal::kReduceBytes / sizeof(T);
  std::array<T, kAtOnce> results;
  TRY(sync(group, who));
  if (count <= kAtOnce) {
    // Each PE for itself. All have read when dest, which may be the source, is written.
    TRY(internal::reduce_part(group, who, results.data(), source, count, op));
    TRY(sync(group, who));
    std::copy_n(results.data(), count, dest);
    return {};
  }
  // Each PE a part, which it writes into all others' dest. Nobody else reads this part, so dest may
  // be the source.
  const uint64_t share = (count + who.size() - 1) / who.size();
  const uint64_t first = std::min(count, share * who.index());
  const uint64_t end = std::min(count, first + share);
  for (uint64_t at = first; at < end; at += kAtOnce) {
    const uint64_t some = std::min(kAtOnce, end - at);
    TRY(internal::reduce_part(group, who, results.data(), source + at, some, op));
    for (uint32_t step = 0; step < who.size(); ++step) {
      const uint32_t to = (who.index() + step) % who.size();
      TRY(group.put(dest + at, results.data(), some * sizeof(T), who.set().pe(to)));
    }
  }
  return sync(group, who);
}

}  // namespace penstock::symm
