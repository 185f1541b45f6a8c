// penstock_device.h: reads and writes of files from inside CUDA kernels.
//
// A kernel asks for bytes of a file by (file, offset, length) and gets them in its own memory,
// while it runs. The ring it asks through is made on the host with penstock_device_ring.h, which
// also says what becomes of a ring, its files and its memory. This header needs nothing but CUDA's
// own built-ins (compute capability 8.0 or later), no library and no relocatable device code.
//
//   __global__ void scan(penstock::device::Ring ring, uint64_t bytes) {
//     using namespace penstock::device;
//     Ticket ticket;
//     Request request;
//     request.length = 4096;
//     request.offset = ...;
//     request.destination = ...;  // in the ring's region: ring.memory + destination
//     int64_t got = run_by_warp(ring, request, &ticket, 1'000'000'000);
//
// Callers: submit(), poll() and wait() any thread, also in divergent code; *_by_warp() all 32
// lanes of a warp, each with a request and a ticket of its own or none, but run_by_warp() all with
// the same request; *_by_block() all threads of a block, for lists in its shared or global memory.
// A warp keeps the link busy when it submits its next 32 requests before it waits for the last. All
// this takes up to 140 registers: kernels in larger blocks than 448 threads say so by
// __launch_bounds__().
//
// What happens: the host answers a read of up to 64 KiB that the node cache holds with the address
// of its bytes, and the waiting thread or warp copies them from there. Their checksum, which came
// along, is the proof that they are the file's: what the agent replaced meanwhile does not match
// and is asked for again. That is why verification cannot be switched off. Everything else is
// brought by a copy engine and verified where it landed. Ticket::kind says which it was.
// run_by_warp(), which makes one request and waits for it, has the first 4 KiB of a read under way
// before the answer, from where they were last known to be.
//
// No wait lasts longer than its timeout, and no thread that other kernels or programs need waits
// for a kernel. The driver does, though: it may load a kernel when it is launched for the first
// time, and give back memory, only when those that run have ended, and copies nothing for the
// process meanwhile. So a program whose kernels wait for anything loads all others before them,
// with CUDA_MODULE_LOADING=EAGER in the environment, and frees memory when they have ended.
//
// The thread that submitted waits until its request has ended: a ticket that is given up keeps its
// position, and the memory that it named may be written to. That holds also for one that ended with
// -ESHUTDOWN, until penstock_device_ring_close() returns. Positions become free in the order in
// which they were taken, so a single one that is kept makes the ring full once all others were
// used. Hence the rule: a thread that gets -EAGAIN first waits for what it has in flight itself,
// and then tries again. The lanes of a warp count as one here, since those that have left a loop
// may wait for those that have not.
//
// Memory: a read's bytes are seen by the thread that waited (all lanes of the warp, all threads of
// the block). What a write takes must be there for others than the GPU: __threadfence_system()
// before submit() in the threads that made it.
#pragma once

#include "penstock_device/submit.h"
#include "penstock_device/wait.h"

#if defined(__CUDACC__)
namespace penstock::device {

// Submits `count` requests, 32 for each warp in turn; results[i] becomes 0 or a negative errno as
// submit() has it. All threads of a block whose size is a multiple of 32.
PENSTOCK_DEVICE void submit_by_block(Ring& ring, const Request* requests, uint32_t count,
                                     Ticket* tickets, int64_t* results) {
  for (uint32_t first = threadIdx.x - warp_lane(); first < count; first += blockDim.x) {
    const uint32_t i = first + warp_lane();
    const bool want = i < count;
    const Request request = want ? requests[i] : Request{};
    Ticket ticket;
    const int error = submit_by_warp(ring, want, request, &ticket);
    if (want) {
      tickets[i] = ticket;
      results[i] = error;
    }
  }
  __syncthreads();
}

// Waits for all that are pending; the results of others stay as they are.
PENSTOCK_DEVICE void wait_by_block(const Ring& ring, uint32_t count, Ticket* tickets,
                                   int64_t* results, uint64_t timeout) {
  for (uint32_t first = threadIdx.x - warp_lane(); first < count; first += blockDim.x) {
    const uint32_t i = first + warp_lane();
    Ticket ticket = i < count ? tickets[i] : Ticket{};
    const bool waits = ticket.pending;
    const int64_t result = wait_by_warp(ring, ticket, timeout);
    if (waits) {
      tickets[i] = ticket;
      results[i] = result;
    }
  }
  __syncthreads();
}

}  // namespace penstock::device
#endif
