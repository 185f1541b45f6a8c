/* libnvshmem.a: what is made from the table, and what finds the real functions. */
#ifndef PENSTOCK_NVSHMEM_LOADING_H
#define PENSTOCK_NVSHMEM_LOADING_H

#define PENSTOCK_HIDDEN __attribute__((visibility("hidden")))

/* By number: the names of all functions, and where each of them jumps to. */
PENSTOCK_HIDDEN extern const char* const penstock_forward_names[];
PENSTOCK_HIDDEN extern const unsigned penstock_forward_count;
PENSTOCK_HIDDEN extern void* penstock_forward_slots[];

/* Called by a function that jumped nowhere yet, by any thread: gives where it is to jump, from now
 * on without asking. Does not return when that is not there. */
PENSTOCK_HIDDEN void* penstock_forward_address(unsigned long index);

#endif
