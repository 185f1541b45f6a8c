#include "sweeps.h"

#include "core.h"
#include "map_records.h"

#include <algorithm>

namespace penstock::store {

using limits::kBlockBytes;
using limits::kMapBlocks;

Sweeps::Sweeps(Core& core) : core_(core), pool_(limits::kSweepsMax) {}

Sweeps::~Sweeps() {
  while (waiting_.pop_front() != nullptr) continue;
}

Status KeyScan::body(engine::KvTransaction& transaction) {
  count = 0;
  mapped_blocks = 0;
  valid_end = 0;
  const EncodedMapKey from = encode_key(begin);
  const bool all = only == InodeId{};
  const EncodedMapKey to = encode_key_after(chain, all ? InodeId(UINT64_MAX) : only);
  if (read_records) return read(transaction, as_view(from), as_view(to));
  Status bad;
  TRY(transaction.scan(as_view(from), as_view(to), [&](std::string_view text, std::string_view) {
    const auto key = decode_key(text);
    if (key) keys[count++] = *key;
    bad = key ? Code::ok : Code::corrupt;
    return bad.ok() && count < limits::kSweepKeys;
  }));
  return bad;
}

Status KeyScan::read(engine::KvTransaction& transaction, std::string_view from,
                     std::string_view to) {
  return scan_places(transaction, from, to, limits::kSweepKeys,
                     [this](const MapKey& key, const BlockMap& map) {
                       keys[count++] = key;
                       mapped_blocks += map.mapped();
                       valid_end = map.valid_end;
                       last_valid = key;
                     });
}

// While an operation waits here its status, which the caller reads after its completion only, holds
// which kind it is.
void Sweeps::start(SweepKind kind, engine::Op& op) {
  if (Sweep* sweep = pool_.take()) {
    begin(*sweep, kind, op);
  } else {
    op.status = Status(Code::ok, static_cast<uint32_t>(kind));
    waiting_.push_back(op);
  }
}

void Sweeps::begin(Sweep& sweep, SweepKind kind, engine::Op& op) {
  sweep.core = &core_;
  sweep.kind = kind;
  sweep.op = &op;
  sweep.status = Code::ok;
  sweep.next_key = 0;
  sweep.removed_blocks = 0;
  sweep.scan.count = 0;
  sweep.scan.only = InodeId{};
  sweep.scan.begin = {};
  sweep.scan.read_records = kind == SweepKind::end_query;
  sweep.scan.mode = engine::KvMode::read;
  sweep.scan.home = &core_.loop;
  sweep.scan.owner = sweep.step.owner = sweep.clear.owner = sweep.verified.owner = &sweep;
  sweep.scan.completion = [](engine::Op& done) {
    Sweep& its = done.owner_as<Sweep>();
    its.core->sweeps.on_scanned(its);
  };
  sweep.step.completion = [](engine::Op& done) {
    Sweep& its = done.owner_as<Sweep>();
    // On a disk without room a scrub goes on with what is committed.
    const bool reads_on = its.kind == SweepKind::scrub && done.status == Code::no_space;
    if (!done.status.ok() && !reads_on) its.status = done.status;
    its.core->sweeps.scan(its);
  };
  sweep.clear.completion = [](engine::Op& done) {
    Sweep& its = done.owner_as<Sweep>();
    its.core->sweeps.on_cleared(its);
  };
  if (kind == SweepKind::remove) {
    const auto& remove = static_cast<RemoveOp&>(op);
    sweep.scan.chain = remove.chain;
    sweep.scan.only = remove.inode;
    sweep.scan.begin = {remove.chain, {remove.inode, remove.first_chunk}, 0};
  } else if (kind == SweepKind::end_query) {
    auto& query = static_cast<EndQueryOp&>(op);
    query.any = false;
    query.last_chunk = query.end_in_chunk = 0;
    query.allocated_bytes = 0;
    sweep.scan.chain = query.chain;
    sweep.scan.only = query.inode;
    sweep.scan.begin = {query.chain, {query.inode, 0}, 0};
  } else if (kind == SweepKind::inodes) {
    const auto& inodes = static_cast<InodesOp&>(op);
    sweep.scan.chain = inodes.chain;
    sweep.scan.begin = {inodes.chain, {inodes.first, 0}, 0};
  } else {
    sweep.scan.chain = ChainId(UINT32_MAX);
    auto& scrub = static_cast<ScrubOp&>(op);
    scrub.verified_bytes = scrub.damaged_blocks = scrub.healed_blocks = 0;
  }
  // The KV store knows only what is committed.
  if (core_.committer.holds(sweep.scan.only)) {
    core_.committer.wait(sweep.step);
  } else {
    core_.loop.complete(sweep.step, Code::ok);
  }
}

void Sweeps::scan(Sweep& sweep) {
  // A map that is older than what was acknowledged would tell too small an end, and cut the file.
  const auto lost = core_.lost.lower_bound({sweep.scan.chain, {sweep.scan.only, 0}, 0});
  if (sweep.kind == SweepKind::end_query && sweep.status.ok() && lost != core_.lost.end() &&
      lost->chain == sweep.scan.chain && lost->chunk.inode == sweep.scan.only) {
    sweep.status = Code::io_error;
  }
  if (!sweep.status.ok()) {
    end(sweep);
    return;
  }
  core_.kv.submit(sweep.scan);
}

void Sweeps::on_scanned(Sweep& sweep) {
  sweep.next_key = 0;
  if (!sweep.scan.status.ok()) {
    sweep.status = sweep.scan.status;
    if (sweep.status.code() != Code::closed) {
      log::error("store: {}: cannot read block maps after inode {} chunk {}: {}",
                 core_.config.directory, sweep.scan.begin.chunk.inode.value,
                 sweep.scan.begin.chunk.index, sweep.status.name());
    }
    end(sweep);
    return;
  }
  switch (sweep.kind) {
    case SweepKind::remove:
      continue_remove(sweep);
      return;
    case SweepKind::end_query:
      continue_end_query(sweep);
      return;
    case SweepKind::inodes:
      continue_inodes(sweep);
      return;
    case SweepKind::scrub:
      continue_scrub(sweep);
      return;
  }
}

bool Sweeps::advance(Sweep& sweep) {
  if (sweep.scan.count < limits::kSweepKeys) return false;
  MapKey last = sweep.scan.keys[sweep.scan.count - 1];
  if (sweep.kind == SweepKind::remove) last.index = limits::kChunkMapsMax - 1;
  // An index one beyond the largest still sorts between this chunk and the next.
  sweep.scan.begin = {last.chain, last.chunk, last.index + 1};
  return true;
}

void Sweeps::continue_remove(Sweep& sweep) {
  if (sweep.next_key < sweep.scan.count) {
    ClearOp& clear = sweep.clear;
    clear.chain = sweep.scan.chain;
    clear.chunk = sweep.scan.keys[sweep.next_key].chunk;
    clear.begin = 0;
    clear.end = kWholeChunk;
    clear.durable = false;
    core_.submit_clear(core_, clear);
    return;
  }
  if (advance(sweep)) {
    scan(sweep);
  } else {
    end(sweep);
  }
}

void Sweeps::on_cleared(Sweep& sweep) {
  if (!sweep.clear.status.ok()) {
    sweep.status = sweep.clear.status;
    end(sweep);
    return;
  }
  sweep.removed_blocks += sweep.clear.freed_blocks;
  const ChunkId done = sweep.clear.chunk;
  while (sweep.next_key < sweep.scan.count && sweep.scan.keys[sweep.next_key].chunk == done) {
    ++sweep.next_key;
  }
  continue_remove(sweep);
}

void Sweeps::continue_end_query(Sweep& sweep) {
  auto& query = static_cast<EndQueryOp&>(*sweep.op);
  query.allocated_bytes += sweep.scan.mapped_blocks * kBlockBytes;
  if (sweep.scan.valid_end != 0) {
    query.any = true;
    query.last_chunk = sweep.scan.last_valid.chunk.index;
    query.end_in_chunk = static_cast<uint32_t>(sweep.scan.last_valid.index * limits::kMapBytes) +
                         sweep.scan.valid_end;
  }
  if (advance(sweep)) {
    scan(sweep);
  } else {
    end(sweep);
  }
}

// What one scan has found is enough: who asks goes on from there.
void Sweeps::continue_inodes(Sweep& sweep) {
  auto& inodes = static_cast<InodesOp&>(*sweep.op);
  const std::span keys = std::span(sweep.scan.keys).first(sweep.scan.count);
  for (const MapKey& key : keys) {
    const InodeId inode = key.chunk.inode;
    if (!inodes.found.empty() && inodes.found.back() == inode) continue;
    if (inodes.found.size() == inodes.limit) {
      inodes.next = inode;
      return end(sweep);
    }
    inodes.found.push_back(inode);
  }
  if (sweep.scan.count == limits::kSweepKeys) {
    inodes.next = InodeId(keys.back().chunk.inode.value + 1);
  }
  end(sweep);
}

void Sweeps::continue_scrub(Sweep& sweep) {
  auto& scrub = static_cast<ScrubOp&>(*sweep.op);
  if (sweep.pumping) return;  // a request that ended at once; the loop below goes on
  sweep.pumping = true;
  if (scrub.stop || core_.closing) sweep.status = Code::cancelled;
  const auto may_begin = [&sweep] {
    return sweep.status.ok() && sweep.healing < limits::kScrubHealsMax;
  };
  for (uint32_t slot = 0; slot < limits::kScrubDepth; ++slot) {
    while (!sweep.busy[slot] && sweep.next_key < sweep.scan.count && may_begin()) {
      verify(sweep, slot, sweep.scan.keys[sweep.next_key++]);
    }
  }
  sweep.pumping = false;
  if (sweep.verifying > 0 || sweep.healing > 0) return;
  if (sweep.status.ok() && advance(sweep)) {
    scan(sweep);
  } else {
    end(sweep);
  }
}

void Sweeps::verify(Sweep& sweep, uint32_t slot, const MapKey& key) {
  Request& request = sweep.requests[slot];
  ASSERT(!sweep.busy[slot] && sweep.verifying < limits::kScrubDepth);
  sweep.busy[slot] = true;
  ++sweep.verifying;
  request.kind = RequestKind::verify;
  request.op = &sweep.verified;
  request.chain = key.chain;
  request.chunk = key.chunk;
  request.refuse_holes = false;
  request.durable = false;
  request.to_end = false;
  request.checksums = nullptr;
  request.memory = {};
  const auto begin = static_cast<uint32_t>(key.index * limits::kMapBytes);
  set_range(request, begin, begin + static_cast<uint32_t>(limits::kMapBytes));
  core_.reader.start(request);
}

void Sweeps::on_block_verified(Request& request) {
  Sweep& sweep = request.op->owner_as<Sweep>();
  static_cast<ScrubOp&>(*sweep.op).verified_bytes += kBlockBytes;
}

void Sweeps::on_damage(Request& request, uint32_t block, Status status) {
  heal(request.op->owner_as<Sweep>(), {request.chain, request.chunk, block, status});
}

void Sweeps::heal(Sweep& sweep, const Damage& damage) {
  ++sweep.healing;
  const auto ended = [this, &sweep, damage](bool healed) {
    Damage known = damage;
    known.healed = healed;
    report(sweep, known);
    ASSERT(sweep.healing > 0);
    --sweep.healing;
    continue_scrub(sweep);
  };
  if (core_.chains.heal({damage.chain, damage.chunk}, damage.block, ended)) return;
  --sweep.healing;
  report(sweep, damage);
}

void Sweeps::report(Sweep& sweep, const Damage& damage) {
  auto& scrub = static_cast<ScrubOp&>(*sweep.op);
  ++scrub.damaged_blocks;
  if (damage.healed) ++scrub.healed_blocks;
  if (scrub.on_damage) scrub.on_damage(damage);
}

void Sweeps::on_verified(Request& request) {
  Sweep& sweep = request.op->owner_as<Sweep>();
  auto& scrub = static_cast<ScrubOp&>(*sweep.op);
  if (request.status.code() == Code::closed) {
    sweep.status = request.status;
  } else if (!request.status.ok()) {
    // The block map itself could not be read.
    report(sweep, {request.chain, request.chunk, request.first_block, request.status});
  }
  const auto slot = static_cast<size_t>(&request - sweep.requests.data());
  ASSERT(slot < sweep.busy.size() && sweep.busy[slot] && sweep.verifying > 0);
  sweep.busy[slot] = false;
  --sweep.verifying;
  if (scrub.on_progress) scrub.on_progress(scrub.verified_bytes);
  continue_scrub(sweep);
}

void Sweeps::end(Sweep& sweep) {
  ASSERT(sweep.verifying == 0 && sweep.healing == 0 && !sweep.pumping);
  engine::Op& op = *sweep.op;
  const Status status = sweep.status;
  bool durable = false;
  if (sweep.kind == SweepKind::remove) {
    auto& remove = static_cast<RemoveOp&>(op);
    remove.removed_bytes = sweep.removed_blocks * kBlockBytes;
    durable = remove.durable && status.ok();
  }
  pool_.give(sweep);
  if (durable) {
    core_.committer.wait(op);
  } else {
    core_.loop.complete(op, status);
  }
  if (engine::Op* next = waiting_.pop_front()) {
    start(static_cast<SweepKind>(next->status.detail()), *next);
  }
  core_.check_closed();
}

}  // namespace penstock::store
