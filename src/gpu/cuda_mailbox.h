// engine::CopyMailbox on CUDA: a stream of its own, and a kernel of one block in it.
#pragma once

#include "cuda_memory.h"
#include "limits.h"
#include "mailbox_sender.h"

namespace penstock::gpu {

class CudaMailbox final : public engine::CopyMailbox, private MailboxKernels {
 public:
  CudaMailbox(CudaMemory& memory, engine::DeviceId device, const Context& context,
              const MailboxParts& parts)
      : memory_(memory),
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

  CudaMemory& memory_;
  const engine::DeviceId device_;
  const Context context_;
  MailboxParts parts_;
  MailboxSender sender_;
  engine::DeviceSpan destination_;  // of what is being sent
  Status broken_;                   // not ok: nothing works any more
};

}  // namespace penstock::gpu
