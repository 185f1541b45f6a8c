// Locks over all PEs of a group, as OpenSHMEM has them: a symmetric long that is 0 at the
// beginning.
#pragma once

#include "penstock/symm/group.h"

namespace penstock::symm {

// PEs get a lock in the order in which they asked (the queue of Mellor-Crummey and Scott, 1991),
// and each waits at a word of its own memory. The long's lower half counts at PE 0 only: the last
// PE of the queue. Its upper half is this PE's place in the queue. One thread of a PE at a time
// uses a lock.
// in_use: this PE has it already, and would wait for itself.
Status set_lock(Group& group, long* lock);
// Whether it was free, and is now this PE's.
Result<bool> test_lock(Group& group, long* lock);
// By the PE that has it. What it has put before is there for the next one.
// not_permitted: it has not.
Status clear_lock(Group& group, long* lock);

}  // namespace penstock::symm
