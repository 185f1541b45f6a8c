// Writes: what comes before their pieces move (the gate, privileges), and after (length, room,
// settling, observers).
#include "shard_client.h"

#include <algorithm>

namespace penstock::shards {
namespace {

template <class Number>
void raise(std::atomic<Number>& value, Number to) {
  Number current = value.load(std::memory_order_relaxed);
  // Release pairs with the acquire of readers, which see the bytes below the length they see.
  while (current < to && !value.compare_exchange_weak(current, to, std::memory_order_release,
                                                      std::memory_order_relaxed)) {
  }
}

// The next read is the first after a change.
void note_change_for_accesses(Inode& inode) {
  const bool never = inode.no_access_times.load(std::memory_order_relaxed);
  inode.access_due.store(!never, std::memory_order_relaxed);
}

}  // namespace

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
  ASSERT(op.stage == Stage::dropping);
  op.settle.drop_for = nullptr;
  if (op.error.ok()) op.error = op.ending;
  if (op.error.ok()) return begin_write(op);
  // No byte has changed, but perhaps the mode.
  tell(op);
}

// Quotas are asked before a byte is written: what is written is counted whatever they say.
void ShardClient::grow(Operation& op, uint64_t length) {
  ASSERT(length > 0);
  op.stage = Stage::growing;
  op.settle.inode = op.inode;
  op.settle.grow_to = length;
  op.settle.synced_changes = 0;
  plane_.lengths->settle_later(op.settle);
}

void ShardClient::may_grow(Operation& op) {
  ASSERT(op.stage == Stage::growing);
  op.settle.grow_to = 0;
  const Status status = std::exchange(op.error, Code::ok);
  if (!op.ending.ok()) return end_outside(op, op.ending);
  if (!status.ok()) return end_outside(op, status);
  begin_write(op);
}

// The write is about to use chains of which no record tells, should a power cut take back what is
// not durable of meta: first the write session becomes durable.
void ShardClient::widen(Operation& op) {
  op.stage = Stage::widening;
  op.settle.inode = op.inode;
  op.settle.widen = true;
  op.settle.synced_changes = 0;
  plane_.lengths->settle_later(op.settle);
}

void ShardClient::widened(Operation& op) {
  ASSERT(op.stage == Stage::widening);
  op.settle.widen = false;
  const Status status = std::exchange(op.error, Code::ok);
  if (!op.ending.ok()) return end_outside(op, op.ending);
  if (!status.ok()) return end_outside(op, status);
  begin_write(op);
}

void ShardClient::begin_write(Operation& op) {
  const IoOp& io = *op.io;
  ASSERT(op.in_flight == 0 && op.shared_count == 0);
  op.stage = Stage::gated;
  if (!op.ending.ok()) return end_outside(op, op.ending);
  while (!op.inode->gate.try_enter()) {
    if (op.inode->gate.wait(op.gate_waiter)) return;
  }
  // Inside: the file is given no more until this write is through. Once for what was given, as some
  // of it may stay.
  const meta::FileWriter* const writer = io.file->dropper(io.writer);
  if (writer != nullptr && io.memory.length > 0 &&
      op.privileges_seen != op.inode->privilege_changes.load(std::memory_order_acquire))
      [[unlikely]] {
    op.inode->gate.leave();
    return drop_privileges(op, *writer);
  }
  if (io.at_end) [[unlikely]] {
    op.io->offset = op.inode->length.load(std::memory_order_acquire);
    if (!range_within(io.offset, io.memory.length, op.inode->placement.file_bytes_max())) {
      op.inode->gate.leave();
      return end_outside(op, Code::too_large);
    }
  }
  const uint64_t wanted = io.offset + io.memory.length;
  if (wanted > op.inode->allowed.load(std::memory_order_relaxed) && io.memory.length > 0)
      [[unlikely]] {
    op.inode->gate.leave();
    return grow(op, wanted);
  }
  if (wanted > op.inode->reach.load(std::memory_order_relaxed) && io.memory.length > 0)
      [[unlikely]] {
    op.inode->gate.leave();
    return widen(op);
  }
  op.begin = op.next = op.sent_end = io.offset;
  op.end = op.failed_at = io.offset + io.memory.length;
  op.changes = op.inode->changes.load(std::memory_order_acquire);
  op.stage = Stage::moving;
  if (op.end > op.begin) {
    plane_.observers->begin(op.change, *op.inode, {op.begin, op.end - op.begin});
  }
  move(op);
}

void ShardClient::wrote(Operation& op) {
  Inode& inode = *op.inode;
  // The length grows to what is stored without a gap, and never beyond what was sent.
  ASSERT(op.begin <= op.failed_at && op.failed_at <= op.end && op.sent_end <= op.end);
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
  // The new bytes are what readers find from now on, and the new length.
  plane_.observers->end(op.change);
  inode.gate.leave();
  if (op.error == Code::no_space && waits_for_room(op)) return;
  // What was behind is written durably for a sync, which comes next and settles all.
  const bool settles = op.io != nullptr && op.io->durable && !op.io->behind;
  if (op.failed_at > op.begin && settles && lengthens && op.error.ok()) return settle(op, 0);
  tell(op);
}

// Once, what removed files hold is collected, and the write is made anew.
bool ShardClient::waits_for_room(Operation& op) {
  // What is behind tries again by itself.
  if (op.io == nullptr || op.io->behind || !op.ending.ok()) return false;
  // What others append meanwhile stands behind the part of it that is there.
  if (op.io->at_end && op.failed_at > op.begin) return false;
  if (std::exchange(op.asked_for_room, true)) return false;
  if (!plane_.drops->ask_for_room(op.room, loop_.clock().now())) return false;
  op.stage = Stage::room;
  // Whoever collects may wait for other agents.
  let_go(op);
  return true;
}

void ShardClient::got_room(Operation& op) {
  ASSERT(op.stage == Stage::room && op.asked_for_room);
  if (op.io == nullptr) return tell(op);  // it was ended early
  op.error = Code::ok;
  op.route = engine::Route::none;
  begin(op);
}

// A write ends outside the gate. What a first try has stored, before room was made, is news to
// observers; that it failed needs no observer's consent.
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
// are the next change if no other write's came in between.
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
  // The kernel may have to wait for one that waits for other agents. What is told here is told once
  // more, to the same observers, before another agent gets the inode.
  let_go(op);
  // Observers have seen what was taken before, or were told of it then.
  if (op.io != nullptr && op.io->behind) return finish(op, op.error);
  const uint32_t watchers = op.inode->watchers.load(std::memory_order_seq_cst);
  // An observer that asked for the write and was told of an early end takes the bytes for the old
  // ones, and must hear of it, too.
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

}  // namespace penstock::shards
