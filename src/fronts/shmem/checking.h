// PENSTOCK_CHECK=1: whether the PEs of a team or an active set make the same calls together, in the
// same order, with the same sizes, and whether puts and gets stay within what shmem_malloc() gave.
// A call that differs is told with both PEs' places in the program; one that does not come, at a
// deadline.
#pragma once

#include "process.h"

namespace penstock::shmem {

// Set when the library begins.
extern bool is_checking;

// PENSTOCK_CHECK, PENSTOCK_CHECK_SECONDS.
void begin_checking();

// Meets the others of the team, and ends the job where they do something else.
void compare_calls(const char* call, symm::Group& group, const symm::Team& team, uint64_t bytes);
// Says it in the set's words, which are 0 again afterwards.
void compare_calls(const char* call, symm::Group& group, const symm::ActiveSet& set,
                   uint64_t bytes);

// Before a call that all of a team make together. `bytes`: what has to be the same; 0 where it may
// differ.
template <class Who>
void check_alike(const char* call, symm::Group& group, const Who& who, uint64_t bytes = 0) {
  if (is_checking) [[unlikely]]
    compare_calls(call, group, who, bytes);
}

// Ends the job where what is asked for on the heap is not all of one allocation: as PEs make the
// same calls, theirs are where this PE's are.
void compare_with_heap(const char* call, symm::Group& group, const Asked& asked);

// Before what is put or got.
inline void check_within(const char* call, symm::Group& group, const Asked& asked) {
  if (is_checking) [[unlikely]]
    compare_with_heap(call, group, asked);
}

// A team that was just made: its PEs count their calls from 0.
void count_calls_anew(const symm::Team& team);

}  // namespace penstock::shmem
