// Reads and syncs: what is their own.
#include "shard_client.h"

#include <algorithm>

namespace penstock::shards {

void ShardClient::begin_read(Operation& op) {
  const IoOp& io = *op.io;
  ASSERT(op.in_flight == 0 && op.shared_count == 0);
  // Acquire pairs with the release at the cut: a reader that sees its number sees its length.
  op.cuts = op.inode->cuts.load(std::memory_order_acquire);
  const uint64_t length = op.inode->length.load(std::memory_order_acquire);
  op.begin = op.next = io.offset;
  op.end = op.failed_at = std::min(io.offset + io.memory.length, std::max(length, io.offset));
  op.stage = Stage::moving;
  move(op);
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
  // The read does not wait for observers to hear of it.
  plane_.observers->data_changed(watchers, opener, inode.id, 0, 0, [] {});
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

}  // namespace penstock::shards
