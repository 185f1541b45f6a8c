// The seam to mailboxes, small copies by a kernel that lingers. mailbox/ has them; a build without
// them (PENSTOCK_MAILBOX=OFF) has without_mailbox.cc instead.
#pragma once

#include <memory>

#include "penstock/engine.h"

namespace penstock::gpu {

class CudaMemory;

// Thread safe; of one CudaMemory, which outlives it.
class Mailboxes {
 public:
  virtual ~Mailboxes() = default;
  // not_supported where they are left out.
  virtual Outcome<std::unique_ptr<engine::CopyMailbox>> make(engine::DeviceId device) = 0;
};

std::unique_ptr<Mailboxes> make_mailboxes(CudaMemory& memory);

// The kernel that serves one; null where there is none.
const char* mailbox_kernel_name();

}  // namespace penstock::gpu
