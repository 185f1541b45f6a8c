// The pieces of operations: cut at chunk borders, sent to targets as their turns come, and what
// they answer.
#include "shard_client.h"

#include <algorithm>

namespace penstock::shards {
namespace {

uint32_t flags_of(const IoOp& io) {
  if (io.kind == IoKind::write) return io.durable ? uint32_t{wire::kChunkDurable} : 0U;
  uint32_t flags = 0;
  if (io.refuse_holes) flags |= wire::kChunkRefuseHoles;
  if (io.checksums.data != nullptr) flags |= wire::kChunkChecksums;
  return flags;
}

}  // namespace

// Hands out what is left to idle pieces, as far as it may go now. With nothing to do at all the end
// comes in a later turn.
void ShardClient::move(Operation& op) {
  if (op.begin >= op.end) [[unlikely]] {
    if (op.kind == IoKind::write) op.inode->gate.leave();
    return finish_later(op, Code::ok);
  }
  while (op.next < op.end) {
    Piece* const piece = pieces_.idle_of(op);
    if (piece == nullptr) return;  // it goes on when one of them has ended
    const bool goes =
        std::exchange(may_send_, false) || op.is_behind || scheduler_.passes(*op.flow, op.io_class);
    if (!goes) [[unlikely]] {
      pieces_.give_back(op, *piece);
      scheduler_.add_first(*op.io, *op.flow, op.io_class);
      return dispatch_waiting();
    }
    send(op, *piece);
  }
}

// One piece of the operation, or its beginning.
void ShardClient::dispatch(const Scheduler::Dispatch& next) {
  IoOp& io = *next.io;
  Operation& op = Scheduler::is_unstarted(io) ? take_slot(io, *next.flow, next.io_class)
                                              : *static_cast<Operation*>(io.internal);
  may_send_ = true;
  if (op.stage == Stage::queued) {
    start(op);
  } else {
    move(op);
  }
  may_send_ = false;
  scheduler_.end_dispatch(next);
}

void ShardClient::dispatch_waiting() {
  // Completions that run meanwhile may submit: the outer call goes on then.
  if (dispatching_) return;
  dispatching_ = true;
  for (Scheduler::Dispatch next = scheduler_.next(); next.io != nullptr; next = scheduler_.next()) {
    dispatch(next);
  }
  dispatching_ = false;
}

void ShardClient::fill_io(Operation& op, Piece& piece) {
  const IoOp& io = *op.io;
  const Placement& placement = op.inode->placement;
  const uint32_t chunk = placement.chunk_of(op.next);
  const uint32_t within = placement.within(op.next);
  piece.length =
      static_cast<uint32_t>(std::min(op.end - op.next, placement.chunk_bytes() - within));
  const bool read = op.kind == IoKind::read;
  if (read && piece.length > limits::kReadPieceBytesBesideSmall) {
    // Between two blocks, so that none is read for two pieces.
    const uint64_t end = align_down(within + scheduler_.read_piece_bytes(), limits::kBlockBytes);
    piece.length = std::min(piece.length, static_cast<uint32_t>(end - within));
  }
  piece.method = static_cast<uint16_t>(read ? wire::ChunkMethod::read : wire::ChunkMethod::write);
  ASSERT(piece.length > 0 && within + uint64_t{piece.length} <= placement.chunk_bytes());
  piece.message = {
      .inode = op.inode->id.value,
      .chunk = chunk,
      .begin = within,
      .length = piece.length,
      .flags = flags_of(io),
  };
  piece.exposures[0] = {io.memory.sub(op.next - io.offset, piece.length),
                        read ? engine::Access::place : engine::Access::fetch};
  piece.exposure_count = 1;
  if (io.checksums.data != nullptr) {
    const uint64_t before = (op.next - io.offset) / limits::kBlockBytes * sizeof(uint32_t);
    piece.exposures[1] = {io.checksums.sub(before, wire::checksum_bytes(piece.length)),
                          engine::Access::place};
    piece.exposure_count = 2;
  }
  piece.response = std::as_writable_bytes(std::span(&piece.answer, 1));
  piece.to = plane_.chains->at(placement.chain_of(chunk));
}

void ShardClient::send(Operation& op, Piece& piece) {
  ASSERT(!piece.busy && op.stage == Stage::moving && op.next < op.end);
  piece.at = op.next;
  if (op.kind != IoKind::sync) [[likely]] {
    fill_io(op, piece);
  } else {
    piece.length = 1;
    piece.method = static_cast<uint16_t>(wire::ChunkMethod::sync);
    piece.message = {.inode = op.inode->id.value};
    piece.exposure_count = 0;
    piece.response = {};
    piece.to = plane_.chains->at(op.inode->placement.chain(static_cast<uint32_t>(op.next)));
  }
  piece.under_way.length = piece.length;
  scheduler_.sent(*op.io, *op.flow, op.io_class, op.next == op.begin, piece.under_way);
  if (op.io->trace != nullptr) [[unlikely]] {
    if (op.io->trace->pieces++ == 0) op.io->trace->sent = loop_.clock().now().time_since_epoch();
  }
  op.next += piece.length;
  ASSERT(op.next <= op.end);
  op.sent_end = op.next;
  ++op.in_flight;
  piece.busy = true;
  net_.call(piece);
}

void ShardClient::on_piece(Piece& piece) {
  Operation& op = *piece.operation;
  ASSERT(piece.busy && op.in_flight > 0 && op.stage == Stage::moving);
  piece.busy = false;
  --op.in_flight;
  scheduler_.landed(op.io_class, piece.under_way);
  if (op.io->trace != nullptr) [[unlikely]] {
    op.io->trace->landed = loop_.clock().now().time_since_epoch();
  }
  Status status = piece.status;
  // Of a session that is over: to programs its bytes are lost.
  if (status == Code::stale && plane_.holding != nullptr) [[unlikely]]
    status = Code::io_error;
  if (piece.exposure_count > 0 && piece.response_length == sizeof piece.answer &&
      piece.answer.route < engine::kRouteCount) [[likely]] {
    op.route = worse(op.route, static_cast<engine::Route>(piece.answer.route));
  } else if (piece.exposure_count > 0 && status.ok()) {
    status = Code::bad_message;
  }
  if (!status.ok()) [[unlikely]] {
    // The next try finds what removed files have held.
    if (status == Code::no_space) plane_.drops->hurry();
    if (op.error.ok()) op.error = status;
    op.failed_at = std::min({op.failed_at, piece.at, op.next});
    stop_sending(op);
  } else if (op.next < op.end && !op.io->linked()) {
    move(op);
  }
  if (op.in_flight == 0 && !op.io->linked()) moved(op);
  if (scheduler_.has_waiting()) [[unlikely]]
    dispatch_waiting();
}

void ShardClient::stop_sending(Operation& op) {
  op.next = op.end;
  if (op.io->linked()) scheduler_.remove(*op.io, *op.flow, op.io_class);
}

// No piece is under way any more.
void ShardClient::moved(Operation& op) {
  ASSERT(op.stage == Stage::moving && op.failed_at >= op.begin);
  pieces_.give_back_all(op);
  if (op.kind == IoKind::read) [[likely]] {
    if (is_void(op)) [[unlikely]] {
      if (!op.ending.ok()) return finish(op, op.ending);
      let_go(op);
      op.error = Code::ok;
      op.route = engine::Route::none;
      return hold(op);
    }
    if (op.inode->cuts.load(std::memory_order_acquire) != op.cuts && op.ending.ok() &&
        op.restarts < limits::kReadRestartsMax) [[unlikely]] {
      ++op.restarts;
      op.error = Code::ok;
      op.route = engine::Route::none;
      return begin_read(op);
    }
    if (op.io != nullptr && op.io->file->access_is_due() && op.error.ok()) [[unlikely]]
      note_access(op);
    return finish(op, op.error);
  }
  if (op.kind == IoKind::write) return wrote(op);
  if (!op.error.ok() || op.is_settled) return finish(op, op.error);
  settle(op, op.changes);
}

}  // namespace penstock::shards
