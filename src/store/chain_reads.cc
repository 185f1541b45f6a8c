// What asks chains of a target and changes nothing.
#include "core.h"

#include <algorithm>

namespace penstock::store {

using engine::KvMode;
using limits::kBlockBytes;

Status ChainList::body(engine::KvTransaction& transaction) {
  std::map<ChunkId, ChunkState> all;
  TRY(add_recorded(transaction, all));
  TRY(add_unnamed(transaction, all));
  found.clear();
  for (const auto& [chunk, state] : all) {
    if (found.size() < limit) found.push_back({chunk, state});
  }
  return Code::ok;
}

Status ChainList::add_recorded(engine::KvTransaction& transaction,
                               std::map<ChunkId, ChunkState>& all) const {
  const ChainId next(op->from.chain.value + 1);
  const std::string begin = encode_chunk_key(kChunkKeyType, op->from);
  const std::string end = next == ChainId{} ? std::string(1, kChunkKeyType + 1)
                                            : encode_chunk_key(kChunkKeyType, {next, {}});
  Status bad;
  TRY(transaction.scan(begin, end, [&](std::string_view key, std::string_view record) {
    const auto at = decode_chunk_key(kChunkKeyType, key);
    ChunkState state;
    bad = at ? decode_chunk_record(key, record, state) : Status(Code::corrupt);
    if (bad.ok()) all[at->chunk] = state;
    return bad.ok() && all.size() < limit;
  }));
  return bad;
}

// Chunks with maps and no record. One look at the database for each chunk: it may have many maps.
Status ChainList::add_unnamed(engine::KvTransaction& transaction,
                              std::map<ChunkId, ChunkState>& all) const {
  const EncodedMapKey end = encode_key_after(op->from.chain, InodeId(UINT64_MAX));
  EncodedMapKey begin = encode_key({op->from.chain, op->from.chunk, 0});
  for (size_t seen = 0; seen < limit; ++seen) {
    std::optional<MapKey> key;
    Status bad;
    TRY(transaction.scan(as_view(begin), as_view(end),
                         [&](std::string_view text, std::string_view) {
                           key = decode_key(text);
                           bad = key ? Status() : Status(Code::corrupt);
                           return false;
                         }));
    TRY(bad);
    if (!key) return Code::ok;
    if (!all.contains(key->chunk)) {
      TRY_ASSIGN(const uint32_t length, length_by_maps(transaction, {key->chain, key->chunk}));
      all[key->chunk] = {kUnnamed, false, length};
    }
    // An index one beyond the largest still sorts between this chunk and the next.
    begin = encode_key({key->chain, key->chunk, limits::kChunkMapsMax});
  }
  return Code::ok;
}

void Chains::submit(LookOp& op) {
  if (!core_.failed.ok()) return core_.loop.complete(op, core_.refusal());
  enqueue(task(ChainTaskKind::look, op.at, &op));
}

void Chains::submit(CopyReadOp& op) {
  if (!core_.failed.ok()) return core_.loop.complete(op, core_.refusal());
  const uint64_t length = op.destination.length;
  if (!range_within(op.begin, length, limits::kChunkBytesMax) ||
      (length > 0 && op.destination.kind != engine::MemoryKind::host)) {
    return core_.loop.complete(op, Code::invalid_argument);
  }
  if (length == 0) return core_.loop.complete(op, Code::ok);
  enqueue(task(ChainTaskKind::read, op.at, &op));
}

void Chains::submit(PendingReadOp& op) {
  if (!core_.failed.ok()) return core_.loop.complete(op, core_.refusal());
  enqueue(task(ChainTaskKind::read_pending, op.at, &op));
}

void Chains::begin_pending_read(ChainTask& task) {
  const auto& op = static_cast<const PendingReadOp&>(*task.op);
  task.update = task.entry->pending;
  if (task.update == nullptr) return end(task, Code::not_found);
  if (op.destination.length != update_bytes(task.update->parts)) {
    return end(task, Code::invalid_argument);
  }
  // Blocks stay until all parts are read, whatever becomes of the update.
  task.epoch = core_.reclaim.enter();
  next_pending_part(task);
}

void Chains::next_pending_part(ChainTask& task) {
  const std::vector<UpdatePart>& parts = task.update->parts;
  while (task.part < parts.size() && parts[task.part].kind != UpdateKind::write) ++task.part;
  if (task.part < parts.size()) return with_request(task);
  if (core_.reclaim.leave(task.epoch)) core_.updater.space_changed();
  end(task, Code::ok);
}

void Chains::start_read(ChainTask& task) {
  Request& request = *task.request;
  uint32_t begin = 0;
  uint32_t end = 0;
  if (task.kind == ChainTaskKind::read) {
    const auto& op = static_cast<const CopyReadOp&>(*task.op);
    begin = op.begin;
    end = op.begin + static_cast<uint32_t>(op.destination.length);
    request.memory = op.destination;
    request.refuse_holes = op.refuse_holes;
  } else {
    const auto& op = static_cast<const PendingReadOp&>(*task.op);
    begin = task.update->parts[task.part].begin;
    end = task.update->parts[task.part].end;
    request.memory = op.destination.sub(task.taken, end - begin);
  }
  request.kind = RequestKind::read;
  set_range(request, begin, end);
  if (task.kind == ChainTaskKind::read_pending) request.pending = task.update.get();
  request.chain_task = &task;
  if (task.kind == ChainTaskKind::read) {
    auto& op = static_cast<CopyReadOp&>(*task.op);
    op.damaged.clear();
    if (op.list_damage) request.damaged = &op.damaged;
  }
  task.taken += end - begin;
  core_.reader.start(request);
}

void Chains::snapshot_pending(Request& request) {
  const std::vector<PendingBlock>& blocks = request.pending->blocks;
  auto at = std::lower_bound(blocks.begin(), blocks.end(), request.first_block,
                             [](const PendingBlock& one, uint32_t b) { return one.block < b; });
  for (uint32_t i = 0; i < request.block_count; ++i) {
    const bool listed = at != blocks.end() && at->block == request.first_block + i;
    request.blocks[i] = listed ? at->ref : BlockRef();
    if (listed) ++at;
  }
}

void Chains::on_snapshot(ChainTask& task) {
  if (task.kind != ChainTaskKind::read) return;
  ASSERT(!task.has_snapshot && task.entry->reads > 0);
  task.has_snapshot = true;
  if (--task.entry->reads == 0) pump(*task.entry);
}

void Chains::on_read(ChainTask& task) {
  const Status status = task.read.status;
  task.request = nullptr;
  if (task.kind == ChainTaskKind::read) {
    // Runs of blocks are read in any order.
    auto& damaged = static_cast<CopyReadOp&>(*task.op).damaged;
    std::sort(damaged.begin(), damaged.end());
    ChainEntry* const entry = task.has_snapshot ? nullptr : task.entry;
    end(task, status);
    if (entry != nullptr && --entry->reads == 0) pump(*entry);
    return;
  }
  if (status.ok()) {
    ++task.part;
    return next_pending_part(task);
  }
  if (core_.reclaim.leave(task.epoch)) core_.updater.space_changed();
  end(task, status);
}

void Chains::submit(ListOp& op) {
  if (!core_.failed.ok()) return core_.loop.complete(op, core_.refusal());
  if (op.limit == 0 || op.limit > limits::kListChunks) {
    return core_.loop.complete(op, Code::invalid_argument);
  }
  auto made = std::make_unique<ChainList>();
  ChainList& list = *made;
  lists_.emplace(&list, std::move(made));
  list.op = &op;
  for (auto it = unsaved_.lower_bound(op.from); it != unsaved_.end(); ++it) {
    if (it->chain != op.from.chain) break;
    const ChainEntry& its = *entries_.at(*it);
    const bool is_there = its.state.committed != UpdateName{};
    list.newer[it->chunk] = is_there ? std::optional(its.state) : std::nullopt;
  }
  // As many as may turn out to be gone are read beyond the limit.
  list.limit = op.limit + list.newer.size();
  list.mode = KvMode::read;
  list.home = &core_.loop;
  list.owner = this;
  list.completion = [](engine::Op& done) {
    done.owner_as<Chains>().on_listed(static_cast<ChainList&>(done));
  };
  list.flush.owner = &list;
  list.flush.completion = [](engine::Op& done) {
    auto& its = done.owner_as<ChainList>();
    Chains& self = its.owner_as<Chains>();
    if (done.status.ok()) return self.core_.kv.submit(its);
    its.status = done.status;
    self.on_listed(its);
  };
  core_.committer.wait(list.flush);
}

void Chains::on_listed(ChainList& list) {
  std::map<ChunkId, ChunkState> all;
  for (const ListEntry& one : list.found) all[one.chunk] = one.state;
  // Behind the last of a list that is full there may be others.
  const bool full = list.found.size() == list.limit;
  for (const auto& [chunk, state] : list.newer) {
    if (full && chunk > list.found.back().chunk) break;
    if (state) {
      all[chunk] = *state;
    } else {
      all.erase(chunk);
    }
  }
  ListOp& op = *list.op;
  op.entries.clear();
  for (const auto& [chunk, state] : all) {
    if (op.entries.size() == op.limit) break;
    op.entries.push_back({chunk, state});
  }
  core_.loop.complete(op, list.status);
  lists_.erase(&list);
  core_.check_closed();
}

uint64_t Chains::room() const {
  // What is wrong with a target that has failed is said by prepares.
  if (!core_.failed.ok()) return INT64_MAX;
  if (core_.committer.full()) return 0;
  const uint64_t free = core_.allocator.free_blocks();
  const uint64_t kept = limits::kClearReserveBlocks;
  return (free > kept ? free - kept : 0) * kBlockBytes + core_.files.growth_left_bytes();
}

std::vector<PendingUpdate> Chains::pending(ChainId chain) const {
  std::vector<PendingUpdate> all;
  for (auto it = pending_.lower_bound({chain, {}}); it != pending_.end(); ++it) {
    if (it->first.chain != chain) break;
    all.push_back(it->second);
  }
  return all;
}

std::optional<SlotRecord> Chains::slot(ChainId chain, NodeId node, uint32_t slot) const {
  const auto found = slots_.find({chain, node.value, slot});
  if (found == slots_.end()) return std::nullopt;
  return found->second;
}

std::vector<SlotRecord> Chains::slots_of(const ChainChunk& at) const {
  std::vector<SlotRecord> found;
  for (auto it = slots_at_.lower_bound({at, SlotKey{}}); it != slots_at_.end(); ++it) {
    if (it->first != at) break;
    found.push_back(slots_.at(it->second));
  }
  return found;
}

}  // namespace penstock::store
