/*
 * penstock_device_ring.h: rings through which CUDA kernels read and write files. This is the host's
 * part; what kernels call is in penstock_device.h. Errors and threads as in penstock.h.
 *
 * A ring belongs to a region of GPU memory, to which reads go and from which writes come. It has
 * pinned host memory of 44 bytes for each entry and 263 KiB, and GPU memory of 4 bytes for each
 * entry and 263 KiB. One thread of the session, started with its first ring, serves all of its
 * rings: it polls while kernels ask, sleeps when they have not for a while, and launches nothing,
 * so it needs no room on a GPU that is full.
 *
 *   penstock_device_ring* ring;
 *   penstock_device_ring_create(session, region, 4096, &ring);
 *   int file = penstock_device_ring_add_file(ring, penstock_open(session, "/graph", O_RDONLY, 0));
 *   penstock::device::Ring view;
 *   penstock_device_ring_view(ring, &view, sizeof view);
 *   walk<<<blocks, threads>>>(view, file);
 *
 * The end of things: when the agent dies, its node cache is given up and requests wait for its
 * successor; when none comes in time they end with -ECONNRESET. When the ring is closed, waits of
 * kernels return -ESHUTDOWN. A kernel whose GPU has failed asks no more; its ring can be destroyed
 * as any other. A process that is killed takes its rings along; the agent notices nothing but the
 * end of the session.
 *
 * Memory: CUDA's driver gives pinned memory back only when all kernels that run have ended, and
 * copies nothing for this process meanwhile. So while the session has rings, the node cache of an
 * agent that has died and the memory of rings that were destroyed stay; the latter serves new rings
 * of the same size. The last ring should be destroyed when none of the process's kernels waits for
 * anything.
 */
#ifndef PENSTOCK_DEVICE_RING_H
#define PENSTOCK_DEVICE_RING_H

#include "penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct penstock_device_ring penstock_device_ring;

/* `entries` (1 to 32768, rounded up to a power of two of at least 64) are the requests that may be
   in flight. -EINVAL: the region is not GPU memory of this session; -EAGAIN: the session has too
   many rings, or the driver is giving memory back and has waited for kernels for seconds. The
   region can be released when the ring has been destroyed. */
PENSTOCK_API int penstock_device_ring_create(penstock_session* session, penstock_region* region,
                                             uint32_t entries, penstock_device_ring** ring);

/* Lets kernels use an open file of the session, as far as it was opened for; returns the number (0
   to 255) by which they name it. -EAGAIN: the ring has 256 files; -EBADF: the file is not open. */
PENSTOCK_API int penstock_device_ring_add_file(penstock_device_ring* ring, penstock_file file);
/* From now on kernels get -EBADF for this number, until another file has it, which is as late as
   possible; what is in flight goes on. To be called before the file is closed. */
PENSTOCK_API int penstock_device_ring_remove_file(penstock_device_ring* ring, int number);

/* Fills in a penstock::device::Ring, to be passed to kernels by value. It has to come as C++ makes
   it, since it says of which version the kernels' header is; `size` is its sizeof. -EINVAL when the
   library is of another version. */
PENSTOCK_API int penstock_device_ring_view(penstock_device_ring* ring, void* view, size_t size);

/* A hint that kernels are about to ask: no GPU can wake the thread that serves them, and its sleeps
   grow to a millisecond while nobody asks. */
PENSTOCK_API int penstock_device_ring_wake(penstock_device_ring* ring);

typedef struct penstock_device_ring_stats {
  uint64_t requests; /* all that were taken, those that were asked for again included */
  uint64_t places;   /* answered with their address in the node cache */
  uint64_t copies;   /* reads brought by a copy engine */
  uint64_t writes;
  uint64_t again;              /* asked for again, as their bytes had been replaced */
  uint64_t failed;             /* ended with an error */
  uint64_t thread_nanoseconds; /* processor time of the thread, for all rings of the session */
} penstock_device_ring_stats;

PENSTOCK_API int penstock_device_ring_get_stats(penstock_device_ring* ring,
                                                penstock_device_ring_stats* stats);

/* The ring is served no more: what is in flight ends, nothing writes to the region on its
   behalf any more, and what kernels wait for, now or later, ends with -ESHUTDOWN soon. Its memory
   stays. Returns when the last transfer has ended: at once, mostly; without an agent, when its
   successor has come or is not waited for any longer. Kernels are not kept until then: the memory
   of a request that ends with -ESHUTDOWN may be written to, or read, until this call returns. */
PENSTOCK_API int penstock_device_ring_close(penstock_device_ring* ring);
/* Closes it, waits up to a second until no kernel is in a wait any more, and gives its memory back,
   the session's last ring that of all. Where a kernel still is in a wait, the memory stays until
   the session is closed, or for ever. The host cannot see kernels that are between two requests,
   and one that comes back to memory that is gone breaks its GPU's context: so where kernels may
   run, close the ring, let them end (they get -ESHUTDOWN soon), and then destroy it. The same holds
   for penstock_close(), which destroys rings that were not. */
PENSTOCK_API int penstock_device_ring_destroy(penstock_device_ring* ring);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_DEVICE_RING_H */
