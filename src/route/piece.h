// A part of a transfer that goes by itself.
#pragma once

#include <vector>

#include "penstock/route/mover.h"

namespace penstock::route {

// Its steps: from the source's memory, one copy; through a slot, a host read and then a copy, or a
// copy and then a host write.
struct Mover::Piece : ListNode {
  explicit Piece(Mover& owner) : mover(owner) {}

  Mover& mover;
  TransferOp* op = nullptr;  // null: free
  uint64_t begin = 0;        // in the transfer
  uint64_t length = 0;
  Resident resident;           // data null: through a slot
  engine::MemoryRef slot;      // data null: none
  bool in_memory = false;      // began with what was found there
  bool host_verifies = false;  // the source verifies, not the mover: its bytes are in doubt
  uint32_t crc32c = 0;         // of transfers without kernels
  engine::Time began{};        // the step that is in progress

  HostIo host;
  engine::CopyOp copy;
  // Keep their memory from use to use.
  std::vector<engine::CopyPiece> copies;
  std::vector<engine::BlockCheck> checks;

  uint64_t file_offset() const { return op->offset + begin; }
};

}  // namespace penstock::route
