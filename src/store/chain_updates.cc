#include "chain_updates.h"

#include "core.h"
#include "update_maps.h"

#include <algorithm>
#include <cstring>

namespace penstock::store {

using limits::kBlockBytes;
using limits::kChunkBytesMax;
using limits::kMapBlocks;

namespace {

ChainRecord erasure(char type, const ChainChunk& at) {
  return {encode_chunk_key(type, at), ""};
}

ChainRecord record_of(const ChainChunk& at, const ChunkState& state) {
  std::string key = encode_chunk_key(kChunkKeyType, at);
  std::string record = encode_chunk_record(key, state);
  return {std::move(key), std::move(record)};
}

}  // namespace

void ChainUpdates::start(ChainTask& task) {
  Request& request = *task.request;
  const ChainEntry& entry = *task.entry;
  if (task.kind == ChainTaskKind::commit) task.update = entry.pending;
  // A chunk without a record may have any data: its maps say how long it is.
  const bool recorded = entry.recorded;
  const auto longest = static_cast<uint32_t>(kChunkBytesMax);
  UpdateEffect::Range range{0, longest};
  if (task.kind == ChainTaskKind::heal) {
    constexpr auto kBytes = static_cast<uint32_t>(kBlockBytes);
    range = {task.blocks.front() * kBytes, (task.blocks.back() + 1) * kBytes};
  } else {
    task.effect.emplace(task.update->parts, recorded ? entry.state.length : longest);
    if (recorded) range = task.effect->range(entry.state.length);
  }
  request.kind = RequestKind::chain;
  set_range(request, range.begin, range.end);
  request.chain_task = &task;
  request.new_blocks = request.block_count;
  request.step = RequestStep::arrays;
  step(request);
}

void ChainUpdates::fail(Request& request, Status status) {
  if (request.status.ok()) request.status = status;
}

void ChainUpdates::step(Request& request) {
  ChainTask& task = *request.chain_task;
  const bool commits = task.kind == ChainTaskKind::commit;
  if (!core_.failed.ok()) fail(request, core_.refusal());
  if (request.step == RequestStep::transfer) return pump(request);
  if (!commits && core_.committer.full()) fail(request, Code::no_space);
  if (!request.status.ok()) return commits ? retry(request) : fail_task(request);
  switch (request.step) {
    case RequestStep::arrays:
      if (!core_.take_arrays(request)) return;
      request.step = RequestStep::lock;
      request.lock.begin = request.first_block;
      request.lock.end = request.first_block + request.block_count;
      request.lock.owner = &request;
      if (!core_.locks.acquire(request.at(), request.lock)) return;
      [[fallthrough]];
    case RequestStep::lock:
      // Resumed here once the request holds the range.
      request.step = RequestStep::maps;
      [[fallthrough]];
    case RequestStep::maps:
      if (!core_.maps.hold(request, false)) return;
      plan(task);
      request.step = RequestStep::space;
      [[fallthrough]];
    case RequestStep::space:
      if (!request.has_space && !core_.updater.wait_for_space(request)) return;
      request.step = RequestStep::transfer;
      if (core_.write_log.take(request)) task.log_bytes.resize(request.new_blocks * kBlockBytes);
      return pump(request);
    default:
      instant(request);
  }
}

uint32_t ChainUpdates::length_before(const Request& request) const {
  uint64_t length = 0;
  for (uint32_t i = 0; i < request.map_count; ++i) {
    const CachedMap* const map = request.maps[i];
    if (map == nullptr || map->empty()) continue;
    length = uint64_t{map->key.index} * limits::kMapBytes + map->valid_end;
  }
  return static_cast<uint32_t>(length);
}

// What becomes of which block, now that it is known what is there.
void ChainUpdates::plan(ChainTask& task) {
  Request& request = *task.request;
  if (task.kind == ChainTaskKind::heal) return plan_heal(task);
  if (!task.entry->recorded) task.effect.emplace(task.update->parts, length_before(request));
  request.new_blocks = 0;
  task.writes.clear();
  if (task.kind == ChainTaskKind::commit) return;
  const uint32_t end = request.first_block + request.block_count;
  for (uint32_t block = request.first_block; block < end; ++block) {
    const UpdateEffect::Block becomes = task.effect->block(block);
    const bool old = !old_ref(request, block).hole();
    const bool written =
        becomes == UpdateEffect::Block::written || becomes == UpdateEffect::Block::combined;
    if (!written && !(becomes == UpdateEffect::Block::trimmed && old)) continue;
    const bool whole = becomes == UpdateEffect::Block::written;
    const bool lost = std::binary_search(task.blocks.begin(), task.blocks.end(), block);
    task.writes.push_back({block, !whole && old, whole, lost});
  }
  request.new_blocks = static_cast<uint32_t>(task.writes.size());
}

// Only what is there can have been damaged.
void ChainUpdates::plan_heal(ChainTask& task) {
  Request& request = *task.request;
  task.writes.clear();
  for (uint32_t given = 0; given < task.blocks.size(); ++given) {
    const uint32_t block = task.blocks[given];
    if (old_ref(request, block).hole()) continue;
    task.writes.push_back({.block = block, .whole = true, .given = given});
  }
  request.new_blocks = static_cast<uint32_t>(task.writes.size());
}

BlockRef ChainUpdates::old_ref(const Request& request, uint32_t block) const {
  const CachedMap* const map = request.maps[block / kMapBlocks - request.first_map];
  return map == nullptr ? BlockRef() : map->blocks[block % kMapBlocks];
}

void ChainUpdates::pump(Request& request) {
  if (request.linked()) request.unlink();
  while (request.next < request.new_blocks && request.status.ok()) {
    if (request.ios >= limits::kIosPerRequest || !start_next(request)) return;
  }
  if (request.log_step == LogStep::held) {
    if (request.status.ok()) return;
    core_.write_log.leave(request);
  }
  if (request.log_step == LogStep::taken && !join_log(request)) return;
  if (request.ios > 0) return;
  if (!core_.failed.ok()) fail(request, core_.refusal());
  const bool commits = request.chain_task->kind == ChainTaskKind::commit;
  if (!request.status.ok()) return commits ? retry(request) : fail_task(request);
  request.step = RequestStep::apply;
  instant(request);
}

// False if that must wait: pump() is called again.
bool ChainUpdates::join_log(Request& request) {
  ChainTask& task = *request.chain_task;
  if (!request.status.ok()) {
    core_.write_log.leave(request);
    return true;
  }
  if (request.old_reads > 0) return false;
  if (task.record.empty()) encode(task);
  if (!core_.write_log.join(request)) return false;
  task.log_bytes = {};
  return true;
}

// The next block that combines old and new bytes, or blocks without old ones that lie together on
// the disk.
bool ChainUpdates::start_next(Request& request) {
  ChainTask& task = *request.chain_task;
  const uint32_t first = request.next;
  const BlockRef* const refs = request.blocks;
  const bool combines = task.writes[first].combines;
  uint32_t count = 1;
  while (!combines && count < limits::kStageBlocks && first + count < request.new_blocks &&
         !task.writes[first + count].combines &&
         refs[first + count].physical == refs[first].physical + count &&
         refs[first + count].physical % limits::kDataFileBlocks != 0) {
    ++count;
  }
  Io* const io = core_.transfers.take(request, true);
  if (io == nullptr) return false;
  io->first = first;
  io->count = count;
  request.next = first + count;
  if (combines) {
    io->step = IoStep::old;
    ++request.old_reads;
    core_.transfers.start(*io, engine::DiskOpKind::read,
                          old_ref(request, task.writes[first].block).physical,
                          core_.transfers.stage_ref(*io, 0, 1));
    return true;
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (task.writes[first + i].whole) continue;
    std::memset(io->stage + i * kBlockBytes, 0, kBlockBytes);
  }
  start_write(*io);
  return true;
}

// The stage holds what the blocks were. The checksums are those of what is written: nobody else
// knows the stage.
void ChainUpdates::start_write(Io& io) {
  Request& request = *io.request;
  ChainTask& task = *request.chain_task;
  ASSERT(request.has_space && io.stage != nullptr);
  for (uint32_t i = 0; i < io.count; ++i) {
    std::byte* const content = io.stage + i * kBlockBytes;
    const ChainTask::Write& write = task.writes[io.first + i];
    if (task.kind == ChainTaskKind::heal) {
      std::memcpy(content, task.bytes.data + write.given * kBlockBytes, kBlockBytes);
    } else {
      task.effect->apply(write.block, task.bytes.bytes(), content);
    }
    const uint32_t crc = crc32c({content, kBlockBytes});
    request.blocks[io.first + i].crc = write.lost ? ~crc : crc;
  }
  if (request.log_step == LogStep::taken) {
    std::memcpy(task.log_bytes.data() + io.first * kBlockBytes, io.stage, io.count * kBlockBytes);
  }
  io.step = IoStep::write;
  core_.transfers.start(io, engine::DiskOpKind::write, request.blocks[io.first].physical,
                        core_.transfers.stage_ref(io, 0, io.count));
}

void ChainUpdates::on_io(Io& io) {
  Request& request = *io.request;
  if (io.step != IoStep::write) return on_old(io);
  if (!io.status.ok()) fail(request, io.status);
  core_.transfers.give(io);
  pump(request);
}

void ChainUpdates::on_old(Io& io) {
  Request& request = *io.request;
  const uint32_t block = request.chain_task->writes[io.first].block;
  const BlockRef old = old_ref(request, block);
  Status status = io.status;
  if (status.ok() && io.transferred != kBlockBytes) status = Code::io_error;
  if (status.ok() && !core_.failed.ok()) status = core_.refusal();
  const bool good = status.ok() && crc32c({io.stage, kBlockBytes}) == old.crc;
  if (good) {
    ASSERT(request.old_reads > 0);
    --request.old_reads;
    start_write(io);
    if (request.log_step == LogStep::taken) pump(request);
    return;
  }
  if (status.ok() && io.step == IoStep::old) {
    core_.counters.repeated_reads.add();
    io.step = IoStep::old_reread;
    core_.transfers.start(io, engine::DiskOpKind::read, old.physical,
                          core_.transfers.stage_ref(io, 0, 1));
    return;
  }
  const bool unreadable = status.code() == Code::io_error;
  if (status.ok() || unreadable) {
    status = Code::corrupt;
    core_.report_corrupt(request, block, old.physical);
    if (request.chain_task->keep_damage) return write_lost(io);
  }
  fail(request, status);
  --request.old_reads;
  core_.transfers.give(io);
  pump(request);
}

// What stays of the block is not known: the new bytes are written beside zeros, and it will not
// verify. The log would bring it back as if it did.
void ChainUpdates::write_lost(Io& io) {
  Request& request = *io.request;
  ASSERT(request.log_step == LogStep::none || request.log_step == LogStep::taken);
  if (request.log_step == LogStep::taken) core_.write_log.leave(request);
  request.chain_task->writes[io.first].lost = true;
  std::memset(io.stage, 0, kBlockBytes);
  ASSERT(request.old_reads > 0);
  --request.old_reads;
  start_write(io);
}

// All of it happens now, in one turn of the loop.
void ChainUpdates::instant(Request& request) {
  ChainTask& task = *request.chain_task;
  ASSERT(request.ios == 0 && request.next == request.new_blocks && request.status.ok());
  ASSERT(request.lock.held && request.maps_held == request.map_count);
  // What has joined the log must not wait: a group may wait for it.
  const bool joined = request.log_step == LogStep::joined;
  if (!joined && !core_.committer.room()) return core_.committer.wait_for_room(request);
  ChainEntry& entry = *task.entry;
  switch (task.kind) {
    case ChainTaskKind::prepare:
      become_pending(task);
      break;
    case ChainTaskKind::commit:
      commit(task);
      break;
    case ChainTaskKind::heal:
      heal(task);
      break;
    default:
      replace(task);
      break;
  }
  core_.chains.goes_on(entry);
}

void ChainUpdates::list_blocks(ChainTask& task) {
  const Request& request = *task.request;
  ASSERT(task.update->blocks.empty());
  for (uint32_t i = 0; i < request.new_blocks; ++i) {
    task.update->blocks.push_back({task.writes[i].block, request.blocks[i]});
  }
}

// The pending record, once the checksums of all blocks are known.
void ChainUpdates::encode(ChainTask& task) {
  list_blocks(task);
  task.record = encode_pending(encode_chunk_key(kPendingKeyType, task.entry->at), *task.update);
}

void ChainUpdates::become_pending(ChainTask& task) {
  Request& request = *task.request;
  if (task.record.empty()) encode(task);
  request.has_space = false;
  for (const PendingBlock& one : task.update->blocks) {
    core_.committer.add_block(one.ref.physical);
    ++core_.mapped_blocks;
  }
  const ChainChunk at = task.entry->at;
  core_.committer.add_chain_records(
      at, {{encode_chunk_key(kPendingKeyType, at), std::exchange(task.record, {})}});
  std::optional<uint64_t> log_number;
  if (request.log_step == LogStep::joined) {
    log_number = request.log_number;
    core_.write_log.resolve(request);
  } else {
    core_.committer.note_unlogged(at);
  }
  release(request);
  core_.chains.on_pending(task, log_number);
}

void ChainUpdates::add_slot(const SlotRecord& slot, std::vector<ChainRecord>& records) {
  if (!core_.chains.keep(slot)) return;
  std::string key = encode_slot_key(slot.at.chain, slot.request.node, slot.request.slot);
  std::string record = encode_slot(key, slot);
  records.push_back({std::move(key), std::move(record)});
}

void ChainUpdates::commit(ChainTask& task) {
  const ChainChunk at = task.entry->at;
  const PendingRecord& update = *task.update;
  // They were counted when they became pending.
  ASSERT(core_.mapped_blocks >= update.blocks.size());
  core_.mapped_blocks -= update.blocks.size();
  change_maps(task);
  core_.committer.note_chain_commit(at.chunk.inode);
  // An entry that follows this one would be taken for one that is in the database.
  const bool counts_on = update.name.counter > task.entry->state.committed.counter;
  const bool recorded = !drops(update.parts);
  if (!counts_on || !recorded) core_.committer.note_unlogged(at);
  const ChunkState state{update.name, task.effect->removed(), task.effect->length()};
  std::vector<ChainRecord> records = {erasure(kPendingKeyType, at),
                                      recorded ? record_of(at, state) : erasure(kChunkKeyType, at)};
  if (recorded) {
    for (const UpdatePart& part : update.parts) add_slot({part.request, at, update.name}, records);
  }
  core_.committer.add_chain_records(at, std::move(records));
  release(*task.request);
  core_.chains.on_changed(task, recorded ? state : ChunkState{}, recorded);
}

void ChainUpdates::replace(ChainTask& task) {
  const ChainChunk at = task.entry->at;
  list_blocks(task);
  task.request->has_space = false;
  change_maps(task);
  core_.committer.note_unlogged(at);
  if (const auto pending = task.entry->pending) {
    for (const PendingBlock& one : pending->blocks) {
      core_.committer.add_freed({one.ref.physical, 1});
    }
    core_.mapped_blocks -= pending->blocks.size();
  }
  const bool recorded = task.state.committed != UpdateName{};
  std::vector<ChainRecord> records = {
      erasure(kPendingKeyType, at),
      recorded ? record_of(at, task.state) : erasure(kChunkKeyType, at)};
  for (const SlotRecord& slot : task.slots) add_slot(slot, records);
  core_.committer.add_chain_records(at, std::move(records));
  release(*task.request);
  core_.chains.on_changed(task, recorded ? task.state : ChunkState{}, recorded);
}

// Other blocks with the same bytes as the damaged ones had. Name, length and records stay.
void ChainUpdates::heal(ChainTask& task) {
  const Request& request = *task.request;
  task.request->has_space = false;
  for (uint32_t i = 0; i < request.map_count; ++i) {
    if (request.maps[i] == nullptr) continue;
    CachedMap& map = *request.maps[i];
    const Updater::Before before = core_.updater.before_change(map);
    bool any = false;
    for (uint32_t w = 0; w < request.new_blocks; ++w) {
      const uint32_t block = task.writes[w].block;
      if (block / kMapBlocks != map.key.index) continue;
      core_.updater.replace(map, block % kMapBlocks, request.blocks[w]);
      any = true;
    }
    if (any) core_.updater.changed(map, before);
  }
  core_.committer.note_unlogged(task.entry->at);
  release(*task.request);
  core_.chains.on_healed(task);
}

void ChainUpdates::change_maps(ChainTask& task) {
  const Request& request = *task.request;
  for (uint32_t i = 0; i < request.map_count; ++i) change_map(task, i);
}

void ChainUpdates::change_map(ChainTask& task, uint32_t i) {
  Request& request = *task.request;
  const std::vector<PendingBlock>& blocks = task.update->blocks;
  const BlockRange range{request.first_block, request.first_block + request.block_count};
  const uint32_t index = request.first_map + i;
  const bool has_new = any_in(blocks, within_map(range, index));
  if (request.maps[i] == nullptr && !has_new) return;
  CachedMap& map = request.maps[i] != nullptr ? *request.maps[i] : core_.maps.make(request, i);
  const Updater::Before before = core_.updater.before_change(map);
  const bool any = store::change_map(
      *task.effect, blocks, range, index, map,
      [&](uint32_t block, BlockRef ref) { core_.updater.replace(map, block, ref); });
  if (any) core_.updater.changed(map, before);
}

// Reading maps failed. The commit has happened for all who asked, so it is tried again; a target
// that cannot do it takes no more updates.
void ChainUpdates::retry(Request& request) {
  ChainTask& task = *request.chain_task;
  const Status status = std::exchange(request.status, Status());
  if (core_.failed.ok() && ++task.attempts < limits::kApplyAttemptsMax &&
      status.code() != Code::closed) {
    core_.maps.let_go(request);
    core_.resume_later(request);
    return;
  }
  if (core_.failed.ok()) core_.committer.fail(status);
  request.status = status;
  fail_task(request);
}

void ChainUpdates::fail_task(Request& request) {
  ChainTask& task = *request.chain_task;
  ChainEntry& entry = *task.entry;
  const Status status = request.status;
  if (request.log_step == LogStep::joined) {
    // As in Updater::end(): a crash brings this back.
    if (request.has_space) core_.updater.retire_space(request);
    core_.committer.note_unlogged(request.at());
    core_.write_log.resolve(request);
    task.doomed = true;
  } else if (request.log_step != LogStep::none) {
    core_.write_log.leave(request);
  }
  if (request.has_space) {
    core_.updater.give_space_back(request);
    core_.updater.space_changed();
  }
  if (status.code() == Code::no_space) core_.counters.no_space.add();
  release(request);
  core_.chains.on_failed(task, status);
  core_.chains.goes_on(entry);
}

void ChainUpdates::release(Request& request) {
  request.chain_task->request = nullptr;
  core_.maps.let_go(request);
  if (request.lock.held) {
    core_.locks.release(request.lock, [this](RangeLock& granted) {
      core_.resume_later(*static_cast<Request*>(granted.owner));
    });
  }
  core_.give_arrays(request);
  ASSERT(!request.has_space && !request.linked());
  core_.requests.give(request);
  core_.on_request_free(core_);
}

}  // namespace penstock::store
