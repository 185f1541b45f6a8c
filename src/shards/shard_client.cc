// Operations of a client from submit() to their end: slots, deadlines, early ends.
#include "shard_client.h"

namespace penstock::shards {
namespace {

// What IoOp::internal points to while what is behind waits for a slot.
int behind_mark;

constexpr uint32_t kOperations = kIoOpsMax + limits::kBehindOperations;

bool has_room_for_checksums(const IoOp& io) {
  return io.kind == IoKind::read && io.offset % limits::kBlockBytes == 0 &&
         io.checksums.length >= wire::checksum_bytes(io.memory.length);
}

holds::Hold wanted_by(const Operation& op) {
  return op.kind == IoKind::write ? holds::Hold::exclusive : holds::Hold::shared;
}

}  // namespace

std::unique_ptr<Client> make_client(engine::Loop& loop, engine::Net& net, const DataPlane& plane) {
  return std::make_unique<ShardClient>(loop, net, plane);
}

ShardClient::ShardClient(engine::Loop& loop, engine::Net& net, const DataPlane& plane)
    : loop_(loop),
      net_(net),
      plane_(plane),
      operations_(new Operation[kOperations]),
      pieces_([](engine::Op& done) {
        auto& self = static_cast<Piece&>(done);
        self.operation->client->on_piece(self);
      }),
      scheduler_(loop, *plane.company, [this] { dispatch_waiting(); }) {
  free_operations_.reserve(kOperations);
  for (uint32_t i = kOperations; i-- > 0;) {
    Operation& op = operations_[i];
    op.client = this;
    op.own.operation = &op;
    pieces_.prepare(op.own);
    op.deadline.owner = op.gate_waiter.owner = op.settle.owner = op.told.owner = op.ended.owner =
        &op;
    op.flush.owner = op.room.owner = op.hold_waiter.owner = op.fit.owner = &op;
    op.hold_deadline.owner = &op;
    op.gate_waiter.loop = op.settle.loop = op.flush.loop = op.room.loop = &loop_;
    op.hold_waiter.loop = op.fit.loop = &loop_;
    op.deadline.completion = [](engine::Op& due) {
      auto& self = due.owner_as<Operation>();
      // One that has ended has none any more: pairs with release().
      ASSERT(self.timed && self.stage != Stage::idle);
      self.timed = false;
      self.client->end_early(self, Code::timed_out);
    };
    prepare_holding(op);
    op.gate_waiter.completion = [](engine::Op& open) {
      auto& self = open.owner_as<Operation>();
      self.client->begin_write(self);
    };
    op.settle.completion = [](engine::Op& settled) {
      auto& self = settled.owner_as<Operation>();
      self.error = settled.status;
      if (self.stage == Stage::dropping) return self.client->dropped_privileges(self);
      if (self.stage == Stage::widening) return self.client->widened(self);
      if (self.stage == Stage::growing) return self.client->may_grow(self);
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

void ShardClient::prepare_holding(Operation& op) {
  op.hold_deadline.completion = [](engine::Op& due) {
    auto& self = due.owner_as<Operation>();
    ASSERT(self.hold_timed && self.stage == Stage::holding);
    self.hold_timed = false;
    // What comes in this very moment is taken.
    if (self.client->plane_.holding->cancel(self.hold_waiter)) {
      self.client->end_outside(self, Code::timed_out);
    }
  };
  op.hold_waiter.completion = [](engine::Op& given) {
    auto& self = given.owner_as<Operation>();
    self.client->end_hold_wait(self);
    self.has_ticket = self.hold_waiter.entered;
    self.ticket = self.hold_waiter.ticket;
    if (!self.ending.ok()) return self.client->end_outside(self, self.ending);
    if (!given.status.ok()) return self.client->end_outside(self, given.status);
    self.has_ticket ? self.client->held(self) : self.client->hold(self);
  };
  op.fit.completion = [](engine::Op& fit) {
    auto& self = fit.owner_as<Operation>();
    if (!self.ending.ok()) return self.client->end_outside(self, self.ending);
    if (!fit.status.ok()) return self.client->end_outside(self, fit.status);
    self.client->begin_held(self);
  };
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
  const IoClass io_class = Scheduler::class_of(io);
  if (io_class == IoClass::small) scheduler_.note_small();
  if (!scheduler_.may_begin(flow, io_class)) [[unlikely]] {
    scheduler_.add_unstarted(io, flow, io_class);
  } else {
    Operation& op = take_slot(io, flow, io_class);
    if (scheduler_.passes(flow, io_class)) [[likely]] {
      may_send_ = true;
      start(op);
      may_send_ = false;
      return;
    }
    scheduler_.add(io, flow, io_class);
  }
  dispatch_waiting();
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
    start(take_slot(io, scheduler_.flow_of(io), Scheduler::class_of(io)));
  }
  starting_behind_ = false;
}

Operation& ShardClient::take_slot(IoOp& io, Flow& flow, IoClass io_class) {
  ASSERT(!free_operations_.empty());
  Operation& op = *free_operations_.back();
  free_operations_.pop_back();
  ASSERT(op.stage == Stage::idle && op.io == nullptr && op.in_flight == 0 && !op.timed);
  op.is_behind = io.behind;
  if (!io.behind) [[likely]]
    scheduler_.begun(flow);
  io.internal = &op;
  op.io = &io;
  op.flow = &flow;
  op.io_class = io_class;
  op.kind = io.kind;
  op.stage = Stage::queued;
  op.inode = &io.file->inode();
  op.ending = op.error = Code::ok;
  op.route = engine::Route::none;
  op.restarts = 0;
  op.asked_for_room = false;
  op.begin = op.failed_at = 0;
  op.hold_until = engine::kNever;
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
  ASSERT(op.stage == Stage::queued && !op.is_behind);
  op.stage = Stage::behind;
  op.begin = op.sent_end = op.failed_at = 0;
  op.flush.inode = op.inode;
  plane_.behind->flush_later(op.flush);
}

void ShardClient::begin(Operation& op) {
  // What was taken before is under the hold of when it was taken, which waits for it.
  const bool needs_hold = plane_.holding != nullptr && !op.is_behind &&
                          !op.inode->is_private.load(std::memory_order_acquire);
  if (needs_hold) [[unlikely]]
    return hold(op);
  begin_held(op);
}

void ShardClient::hold(Operation& op) {
  ASSERT(!op.has_ticket);
  op.stage = Stage::holding;
  const holds::Hold wanted = wanted_by(op);
  if (plane_.holding->enter(op.inode->id, wanted, op.ticket)) [[likely]] {
    op.has_ticket = true;
    return held(op);
  }
  wait_for_hold(op, wanted);
}

// However often it has to wait: one that loses again and again what it was given ends, too.
void ShardClient::wait_for_hold(Operation& op, holds::Hold wanted) {
  ASSERT(op.stage == Stage::holding && !op.hold_timed);
  if (op.hold_until == engine::kNever) {
    op.hold_until = loop_.clock().now() + limits::kHoldWait;
  }
  op.hold_timed = true;
  loop_.start(op.hold_deadline, op.hold_until);
  op.hold_waiter.inode = op.inode->id;
  op.hold_waiter.hold = wanted;
  op.hold_waiter.entered = false;
  plane_.holding->wait(op.hold_waiter);
}

void ShardClient::end_hold_wait(Operation& op) {
  if (std::exchange(op.hold_timed, false)) loop_.cancel(op.hold_deadline);
}

void ShardClient::held(Operation& op) {
  ASSERT(op.has_ticket);
  // Not in a session in which what it was locked for is not had.
  const bool is_lost = op.io != nullptr && op.io->file->locks().is_lost();
  if (is_lost) [[unlikely]]
    return end_outside(op, Code::io_error);
  const holds::Hold wanted = wanted_by(op);
  if (op.inode->fit.load(std::memory_order_acquire) >= wanted) [[likely]]
    return begin_held(op);
  op.stage = Stage::fitting;
  op.fit.inode = op.inode;
  op.fit.hold = wanted;
  plane_.fitter->make_fit_later(op.fit);
}

void ShardClient::let_go(Operation& op) {
  if (!std::exchange(op.has_ticket, false)) return;
  plane_.holding->leave(op.ticket);
}

// What it has read may be older than what another agent has written since.
bool ShardClient::is_void(const Operation& op) {
  return op.has_ticket && !plane_.holding->is_good(op.ticket);
}

void ShardClient::begin_held(Operation& op) {
  if (op.kind == IoKind::read) [[likely]] {
    begin_read(op);
  } else if (op.kind == IoKind::write) {
    op.privileges_seen = 0;
    begin_write(op);
  } else {
    begin_sync(op);
  }
}

void ShardClient::cancel(IoOp& io) {
  if (io.internal == &behind_mark) {
    io.unlink();
    io.internal = nullptr;
    loop_.complete(io, Code::cancelled);
  } else if (Scheduler::is_unstarted(io)) {
    scheduler_.remove(io, scheduler_.flow_of(io), Scheduler::class_of(io));
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
    scheduler_.remove(*op.io, *op.flow, op.io_class);
    finish_later(op, why);
  } else if (op.stage == Stage::gated) {
    // If its turn has come already, begin_write() will see why it ends.
    if (op.inode->gate.cancel(op.gate_waiter)) end_outside(op, why);
  } else if (op.stage == Stage::holding) {
    if (!plane_.holding->cancel(op.hold_waiter)) return;
    end_hold_wait(op);
    end_outside(op, why);
  } else if (op.stage == Stage::dropping || op.stage == Stage::widening ||
             op.stage == Stage::growing || op.stage == Stage::fitting) {
    // What is asked of meta cannot be taken back: what follows it will see why the write ends.
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
    // The bytes have moved; what remains goes on alone, and the caller, once told of the end, may
    // close the file.
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
  // Nothing that belongs to it is known to a target, and its memory may be used again.
  ASSERT(op.stage != Stage::idle && op.in_flight == 0 && op.shared_count == 0 && !op.hold_timed);
  if (op.timed) [[unlikely]] {
    loop_.cancel(op.deadline);
    op.timed = false;
  }
  IoOp* io = op.io;
  if (io != nullptr) [[likely]] {
    ASSERT(io->internal == &op && !io->linked());
    const bool has_moved = op.kind != IoKind::sync && op.stage != Stage::gated &&
                           op.stage != Stage::holding && op.stage != Stage::fitting;
    io->transferred = has_moved ? op.failed_at - op.begin : 0;
    io->route = op.route;
    io->status = status;
    io->internal = nullptr;
  }
  if (op.has_ticket) [[unlikely]]
    let_go(op);
  if (!op.is_behind) [[likely]] {
    scheduler_.ended(*op.flow);
  } else {
    ASSERT(behind_used_ > 0);
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
    dispatch_waiting();
}

void ShardClient::finish_later(Operation& op, Status status) {
  IoOp* io = release(op, status);
  if (io != nullptr) loop_.complete(*io, status);
  if (!waiting_behind_.empty()) start_behind();
  if (scheduler_.has_waiting()) dispatch_waiting();
}

}  // namespace penstock::shards
