// What PEs do together with data. Everything here is pulled: each PE says that its source is ready,
// and takes what it needs from the others' sources with its own processor, all at once; then they
// say that they have it. Two syncs each; one wait where PEs of one node bring a few bytes to a team
// (small_collectives.h).
//
// `Who` is a Team or an ActiveSet; all of it call the same with the same sizes. `source` and `dest`
// are symmetric; they do not overlap, but may be the same in a reduction. Bytes are of one PE. A PE
// that ends in between: peer_gone, and what stands in `dest` is not defined. Made by one thread of
// each PE at a time.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "penstock/symm/active_set.h"
#include "penstock/symm/group.h"
#include "penstock/symm/small_collectives.h"

namespace penstock::symm {

inline Status sync(Group& group, Team& team) {
  return group.sync(team);
}
inline Status sync(Group& group, const ActiveSet& set) {
  return set.sync(group);
}

// The same where what was put before is there for all after.
template <class Who>
Status barrier(Group& group, Who& who) {
  TRY(group.quiet());
  return sync(group, who);
}

// The symmetric word by which PEs tell each other a number; a PE's own stays until the next sync
// after it was read.
inline Result<uint64_t*> count_word(Group& group, Team& team) {
  return &group.control(team).scratch[0];
}
inline Result<uint64_t*> count_word(Group& group, const ActiveSet& set) {
  return set.count(group);
}

namespace internal {

// From here on a broadcast goes once to each node, which costs a sync more.
inline constexpr uint64_t kOncePerNode = uint64_t{32} << 10;

// And from so many PEs on any with several.
inline constexpr uint32_t kManyPes = 8;

// So many that one of them works for all: each would ask each.
inline bool has_many(const Team& team) {
  return team.nodes() != nullptr && team.size() >= kManyPes;
}
// Or one for its node.
inline Team* many_by_nodes(Team& team) {
  return has_many(team) && team.nodes()->firsts.size() * 2 <= team.size() ? &team : nullptr;
}
inline bool has_many(const ActiveSet& /*set*/) {
  return false;
}
inline Team* many_by_nodes(const ActiveSet& /*set*/) {
  return nullptr;
}

// Whom this PE takes a large broadcast from, once that one has it: the first of its node; null
// where nobody has more than one PE to take it for.
inline const TeamNodes* nodes_of(const Team& team) {
  return team.nodes();
}
inline const TeamNodes* nodes_of(const ActiveSet& /*set*/) {
  return nullptr;
}

// The first PE of each node takes what its node brings into its dest, and from there the first ones
// of other nodes, each run of PEs at once; then all of the node have it from its first one's dest.
inline Status fcollect_by_nodes(Group& group, Team& team, void* dest, const void* source,
                                uint64_t bytes) {
  const TeamNodes& nodes = *team.nodes();
  const uint32_t first = nodes.firsts[nodes.own];
  const bool is_first = first == group.me();
  const auto part = [&](uint32_t index) { return static_cast<std::byte*>(dest) + index * bytes; };
  TRY(group.sync(team));
  for (uint32_t index = 0; is_first && index < team.size(); ++index) {
    if (nodes.node_of[index] == nodes.own)
      TRY(group.get(part(index), source, bytes, team.set().pe(index)));
  }
  TRY(group.sync(team));
  Gets gets(group);
  for (uint32_t begin = 0, end = 0; is_first && begin < team.size(); begin = end) {
    const uint32_t node = nodes.node_of[begin];
    while (end < team.size() && nodes.node_of[end] == node) ++end;
    if (node == nodes.own) continue;
    TRY(gets.add(part(begin), part(begin), (end - begin) * bytes, nodes.firsts[node]));
  }
  TRY(gets.finish());
  TRY(group.sync(team));
  if (!is_first) TRY(group.get(dest, dest, team.size() * bytes, first));
  return group.sync(team);
}

}  // namespace internal

// The root's source into the others' dest, and into its own where that is another place.
template <class Who>
Status broadcast(Group& group, Who& who, void* dest, const void* source, uint64_t bytes,
                 uint32_t root) {
  if (root >= who.size()) return Code::invalid_argument;
  if (Team* const team = internal::small_team(who, bytes))
    return internal::small_broadcast(group, *team, dest, source, bytes, root);
  TRY(sync(group, who));
  const uint32_t root_pe = who.set().pe(root);
  const bool has_it = who.index() == root && dest == source;
  const TeamNodes* const nodes = internal::nodes_of(who);
  if (nodes == nullptr ||
      (bytes < internal::kOncePerNode && internal::many_by_nodes(who) == nullptr)) {
    if (!has_it) TRY(group.get(dest, source, bytes, root_pe));
    return sync(group, who);
  }
  const uint32_t first = nodes->firsts[nodes->own];
  const bool is_at_root = group.is_near(root_pe);
  if (!has_it && (is_at_root || first == group.me())) TRY(group.get(dest, source, bytes, root_pe));
  TRY(sync(group, who));
  if (!is_at_root && first != group.me()) TRY(group.get(dest, dest, bytes, first));
  return sync(group, who);
}

// Each PE's source, one after the other in the order of the set.
template <class Who>
Status fcollect(Group& group, Who& who, void* dest, const void* source, uint64_t bytes) {
  if (Team* const team = internal::small_team(who, bytes))
    return internal::small_fcollect(group, *team, dest, source, bytes);
  if (Team* const team = internal::many_by_nodes(who))
    return internal::fcollect_by_nodes(group, *team, dest, source, bytes);
  TRY(sync(group, who));
  // Each begins with another one, so that not all read the same memory.
  Gets gets(group);
  for (uint32_t step = 0; step < who.size(); ++step) {
    const uint32_t from = (who.index() + step) % who.size();
    TRY(gets.add(static_cast<std::byte*>(dest) + from * bytes, source, bytes, who.set().pe(from)));
  }
  TRY(gets.finish());
  return sync(group, who);
}

// The same where PEs bring different lengths.
template <class Who>
Status collect(Group& group, Who& who, void* dest, const void* source, uint64_t bytes) {
  if (Team* const team = internal::small_team(who, 0))
    return internal::small_collect(group, *team, dest, source, bytes);
  TRY_ASSIGN(uint64_t* const own, count_word(group, who));
  __atomic_store_n(own, bytes, __ATOMIC_RELAXED);
  TRY(sync(group, who));
  std::vector<uint64_t> lengths(who.size());
  Gets gets(group);
  for (uint32_t from = 0; from < who.size(); ++from)
    TRY(gets.add(&lengths[from], own, sizeof *own, who.set().pe(from)));
  TRY(gets.finish());
  uint64_t offset = 0;
  for (uint32_t from = 0; from < who.size(); ++from) {
    const uint64_t length = lengths[from];
    if (length != 0) {
      TRY(gets.add(static_cast<std::byte*>(dest) + offset, source, length, who.set().pe(from)));
    }
    offset += length;
  }
  TRY(gets.finish());
  TRY(sync(group, who));
  __atomic_store_n(own, 0, __ATOMIC_RELAXED);
  return {};
}

// The part of each PE's source that has this PE's index, one after the other.
template <class Who>
Status alltoall(Group& group, Who& who, void* dest, const void* source, uint64_t bytes) {
  if (Team* const team = internal::small_team(who, internal::of_each(who, bytes)))
    return internal::small_alltoall(group, *team, dest, source, bytes);
  TRY(sync(group, who));
  const auto* const own_part = static_cast<const std::byte*>(source) + who.index() * bytes;
  Gets gets(group);
  for (uint32_t step = 0; step < who.size(); ++step) {
    const uint32_t from = (who.index() + step) % who.size();
    TRY(gets.add(static_cast<std::byte*>(dest) + from * bytes, own_part, bytes,
                 who.set().pe(from)));
  }
  TRY(gets.finish());
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
  if (there == nullptr) [[unlikely]] {
    return group.get_row_far(dest, static_cast<uint64_t>(strides.dest) * sizeof(T), source,
                             {count, sizeof(T), static_cast<uint64_t>(strides.source) * sizeof(T)},
                             pe);
  }
  const T* from = reinterpret_cast<const T*>(there);
  for (; count > 0; --count, dest += strides.dest, from += strides.source) *dest = *from;
  return {};
}

template <class T>
Status iput(Group& group, T* dest, const T* source, Strides strides, uint64_t count, uint32_t pe) {
  if (count == 0) return {};
  const uint64_t reach = (count - 1) * static_cast<uint64_t>(strides.dest) + 1;
  std::byte* const there = group.at(dest, reach * sizeof(T), pe);
  if (there == nullptr) [[unlikely]] {
    return group.put_row_far(dest,
                             {count, sizeof(T), static_cast<uint64_t>(strides.dest) * sizeof(T)},
                             source, static_cast<uint64_t>(strides.source) * sizeof(T), pe);
  }
  T* to = reinterpret_cast<T*>(there);
  for (; count > 0; --count, to += strides.dest, source += strides.source) *to = *source;
  return {};
}

template <class T, class Who>
Status alltoalls(Group& group, Who& who, T* dest, const T* source, Strides strides,
                 uint64_t count) {
  if (Team* const team =
          internal::small_team(who, internal::of_each(who, internal::bytes_of<T>(count)))) {
    return internal::small_alltoalls(group, *team, dest, source, strides.dest, strides.source,
                                     count);
  }
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

// What of PEs of other nodes is brought here to be reduced at once.
inline constexpr uint64_t kReduceFarBytes = uint64_t{256} << 10;

// `count` elements of the sources of PEs on other nodes, one PE after the other in the order of the
// set.
template <class T>
class Sources {
 public:
  template <class Who>
  Status bring(Group& group, Who& who, const T* source, uint64_t count) {
    if (!group.has_far()) return {};
    uint32_t far = 0;
    for (uint32_t index = 0; index < who.size(); ++index)
      far += !group.is_near(who.set().pe(index));
    here_.resize(far * count);
    Gets gets(group);
    T* to = here_.data();
    for (uint32_t index = 0; index < who.size(); ++index) {
      const uint32_t pe = who.set().pe(index);
      if (group.is_near(pe)) continue;
      TRY(gets.add(to, source, count * sizeof(T), pe));
      to += count;
    }
    return gets.finish();
  }
  const T* of_far(uint32_t place, uint64_t count, uint64_t first) const {
    return here_.data() + place * count + first;
  }

 private:
  std::vector<T> here_;
};

// Elements [first, first + count) of all sources, in the order of the set, so that all PEs get the
// same bits. `brought` has `brought_count` elements of each PE of another node, of which those from
// `brought_first` are wanted.
template <class T, class Who, class Op>
Status reduce_part(Group& group, Who& who, T* result, const T* source, uint64_t count, Op op,
                   const Sources<T>& brought, uint64_t brought_count, uint64_t brought_first) {
  uint32_t far = 0;
  for (uint32_t index = 0; index < who.size(); ++index) {
    const auto* there =
        reinterpret_cast<const T*>(group.at(source, count * sizeof(T), who.set().pe(index)));
    if (there == nullptr) {
      if (group.is_near(who.set().pe(index))) return Code::invalid_argument;
      there = brought.of_far(far++, brought_count, brought_first);
    }
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
  if (Team* const team = internal::small_team(who, internal::bytes_of<T>(count)))
    return internal::small_reduce(group, *team, dest, source, count, op);
  constexpr uint64_t kAtOnce = internal::kReduceBytes / sizeof(T);
  std::array<T, kAtOnce> results;
  internal::Sources<T> brought;
  TRY(sync(group, who));
  if (count <= kAtOnce && internal::has_many(who)) {
    // The first one for all: nobody has written dest, which may be the source, before it has read.
    if (who.index() == 0) {
      TRY(brought.bring(group, who, source, count));
      TRY(internal::reduce_part(group, who, results.data(), source, count, op, brought, count, 0));
      std::copy_n(results.data(), count, dest);
    }
    return broadcast(group, who, dest, dest, count * sizeof(T), 0);
  }
  if (count <= kAtOnce) {
    // Each PE for itself. All have read when dest, which may be the source, is written.
    TRY(brought.bring(group, who, source, count));
    TRY(internal::reduce_part(group, who, results.data(), source, count, op, brought, count, 0));
    TRY(sync(group, who));
    std::copy_n(results.data(), count, dest);
    return {};
  }
  // Each PE a part, which it writes into all others' dest. Nobody else reads this part, so dest may
  // be the source.
  const uint64_t share = (count + who.size() - 1) / who.size();
  const uint64_t first = std::min(count, share * who.index());
  const uint64_t end = std::min(count, first + share);
  const uint64_t brought_at_once =
      std::max<uint64_t>(internal::kReduceFarBytes / sizeof(T) / kAtOnce, 1) * kAtOnce;
  for (uint64_t at = first; at < end; at += kAtOnce) {
    const uint64_t some = std::min(kAtOnce, end - at);
    const uint64_t brought_first = (at - first) % brought_at_once;
    const uint64_t brought_count = std::min(brought_at_once, end - at + brought_first);
    if (brought_first == 0) TRY(brought.bring(group, who, source + at, brought_count));
    TRY(internal::reduce_part(group, who, results.data(), source + at, some, op, brought,
                              brought_count, brought_first));
    for (uint32_t step = 0; step < who.size(); ++step) {
      const uint32_t to = (who.index() + step) % who.size();
      TRY(group.put(dest + at, results.data(), some * sizeof(T), who.set().pe(to)));
    }
  }
  return barrier(group, who);
}

}  // namespace penstock::symm
