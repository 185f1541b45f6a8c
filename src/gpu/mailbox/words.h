// A mailbox: small copies into device memory without a call of the driver. A kernel of one block
// lingers on the device and looks into pinned host memory for the next request of one thread.
//
// The kernel leaves when no request has come for a while, or when it has been there for long; what
// waits for the device to become idle waits no longer than that. It says that it leaves, and ends.
// The thread that asks starts a kernel if the last one has left, behind it in its stream, so that
// never two of them serve one mailbox; writes the request; and looks, until there is an answer,
// whether the kernel has left: then no kernel will serve the request, and it is made again for the
// next one.
//
// A kernel may have to wait for room on the device. A thread that does not want to wait that long
// makes the request void and then looks whether the kernel has begun; the kernel says that it has
// begun and then looks for requests. So either the thread sees that the kernel has begun, or the
// kernel sees that the request is void.
//
// Both sides' code for the words is here, and runs on the host in tests.
#pragma once

#include "penstock_device/primitives.h"

namespace penstock::gpu {

// What one request moves at most.
inline constexpr uint32_t kMailboxBytesMax = 64 * 1024;
inline constexpr uint32_t kMailboxThreads = 256;

// A request, as it travels, in 16 bytes, so that one look takes one trip over the link:
//   first   63..49 number | 48 void | 47..0 destination
//   second  63..60 the number's lowest bits | 59..44 length - 1 | 43..0 source / 16
// The source is pinned memory at the destination's address modulo 16. Halves of two requests may be
// seen together, but only of one and the next: they belong together when the bits of the number
// agree. Numbers wrap; the first is 0, which no request has.
struct MailboxRequest {
  uint64_t source = 0;
  uint64_t destination = 0;
  uint32_t number = 0;
  uint32_t length = 0;
  bool is_void = false;  // the thread does not wait for it any more
};

inline constexpr uint32_t kMailboxNumbers = 0x7fff;  // a mask
inline constexpr uint32_t kMailboxUnit = 16;
inline constexpr uint64_t kMailboxAddresses = (uint64_t{1} << 48) - 1;  // a mask

// In pinned host memory, zeros at first.
struct Mailbox {
  alignas(64) device::Pair request;  // the thread's
  // The kernel's: 31..1 number of the last request that was served | 0 whether it was copied.
  alignas(64) uint32_t answer;
  uint32_t begun;  // kernels are numbered, too: the last that has begun
  uint32_t left;   // the last that has left
};
static_assert(sizeof(Mailbox) == 128);

PENSTOCK_DEVICE_BOTH device::Pair pack(const MailboxRequest& request) {
  return {uint64_t{request.number} << 49 | uint64_t{request.is_void} << 48 | request.destination,
          uint64_t{request.number & 15} << 60 | uint64_t{request.length - 1} << 44 |
              request.source / kMailboxUnit};
}
// False for halves of two requests.
PENSTOCK_DEVICE_BOTH bool unpack(const device::Pair& words, MailboxRequest* request) {
  request->is_void = (words.first >> 48 & 1) != 0;
  request->destination = words.first & kMailboxAddresses;
  request->source =
      (words.second * kMailboxUnit & kMailboxAddresses) | request->destination % kMailboxUnit;
  request->number = static_cast<uint32_t>(words.first >> 49);
  request->length = (static_cast<uint32_t>(words.second >> 44) & (kMailboxBytesMax - 1)) + 1;
  return words.second >> 60 == (request->number & 15);
}

// The halves of a request and of its void form, seen together, are one or the other.
PENSTOCK_DEVICE_BOTH MailboxRequest void_of(const MailboxRequest& request) {
  return {request.source, request.destination, request.number, request.length, true};
}

PENSTOCK_DEVICE_BOTH uint32_t pack_answer(uint32_t number, bool copied) {
  return number << 1 | (copied ? 1 : 0);
}

// What a kernel's first thread does between its copies.
class MailboxServer {
 public:
  // In ticks.
  struct Patience {
    uint32_t idle;  // it stays so long without a request
    uint32_t life;  // and so long in all
  };

  PENSTOCK_DEVICE MailboxServer(Mailbox* mailbox, uint32_t kernel, Patience patience)
      : mailbox_(mailbox), kernel_(kernel), patience_(patience) {}

  // Before anything else. What the kernel before this one has served is known by its answer.
  PENSTOCK_DEVICE void begin() {
    device::store_shared(&mailbox_->begun, kernel_);
    device::fence_store_load();
    served_ = device::load_shared(&mailbox_->answer) >> 1;
    begun_at_ = last_at_ = device::ticks();
  }

  // Waits for a request that has not been served, whose bytes are there then, also for the threads
  // that wait for this one; false when the kernel has left, and must end.
  PENSTOCK_DEVICE bool next(MailboxRequest* request) {
    // It leaves after that time also if requests keep coming: what waits for the device to become
    // idle has waited for long enough.
    for (uint64_t now = last_at_; now - begun_at_ < patience_.life;) {
      if (look(request)) return true;
      now = device::ticks();
      if (now - last_at_ >= patience_.idle) break;
    }
    device::store_shared(&mailbox_->left, kernel_);
    return false;
  }

  // The block has copied what the request names, and waits for this thread.
  PENSTOCK_DEVICE void answer(const MailboxRequest& request) {
    served_ = request.number;
    device::fence_shared();
    device::store_shared(&mailbox_->answer, pack_answer(request.number, !request.is_void));
    last_at_ = device::ticks();
  }

 private:
  PENSTOCK_DEVICE bool look(MailboxRequest* request) {
    return unpack(device::acquire_shared(&mailbox_->request), request) &&
           request->number != served_;
  }

  Mailbox* const mailbox_;
  const uint32_t kernel_;
  const Patience patience_;
  uint32_t served_ = 0;
  uint64_t begun_at_ = 0;
  uint64_t last_at_ = 0;
};

}  // namespace penstock::gpu
