// Collective operations with so few bytes that waiting is what they cost: each PE posts what it
// brings in its own words of the team, with the operation's number behind it, and takes what others
// have posted as soon as it is there. One wait each, where collectives.h waits for two syncs. For
// teams whose PEs are all on one node.
//
// When a PE may post: operation k uses the place of k - 2, so all must have done k - 2. Each PE
// says that it has begun k before it does anything else for k, when it has done k - 1; who has seen
// that all have begun k - 1 may post for k. In operations in which each PE takes something of each
// other one all posts of k - 1 have been seen then, and nobody waits. After a broadcast nobody
// knows of all, so that whoever posts next looks at what they have begun; a root is two operations
// ahead of the others at most. A sync that all have passed says the same. Nobody waits in a circle:
// a PE whose operation is the earliest finds that all have begun it, and so may post, and that all
// that it takes is posted or will be by PEs that may post as well.
//
// A PE that ends: waits for what it has not posted end with peer_gone; what it has posted stays.
#pragma once

#include <algorithm>
#include <cstring>

#include "penstock/symm/active_set.h"
#include "penstock/symm/group.h"

namespace penstock::symm::internal {

// The team, where its PEs post what is of so many bytes; else null.
inline Team* small_team(Team& team, uint64_t bytes) {
  return bytes <= kPostedBytes && team.size() > 1 && team.nodes() == nullptr ? &team : nullptr;
}
// Active sets have no words that stay.
inline Team* small_team(const ActiveSet& /*set*/, uint64_t /*bytes*/) {
  return nullptr;
}

// Bytes for each PE of a team; more than are ever posted where they are more than there are
// numbers.
inline uint64_t of_each(const Team& team, uint64_t bytes) {
  uint64_t all = 0;
  return __builtin_mul_overflow(bytes, team.size(), &all) ? UINT64_MAX : all;
}
inline uint64_t of_each(const ActiveSet& /*set*/, uint64_t /*bytes*/) {
  return UINT64_MAX;
}

template <class T>
uint64_t bytes_of(uint64_t count) {
  uint64_t bytes = 0;
  return __builtin_mul_overflow(count, sizeof(T), &bytes) ? UINT64_MAX : bytes;
}

// One operation of one PE.
class SmallOperation {
 public:
  SmallOperation(Group& group, Team& team)
      : group_(group), team_(team), number_(team.next_operation()) {
    __atomic_store_n(&group.control(team).begun.value, number_, __ATOMIC_RELEASE);
  }

  // Where this PE's bytes go before it posts them.
  Result<std::byte*> place() {
    TRY(wait_for_place());
    return own().data;
  }
  void post(uint64_t bytes) {
    own().bytes = bytes;
    __atomic_store_n(&own().number, number_, __ATOMIC_RELEASE);
  }
  Status post(const void* source, uint64_t bytes) {
    TRY_ASSIGN(std::byte* const to, place());
    if (bytes != 0) std::memcpy(to, source, bytes);
    post(bytes);
    return {};
  }

  // Waits for what a PE of the team posts.
  Status wait_for(uint32_t index) {
    const uint64_t& number = posted(index).number;
    return group_.wait([&] { return __atomic_load_n(&number, __ATOMIC_ACQUIRE) == number_; });
  }
  // For all; the one behind this PE first, so that not all look at the same.
  Status wait_for_all() {
    for (uint32_t step = 1; step < team_.size(); ++step)
      TRY(wait_for((team_.index() + step) % team_.size()));
    team_.set_over_at_all(number_ - 1);
    return {};
  }
  // After that.
  const Posted& posted(uint32_t index) const {
    return group_.control(team_, index).posted[number_ % 2];
  }

 private:
  Posted& own() { return group_.control(team_).posted[number_ % 2]; }

  Status wait_for_place() {
    if (team_.over_at_all() + 2 >= number_) [[likely]]
      return {};
    for (uint32_t step = 1; step < team_.size(); ++step) {
      const uint32_t index = (team_.index() + step) % team_.size();
      const uint64_t& begun = group_.control(team_, index).begun.value;
      TRY(group_.wait([&] { return __atomic_load_n(&begun, __ATOMIC_ACQUIRE) + 1 >= number_; }));
    }
    team_.set_over_at_all(number_ - 2);
    return {};
  }

  Group& group_;
  Team& team_;
  const uint64_t number_;
};

inline Status small_broadcast(Group& group, Team& team, void* dest, const void* source,
                              uint64_t bytes, uint32_t root) {
  SmallOperation operation(group, team);
  if (team.index() == root) {
    TRY(operation.post(source, bytes));
    if (dest != source) std::memcpy(dest, source, bytes);
    return {};
  }
  TRY(operation.wait_for(root));
  std::memcpy(dest, operation.posted(root).data, bytes);
  return {};
}

inline Status small_fcollect(Group& group, Team& team, void* dest, const void* source,
                             uint64_t bytes) {
  SmallOperation operation(group, team);
  TRY(operation.post(source, bytes));
  TRY(operation.wait_for_all());
  auto* to = static_cast<std::byte*>(dest);
  for (uint32_t from = 0; from < team.size(); ++from, to += bytes)
    std::memcpy(to, operation.posted(from).data, bytes);
  return {};
}

inline Status small_alltoall(Group& group, Team& team, void* dest, const void* source,
                             uint64_t bytes) {
  SmallOperation operation(group, team);
  TRY(operation.post(source, bytes * team.size()));
  TRY(operation.wait_for_all());
  auto* to = static_cast<std::byte*>(dest);
  for (uint32_t from = 0; from < team.size(); ++from, to += bytes)
    std::memcpy(to, operation.posted(from).data + team.index() * bytes, bytes);
  return {};
}

// Elements with steps between them, counted in elements, here and there; `count` for each PE.
template <class T>
Status small_alltoalls(Group& group, Team& team, T* dest, const T* source, ptrdiff_t dest_step,
                       ptrdiff_t source_step, uint64_t count) {
  SmallOperation operation(group, team);
  TRY_ASSIGN(std::byte* const place, operation.place());
  auto* const brought = reinterpret_cast<T*>(place);
  const uint64_t all = count * team.size();
  for (uint64_t i = 0; i < all; ++i) brought[i] = source[static_cast<ptrdiff_t>(i) * source_step];
  operation.post(all * sizeof(T));
  TRY(operation.wait_for_all());
  for (uint64_t i = 0; i < all; ++i) {
    const auto from = static_cast<uint32_t>(i / count);
    const auto* const theirs = reinterpret_cast<const T*>(operation.posted(from).data);
    dest[static_cast<ptrdiff_t>(i) * dest_step] = theirs[team.index() * count + i % count];
  }
  return {};
}

// PEs bring different lengths, and find out by it who brings more than is posted: that is taken
// from its source, and then all have to wait until it was. So any length goes this way.
inline Status small_collect(Group& group, Team& team, void* dest, const void* source,
                            uint64_t bytes) {
  SmallOperation operation(group, team);
  if (bytes <= kPostedBytes) {
    TRY(operation.post(source, bytes));
  } else {
    TRY(operation.place());
    operation.post(bytes);
  }
  TRY(operation.wait_for_all());
  bool is_any_large = false;
  auto* to = static_cast<std::byte*>(dest);
  for (uint32_t from = 0; from < team.size(); ++from) {
    const Posted& theirs = operation.posted(from);
    const uint64_t length = theirs.bytes;
    is_any_large = is_any_large || length > kPostedBytes;
    if (length > kPostedBytes) {
      TRY(group.get(to, source, length, team.set().pe(from)));
    } else if (length != 0) {
      std::memcpy(to, theirs.data, length);
    }
    to += length;
  }
  return is_any_large ? group.sync(team) : Status();
}

// In the order of the team, at each PE. `dest` may be the source, which was posted.
template <class T, class Op>
Status small_reduce(Group& group, Team& team, T* dest, const T* source, uint64_t count, Op op) {
  static_assert(alignof(T) <= 16);
  SmallOperation operation(group, team);
  TRY(operation.post(source, count * sizeof(T)));
  TRY(operation.wait_for_all());
  for (uint32_t index = 0; index < team.size(); ++index) {
    const auto* const theirs = reinterpret_cast<const T*>(operation.posted(index).data);
    if (index == 0) {
      std::copy_n(theirs, count, dest);
    } else {
      for (uint64_t i = 0; i < count; ++i) dest[i] = op(dest[i], theirs[i]);
    }
  }
  return {};
}

}  // namespace penstock::symm::internal
