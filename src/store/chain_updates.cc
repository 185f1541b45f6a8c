#include "chain_updates.h"

#include "core.h"

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
  task.effect.emplace(task.update->parts, recorded ? entry.state.length : longest);
  uint32_t begin = recorded ? task.effect->begin() : 0;
  uint32_t end = longest;
  if (recorded) {
    end = std::min(task.effect->end(), std::max(entry.state.length, task.effect->length()));
    begin = std::min(begin, longest - 1);
    end = std::max(end, begin + 1);
  }
  request.kind = RequestKind::chain;
  set_range(request, begin, end);
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
    task.writes.push_back({block, becomes != UpdateEffect::Block::written && old});
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
  if (request.ios > 0) return;
  if (!core_.failed.ok()) fail(request, core_.refusal());
  const bool commits = request.chain_task->kind == ChainTaskKind::commit;
  if (!request.status.ok()) return commits ? retry(request) : fail_task(request);
  request.step = RequestStep::apply;
  instant(request);
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
    core_.transfers.start(*io, engine::DiskOpKind::read,
                          old_ref(request, task.writes[first].block).physical,
                          core_.transfers.stage_ref(*io, 0, 1));
    return true;
  }
  std::memset(io->stage, 0, count * kBlockBytes);
  start_write(*io);
  return true;
}

// The stage holds what the blocks were. The checksums are those of what is written: nobody else
// knows the stage.
void ChainUpdates::start_write(Io& io) {
  Request& request = *io.request;
  const ChainTask& task = *request.chain_task;
  ASSERT(request.has_space && io.stage != nullptr);
  for (uint32_t i = 0; i < io.count; ++i) {
    std::byte* const content = io.stage + i * kBlockBytes;
    task.effect->apply(task.writes[io.first + i].block, task.bytes.bytes(), content);
    request.blocks[io.first + i].crc = crc32c({content, kBlockBytes});
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
  if (good) return start_write(io);
  if (status.ok() && io.step == IoStep::old) {
    core_.counters.repeated_reads.add();
    io.step = IoStep::old_reread;
    core_.transfers.start(io, engine::DiskOpKind::read, old.physical,
                          core_.transfers.stage_ref(io, 0, 1));
    return;
  }
  if (status.ok()) {
    status = Code::corrupt;
    core_.report_corrupt(request, block, old.physical);
  }
  fail(request, status);
  core_.transfers.give(io);
  pump(request);
}

// All of it happens now, in one turn of the loop.
void ChainUpdates::instant(Request& request) {
  ChainTask& task = *request.chain_task;
  ASSERT(request.ios == 0 && request.next == request.new_blocks && request.status.ok());
  ASSERT(request.lock.held && request.maps_held == request.map_count);
  if (!core_.committer.room()) return core_.committer.wait_for_room(request);
  ChainEntry& entry = *task.entry;
  switch (task.kind) {
    case ChainTaskKind::prepare:
      become_pending(task);
      break;
    case ChainTaskKind::commit:
      commit(task);
      break;
    default:
      replace(task);
      break;
  }
  core_.chains.goes_on(entry);
}

void ChainUpdates::list_blocks(ChainTask& task) {
  Request& request = *task.request;
  for (uint32_t i = 0; i < request.new_blocks; ++i) {
    task.update->blocks.push_back({task.writes[i].block, request.blocks[i]});
  }
  request.has_space = false;
}

void ChainUpdates::become_pending(ChainTask& task) {
  list_blocks(task);
  for (const PendingBlock& one : task.update->blocks) {
    core_.committer.add_block(one.ref.physical);
    ++core_.mapped_blocks;
  }
  std::string key = encode_chunk_key(kPendingKeyType, task.entry->at);
  std::string record = encode_pending(key, *task.update);
  core_.committer.add_chain_records(task.entry->at, {{std::move(key), std::move(record)}});
  release(*task.request);
  core_.chains.on_pending(task);
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
  const ChunkState state{update.name, task.effect->removed(), task.effect->length()};
  std::vector<ChainRecord> records = {erasure(kPendingKeyType, at), record_of(at, state)};
  for (const UpdatePart& part : update.parts) add_slot({part.request, at, update.name}, records);
  core_.committer.add_chain_records(at, std::move(records));
  release(*task.request);
  core_.chains.on_changed(task, state, true);
}

void ChainUpdates::replace(ChainTask& task) {
  const ChainChunk at = task.entry->at;
  list_blocks(task);
  change_maps(task);
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

void ChainUpdates::change_maps(ChainTask& task) {
  const Request& request = *task.request;
  for (uint32_t i = 0; i < request.map_count; ++i) change_map(task, i);
  // No record of the log has this.
  core_.committer.note_unlogged(request.chunk.inode);
}

void ChainUpdates::change_map(ChainTask& task, uint32_t i) {
  Request& request = *task.request;
  const std::vector<PendingBlock>& blocks = task.update->blocks;
  const uint32_t index = request.first_map + i;
  const uint32_t first = std::max(request.first_block, index * kMapBlocks);
  const uint32_t end =
      std::min(request.first_block + request.block_count, (index + 1) * kMapBlocks);
  auto at = std::lower_bound(blocks.begin(), blocks.end(), first,
                             [](const PendingBlock& one, uint32_t b) { return one.block < b; });
  const bool has_new = at != blocks.end() && at->block < end;
  if (request.maps[i] == nullptr && !has_new) return;
  CachedMap& map = request.maps[i] != nullptr ? *request.maps[i] : core_.maps.make(request, i);
  const Updater::Before before = core_.updater.before_change(map);
  bool any = false;
  for (uint32_t block = first; block < end; ++block) {
    const uint32_t within = block % kMapBlocks;
    if (at != blocks.end() && at->block == block) {
      core_.updater.replace(map, within, at->ref);
      ++at;
      any = true;
    } else if (!map.blocks[within].hole() &&
               task.effect->block(block) == UpdateEffect::Block::zeros) {
      core_.updater.replace(map, within, BlockRef());
      any = true;
    }
  }
  const uint32_t valid_end = task.effect->valid_end(index, map.valid_end);
  any |= valid_end != map.valid_end;
  map.valid_end = valid_end;
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
