#include "chains.h"

#include "core.h"

#include <algorithm>

namespace penstock::store {

using engine::KvMode;
using engine::KvTransaction;

Result<uint32_t> length_by_maps(KvTransaction& transaction, const ChainChunk& at) {
  const EncodedMapKey begin = encode_key({at.chain, at.chunk, 0});
  const EncodedMapKey end = encode_key({at.chain, at.chunk, limits::kChunkMapsMax});
  uint32_t length = 0;
  Status bad;
  TRY(transaction.scan(as_view(begin), as_view(end), [&](std::string_view k, std::string_view v) {
    const auto map_key = decode_key(k);
    MapPlaces places;
    bad = map_key ? decode_places(*map_key, v, places) : Status(Code::corrupt);
    if (bad.ok()) {
      length = static_cast<uint32_t>(map_key->index * limits::kMapBytes) + places.valid_end;
    }
    return bad.ok();
  }));
  TRY(bad);
  return length;
}

namespace {

// Numbers of blocks of a chunk, in order.
bool are_blocks(std::span<const uint32_t> blocks) {
  const auto in_order = std::adjacent_find(blocks.begin(), blocks.end(), std::greater_equal<>());
  return in_order == blocks.end() && (blocks.empty() || blocks.back() < limits::kChunkBlocksMax);
}

}  // namespace

Status ChainLoad::body(KvTransaction& transaction) {
  state.reset();
  length = 0;
  const std::string key = encode_chunk_key(kChunkKeyType, at);
  TRY_ASSIGN(const auto record, transaction.get(key));
  if (!record) {
    TRY_ASSIGN(length, length_by_maps(transaction, at));
    return Code::ok;
  }
  ChunkState decoded;
  TRY(decode_chunk_record(key, *record, decoded));
  state = decoded;
  return Code::ok;
}

Chains::~Chains() {
  while (idle_.pop_front() != nullptr) continue;
  for (const auto& [address, task] : tasks_) {
    if (task->durable.linked()) task->durable.unlink();
    if (task->read.linked()) task->read.unlink();
  }
  for (const auto& [at, entry] : entries_) {
    if (entry->load.flush.linked()) entry->load.flush.unlink();
  }
  for (const auto& [address, list] : lists_) {
    if (list->flush.linked()) list->flush.unlink();
  }
}

ChainEntry& Chains::entry(const ChainChunk& at) {
  std::unique_ptr<ChainEntry>& found = entries_[at];
  if (found == nullptr) {
    found = std::make_unique<ChainEntry>();
    found->at = at;
  } else if (found->linked()) {
    found->unlink();
    --idle_count_;
  }
  return *found;
}

// What nothing uses any more may go; some stay for a while.
void Chains::settle(ChainEntry& entry) {
  const bool used = !entry.waiting.empty() || entry.pending != nullptr || entry.reads > 0 ||
                    entry.preparing || entry.exclusive || entry.unsaved > 0 || entry.loading;
  if (used || entry.linked()) return;
  if (!entry.known) {
    entries_.erase(ChainChunk(entry.at));
    return;
  }
  idle_.push_back(entry);
  if (++idle_count_ <= limits::kChainChunksIdle) return;
  --idle_count_;
  entries_.erase(ChainChunk(idle_.pop_front()->at));
}

ChainTask& Chains::task(ChainTaskKind kind, const ChainChunk& at, engine::Op* op) {
  auto made = std::make_unique<ChainTask>();
  ChainTask& task = *made;
  tasks_.emplace(&task, std::move(made));
  task.kind = kind;
  task.chains = this;
  task.durable.owner = task.read.owner = &task;
  task.durable.completion = [](engine::Op& done) {
    ChainTask& its = done.owner_as<ChainTask>();
    its.chains->on_durable(its);
  };
  task.read.completion = [](engine::Op& done) {
    ChainTask& its = done.owner_as<ChainTask>();
    its.chains->on_read(its);
  };
  task.op = op;
  task.entry = &entry(at);
  return task;
}

void Chains::enqueue(ChainTask& task) {
  ChainEntry& entry = *task.entry;
  entry.waiting.push_back(&task);
  pump(entry);
}

void Chains::end(ChainTask& task, Status status) {
  if (task.doomed && core_.failed.ok()) {
    core_.committer.wait_for_mark(*task.op, status);
  } else if (task.op != nullptr) {
    core_.loop.complete(*task.op, status);
  }
  ASSERT(task.request == nullptr);
  tasks_.erase(&task);
  core_.check_closed();
}

// Begins what may begin.
void Chains::pump(ChainEntry& entry) {
  if (!core_.failed.ok()) refuse_waiting(entry);
  while (!entry.waiting.empty() && !entry.exclusive) {
    if (!entry.known) {
      start_load(entry);
      return;
    }
    ChainTask& next = *entry.waiting.front();
    const bool alone = is_alone(next.kind);
    const bool waits_for_prepare =
        next.kind != ChainTaskKind::look && next.kind != ChainTaskKind::read && entry.preparing;
    if (waits_for_prepare || (alone && entry.reads > 0)) return;
    entry.waiting.pop_front();
    if (begin(next)) return;
  }
  settle(entry);
}

// True if the entry may be gone, or is somebody's who goes on with it.
bool Chains::begin(ChainTask& task) {
  ChainEntry& entry = *task.entry;
  switch (task.kind) {
    case ChainTaskKind::look:
      static_cast<LookOp&>(*task.op).state = entry.state;
      end(task, Code::ok);
      return false;
    case ChainTaskKind::read:
      static_cast<CopyReadOp&>(*task.op).state = entry.state;
      ++entry.reads;
      with_request(task);
      return false;
    case ChainTaskKind::read_pending:
      begin_pending_read(task);
      return false;
    case ChainTaskKind::prepare:
      entry.preparing = true;
      with_request(task);
      return false;
    case ChainTaskKind::forget:
      forget_pending(task);
      return false;
    case ChainTaskKind::commit:
      // Its prepare failed, if there is none: whoever commits it learns of that.
      if (entry.pending == nullptr) {
        end(task, Code::ok);
        return false;
      }
      [[fallthrough]];
    case ChainTaskKind::heal:
      if (task.kind == ChainTaskKind::heal && task.state.committed != entry.state.committed) {
        end(task, Code::stale);
        return false;
      }
      [[fallthrough]];
    case ChainTaskKind::replace:
      entry.exclusive = true;
      with_request(task);
      return true;
  }
  return false;
}

void Chains::refuse_waiting(ChainEntry& entry) {
  for (ChainTask* task : std::exchange(entry.waiting, {})) end(*task, core_.refusal());
}

void Chains::start_load(ChainEntry& entry) {
  if (entry.loading) return;
  entry.loading = true;
  ++loads_;
  entry.load.at = entry.at;
  entry.load.mode = KvMode::read;
  entry.load.home = &core_.loop;
  entry.load.flushed = false;
  entry.load.owner = this;
  entry.load.completion = [](engine::Op& op) {
    auto& load = static_cast<ChainLoad&>(op);
    Chains& self = op.owner_as<Chains>();
    self.on_loaded(*self.entries_.at(load.at));
  };
  core_.kv.submit(entry.load);
}

void Chains::take_loaded(ChainEntry& entry) {
  entry.known = true;
  entry.recorded = entry.load.state.has_value();
  entry.state = entry.load.state.value_or(ChunkState{});
  if (!entry.recorded && entry.load.length > 0) {
    entry.state = {kUnnamed, false, entry.load.length};
  }
}

void Chains::on_loaded(ChainEntry& entry) {
  ASSERT(entry.loading && !entry.known && loads_ > 0);
  ChainLoad& load = entry.load;
  // Its maps may be newer in memory than in the database.
  if (load.status.ok() && !load.state && !std::exchange(load.flushed, true) &&
      core_.committer.holds(entry.at)) {
    load.flush.owner = &load;
    load.flush.completion = [](engine::Op& op) {
      auto& its = op.owner_as<ChainLoad>();
      Chains& self = its.owner_as<Chains>();
      if (op.status.ok()) return self.core_.kv.submit(its);
      its.status = op.status;
      self.on_loaded(*self.entries_.at(its.at));
    };
    core_.committer.wait(load.flush);
    return;
  }
  entry.loading = false;
  --loads_;
  if (entry.load.status.ok()) {
    take_loaded(entry);
  } else {
    const Status status = entry.load.status;
    for (ChainTask* task : std::exchange(entry.waiting, {})) on_failed(*task, status);
  }
  pump(entry);
  core_.check_closed();
}

void Chains::with_request(ChainTask& task) {
  Request* const request = without_request_.empty() ? core_.requests.take() : nullptr;
  if (request != nullptr) return start(task, *request);
  without_request_.push_back(&task);
}

void Chains::admit() {
  // What ends at once calls this again; the loop below goes on.
  if (admitting_) return;
  admitting_ = true;
  while (!without_request_.empty()) {
    Request* const request = core_.requests.take();
    if (request == nullptr) break;
    ChainTask& next = *without_request_.front();
    without_request_.pop_front();
    start(next, *request);
  }
  admitting_ = false;
}

void Chains::start(ChainTask& task, Request& request) {
  task.request = &request;
  request.op = &task.read;
  request.chain = task.entry->at.chain;
  request.chunk = task.entry->at.chunk;
  request.refuse_holes = request.probe = request.to_end = request.durable = false;
  request.checksums = nullptr;
  request.memory = {};
  if (task.kind == ChainTaskKind::read || task.kind == ChainTaskKind::read_pending) {
    start_read(task);
  } else {
    core_.chain_updates.start(task);
  }
}

void Chains::submit(PrepareOp& op) {
  const auto drops_it = [](const UpdatePart& part) { return part.kind == UpdateKind::drop; };
  const bool good = !op.parts.empty() && op.parts.size() <= limits::kUpdateParts &&
                    std::all_of(op.parts.begin(), op.parts.end(), is_good) &&
                    (drops(op.parts) || std::none_of(op.parts.begin(), op.parts.end(), drops_it)) &&
                    op.bytes.length == update_bytes(op.parts) &&
                    op.bytes.kind == engine::MemoryKind::host;
  if (!core_.failed.ok()) return core_.loop.complete(op, core_.refusal());
  if (!good) return core_.loop.complete(op, Code::invalid_argument);
  ASSERT(!pending_.contains(op.at));
  ChainTask& made = task(ChainTaskKind::prepare, op.at, &op);
  made.update = std::make_shared<PendingRecord>();
  made.update->name = op.name;
  made.update->parts.assign(op.parts.begin(), op.parts.end());
  made.bytes = op.bytes;
  made.keep_damage = op.keep_damage;
  pending_[op.at] = {op.at, op.name, made.update->parts};
  enqueue(made);
}

void Chains::submit(ReplaceOp& op) {
  if (!core_.failed.ok()) return core_.loop.complete(op, core_.refusal());
  const bool good = op.bytes.length == op.state.length &&
                    op.state.length <= limits::kChunkBytesMax &&
                    (!op.state.removed || op.state.length == 0) && are_blocks(op.damaged) &&
                    (op.state.length == 0 || op.bytes.kind == engine::MemoryKind::host);
  if (!good) return core_.loop.complete(op, Code::invalid_argument);
  ChainTask& made = task(ChainTaskKind::replace, op.at, &op);
  made.update = std::make_shared<PendingRecord>();
  UpdatePart part;
  part.kind = UpdateKind::remove;
  made.update->parts.push_back(part);
  if (op.state.length > 0) {
    part.kind = UpdateKind::write;
    part.end = op.state.length;
    made.update->parts.push_back(part);
  }
  made.state = op.state;
  made.slots.assign(op.slots.begin(), op.slots.end());
  made.blocks.assign(op.damaged.begin(), op.damaged.end());
  made.bytes = op.bytes;
  pending_.erase(op.at);
  enqueue(made);
}

void Chains::submit(HealOp& op) {
  if (!core_.failed.ok()) return core_.loop.complete(op, core_.refusal());
  const bool good = !op.blocks.empty() && are_blocks(op.blocks) &&
                    op.bytes.length == op.blocks.size() * limits::kBlockBytes &&
                    op.bytes.kind == engine::MemoryKind::host;
  if (!good) return core_.loop.complete(op, Code::invalid_argument);
  ChainTask& made = task(ChainTaskKind::heal, op.at, &op);
  made.update = std::make_shared<PendingRecord>();
  made.state.committed = op.committed;
  made.blocks.assign(op.blocks.begin(), op.blocks.end());
  made.bytes = op.bytes;
  enqueue(made);
}

void Chains::commit(const ChainChunk& at) {
  if (!core_.failed.ok()) return;
  ASSERT(pending_.contains(at));
  pending_.erase(at);
  enqueue(task(ChainTaskKind::commit, at, nullptr));
}

void Chains::forget(const ChainChunk& at, engine::Op* durable) {
  if (!core_.failed.ok()) {
    if (durable != nullptr) core_.loop.complete(*durable, core_.refusal());
    return;
  }
  pending_.erase(at);
  enqueue(task(ChainTaskKind::forget, at, durable));
}

void Chains::forget_pending(ChainTask& task) {
  ChainEntry& entry = *task.entry;
  if (entry.pending != nullptr) {
    const auto pending = std::exchange(entry.pending, nullptr);
    for (const PendingBlock& one : pending->blocks) {
      core_.committer.add_freed({one.ref.physical, 1});
    }
    ASSERT(core_.mapped_blocks >= pending->blocks.size());
    core_.mapped_blocks -= pending->blocks.size();
    core_.committer.add_chain_records(entry.at,
                                      {{encode_chunk_key(kPendingKeyType, entry.at), ""}});
    core_.committer.note_chain_commit(entry.at.chunk.inode);
    note_unsaved(entry);
    if (task.op != nullptr) return core_.committer.wait(task.durable);
  }
  end(task, Code::ok);
}

void Chains::on_failed(ChainTask& task, Status status) {
  ChainEntry& entry = *task.entry;
  if (task.kind == ChainTaskKind::prepare) {
    const auto its = pending_.find(entry.at);
    if (its != pending_.end() && its->second.name == task.update->name) pending_.erase(its);
    entry.preparing = false;
  }
  if (is_alone(task.kind)) entry.exclusive = false;
  end(task, status);
}

void Chains::on_pending(ChainTask& task, std::optional<uint64_t> log_number) {
  ChainEntry& entry = *task.entry;
  ASSERT(entry.preparing && entry.pending == nullptr);
  entry.preparing = false;
  entry.pending = task.update;
  note_unsaved(entry);
  if (log_number) return core_.write_log.wait(task.durable, *log_number);
  core_.committer.wait(task.durable);
  if (task.update->blocks.size() <= limits::kLogChainBlocks) core_.write_log.note_durable();
}

void Chains::on_durable(ChainTask& task) {
  ChainEntry& entry = *task.entry;
  const Status status = task.durable.status;
  const bool undo = !status.ok() && task.kind == ChainTaskKind::prepare && core_.failed.ok();
  const auto its = pending_.find(entry.at);
  // Without room it is as if it had not been; whoever committed or forgot it meanwhile has his way.
  if (undo && its != pending_.end() && its->second.name == task.update->name) forget(entry.at);
  end(task, status);
}

void Chains::on_changed(ChainTask& task, const ChunkState& state, bool recorded) {
  ChainEntry& entry = *task.entry;
  ASSERT(entry.exclusive);
  entry.exclusive = false;
  entry.pending = nullptr;
  entry.state = state;
  entry.recorded = recorded;
  note_unsaved(entry);
  if (task.kind == ChainTaskKind::commit) return end(task, Code::ok);
  core_.committer.wait(task.durable);
}

void Chains::on_healed(ChainTask& task) {
  ASSERT(task.entry->exclusive && task.entry->state.committed == task.state.committed);
  task.entry->exclusive = false;
  core_.committer.wait(task.durable);
}

bool Chains::heal(const ChainChunk& at, uint32_t block, std::function<void(bool)> ended) {
  if (!healer_) return false;
  healer_(at, block, std::move(ended));
  return true;
}

void Chains::note_unsaved(ChainEntry& entry) {
  ++entry.unsaved;
  unsaved_.insert(entry.at);
}

// What is remembered of a chunk without a record may be wrong from now on.
void Chains::on_plain_change(const ChainChunk& at) {
  const auto found = entries_.find(at);
  if (found == entries_.end() || found->second->recorded || !found->second->linked()) return;
  found->second->unlink();
  --idle_count_;
  entries_.erase(found);
}

void Chains::on_saved(const ChainChunk& at) {
  ChainEntry& its = *entries_.at(at);
  ASSERT(its.unsaved > 0);
  if (--its.unsaved > 0) return;
  unsaved_.erase(at);
  settle(its);
}

bool Chains::keep(const SlotRecord& record) {
  const SlotKey key = key_of(record);
  const auto known = slots_.find(key);
  if (known != slots_.end()) {
    if (!is_newer(record, known->second)) return false;
    slots_at_.erase({known->second.at, key});
  } else if (record.request.sequence == 0) {
    return false;  // it is nobody's
  }
  slots_[key] = record;
  slots_at_.emplace(record.at, key);
  return true;
}

}  // namespace penstock::store
