#include "core.h"

namespace penstock::store {

using limits::kBlockBytes;
using limits::kMapBlocks;

Core::Core(engine::Loop& its_loop, engine::Disk& its_disk, engine::Kv& its_kv,
           TargetConfig its_config)
    : loop(its_loop),
      disk(its_disk),
      kv(its_kv),
      config(std::move(its_config)),
      index(config.map_cache_bytes),
      reclaim(allocator),
      files(*this),
      transfers(*this),
      maps(*this),
      committer(*this),
      write_log(*this),
      requests(limits::kOpsMax),
      large(limits::kLargeOps),
      reader(*this),
      updater(*this),
      sweeps(*this),
      defragmenter(*this),
      chain_updates(*this),
      chains(*this) {
  ready_op_.owner = this;
  ready_op_.completion = [](engine::Op& op) { op.owner_as<Core>().run_ready(); };
}

Core::~Core() {
  if (ready_op_.linked()) ready_op_.unlink();
  while (ready_.pop_front() != nullptr) continue;
  while (large_waiters.pop_front() != nullptr) continue;
}

void Core::resume_later(Request& request) {
  if (ready_.empty() && !ready_op_.linked()) loop.complete(ready_op_, Code::ok);
  ready_.push_back(request);
}

void Core::run_ready() {
  IntrusiveList<Request> batch;
  batch.take_all(ready_);
  for (Request* request = batch.first(); request != nullptr; request = batch.next(*request)) {
    index.touch_map(request->map_key(0), request->first_block % kMapBlocks);
  }
  while (Request* request = batch.pop_front()) {
    resume(*request);
    // If the request did not use what it was woken for, the next one that waits may.
    transfers.wake();
    maps.wake();
  }
}

void Core::resume(Request& request) {
  ASSERT(!request.linked());
  request.in_submit = false;
  switch (request.kind) {
    case RequestKind::read:
    case RequestKind::verify:
      reader.step(request);
      return;
    case RequestKind::write:
    case RequestKind::clear:
      updater.step(request);
      return;
    case RequestKind::move:
      defragmenter.step(request);
      return;
    case RequestKind::chain:
      chain_updates.step(request);
      return;
  }
}

void Core::on_io(Io& io) {
  ASSERT(io.request->ios > 0);
  io.request->in_submit = false;
  if (io.request->kind == RequestKind::chain) return chain_updates.on_io(io);
  switch (io.step) {
    case IoStep::read:
    case IoStep::reread:
      reader.on_io(io);
      return;
    case IoStep::old:
    case IoStep::old_reread:
    case IoStep::write:
      updater.on_io(io);
      return;
  }
}

bool Core::take_arrays(Request& request) {
  ASSERT(request.large == nullptr && request.maps_held == 0);
  request.blocks = request.inline_blocks.data();
  request.maps = request.inline_maps.data();
  const bool blocks_fit = request.io_blocks() <= limits::kInlineBlocks;
  if (blocks_fit && request.map_count <= limits::kInlineMaps) [[likely]]
    return true;
  request.large = large.take();
  if (request.large == nullptr) {
    large_waiters.push_back(request);
    return false;
  }
  request.blocks = request.large->blocks.data();
  request.maps = request.large->maps.data();
  return true;
}

void Core::give_arrays(Request& request) {
  if (request.large == nullptr) return;
  large.give(*std::exchange(request.large, nullptr));
  if (Request* waiter = large_waiters.pop_front()) resume_later(*waiter);
}

void Core::finish(Request& request) {
  ASSERT(request.ios == 0 && request.maps_held == 0);
  ASSERT(!request.has_space && !request.lock.held && !request.linked());
  ASSERT(request.log_step == LogStep::none || request.log_step == LogStep::joined);
  give_arrays(request);
  engine::Op& op = *request.op;
  const Status status = request.status;
  const bool in_submit = request.in_submit;
  if (request.kind == RequestKind::verify) {
    sweeps.on_verified(request);
    return;
  }
  ++requests_ended;
  const bool wait_durable = request.durable && status.ok();
  const bool logged = request.log_step == LogStep::joined;
  const uint64_t log_number = request.log_number;
  const bool worth_a_log =
      request.kind == RequestKind::write && request.io_blocks() <= limits::kLogBlocks;
  requests.give(request);
  if (logged && wait_durable) {
    write_log.wait(op, log_number);
  } else if (logged && failed.ok()) {
    // A crash would bring the write back from the log: it is told of its failure when that cannot
    // happen any more.
    committer.wait_for_mark(op, status);
  } else if (wait_durable) {
    committer.wait(op);
    if (worth_a_log) write_log.note_durable();
  } else if (in_submit) {
    loop.complete(op, status);
  } else {
    op.status = status;
    op.completion(op);
  }
  on_request_free(*this);
}

void Core::report_corrupt(const Request& request, uint32_t block_of_chunk, BlockNumber physical) {
  ++corrupt_blocks;
  counters.corrupt_blocks.add();
  log::error("store: {}: inode {} chunk {} block {} does not verify ({} at offset {})",
             config.directory, request.chunk.inode.value, request.chunk.index, block_of_chunk,
             DataFiles::name(DataFiles::index_of(physical)), DataFiles::offset_of(physical));
}

void set_range(Request& request, uint32_t begin, uint32_t end) {
  ASSERT(begin < end && end <= limits::kChunkBytesMax);
  request.begin = begin;
  request.end = end;
  request.first_block = static_cast<uint32_t>(begin / kBlockBytes);
  request.block_count =
      static_cast<uint32_t>((uint64_t{end} + kBlockBytes - 1) / kBlockBytes) - request.first_block;
  request.first_map = request.first_block / kMapBlocks;
  const uint32_t last_map = (request.first_block + request.block_count - 1) / kMapBlocks;
  request.map_count = last_map - request.first_map + 1;
  request.maps_held = 0;
  request.maps_generation = 0;
  request.next = 0;
  request.freed_blocks = 0;
  request.has_space = false;
  request.edge_count = 0;
  request.own_io_taken = false;
  request.log_step = LogStep::none;
  request.log_io_count = request.old_reads = 0;
  request.large = nullptr;
  request.route = engine::Route::none;
  request.status = Code::ok;
  request.in_submit = true;
  request.chain_task = nullptr;
  request.pending = nullptr;
  request.damaged = nullptr;
  ASSERT(request.late_maps == 0 && request.landed.empty());
}

}  // namespace penstock::store
