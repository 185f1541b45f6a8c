// The thread's side of a mailbox.
#pragma once

#include "words.h"

#include <cstdint>
#include <optional>

#include "penstock/engine.h"

namespace penstock::gpu {

// Starts a mailbox's kernels, one behind the other.
class MailboxKernels {
 public:
  virtual ~MailboxKernels() = default;
  // Puts kernel `number` behind the one before.
  virtual Status start(uint32_t number) = 0;
  // Whether the memory that the next request names is there. Asked when the kernel that will serve
  // it has been started: that waits for a cudaFree() that has begun, and one that begins from then
  // on waits for the kernel.
  virtual bool is_there() = 0;
  // peer_gone when the device has failed, and no kernel will answer any more.
  virtual Status look_after() = 0;
};

// Belongs to one thread at a time. `kernels` and the mailbox outlive it; when it goes, a kernel of
// its may still run, and the next sender of the same mailbox goes on from `numbers`.
class MailboxSender {
 public:
  struct Numbers {
    uint32_t request = 0;
    uint32_t kernel = 0;
  };

  // `patience`: for a kernel to find room on the device.
  MailboxSender(Mailbox& mailbox, MailboxKernels& kernels, Numbers numbers,
                engine::Duration patience)
      : mailbox_(mailbox), kernels_(kernels), numbers_(numbers), patience_(patience) {}

  // Has `length` bytes, 1 to kMailboxBytesMax, copied from pinned memory. Returns when they have
  // landed; busy when no kernel has served it in time, and nothing was copied nor will be;
  // invalid_argument when the memory is gone; not_supported for addresses of more than 48 bits; or
  // what kernels_ says.
  Status send(uint64_t destination, uint64_t source, uint32_t length);
  const Numbers& numbers() const { return numbers_; }

 private:
  enum class Answer { none, copied, was_void };

  void write(const MailboxRequest& request);
  Answer answer_to(uint32_t number) const;
  bool has_begun() const;
  bool has_left() const;
  Status start_kernel();
  // Status, or no answer: the kernel has left without one.
  std::optional<Status> wait(const MailboxRequest& request);

  Mailbox& mailbox_;
  MailboxKernels& kernels_;
  Numbers numbers_;
  const engine::Duration patience_;
  bool gave_up_ = false;  // on the kernel that was started last; until it has begun
};

}  // namespace penstock::gpu
