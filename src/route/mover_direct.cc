// Pieces that the source moves to or from device memory itself, as network cards do.
#include "limits.h"
#include "piece.h"
#include "slots.h"

#include <algorithm>

#include "penstock/route/mover.h"

namespace penstock::route {

using engine::Route;

// Whole blocks together, which are verified where they land; parts of blocks apart, which the
// source verifies.
uint64_t Mover::direct_length(const TransferOp& op) const {
  const uint64_t left = op.memory.length - op.progress.next;
  const uint64_t most = std::min(left, limits::kDirectBytesMax);
  if (op.write || !config_.verify) return most;
  const uint64_t into_block = (op.offset + op.progress.next) % kBlockBytes;
  if (into_block != 0) return std::min(left, kBlockBytes - into_block);
  return most >= kBlockBytes ? align_down(most, kBlockBytes) : most;
}

// The pages that a card knows stay when their memory is released, and its addresses become another
// allocation's.
bool Mover::is_allocated(const TransferOp& op) const {
  if (op.memory.allocation == 0) return true;
  const Result<engine::DeviceSpan> found = devices_.find(op.memory.data, 1);
  return found && found->allocation == op.memory.allocation;
}

// False when others have to end first.
bool Mover::start_direct(TransferOp& op, Reached reached) {
  const engine::MemoryRef memory = reached.memory;
  if (direct_pieces_ == limits::kDirectPiecesMax) return false;
  const uint64_t from = op.offset + op.progress.next;
  const bool verifies = config_.verify && !op.write && (from | memory.length) % kBlockBytes == 0;
  const engine::MemoryRef slot =
      verifies ? slots_->take(limits::kSmallSlotBytes) : engine::MemoryRef{};
  if (verifies && slot.data == nullptr) return false;
  Piece& piece = *take_piece(false);
  ++direct_pieces_;
  piece.is_direct = true;
  piece.slot = slot;
  piece.op = &op;
  piece.begin = op.progress.next;
  piece.length = memory.length;
  op.progress.next += memory.length;
  ASSERT(memory.length > 0 && op.progress.next <= op.memory.length);
  ++op.progress.pieces;
  HostIo& io = piece.host;
  io.write = op.write;
  io.durable = op.durable;
  io.file = op.file;
  io.offset = from;
  io.memory = memory;
  io.keeper = std::move(reached.keeper);
  io.wants_checksums = verifies;
  io.checksum_place = slot.data;
  submit_host(piece);
  return true;
}

void Mover::direct_done(Piece& piece) {
  const HostIo& io = piece.host;
  const Status stop = piece.op->progress.stop;
  if (!io.status.ok()) {
    if (!stop.ok()) return piece_done(piece, stop, 0, Route::none);
    const bool was_ended = io.status == Code::cancelled || io.status == Code::timed_out;
    if (was_ended) return piece_done(piece, io.status, 0, Route::none);
    // The source may have had no way for just these bytes.
    return retry_by_slots(piece, io.status);
  }
  const uint64_t got = std::min(io.transferred, piece.length);
  if (got < piece.length) {
    lower_end(*piece.op, piece.begin + got, Code::ok);
    piece.length = got;
  }
  if (!piece.op->write) {
    const Status settled = of_device(devices_.settle_writes(piece.op->memory.device));
    if (!settled.ok()) return piece_done(piece, settled, 0, Route::none);
  }
  if (io.checksums != nullptr && got >= kBlockBytes) return verify_direct(piece);
  if (!is_allocated(*piece.op)) return piece_done(piece, Code::invalid_argument, 0, Route::none);
  piece_done(piece, Code::ok, got, Route::device_network);
}

// What the source has brought to device memory itself. A check stands behind a copy: that of one
// byte, from where it landed.
void Mover::verify_direct(Piece& piece) {
  ASSERT(piece.is_direct && piece.slot.data != nullptr && piece.file_offset() % kBlockBytes == 0);
  const std::byte* const device = device_address(piece);
  piece.copies.clear();
  piece.copies.push_back(
      {.source = device, .destination = piece.slot.data + piece.slot.length - 1, .length = 1});
  piece.checks.clear();
  for (uint64_t at = 0; at + kBlockBytes <= piece.length; at += kBlockBytes) {
    piece.checks.push_back(
        {device + at, static_cast<uint32_t>(kBlockBytes), piece.host.checksums[at / kBlockBytes]});
  }
  piece.copy.direction = engine::CopyDirection::from_device;
  piece.copy.means = engine::CopyMeans::copy_engine;
  submit_copy(piece);
}

}  // namespace penstock::route
