#include "reader.h"

#include "core.h"

#include <algorithm>
#include <cstring>

namespace penstock::store {

using limits::kBlockBytes;
using limits::kMapBlocks;

namespace {

bool verifies(const std::byte* block, const BlockRef& ref) {
  return crc32c({block, kBlockBytes}) == ref.crc;
}

uint32_t checksum_of(const BlockRef& ref) {
  static constexpr std::byte kZeros[kBlockBytes]{};
  static const uint32_t hole = crc32c(kZeros);
  return ref.hole() ? hole : ref.crc;
}

}  // namespace

// Begins in the next turn, together with the other reads of this one: see Core::run_ready().
void Reader::start(Request& request) {
  request.step = RequestStep::arrays;
  core_.index.prefetch_bucket(request.map_key(0));
  core_.resume_later(request);
}

// After step() and pump() the request may have ended and be another operation's: nothing looks at
// it.
void Reader::step(Request& request) {
  if (!request.status.ok() && request.step != RequestStep::transfer) {
    core_.maps.let_go(request);
    core_.finish(request);
    return;
  }
  switch (request.step) {
    case RequestStep::arrays:
      if (!core_.take_arrays(request)) return;
      request.step = RequestStep::maps;
      [[fallthrough]];
    case RequestStep::maps:
      if (may_begin_early(request) && core_.maps.begin_with_places(request)) {
        enter(request);
      } else {
        if (request.pending == nullptr && !core_.maps.hold(request, false)) return;
        if (!core_.lost.empty() && loses(request)) {
          request.status = Code::io_error;
          step(request);
          return;
        }
        snapshot(request);
      }
      request.step = RequestStep::transfer;
      if (request.probe) [[unlikely]]
        return probe(request);
      [[fallthrough]];
    default:
      pump(request);
  }
}

// Whether what it would show is older than what was acknowledged.
bool Reader::loses(const Request& request) const {
  if (request.kind != RequestKind::read) return false;
  const auto first = core_.lost.lower_bound(request.map_key(0));
  return first != core_.lost.end() && *first <= request.map_key(request.map_count - 1);
}

// From here on the request needs no maps: the blocks stay as they are until it leaves its epoch.
void Reader::snapshot(Request& request) {
  if (request.pending != nullptr) {
    core_.chains.snapshot_pending(request);
  } else {
    snapshot_maps(request);
  }
  enter(request);
}

// The request knows where its blocks are.
void Reader::enter(Request& request) {
  request.epoch = core_.reclaim.enter();
  if (request.late_maps == 0) note_checksums(request);
  if (request.chain_task != nullptr) core_.chains.on_snapshot(*request.chain_task);
}

void Reader::note_checksums(Request& request) const {
  for (uint32_t i = 0; request.checksums != nullptr && i < request.block_count; ++i) {
    request.checksums[i] = checksum_of(request.blocks[i]);
  }
}

// With the places of its blocks alone, while the checksums are fetched; not once it has begun to
// wait for whole maps.
bool Reader::may_begin_early(const Request& request) const {
  return request.kind == RequestKind::read && request.pending == nullptr &&
         request.maps_held == 0 && core_.lost.empty();
}

// The epoch keeps what the places name as it was: a map that still names a block names the same
// bytes. No update can have changed a map that was being read; what differs is damage.
Status Reader::take_checksums(Request& request, const MapLoad& load) const {
  TRY(load.status);
  for (uint32_t i = 0; i < request.block_count; ++i) {
    const uint32_t block = request.first_block + i;
    if ((request.late_maps >> (block / kMapBlocks - request.first_map) & 1) == 0) continue;
    const uint32_t map = block / kMapBlocks - load.first.index;
    ASSERT(block / kMapBlocks >= load.first.index && map < load.count);
    const BlockRef& stored = load.found[map].blocks[block % kMapBlocks];
    if (stored.physical != request.blocks[i].physical) return Code::corrupt;
    request.blocks[i].crc = stored.crc;
  }
  return Code::ok;
}

void Reader::on_checksums(Request& request, const MapLoad& load) {
  ASSERT(request.late_maps != 0 && request.step == RequestStep::transfer);
  const Status status = take_checksums(request, load);
  if (!status.ok()) {
    fail(request, request.first_block, status);
  } else {
    note_checksums(request);
  }
  request.late_maps = 0;
  request.in_submit = false;
  // With the last of them the request may end.
  bool more = !request.landed.empty();
  if (!more && !request.linked()) pump(request);
  while (more) {
    Io& io = static_cast<Io&>(*request.landed.pop_front());
    more = !request.landed.empty();
    if (status.ok()) {
      verify(io);
    } else {
      core_.transfers.give(io);
      pump(request);
    }
  }
}

void Reader::snapshot_maps(Request& request) {
  ASSERT(request.maps_held == request.map_count);
  uint32_t done = 0;
  for (uint32_t i = 0; i < request.map_count; ++i) {
    const uint32_t within = (request.first_block + done) % kMapBlocks;
    const uint32_t count = std::min(kMapBlocks - within, request.block_count - done);
    if (const CachedMap* map = request.maps[i]) {
      std::copy_n(map->blocks.data() + within, count, request.blocks + done);
    } else {
      std::fill_n(request.blocks + done, count, BlockRef());
    }
    done += count;
  }
  ASSERT(done == request.block_count);
  core_.maps.let_go(request);
}

void Reader::probe(Request& request) {
  const bool hole = request.blocks[0].hole();
  uint32_t alike = 1;
  while (alike < request.block_count && request.blocks[alike].hole() == hole) ++alike;
  request.route = hole ? engine::Route::hole : engine::Route::none;
  static_cast<ReadOp&>(*request.op).alike_blocks = alike;
  end(request);
}

void Reader::end(Request& request) {
  // Without an error all of the destination was written.
  ASSERT(!request.status.ok() || request.probe || request.next == request.block_count);
  if (core_.reclaim.leave(request.epoch)) core_.updater.space_changed();
  if (request.kind == RequestKind::read) {
    auto& op = static_cast<ReadOp&>(*request.op);
    op.route = request.route;
    op.bad_block = request.bad_block;
    if (!request.probe) {
      core_.counters.reads.add();
      core_.counters.read_bytes.add(request.end - request.begin);
    }
  }
  core_.finish(request);
}

void Reader::pump(Request& request) {
  if (request.linked()) request.unlink();
  const uint32_t ios_max = request.kind == RequestKind::verify ? 1 : limits::kIosPerRequest;
  while (request.next < request.block_count && request.status.ok()) {
    if (request.blocks[request.next].hole()) {
      zero_hole(request);
      continue;
    }
    if (request.ios >= ios_max || !start_run(request)) break;
  }
  const bool over = request.next == request.block_count || !request.status.ok();
  if (request.ios == 0 && over && request.late_maps == 0) end(request);
}

void Reader::zero_hole(Request& request) {
  if (request.refuse_holes) {
    request.status = Code::no_data;
    return;
  }
  const uint32_t first = request.next;
  while (request.next < request.block_count && request.blocks[request.next].hole()) ++request.next;
  if (request.kind == RequestKind::verify) return;
  const auto from = request.part(request.first_block + first);
  const auto to = request.part(request.first_block + request.next - 1);
  ASSERT(to.offset_in_memory + to.length <= request.memory.length);
  std::memset(request.memory.data + from.offset_in_memory, 0,
              to.offset_in_memory + to.length - from.offset_in_memory);
  request.route = engine::worse(request.route, engine::Route::hole);
}

// Starts one disk read for the blocks from request.next on that lie together on the disk and go the
// same way. False: the request waits for an Io or a stage.
bool Reader::start_run(Request& request) {
  const uint32_t first = request.next;
  const uint32_t block = request.first_block + first;
  const BlockRef* refs = request.blocks;
  bool direct = request.kind == RequestKind::read && request.whole(block);
  uint64_t at = 0;
  if (direct) {
    at = request.part(block).offset_in_memory;
    direct = core_.transfers.direct_possible(request.memory.data + at);
  }
  const uint32_t most = direct ? UINT32_MAX : limits::kStageBlocks;
  uint32_t count = 1;
  while (count < most && first + count < request.block_count) {
    const BlockNumber physical = refs[first + count].physical;
    if (physical != refs[first].physical + count || physical == kHole) break;
    if (physical % limits::kDataFileBlocks == 0) break;
    if (direct && !request.whole(block + count)) break;
    ++count;
  }
  Io* io = core_.transfers.take(request, !direct);
  if (io == nullptr) return false;
  request.next = first + count;
  io->first = first;
  io->count = count;
  io->step = IoStep::read;
  const uint64_t length = uint64_t{count} * kBlockBytes;
  core_.transfers.start(
      *io, engine::DiskOpKind::read, refs[first].physical,
      direct ? request.memory.sub(at, length) : core_.transfers.stage_ref(*io, 0, count));
  return true;
}

void Reader::on_io(Io& io) {
  Request& request = *io.request;
  request.route = engine::worse(request.route, core_.transfers.route(io));
  if (io.step == IoStep::reread) {
    on_reread(io);
    return;
  }
  Status status = io.status;
  // Shorter than it was when its blocks were committed: the file was truncated.
  if (status.ok() && io.transferred != uint64_t{io.count} * kBlockBytes) status = Code::io_error;
  if (!status.ok()) {
    if (goes_on(request, status)) {
      io.one_by_one = true;
      mismatch(io);
      return;
    }
    fail(request, request.first_block + io.first, status);
    core_.transfers.give(io);
    pump(request);
    return;
  }
  if (request.late_maps != 0) {
    request.landed.push_back(io);
    return;
  }
  verify(io);
}

void Reader::fail(Request& request, uint32_t block, Status status) {
  if (!request.status.ok()) return;
  request.status = status;
  request.bad_block = block;
}

// Whether a damaged block is not the end of it.
bool Reader::goes_on(const Request& request, Status status) {
  const bool lists = request.kind == RequestKind::verify || request.damaged != nullptr;
  return lists && status.code() != Code::closed;
}

void Reader::note_damage(Request& request, uint32_t block, Status status) {
  if (request.kind == RequestKind::verify) return core_.sweeps.on_damage(request, block, status);
  const Request::Part part = request.part(block);
  ASSERT(part.offset_in_memory + part.length <= request.memory.length);
  std::memset(request.memory.data + part.offset_in_memory, 0, part.length);
  request.damaged->push_back(block);
}

void Reader::verify(Io& io) {
  Request& request = *io.request;
  while (io.checked < io.count) {
    const uint32_t i = io.first + io.checked;
    if (io.one_by_one) {
      mismatch(io);
      return;
    }
    const uint32_t block = request.first_block + i;
    const std::byte* at = io.staged ? io.stage + io.checked * kBlockBytes
                                    : request.memory.data + request.part(block).offset_in_memory;
    const bool later = request.checksums != nullptr && request.whole(block);
    if (!later && !verifies(at, request.blocks[i])) {
      mismatch(io);
      return;
    }
    if (io.staged) deliver(io, block, at);
    ++io.checked;
  }
  core_.transfers.give(io);
  pump(request);
}

// Copies the wanted part of a verified block from a stage to where it belongs.
void Reader::deliver(Io& io, uint32_t block, const std::byte* staged) {
  Request& request = *io.request;
  if (request.kind == RequestKind::verify) {
    core_.sweeps.on_block_verified(request);
    return;
  }
  const Request::Part part = request.part(block);
  ASSERT(part.offset_in_memory + part.length <= request.memory.length);
  std::memcpy(request.memory.data + part.offset_in_memory, staged + part.offset_in_block,
              part.length);
}

// The caller's memory may have been written to by others, or a transfer may have been torn: what
// counts is whether the block is good on the disk.
void Reader::mismatch(Io& io) {
  if (!io.one_by_one) core_.counters.repeated_reads.add();
  io.step = IoStep::reread;
  core_.transfers.reread(io, io.request->blocks[io.first + io.checked].physical);
}

void Reader::on_reread(Io& io) {
  Request& request = *io.request;
  const uint32_t i = io.first + io.checked;
  const uint32_t block = request.first_block + i;
  const std::byte* staged = io.stage + (io.staged ? io.checked * kBlockBytes : 0);
  Status status = io.status;
  if (status.ok() && io.transferred != kBlockBytes) status = Code::io_error;
  if (status.ok() && !verifies(staged, request.blocks[i])) {
    status = Code::corrupt;
    core_.report_corrupt(request, block, request.blocks[i].physical);
  }
  if (status.ok()) {
    deliver(io, block, staged);
  } else if (goes_on(request, status)) {
    note_damage(request, block, status);
  } else {
    fail(request, block, status);
    core_.transfers.give(io);
    pump(request);
    return;
  }
  io.step = IoStep::read;
  ++io.checked;
  verify(io);
}

}  // namespace penstock::store
