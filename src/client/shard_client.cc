#include "shard_client.h"

#include "drop_queue.h"

#include <algorithm>

namespace penstock::client {
namespace {

// What IoOp::internal points to while what is behind waits for a place.
int behind_mark;

template <class Number>
void raise(std::atomic<Number>& value, Number to) {
  Number current = value.load(std::memory_order_relaxed);
  // Release pairs with the acquire of readers, who see the bytes below the length they see.
  while (current < to && !value.compare_exchange_weak(current, to, std::memory_order_release,
                                                      std::memory_order_relaxed)) {
  }
}

constexpr uint32_t kOperations = kIoOpsMax + limits::kBehindOperations;

bool has_room_for_checksums(const IoOp& io) {
  return io.kind == IoKind::read && io.offset % limits::kBlockBytes == 0 &&
         io.checksums.length >= wire::checksum_bytes(io.memory.length);
}

// The next read is the first after a change.
void note_change_for_accesses(Inode& inode) {
  const bool never = inode.no_access_times.load(std::memory_order_relaxed);
  inode.access_due.store(!never, std::memory_order_relaxed);
}

uint32_t flags_of(const IoOp& io) {
  if (io.kind == IoKind::write) return io.durable ? uint32_t{wire::kChunkDurable} : 0U;
  uint32_t flags = 0;
  if (io.refuse_holes) flags |= wire::kChunkRefuseHoles;
  if (io.checksums.data != nullptr) flags |= wire::kChunkChecksums;
  return flags;
}

}  // namespace

ShardClient::ShardClient(engine::Loop& loop, engine::Net& net, const DataPlane& plane)
    : loop_(loop),
      net_(net),
      plane_(plane),
      operations_(new Operation[kOperations]),
      pieces_(new Piece[limits::kSharedPieces]),
      scheduler_(loop, *plane.company, [this] { take_turns(); }) {
  const auto prepare = [](Piece& piece) {
    piece.completion = [](engine::Op& done) {
      auto& self = static_cast<Piece&>(done);
      self.operation->client->on_piece(self);
    };
    piece.request = wire::as_wire(piece.message);
  };
  for (uint32_t i = 0; i < limits::kSharedPieces; ++i) {
    prepare(pieces_[i]);
    pieces_[i].next_free = free_pieces_;
    free_pieces_ = &pieces_[i];
  }
  free_operations_.reserve(kOperations);
  for (uint32_t i = kOperations; i-- > 0;) {
    Operation& op = operations_[i];
    op.client = this;
    op.own.operation = &op;
    prepare(op.own);
    op.deadline.owner = op.gate_turn.owner = op.settle.owner = op.told.owner = op.ended.owner = &op;
    op.flush.owner = op.room.owner = &op;
    op.gate_turn.loop = op.settle.loop = op.flush.loop = op.room.loop = &loop_;
    op.deadline.completion = [](engine::Op& due) {
      auto& self = due.owner_as<Operation>();
      self.timed = false;
      self.client->end_early(self, Code::timed_out);
    };
    op.gate_turn.completion = [](engine::Op& open) {
      auto& self = open.owner_as<Operation>();
      self.client->begin_write(self);
    };
    op.settle.completion = [](engine::Op& settled) {
      auto& self = settled.owner_as<Operation>();
      self.error = settled.status;
      if (self.stage == Stage::dropping) return self.client->dropped_privileges(self);
      if (self.kind == IoKind::sync) return self.client->finish(self, self.error);
      // Durable or not, the bytes have changed.
      self.client->tell(self);
    };
    op.flush.completion = [](engine::Op& flushed) {
      auto& self = flushed.owner_as<Operation>();
      if (self.ending.ok()) return self.client->begin(self);
      self.client->finish(self, self.ending);
    };
    op.room.completion = [](engine::Op& made) {
      auto& self = made.owner_as<Operation>();
      self.client->got_room(self);
    };
    op.told.completion = [](engine::Op& told) {
      auto& self = told.owner_as<Operation>();
      self.client->finish(self, self.error);
    };
    op.ended.completion = [](engine::Op& ended) {
      auto& self = ended.owner_as<Operation>();
      self.client->moved(self);
    };
    free_operations_.push_back(&op);
  }
}

ShardClient::~ShardClient() {
  ASSERT(free_operations_.size() == kOperations && !scheduler_.has_waiting());
  ASSERT(waiting_behind_.empty());
}

Status ShardClient::check(const IoOp& io) {
  if (io.file == nullptr || io.file->closed()) return Code::bad_handle;
  if (io.kind == IoKind::sync) return Code::ok;
  if (io.kind != IoKind::read && io.kind != IoKind::write) return Code::invalid_argument;
  const bool allowed = io.kind == IoKind::read ? io.file->may_read() : io.file->may_write();
  if (!allowed) return Code::access_denied;
  if (io.memory.length > limits::kIoBytesMax) return Code::invalid_argument;
  if (io.memory.length > 0 && io.memory.data == nullptr) return Code::invalid_argument;
  if (io.checksums.data != nullptr && !has_room_for_checksums(io)) return Code::invalid_argument;
  const uint64_t max = io.file->inode().placement.file_bytes_max();
  if (!range_within(io.offset, io.memory.length, max)) {
    // Reading there is reading beyond the end.
    const bool past = io.kind == IoKind::write && io.offset <= limits::kFileBytesMax;
    return past ? Code::too_large : Code::invalid_argument;
  }
  return Code::ok;
}

void ShardClient::submit(IoOp& io) {
  io.transferred = 0;
  io.route = engine::Route::none;
  io.internal = nullptr;
  const Status good = check(io);
  if (!good.ok()) [[unlikely]]
    return loop_.complete(io, good);
  if (io.behind) [[unlikely]]
    return submit_behind(io);
  Flow& flow = scheduler_.flow_of(io);
  const Lane lane = Scheduler::lane_of(io);
  if (lane == Lane::small) scheduler_.note_small();
  if (!scheduler_.may_begin(flow, lane)) [[unlikely]] {
    scheduler_.add_unstarted(io, flow, lane);
  } else {
    Operation& op = take_place(io, flow, lane);
    if (scheduler_.passes(flow, lane)) [[likely]] {
      has_turn_ = true;
      start(op);
      has_turn_ = false;
      return;
    }
    scheduler_.add(io, flow, lane);
  }
  take_turns();
}

// All others may be waiting for it.
void ShardClient::submit_behind(IoOp& io) {
  io.internal = &behind_mark;
  waiting_behind_.push_back(io);
  start_behind();
}

void ShardClient::start_behind() {
  // Operations that end at once come back here: the outer turn takes the next one.
  if (starting_behind_) return;
  starting_behind_ = true;
  while (!waiting_behind_.empty() && behind_used_ < limits::kBehindOperations) {
    IoOp& io = *waiting_behind_.pop_front();
    ++behind_used_;
    start(take_place(io, scheduler_.flow_of(io), Scheduler::lane_of(io)));
  }
  starting_behind_ = false;
}

Operation& ShardClient::take_place(IoOp& io, Flow& flow, Lane lane) {
  Operation& op = *free_operations_.back();
  free_operations_.pop_back();
  op.is_behind = io.behind;
  if (!io.behind) [[likely]]
    scheduler_.begun(flow);
  io.internal = &op;
  op.io = &io;
  op.flow = &flow;
  op.lane = lane;
  op.kind = io.kind;
  op.stage = Stage::queued;
  op.inode = &io.file->inode();
  op.ending = op.error = Code::ok;
  op.route = engine::Route::none;
  op.restarts = 0;
  op.asked_for_room = false;
  op.begin = op.failed_at = 0;
  if (io.deadline != engine::kNever) {
    op.timed = true;
    loop_.start(op.deadline, io.deadline);
  }
  return op;
}

void ShardClient::start(Operation& op) {
  if (!op.is_behind && op.inode->behind.pending.load(std::memory_order_seq_cst)) [[unlikely]]
    return wait_for_behind(op);
  begin(op);
}

void ShardClient::wait_for_behind(Operation& op) {
  op.stage = Stage::behind;
  op.begin = op.sent_end = op.failed_at = 0;
  op.flush.inode = op.inode;
  plane_.behind->flush_later(op.flush);
}

void ShardClient::begin(Operation& op) {
  if (op.kind == IoKind::read) [[likely]] {
    begin_read(op);
  } else if (op.kind == IoKind::write) {
    op.privileges_seen = 0;
    begin_write(op);
  } else {
    begin_sync(op);
  }
}

void ShardClient::begin_read(Operation& op) {
  const IoOp& io = *op.io;
  // Acquire pairs with the release at the cut: who sees its number sees its length.
  op.cuts = op.inode->cuts.load(std::memory_order_acquire);
  const uint64_t length = op.inode->length.load(std::memory_order_acquire);
  op.begin = op.next = io.offset;
  op.end = op.failed_at = std::min(io.offset + io.memory.length, std::max(length, io.offset));
  op.stage = Stage::moving;
  move(op);
}

void ShardClient::drop_privileges(Operation& op, const meta::FileWriter& writer) {
  op.stage = Stage::dropping;
  op.privileges_seen = op.inode->privilege_changes.load(std::memory_order_acquire);
  if (!op.asked_for_room) op.begin = op.sent_end = 0;
  op.failed_at = op.begin;
  op.settle.inode = op.inode;
  op.settle.drop_for = &writer;
  plane_.lengths->settle_later(op.settle);
}

void ShardClient::dropped_privileges(Operation& op) {
  op.settle.drop_for = nullptr;
  if (op.error.ok()) op.error = op.ending;
  if (op.error.ok()) return begin_write(op);
  // No byte has changed, but perhaps the mode.
  tell(op);
}

void ShardClient::begin_write(Operation& op) {
  const IoOp& io = *op.io;
  op.stage = Stage::gated;
  if (!op.ending.ok()) return end_outside(op, op.ending);
  while (!op.inode->gate.try_enter()) {
    if (op.inode->gate.wait(op.gate_turn)) return;
  }
  // Inside: nobody gives the file any more until we are through. Once for what was given, as some
  // of it may stay.
  const meta::FileWriter* const writer = io.file->dropper(io.writer);
  if (writer != nullptr && io.memory.length > 0 &&
      op.privileges_seen != op.inode->privilege_changes.load(std::memory_order_acquire))
      [[unlikely]] {
    op.inode->gate.leave();
    return drop_privileges(op, *writer);
  }
  op.begin = op.next = op.sent_end = io.offset;
  op.end = op.failed_at = io.offset + io.memory.length;
  op.changes = op.inode->changes.load(std::memory_order_acquire);
  op.stage = Stage::moving;
  move(op);
}

// Whether, once the targets hold the bytes durably, a crash leaves a file in which they are found.
bool ShardClient::finds_bytes_again(const Inode& inode) {
  // Not even the name of a file that was never synced is known to be durable.
  const uint64_t synced = inode.synced.load(std::memory_order_relaxed);
  if (synced == 0 || synced < inode.named.load(std::memory_order_relaxed)) return false;
  // A hole that meta does not know of is looked for only where a write session is.
  const bool dense = !inode.sparse.load(std::memory_order_relaxed) ||
                     inode.session_durable.load(std::memory_order_relaxed);
  return dense && inode.length.load(std::memory_order_acquire) <=
                      inode.durable_length.load(std::memory_order_relaxed);
}

void ShardClient::begin_sync(Operation& op) {
  Inode& inode = *op.inode;
  const Status lost = op.io->file->take_loss();
  if (!lost.ok()) [[unlikely]]
    return finish_later(op, lost);
  op.changes = inode.changes.load(std::memory_order_acquire);
  op.stage = Stage::moving;
  op.begin = op.next = 0;
  // Acquire pairs with the release in Lengths::note_synced().
  const bool clean = inode.synced.load(std::memory_order_acquire) >= op.changes;
  const bool stored = inode.stored.load(std::memory_order_acquire) >= op.changes;
  op.end = op.failed_at = clean || stored ? 0 : inode.placement.chain_count();
  op.is_settled = op.io->only_data && finds_bytes_again(inode);
  if (stored && !clean && !op.is_settled) return settle(op, op.changes);
  move(op);
}

// Hands out what is left to idle pieces, as far as it may go now. With nothing to do at all the end
// comes in a later turn.
void ShardClient::move(Operation& op) {
  if (op.begin >= op.end) [[unlikely]] {
    if (op.kind == IoKind::write) op.inode->gate.leave();
    return finish_later(op, Code::ok);
  }
  while (op.next < op.end) {
    Piece* const piece = idle_piece(op);
    if (piece == nullptr) return;  // it goes on when one of them has ended
    const bool goes =
        std::exchange(has_turn_, false) || op.is_behind || scheduler_.passes(*op.flow, op.lane);
    if (!goes) [[unlikely]] {
      give_back(op, *piece);
      scheduler_.add_first(*op.io, *op.flow, op.lane);
      return take_turns();
    }
    send(op, *piece);
  }
}

// One piece of the operation, or its beginning.
void ShardClient::take_turn(const Scheduler::Turn& turn) {
  IoOp& io = *turn.io;
  Operation& op = Scheduler::is_unstarted(io) ? take_place(io, *turn.flow, turn.lane)
                                              : *static_cast<Operation*>(io.internal);
  has_turn_ = true;
  if (op.stage == Stage::queued) {
    start(op);
  } else {
    move(op);
  }
  has_turn_ = false;
  scheduler_.end_turn(turn);
}

void ShardClient::take_turns() {
  // Completions that run meanwhile may submit: the outer call goes on then.
  if (taking_turns_) return;
  taking_turns_ = true;
  for (Scheduler::Turn turn = scheduler_.next(); turn.io != nullptr; turn = scheduler_.next()) {
    take_turn(turn);
  }
  taking_turns_ = false;
}

Piece* ShardClient::idle_piece(Operation& op) {
  if (!op.own.busy) return &op.own;
  if (free_pieces_ == nullptr || op.shared_count == op.shared.size()) return nullptr;
  Piece* piece = free_pieces_;
  free_pieces_ = piece->next_free;
  piece->operation = &op;
  op.shared[op.shared_count++] = piece;
  return piece;
}

// A piece that was not used after all.
void ShardClient::give_back(Operation& op, Piece& piece) {
  if (&piece == &op.own) return;
  --op.shared_count;
  piece.next_free = free_pieces_;
  free_pieces_ = &piece;
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
  piece.to = plane_.targets[placement.chain_of(chunk)];
}

void ShardClient::send(Operation& op, Piece& piece) {
  piece.at = op.next;
  if (op.kind != IoKind::sync) [[likely]] {
    fill_io(op, piece);
  } else {
    piece.length = 1;
    piece.method = static_cast<uint16_t>(wire::ChunkMethod::sync);
    piece.message = {.inode = op.inode->id.value};
    piece.exposure_count = 0;
    piece.response = {};
    piece.to = plane_.targets[op.inode->placement.chain_first() + op.next];
  }
  piece.under_way.length = piece.length;
  scheduler_.sent(*op.io, *op.flow, op.lane, op.next == op.begin, piece.under_way);
  op.next += piece.length;
  op.sent_end = op.next;
  ++op.in_flight;
  piece.busy = true;
  net_.call(piece);
}

void ShardClient::on_piece(Piece& piece) {
  Operation& op = *piece.operation;
  piece.busy = false;
  --op.in_flight;
  scheduler_.landed(op.lane, piece.under_way);
  Status status = piece.status;
  if (piece.exposure_count > 0 && piece.response_length == sizeof piece.answer &&
      piece.answer.route < engine::kRouteCount) [[likely]] {
    op.route = worse(op.route, static_cast<engine::Route>(piece.answer.route));
  } else if (piece.exposure_count > 0 && status.ok()) {
    status = Code::bad_message;
  }
  if (!status.ok()) [[unlikely]] {
    // Whoever tries again finds what removed files have held.
    if (status == Code::no_space) plane_.drops->hurry();
    if (op.error.ok()) op.error = status;
    op.failed_at = std::min({op.failed_at, piece.at, op.next});
    stop_sending(op);
  } else if (op.next < op.end && !op.io->linked()) {
    move(op);
  }
  if (op.in_flight == 0 && !op.io->linked()) moved(op);
  if (scheduler_.has_waiting()) [[unlikely]]
    take_turns();
}

void ShardClient::stop_sending(Operation& op) {
  op.next = op.end;
  if (op.io->linked()) scheduler_.remove(*op.io, *op.flow, op.lane);
}

// No piece is under way any more.
void ShardClient::moved(Operation& op) {
  for (uint32_t i = 0; i < op.shared_count; ++i) {
    op.shared[i]->next_free = free_pieces_;
    free_pieces_ = op.shared[i];
  }
  op.shared_count = 0;
  if (op.kind == IoKind::read) [[likely]] {
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

void ShardClient::note_access(Operation& op) {
  Inode& inode = *op.inode;
  const meta::FileTime now = loop_.clock().wall();
  inode.access_due.store(false, std::memory_order_relaxed);
  inode.accessed.store(now, std::memory_order_relaxed);
  plane_.accesses->note(inode.id, now);
  const uint32_t watchers = inode.watchers.load(std::memory_order_relaxed);
  const Observer* const opener = op.io->file->opener();
  if (!plane_.observers->concerns(watchers, opener)) return;
  // Nobody waits for others to hear of it.
  plane_.observers->data_changed(watchers, opener, inode.id, 0, 0, [] {});
}

void ShardClient::wrote(Operation& op) {
  Inode& inode = *op.inode;
  const uint64_t end = align_up(inode.length.load(std::memory_order_relaxed), limits::kBlockBytes);
  if (op.begin > end || !op.error.ok()) inode.sparse.store(true, std::memory_order_relaxed);
  if (op.failed_at > op.begin) raise(inode.length, op.failed_at);
  if (op.sent_end > inode.placement.chunk_bytes()) {
    inode.spread.store(true, std::memory_order_relaxed);
  }
  // Also of a write that failed: pieces behind the one that did, and a part of it, may be stored.
  // What was taken before has its time already.
  if (op.io == nullptr || !op.io->behind) {
    inode.modified.store(loop_.clock().wall(), std::memory_order_relaxed);
  }
  note_change_for_accesses(inode);
  // After the length; see Inode::watchers for the order.
  const uint64_t before = inode.changes.fetch_add(1, std::memory_order_seq_cst);
  if (!op.error.ok()) [[unlikely]]
    inode.stray.store(true, std::memory_order_relaxed);
  const bool in_session = inode.session_durable.load(std::memory_order_relaxed);
  const bool lengthens =
      !in_session && inode.durable_length.load(std::memory_order_relaxed) < op.failed_at;
  if (op.failed_at == op.end && op.io != nullptr && op.io->durable) {
    note_stored(op, before);
    // A crash leaves the session, and with it the end of what is stored.
    if (in_session) raise(inode.durable_length, op.end);
  }
  inode.gate.leave();
  if (op.error == Code::no_space && waits_for_room(op)) return;
  // What was behind is brought durably for a sync, which comes next and settles all.
  const bool settles = op.io != nullptr && op.io->durable && !op.io->behind;
  if (op.failed_at > op.begin && settles && lengthens && op.error.ok()) return settle(op, 0);
  tell(op);
}

// Once, what removed files hold is collected, and the write is made anew.
bool ShardClient::waits_for_room(Operation& op) {
  // What is behind tries again by itself.
  if (op.io == nullptr || op.io->behind || !op.ending.ok()) return false;
  if (std::exchange(op.asked_for_room, true)) return false;
  if (!plane_.drops->ask_for_room(op.room, loop_.clock().now())) return false;
  op.stage = Stage::room;
  return true;
}

void ShardClient::got_room(Operation& op) {
  if (op.io == nullptr) return tell(op);  // it was ended early
  op.error = Code::ok;
  op.route = engine::Route::none;
  begin_write(op);
}

// A write ends outside the gate. What a first try has stored, before room was made, is news to
// those who watch; that it failed needs nobody's consent.
void ShardClient::end_outside(Operation& op, Status why) {
  if (op.asked_for_room && op.sent_end > op.begin) {
    const uint32_t watchers = op.inode->watchers.load(std::memory_order_seq_cst);
    if (plane_.observers->concerns(watchers, nullptr)) {
      plane_.observers->data_changed(watchers, nullptr, op.inode->id, op.begin,
                                     op.sent_end - op.begin, [] {});
    }
  }
  finish_later(op, why);
}

// After a durable write: what was there when it began is durable, and so are its own bytes, which
// are the next change if nobody else's came in between.
void ShardClient::note_stored(const Operation& op, uint64_t changes_before) {
  const bool spread = op.inode->spread.load(std::memory_order_relaxed);
  if (spread && op.inode->placement.chain_count() > 1) return;
  raise(op.inode->stored, changes_before == op.changes ? changes_before + 1 : op.changes);
}

void ShardClient::settle(Operation& op, uint64_t changes) {
  op.stage = Stage::settling;
  op.settle.inode = op.inode;
  op.settle.synced_changes = changes;
  plane_.lengths->settle_later(op.settle);
}

// Whatever became of the write: everything that was sent may be stored.
void ShardClient::tell(Operation& op) {
  // Observers have seen what was taken before, or were told of it then.
  if (op.io != nullptr && op.io->behind) return finish(op, op.error);
  const uint32_t watchers = op.inode->watchers.load(std::memory_order_seq_cst);
  // Whoever was told of an early end takes the bytes for the old ones, and must hear of it, too.
  const Observer* const origin = op.io != nullptr ? op.io->origin : nullptr;
  if (!plane_.observers->concerns(watchers, origin)) [[likely]] {
    return finish(op, op.error);
  }
  op.stage = Stage::telling;
  plane_.observers->data_changed(watchers, origin, op.inode->id, op.begin, op.sent_end - op.begin,
                                 [this, &op] {
                                   // From any thread, perhaps this one.
                                   loop_.complete_remote(op.told, Code::ok);
                                 });
}

void ShardClient::cancel(IoOp& io) {
  if (io.internal == &behind_mark) {
    io.unlink();
    io.internal = nullptr;
    loop_.complete(io, Code::cancelled);
  } else if (Scheduler::is_unstarted(io)) {
    scheduler_.remove(io, scheduler_.flow_of(io), Scheduler::lane_of(io));
    io.internal = nullptr;
    loop_.complete(io, Code::cancelled);
  } else if (io.internal != nullptr) {
    end_early(*static_cast<Operation*>(io.internal), Code::cancelled);
  }
}

void ShardClient::end_early(Operation& op, Status why) {
  if (!op.ending.ok()) return;
  op.ending = why;
  if (op.stage == Stage::queued) {
    scheduler_.remove(*op.io, *op.flow, op.lane);
    finish_later(op, why);
  } else if (op.stage == Stage::gated) {
    // If its turn has come already, begin_write() will see why it ends.
    if (op.inode->gate.cancel(op.gate_turn)) end_outside(op, why);
  } else if (op.stage == Stage::dropping) {
    // What is asked of meta cannot be taken back: dropped_privileges() will see why it ends.
  } else if (op.stage == Stage::moving) {
    // What is under way must end first, as the caller may reuse the memory then.
    if (op.next < op.end) {
      if (op.error.ok()) op.error = why;
      op.failed_at = std::min(op.failed_at, op.next);
      stop_sending(op);
      if (op.in_flight == 0) loop_.complete(op.ended, Code::ok);
    }
    if (op.own.busy) net_.cancel(op.own);
    for (uint32_t i = 0; i < op.shared_count; ++i) {
      if (op.shared[i]->busy) net_.cancel(*op.shared[i]);
    }
  } else if (op.io != nullptr) {
    // The bytes have moved; what remains goes on alone, and whoever is told of the end may close
    // the file.
    op.kept = keep(*op.io->file);
    if (!op.is_behind) op.flow = &scheduler_.adopt(*op.flow);
    IoOp& io = *std::exchange(op.io, nullptr);
    io.internal = nullptr;
    if (op.timed) loop_.cancel(op.deadline);
    op.timed = false;
    io.transferred = op.kind == IoKind::sync ? 0 : op.failed_at - op.begin;
    io.route = op.route;
    loop_.complete(io, why);
  }
}

FileRef ShardClient::keep(const OpenFile& file) const {
  return std::make_shared<OpenFile>(plane_.drops, plane_.inodes->acquire(file.inode().id), false,
                                    false, AccessTimes::Mode::none, nullptr, nullptr);
}

IoOp* ShardClient::release(Operation& op, Status status) {
  if (op.timed) [[unlikely]] {
    loop_.cancel(op.deadline);
    op.timed = false;
  }
  IoOp* io = op.io;
  if (io != nullptr) [[likely]] {
    io->transferred =
        op.kind == IoKind::sync || op.stage == Stage::gated ? 0 : op.failed_at - op.begin;
    io->route = op.route;
    io->status = status;
    io->internal = nullptr;
  }
  if (!op.is_behind) [[likely]] {
    scheduler_.ended(*op.flow);
  } else {
    --behind_used_;
  }
  op.io = nullptr;
  op.inode = nullptr;
  op.stage = Stage::idle;
  if (op.kept != nullptr) [[unlikely]]
    op.kept = nullptr;
  free_operations_.push_back(&op);
  return io;
}

void ShardClient::finish(Operation& op, Status status) {
  IoOp* io = release(op, status);
  if (io != nullptr) [[likely]]
    io->completion(*io);
  if (!waiting_behind_.empty()) [[unlikely]]
    start_behind();
  if (scheduler_.has_waiting()) [[unlikely]]
    take_turns();
}

void ShardClient::finish_later(Operation& op, Status status) {
  IoOp* io = release(op, status);
  if (io != nullptr) loop_.complete(*io, status);
  if (!waiting_behind_.empty()) start_behind();
  if (scheduler_.has_waiting()) take_turns();
}

}  // namespace penstock::client
