// What the typed collective operations are made of, over a team and over an active set.
#pragma once

#include "checking.h"
#include "limits.h"
#include "operators.h"
#include "typed_memory.h"

#include <vector>

namespace penstock::shmem {

inline void check_met(const char* call, Status status) {
  if (!status.ok()) [[unlikely]]
    fault_status(call, status);
}

// The PEs of an older call; ends the job where they make no sense, or this PE is not among them.
symm::ActiveSet active_set(const char* call, int start, int log_stride, int size, long* psync);

// What a collective operation reads and writes of this PE's memory.
struct Arrays {
  const void* dest;
  uint64_t dest_bytes;
  const void* source;
  uint64_t source_bytes;
};
// Says which of them cannot be reached.
[[noreturn]] void fault_arrays(const char* call, const Arrays& arrays);

// Before anything is moved: whether a wrong address is found must not depend on how an operation is
// done.
inline void check_arrays(const char* call, const symm::Group& all, const Arrays& arrays) {
  if (all.at(arrays.dest, arrays.dest_bytes, all.me()) == nullptr ||
      all.at(arrays.source, arrays.source_bytes, all.me()) == nullptr) [[unlikely]] {
    fault_arrays(call, arrays);
  }
}

// Elements that all PEs bring together.
inline size_t of_all(const char* call, size_t nelems, uint32_t pes) {
  size_t all = 0;
  if (__builtin_mul_overflow(nelems, pes, &all)) [[unlikely]]
    fault_length(call, nelems, pes);
  return all;
}

// The bodies, over a Team or an ActiveSet. Where there is nothing to move, the PEs meet, and
// pointers may be null.

template <class T, class Who>
void broadcast_over(const char* call, Who& who, T* dest, const T* source, size_t nelems, int root) {
  symm::Group& all = group(call);
  if (root < 0 || static_cast<uint32_t>(root) >= who.size()) [[unlikely]]
    fault_pe(call, root, who.size());
  const uint64_t bytes = bytes_of<T>(call, nelems);
  check_alike(call, all, who, bytes);
  if (bytes == 0) return check_met(call, symm::sync(all, who));
  check_arrays(call, all, {dest, bytes, source, bytes});
  check_met(call, symm::broadcast(all, who, dest, source, bytes, static_cast<uint32_t>(root)));
}

template <class T, class Who>
void fcollect_over(const char* call, Who& who, T* dest, const T* source, size_t nelems) {
  symm::Group& all = group(call);
  const uint64_t bytes = bytes_of<T>(call, nelems);
  check_alike(call, all, who, bytes);
  if (bytes == 0) return check_met(call, symm::sync(all, who));
  const uint64_t all_bytes = bytes_of<T>(call, of_all(call, nelems, who.size()));
  check_arrays(call, all, {dest, all_bytes, source, bytes});
  check_met(call, symm::fcollect(all, who, dest, source, bytes));
}

// This PE may bring nothing where others bring something.
template <class T, class Who>
void collect_over(const char* call, Who& who, T* dest, const T* source, size_t nelems) {
  symm::Group& all = group(call);
  const uint64_t bytes = bytes_of<T>(call, nelems);
  check_alike(call, all, who);
  if (bytes != 0) check_arrays(call, all, {dest, bytes, source, bytes});
  check_met(call, symm::collect(all, who, dest, source, bytes));
}

template <class T, class Who>
void alltoall_over(const char* call, Who& who, T* dest, const T* source, size_t nelems) {
  symm::Group& all = group(call);
  const uint64_t bytes = bytes_of<T>(call, nelems);
  check_alike(call, all, who, bytes);
  if (bytes == 0) return check_met(call, symm::sync(all, who));
  const uint64_t all_bytes = bytes_of<T>(call, of_all(call, nelems, who.size()));
  check_arrays(call, all, {dest, all_bytes, source, all_bytes});
  check_met(call, symm::alltoall(all, who, dest, source, bytes));
}

template <class T, class Who>
void alltoalls_over(const char* call, Who& who, T* dest, const T* source, ptrdiff_t dst,
                    ptrdiff_t sst, size_t nelems) {
  symm::Group& all = group(call);
  check_alike(call, all, who, bytes_of<T>(call, nelems));
  if (nelems == 0) return check_met(call, symm::sync(all, who));
  const uint64_t dest_reach = reach_of<T>(call, dst, of_all(call, nelems, who.size()));
  const uint64_t source_reach = reach_of<T>(call, sst, of_all(call, nelems, who.size()));
  check_arrays(call, all, {dest, dest_reach, source, source_reach});
  check_met(call, symm::alltoalls(all, who, dest, source, {dst, sst}, nelems));
}

template <class Op, class T, class Who>
void reduce_over(const char* call, Who& who, T* dest, const T* source, size_t nelems) {
  symm::Group& all = group(call);
  const uint64_t bytes = bytes_of<T>(call, nelems);
  check_alike(call, all, who, bytes);
  if (bytes == 0) return check_met(call, symm::sync(all, who));
  check_arrays(call, all, {dest, bytes, source, bytes});
  check_met(call, symm::reduce(all, who, dest, source, nelems, Op()));
}

// Over a team: 0, or 1 where there is no team.

template <class T>
int broadcast(const char* call, shmem_team_t team, T* dest, const T* source, size_t nelems,
              int root) {
  symm::Team* const found = team_of(call, team);
  if (found == nullptr) return 1;
  broadcast_over(call, *found, dest, source, nelems, root);
  return 0;
}

template <class T>
int fcollect(const char* call, shmem_team_t team, T* dest, const T* source, size_t nelems) {
  symm::Team* const found = team_of(call, team);
  if (found == nullptr) return 1;
  fcollect_over(call, *found, dest, source, nelems);
  return 0;
}

template <class T>
int collect(const char* call, shmem_team_t team, T* dest, const T* source, size_t nelems) {
  symm::Team* const found = team_of(call, team);
  if (found == nullptr) return 1;
  collect_over(call, *found, dest, source, nelems);
  return 0;
}

template <class T>
int alltoall(const char* call, shmem_team_t team, T* dest, const T* source, size_t nelems) {
  symm::Team* const found = team_of(call, team);
  if (found == nullptr) return 1;
  alltoall_over(call, *found, dest, source, nelems);
  return 0;
}

template <class T>
int alltoalls(const char* call, shmem_team_t team, T* dest, const T* source, ptrdiff_t dst,
              ptrdiff_t sst, size_t nelems) {
  symm::Team* const found = team_of(call, team);
  if (found == nullptr) return 1;
  alltoalls_over(call, *found, dest, source, dst, sst, nelems);
  return 0;
}

template <class Op, class T>
int reduce(const char* call, shmem_team_t team, T* dest, const T* source, size_t nelems) {
  symm::Team* const found = team_of(call, team);
  if (found == nullptr) return 1;
  reduce_over<Op>(call, *found, dest, source, nelems);
  return 0;
}

// The sum over the sources of the team's first `pes` PEs. `source` and `dest` may be the same, so
// that a part is written when all have read it.
template <class T>
Status sum_of_first(symm::Group& all, symm::Team& team, uint32_t pes, T* dest, const T* source,
                    size_t nelems) {
  constexpr size_t kAtOnce = limits::kScanBytes / sizeof(T);
  std::vector<T> sums;
  std::vector<T> part(std::min(kAtOnce, nelems));
  for (size_t first = 0; first < nelems; first += kAtOnce) {
    const size_t count = std::min(kAtOnce, nelems - first);
    sums.assign(count, T{});
    TRY(all.sync(team));
    for (uint32_t index = 0; index < pes; ++index) {
      TRY(all.get(part.data(), source + first, count * sizeof(T), team.set().pe(index)));
      for (size_t i = 0; i < count; ++i) sums[i] = Sum()(sums[i], part[i]);
    }
    TRY(all.sync(team));
    std::copy(sums.begin(), sums.end(), dest + first);
  }
  return {};
}

template <class T>
int sum_scan(const char* call, shmem_team_t team, T* dest, const T* source, size_t nelems,
             uint32_t with_own) {
  symm::Team* const found = team_of(call, team);
  if (found == nullptr) return 1;
  symm::Group& all = group(call);
  const uint64_t bytes = bytes_of<T>(call, nelems);
  check_alike(call, all, *found, bytes);
  if (bytes == 0) {
    check_met(call, all.sync(*found));
    return 0;
  }
  check_arrays(call, all, {dest, bytes, source, bytes});
  check_met(call, sum_of_first(all, *found, found->index() + with_own, dest, source, nelems));
  return 0;
}

template <class T>
int sum_inscan(const char* call, shmem_team_t team, T* dest, const T* source, size_t nelems) {
  return sum_scan(call, team, dest, source, nelems, 1);
}

template <class T>
int sum_exscan(const char* call, shmem_team_t team, T* dest, const T* source, size_t nelems) {
  return sum_scan(call, team, dest, source, nelems, 0);
}

// Over an active set.

// Does it over the team of all PEs, where the set is that, and may be.
template <class Do>
void over_set(const char* call, const symm::ActiveSet& set, Do&& run) {
  if (symm::Team* const all = group(call).team_of_all(set.set())) {
    run(*all);
  } else {
    run(set);
  }
}

// The root's own dest stays as it is.
template <class T>
void broadcast_active(const char* call, T* dest, const T* source, size_t nelems, int root,
                      int start, int log_stride, int size, long* psync) {
  const symm::ActiveSet set = active_set(call, start, log_stride, size, psync);
  T* const written = static_cast<int>(set.index()) == root ? const_cast<T*>(source) : dest;
  over_set(call, set, [&](auto& who) { broadcast_over(call, who, written, source, nelems, root); });
}

template <class T>
void fcollect_active(const char* call, T* dest, const T* source, size_t nelems, int start,
                     int log_stride, int size, long* psync) {
  const symm::ActiveSet set = active_set(call, start, log_stride, size, psync);
  over_set(call, set, [&](auto& who) { fcollect_over(call, who, dest, source, nelems); });
}

template <class T>
void collect_active(const char* call, T* dest, const T* source, size_t nelems, int start,
                    int log_stride, int size, long* psync) {
  const symm::ActiveSet set = active_set(call, start, log_stride, size, psync);
  over_set(call, set, [&](auto& who) { collect_over(call, who, dest, source, nelems); });
}

template <class T>
void alltoall_active(const char* call, T* dest, const T* source, size_t nelems, int start,
                     int log_stride, int size, long* psync) {
  const symm::ActiveSet set = active_set(call, start, log_stride, size, psync);
  over_set(call, set, [&](auto& who) { alltoall_over(call, who, dest, source, nelems); });
}

template <class T>
void alltoalls_active(const char* call, T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst,
                      size_t nelems, int start, int log_stride, int size, long* psync) {
  const symm::ActiveSet set = active_set(call, start, log_stride, size, psync);
  over_set(call, set,
           [&](auto& who) { alltoalls_over(call, who, dest, source, dst, sst, nelems); });
}

template <class Op, class T>
void reduce_active(const char* call, T* dest, const T* source, int nreduce, int start,
                   int log_stride, int size, T* /*pwrk*/, long* psync) {
  const symm::ActiveSet set = active_set(call, start, log_stride, size, psync);
  if (nreduce < 0) [[unlikely]]
    fault_length(call, static_cast<uint64_t>(nreduce), sizeof(T));
  over_set(call, set, [&](auto& who) {
    reduce_over<Op>(call, who, dest, source, static_cast<size_t>(nreduce));
  });
}

}  // namespace penstock::shmem
