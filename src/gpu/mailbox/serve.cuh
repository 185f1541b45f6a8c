// The kernel that serves a mailbox; a part of kernels.cu.
#pragma once

#include "words.h"

namespace penstock::gpu {
namespace {

// Units by the whole block, with kEach of each thread in flight.
template <uint32_t kEach>
__device__ void copy_units(const char* source, char* destination, uint32_t count) {
  for (uint32_t first = threadIdx.x; first < count; first += kEach * kMailboxThreads) {
    device::Unit units[kEach];
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
      const uint32_t unit = first + k * kMailboxThreads;
      if (unit < count) units[k] = device::load_unit(source + uint64_t{unit} * sizeof units[k]);
    }
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
      const uint32_t unit = first + k * kMailboxThreads;
      if (unit < count)
        device::store_unit(destination + uint64_t{unit} * sizeof units[k], units[k]);
    }
  }
}

// What a request of a mailbox names, by the whole block. The source was written by the host since
// the kernel began, perhaps: it is read past the caches.
__device__ void copy_request(const MailboxRequest& request) {
  constexpr uint32_t kUnit = sizeof(device::Unit);
  const char* source = reinterpret_cast<const char*>(request.source);
  char* destination = reinterpret_cast<char*>(request.destination);
  const uint32_t past = static_cast<uint32_t>(request.destination % kUnit);
  const uint32_t head = min(request.length, (kUnit - past) % kUnit);
  const uint32_t body = (request.length - head) / kUnit;
  const uint32_t tail = request.length - head - body * kUnit;
  const auto copy_byte = [&](uint32_t at) {
    destination[at] =
        static_cast<char>(__ldcv(reinterpret_cast<const unsigned char*>(source + at)));
  };
  if (threadIdx.x < head) copy_byte(threadIdx.x);
  if (threadIdx.x < tail) copy_byte(head + body * kUnit + threadIdx.x);
  source += head;
  destination += head;
  // All of it in flight, and no more code than that takes.
  if (body <= kMailboxThreads) return copy_units<1>(source, destination, body);
  if (body <= 4 * kMailboxThreads) return copy_units<4>(source, destination, body);
  static_assert(16 * kUnit * kMailboxThreads >= kMailboxBytesMax);
  copy_units<16>(source, destination, body);
}

}  // namespace

// Serves a mailbox for a while; see there. Of one block.
extern "C" __global__ void __launch_bounds__(kMailboxThreads)
    penstock_serve_mailbox(Mailbox* mailbox, uint32_t kernel, MailboxServer::Patience patience) {
  __shared__ MailboxRequest request;
  __shared__ bool has_left;
  MailboxServer server(mailbox, kernel, patience);
  if (threadIdx.x == 0) server.begin();
  for (;;) {
    if (threadIdx.x == 0) {
      MailboxRequest next;
      has_left = !server.next(&next);
      request = next;
    }
    __syncthreads();
    if (has_left) return;
    if (!request.is_void) copy_request(request);
    __syncthreads();
    if (threadIdx.x == 0) server.answer(request);
  }
}

}  // namespace penstock::gpu
