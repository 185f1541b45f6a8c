// Mailboxes on CUDA: a stream of its own, and a kernel of one block in it.
#pragma once

#include "../cuda_memory.h"
#include "../limits.h"
#include "mailbox_sender.h"

#include <map>
#include <memory>
#include <mutex>

namespace penstock::gpu {

// A mailbox, for one sender after the other: all of it stays when it is given back, and so may its
// kernel.
struct MailboxParts {
  CUstream stream = nullptr;
  Mailbox* mailbox = nullptr;
  MutableBytes buffer;  // pinned, as the mailbox; begins at a multiple of 16
  MailboxSender::Numbers numbers;
};

class CudaMailboxes final : public Mailboxes {
 public:
  explicit CudaMailboxes(CudaMemory& memory) : memory_(memory) {}

  Outcome<std::unique_ptr<engine::CopyMailbox>> make(engine::DeviceId device) override;
  CudaMemory& memory() const { return memory_; }
  // Whether or not its kernel has left.
  void give_back(engine::DeviceId device, const MailboxParts& parts);

 private:
  Outcome<MailboxParts> take(engine::DeviceId device);

  CudaMemory& memory_;
  std::mutex mutex_;
  std::multimap<uint32_t, MailboxParts> free_;  // by device
};

class CudaMailbox final : public engine::CopyMailbox, private MailboxKernels {
 public:
  CudaMailbox(CudaMailboxes& mailboxes, engine::DeviceId device, const Context& context,
              const MailboxParts& parts)
      : mailboxes_(mailboxes),
        memory_(mailboxes.memory()),
        device_(device),
        context_(context),
        parts_(parts),
        sender_(*parts.mailbox, *this, parts.numbers, limits::kMailboxPatience) {}
  // Its kernel ends by itself, and touches nothing but what it was asked for.
  ~CudaMailbox() override;

  MutableBytes space_for(const engine::DeviceSpan& destination) override;
  Status send(const engine::DeviceSpan& destination, const std::byte* source) override;

 private:
  Status start(uint32_t number) override;
  bool is_there() override;
  Status look_after() override;

  CudaMailboxes& mailboxes_;
  CudaMemory& memory_;
  const engine::DeviceId device_;
  const Context context_;
  MailboxParts parts_;
  MailboxSender sender_;
  engine::DeviceSpan destination_;  // of what is being sent
  Status broken_;                   // not ok: nothing works any more
};

}  // namespace penstock::gpu
