#include "updater.h"

#include "core.h"

#include <algorithm>
#include <cstring>

namespace penstock::store {

using limits::kBlockBytes;
using limits::kMapBlocks;

Updater::~Updater() {
  while (space_waiters_.pop_front() != nullptr) continue;
}

void Updater::start(Request& request) {
  request.step = RequestStep::arrays;
  step(request);
}

void Updater::step(Request& request) {
  if (request.status.ok() && !core_.failed.ok()) fail(request, core_.refusal());
  if (request.step == RequestStep::transfer) {
    pump(request);
    return;
  }
  // Clears go on, since they end what the lack of space came from.
  if (request.status.ok() && request.kind == RequestKind::write && core_.committer.full()) {
    fail(request, Code::no_space);
  }
  if (!request.status.ok()) {
    end(request);
    return;
  }
  switch (request.step) {
    case RequestStep::arrays:
      if (!core_.take_arrays(request)) return;
      request.step = RequestStep::lock;
      if (!lock(request)) return;
      [[fallthrough]];
    case RequestStep::lock:
      // Resumed here once the request holds the range.
      request.step = RequestStep::maps;
      [[fallthrough]];
    case RequestStep::maps:
      if (!core_.maps.hold(request, request.kind == RequestKind::write)) return;
      if (request.kind == RequestKind::clear) find_edges(request);
      request.step = RequestStep::space;
      [[fallthrough]];
    case RequestStep::space:
      if (!request.has_space && !wait_for_space(request)) return;
      request.step = RequestStep::transfer;
      (void)core_.write_log.take(request);
      pump(request);
      return;
    default:
      apply(request);
  }
}

bool Updater::lock(Request& request) {
  request.lock.begin = request.first_block;
  request.lock.end = request.to_end ? UINT32_MAX : request.first_block + request.block_count;
  request.lock.owner = &request;
  return core_.locks.acquire(request.at(), request.lock);
}

BlockRef Updater::old_ref(const Request& request, uint32_t block) const {
  const CachedMap* map = request.maps[block / kMapBlocks - request.first_map];
  return map == nullptr ? BlockRef() : map->blocks[block % kMapBlocks];
}

// Whether a clear that covers the block in part must write it anew; bytes beyond valid_end are
// zeros already.
bool Updater::needs_rewrite(const Request& request, uint32_t block) const {
  if (request.whole(block) || old_ref(request, block).hole()) return false;
  const CachedMap& map = *request.maps[block / kMapBlocks - request.first_map];
  const uint64_t map_begin = uint64_t{map.key.index} * limits::kMapBytes;
  return map_begin + map.valid_end > std::max<uint64_t>(request.begin, block * kBlockBytes);
}

void Updater::find_edges(Request& request) {
  request.edge_count = 0;
  const uint32_t first = request.first_block;
  const uint32_t last = first + request.block_count - 1;
  if (needs_rewrite(request, first)) request.edges[request.edge_count++] = first;
  if (last != first && needs_rewrite(request, last)) request.edges[request.edge_count++] = last;
}

// Fills in where the new blocks are; all or none.
bool Updater::allocate(Request& request) {
  ASSERT(!request.has_space && request.io_blocks() > 0);
  const uint32_t count = request.io_blocks();
  const uint32_t reserve = request.kind == RequestKind::clear ? 0 : limits::kClearReserveBlocks;
  if (count + uint64_t{reserve} > core_.allocator.free_blocks()) return false;
  uint32_t done = 0;
  while (done < count) {
    const auto run = core_.allocator.allocate(count - done);
    ASSERT(run);  // as many were free
    for (uint32_t i = 0; i < run->count; ++i) {
      request.blocks[done++] = {run->first + i, 0};
    }
  }
  request.has_space = true;
  if (core_.allocator.free_blocks() < limits::kGrowAheadBlocks) (void)core_.files.grow();
  return true;
}

bool Updater::wait_for_space(Request& request) {
  if (request.io_blocks() == 0) return true;
  const bool my_turn = space_waiters_.empty() || request.kind == RequestKind::clear;
  if (my_turn && allocate(request)) return true;
  space_waiters_.push_back(request);
  space_changed();
  return false;
}

void Updater::space_changed() {
  if (space_waiters_.empty() || serving_space_) return;
  serving_space_ = true;
  while (Request* request = space_waiters_.first()) {
    if (core_.failed.ok() && !allocate(*request)) {
      const bool committing = core_.committer.holds_freed();
      if (committing) core_.committer.kick();
      const bool hope = core_.files.grow() || committing || core_.reclaim.pending();
      if (hope && !core_.committer.full()) break;
      request->status = Code::no_space;
    }
    request->unlink();
    core_.resume_later(*request);
  }
  serving_space_ = false;
}

// Nothing was written to them yet, or what was written will never be read.
void Updater::give_space_back(Request& request) {
  ASSERT(request.has_space && request.log_step != LogStep::joined);
  request.has_space = false;
  const uint32_t count = request.io_blocks();
  for (uint32_t first = 0; first < count;) {
    uint32_t run = 1;
    while (first + run < count &&
           request.blocks[first + run].physical == request.blocks[first].physical + run) {
      ++run;
    }
    core_.allocator.release({request.blocks[first].physical, run});
    first += run;
  }
}

// A record of the log names them, and recovery would write to them, until a mark behind it is
// committed.
void Updater::retire_space(Request& request) {
  ASSERT(request.has_space && request.log_step == LogStep::joined);
  request.has_space = false;
  for (uint32_t i = 0; i < request.io_blocks(); ++i) {
    core_.committer.add_freed({request.blocks[i].physical, 1});
  }
}

void Updater::pump(Request& request) {
  if (request.linked()) request.unlink();
  while (request.next < request.io_blocks() && request.status.ok()) {
    if (request.ios >= limits::kIosPerRequest || !start_next(request)) {
      // It gives up being logged: the stages that it keeps for the log may be what it and others
      // wait for.
      leave_log(request);
      return;
    }
  }
  if (request.log_step == LogStep::held && !request.status.ok()) leave_log(request);
  if (request.log_step == LogStep::held) return;
  if (request.log_step == LogStep::taken && !join_log(request)) return;
  if (request.ios > 0) return;
  if (request.status.ok() && !core_.failed.ok()) fail(request, core_.refusal());
  if (!request.status.ok()) {
    end(request);
    return;
  }
  request.step = RequestStep::apply;
  apply(request);
}

void Updater::on_log(Request& request) {
  request.in_submit = false;
  pump(request);
}

// Joins the log; false if that must wait: pump() is called again.
bool Updater::join_log(Request& request) {
  if (!request.status.ok()) {
    leave_log(request);
    return true;
  }
  if (request.old_reads > 0 || !core_.write_log.join(request)) return false;
  give_ended(request);
  return true;
}

void Updater::leave_log(Request& request) {
  if (request.log_step != LogStep::taken && request.log_step != LogStep::held) return;
  core_.write_log.leave(request);
  give_ended(request);
}

// Gives back stages of writes that have ended: the log has their bytes, or will not take them.
void Updater::give_ended(Request& request) {
  const uint32_t count = std::exchange(request.log_io_count, uint8_t{0});
  for (uint32_t i = 0; i < count; ++i) {
    if (request.log_ios[i]->ended) core_.transfers.give(*request.log_ios[i]);
  }
}

bool Updater::start_next(Request& request) {
  return request.whole(request.chunk_block(request.next)) ? start_whole(request)
                                                          : start_partial(request);
}

// A block that keeps some of its old bytes.
bool Updater::start_partial(Request& request) {
  const BlockRef old = old_ref(request, request.chunk_block(request.next));
  Io* io = core_.transfers.take(request, true);
  if (io == nullptr) return false;
  io->first = request.next++;
  io->count = 1;
  if (old.hole()) {
    std::memset(io->stage, 0, kBlockBytes);
    write_partial(*io);
  } else {
    io->step = IoStep::old;
    ++request.old_reads;
    core_.transfers.start(*io, engine::DiskOpKind::read, old.physical,
                          core_.transfers.stage_ref(*io, 0, 1));
  }
  return true;
}

void Updater::write_partial(Io& io) {
  Request& request = *io.request;
  const Request::Part part = request.part(request.chunk_block(io.first));
  if (request.kind == RequestKind::write) {
    ASSERT(part.offset_in_memory + part.length <= request.memory.length);
    std::memcpy(io.stage + part.offset_in_block, request.memory.data + part.offset_in_memory,
                part.length);
  } else {
    std::memset(io.stage + part.offset_in_block, 0, part.length);
  }
  BlockRef& ref = request.blocks[io.first];
  ref.crc = crc32c({io.stage, kBlockBytes});
  start_write(io, ref.physical);
}

void Updater::start_write(Io& io, BlockNumber physical) {
  Request& request = *io.request;
  io.step = IoStep::write;
  ASSERT(io.stage != nullptr && request.has_space);
  ASSERT(request.log_step != LogStep::taken || request.log_io_count < limits::kLogBlocks);
  if (request.log_step == LogStep::taken) request.log_ios[request.log_io_count++] = &io;
  core_.transfers.start(io, engine::DiskOpKind::write, physical,
                        core_.transfers.stage_ref(io, 0, io.count));
}

// Whole blocks that lie together on the disk. They go through a stage in any case: what is written
// and what the checksum is taken from must be the same bytes, and a program may change its own
// memory at any moment.
bool Updater::start_whole(Request& request) {
  const uint32_t first = request.next;
  const uint64_t at = request.part(request.first_block + first).offset_in_memory;
  BlockRef* refs = request.blocks;
  uint32_t count = 1;
  while (count < limits::kStageBlocks && first + count < request.block_count &&
         request.whole(request.first_block + first + count) &&
         refs[first + count].physical == refs[first].physical + count &&
         refs[first + count].physical % limits::kDataFileBlocks != 0) {
    ++count;
  }
  Io* io = core_.transfers.take(request, true);
  if (io == nullptr) return false;
  request.next = first + count;
  io->first = first;
  io->count = count;
  ASSERT(at + uint64_t{count} * kBlockBytes <= request.memory.length);
  std::memcpy(io->stage, request.memory.data + at, uint64_t{count} * kBlockBytes);
  start_write(*io, refs[first].physical);
  // While the disk is at work: no other operation knows the stage.
  for (uint32_t i = 0; i < count; ++i) {
    refs[first + i].crc = crc32c({io->stage + i * kBlockBytes, kBlockBytes});
  }
  return true;
}

void Updater::fail(Request& request, Status status) {
  if (request.status.ok()) request.status = status;
}

void Updater::on_io(Io& io) {
  Request& request = *io.request;
  if (io.step != IoStep::write) {
    on_old(io);
    return;
  }
  if (!io.status.ok()) fail(request, io.status);
  request.route = engine::worse(request.route, core_.transfers.route(io));
  io.ended = true;
  const bool kept = request.log_step == LogStep::taken || request.log_step == LogStep::held;
  if (!kept) core_.transfers.give(io);
  pump(request);
}

void Updater::on_old(Io& io) {
  Request& request = *io.request;
  ASSERT(request.old_reads > 0);
  const uint32_t block = request.chunk_block(io.first);
  const BlockRef old = old_ref(request, block);
  Status status = io.status;
  if (status.ok() && io.transferred != kBlockBytes) status = Code::io_error;
  if (status.ok() && core_.failed.ok() && crc32c({io.stage, kBlockBytes}) == old.crc) {
    --request.old_reads;
    write_partial(io);
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
  if (status.ok()) {
    status = Code::corrupt;
    core_.report_corrupt(request, block, old.physical);
  }
  fail(request, status);
  --request.old_reads;
  core_.transfers.give(io);
  pump(request);
}

// The update becomes visible, whole, at this instant.
void Updater::apply(Request& request) {
  // All of it is written, and no other update of the range can come between.
  ASSERT(request.ios == 0 && request.next == request.io_blocks() && request.status.ok());
  ASSERT(request.lock.held && request.maps_held == request.map_count);
  // What has joined the log must not wait: a group may wait for it.
  const bool joined = request.log_step == LogStep::joined;
  if (!joined && !core_.committer.room()) {
    if (!core_.committer.full()) {
      core_.committer.wait_for_room(request);
      return;
    }
    fail(request, Code::no_space);
    end(request);
    return;
  }
  if (request.kind == RequestKind::write) {
    apply_write(request);
  } else {
    apply_clear(request);
  }
  if (!joined) core_.committer.note_unlogged(request.at());
  request.has_space = false;
  core_.chains.on_plain_change(request.at());
  end(request);
}

void Updater::replace(CachedMap& map, uint32_t block_of_map, BlockRef ref) {
  BlockRef& current = map.blocks[block_of_map];
  ASSERT(map.pins > 0);
  if (!current.hole()) {
    ASSERT(core_.mapped_blocks > 0);
    core_.committer.add_freed({current.physical, 1});
    --core_.mapped_blocks;
  }
  if (!ref.hole()) {
    core_.committer.add_block(ref.physical);
    ++core_.mapped_blocks;
  }
  current = ref;
  map.dirty |= static_cast<uint8_t>(1 << block_of_map / limits::kQuarterBlocks);
}

Updater::Before Updater::before_change(const CachedMap& map) const {
  return {map.empty(), core_.defragmenter.measure(map)};
}

void Updater::changed(CachedMap& map, const Before& before) {
  if (map.key.index == 0 && before.empty != map.empty()) core_.chunks += before.empty ? 1 : -1;
  core_.committer.add(map);
  core_.defragmenter.note(before.scattered, core_.defragmenter.measure(map));
}

void Updater::apply_write(Request& request) {
  uint32_t done = 0;
  for (uint32_t i = 0; i < request.map_count; ++i) {
    CachedMap& map = *request.maps[i];
    const Before before = before_change(map);
    const uint32_t within = (request.first_block + done) % kMapBlocks;
    const uint32_t count = std::min(kMapBlocks - within, request.block_count - done);
    for (uint32_t b = 0; b < count; ++b) replace(map, within + b, request.blocks[done + b]);
    if (request.log_step == LogStep::joined) map.logged = true;
    done += count;
    const uint64_t map_begin = uint64_t{map.key.index} * limits::kMapBytes;
    const uint64_t end = std::min<uint64_t>(request.end - map_begin, limits::kMapBytes);
    map.valid_end = std::max(map.valid_end, static_cast<uint32_t>(end));
    changed(map, before);
  }
  ASSERT(done == request.block_count);
}

void Updater::apply_clear(Request& request) {
  const uint64_t mapped_before = core_.mapped_blocks;
  for (uint32_t i = 0; i < request.map_count; ++i) {
    if (request.maps[i] == nullptr) continue;
    CachedMap& map = *request.maps[i];
    const Before before = before_change(map);
    const uint32_t map_block = map.key.index * kMapBlocks;
    const uint64_t map_begin = uint64_t{map.key.index} * limits::kMapBytes;
    bool any = false;
    for (uint32_t b = 0; b < kMapBlocks; ++b) {
      if (map.blocks[b].hole() || !request.whole(map_block + b)) continue;
      replace(map, b, BlockRef());
      any = true;
    }
    for (uint32_t e = 0; e < request.edge_count; ++e) {
      if (request.edges[e] / kMapBlocks != map.key.index) continue;
      replace(map, request.edges[e] % kMapBlocks, request.blocks[e]);
      any = true;
    }
    if (request.to_end && map_begin + map.valid_end > request.begin) {
      map.valid_end =
          request.begin > map_begin ? static_cast<uint32_t>(request.begin - map_begin) : 0;
      any = true;
    }
    if (any) changed(map, before);
  }
  ASSERT(core_.mapped_blocks <= mapped_before);
  request.freed_blocks = mapped_before - core_.mapped_blocks;
}

void Updater::end(Request& request) {
  // What succeeded has its blocks in maps, and gives none back: pairs with apply().
  ASSERT(!request.status.ok() || !request.has_space);
  if (request.log_step == LogStep::joined) {
    if (request.has_space) {
      retire_space(request);
      // A crash brings this failed write back from the log. A later record with a block that both
      // touch, completed from the old bytes, would then leave half of it: so the inode's next
      // changes are not logged.
      core_.committer.note_unlogged(request.at());
    }
    core_.write_log.resolve(request);
  } else {
    leave_log(request);
  }
  if (request.has_space) {
    give_space_back(request);
    space_changed();
  }
  if (request.status.code() == Code::no_space) core_.counters.no_space.add();
  core_.maps.let_go(request);
  if (request.lock.held) {
    core_.locks.release(request.lock, [this](RangeLock& granted) {
      core_.resume_later(*static_cast<Request*>(granted.owner));
    });
  }
  if (request.kind == RequestKind::write) {
    auto& op = static_cast<WriteOp&>(*request.op);
    op.route = request.route;
    if (request.status.ok()) {
      core_.counters.writes.add();
      core_.counters.write_bytes.add(request.end - request.begin);
    }
  } else {
    ASSERT(request.kind == RequestKind::clear);
    static_cast<ClearOp&>(*request.op).freed_blocks = request.freed_blocks;
  }
  core_.finish(request);
}

}  // namespace penstock::store
