// A part of a transfer that goes by itself.
#pragma once

#include <vector>

#include "penstock/route/mover.h"

namespace penstock::route {

// What callers are told of a device that is lost: peer_gone would mean an agent or a server to
// them.
inline Status of_device(Status status) {
  return status == Code::peer_gone ? Status(Code::io_error, status.detail()) : status;
}

// Its steps: from the source's memory, one copy; where the source reaches GPU memory, its read or
// write; through a slot, a host read and then a copy, or a copy and then a host write.
struct Mover::Piece : ListNode {
  explicit Piece(Mover& owner) : mover(owner) {}

  Mover& mover;
  TransferOp* op = nullptr;  // null: free
  uint64_t begin = 0;        // in the transfer
  uint64_t length = 0;
  Resident resident;           // data null: not from there
  engine::MemoryRef slot;      // data null: none; of a direct piece for checksums alone
  bool in_memory = false;      // began with what was found there
  bool is_direct = false;      // began with what the source reaches
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
